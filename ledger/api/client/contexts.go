package client

import (
	"context"
	"slices"
	"sync"

	"nexus/ledger/api"
	"nexus/turns"
)

// ContextReader reads the contexts of a session's calls, one after the other. It keeps the
// last one and asks for what changed since, so that a long conversation is not sent before
// each call. Safe for concurrent use; requests wait for one another.
type ContextReader struct {
	client  *Client
	session turns.ID

	mu            sync.Mutex
	last          *api.Context // nil: none
	format, model string       // of last
}

// NewContextReader returns a reader of the contexts of a session.
func NewContextReader(c *Client, session turns.ID) *ContextReader {
	return &ContextReader{client: c, session: session}
}

// Fork returns a reader of the contexts of a fork of the session. It begins with what x has, which the
// fork's first context mostly begins with.
func (x *ContextReader) Fork(session turns.ID) *ContextReader {
	x.mu.Lock()
	defer x.mu.Unlock()
	return &ContextReader{client: x.client, session: session, last: x.last, format: x.format, model: x.model}
}

// Context is context.get. It returns the whole context, like [Client.Context]; Keep says how
// many of its messages were not sent. Sources are there if r says explain, or if Keep is 0.
// The messages share memory with earlier contexts: nobody may change them. A request that
// names what it has itself is sent as it is, and its reply is not put together.
func (x *ContextReader) Context(ctx context.Context, r api.GetContext) (*api.Context, error) {
	if r.Have != nil {
		return x.client.Context(ctx, x.session, r)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	last := x.last
	if last != nil && x.format == r.Format && x.model == r.Model {
		r.Have = &api.Have{Fingerprint: last.Fingerprint, Preamble: last.PreambleDigest}
	}
	out, err := x.client.Context(ctx, x.session, r)
	if err != nil {
		return nil, err
	}
	if out.Keep > 0 || out.KeepPreamble {
		if r.Have == nil || out.Keep > len(last.Messages) {
			return nil, api.Errorf(api.Internal, nil, "the reply keeps %d messages of a context that has fewer", out.Keep)
		}
		out.Messages = append(slices.Clip(last.Messages[:out.Keep]), out.Messages...)
		if out.KeepPreamble {
			out.System, out.Tools = last.System, last.Tools
		}
	}
	if r.Limit == 0 && r.After == "" {
		x.last, x.format, x.model = out, r.Format, r.Model
	}
	return out, nil
}

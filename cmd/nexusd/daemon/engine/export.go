package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// ExportVersion is the version of the export's lines.
const ExportVersion = 1

// Export is session.export: the session's chain with those it inherits from,
// ancestors first, each up to its fork point, as the exact bytes that are
// stored. Keys come first: whoever holds an export can read it.
func (e *Engine) Export(ctx context.Context, c Caller, session turns.ID, req api.ExportSession) (*api.Exported, error) {
	if err := e.ready(ctx, req.Read); err != nil {
		return nil, err
	}
	s, err := e.row(ctx, c, session, true)
	if err != nil {
		return nil, err
	}
	chains, err := e.ancestry(c, s)
	if err != nil {
		return nil, err
	}
	at, from, err := exportCursor(req.After, len(chains))
	if err != nil {
		return nil, err
	}
	limit, err := limitOf(req.Page, 500, 5000)
	if err != nil {
		return nil, err
	}
	out := &api.Exported{Records: []api.ExportRecord{}}
	if req.After == "" {
		out.Records = append(out.Records, api.ExportRecord{Ledger: &api.ExportHeader{
			Version: ExportVersion, Ledger: uuid.UUID(e.Ledger).String(), Session: session}})
	}
	size := 0
	for ; at < len(chains); at, from = at+1, 0 {
		ch := chains[at]
		if from == 0 && e.Keys != nil {
			k, err := e.Keys.Key(ch.id)
			if err != nil {
				return nil, err
			}
			out.Records = append(out.Records, api.ExportRecord{Key: &api.ExportKey{ID: ch.id, Key: k[:]}})
		}
		for index := from; index <= ch.last; index++ {
			if len(out.Records) >= limit || size > pageBytes {
				out.Next = fmt.Sprintf("%d.%d", at, index)
				return out, nil
			}
			payload, err := e.Store.EventAt(ch.id, index)
			if err != nil {
				return nil, err
			}
			ev, err := turns.Decode(payload)
			if err != nil {
				return nil, err
			}
			for _, b := range ev.Blobs {
				sealed, err := e.Blobs.GetBlob(ctx, c.Tenant, b.Digest)
				if err != nil {
					return nil, err
				}
				out.Records = append(out.Records, api.ExportRecord{Blob: &api.ExportBlob{Digest: b.Digest, Sealed: sealed}})
				size += len(sealed) * 4 / 3
			}
			out.Records = append(out.Records, api.ExportRecord{Event: &api.ExportEvent{Payload: payload, Hash: turns.HashEvent(payload)}})
			size += len(payload)*4/3 + 100
		}
	}
	return out, nil
}

type exported struct {
	id   turns.ID
	last uint64 // last index that goes out
}

// ancestry is the chains that a session needs, root first: of an ancestor,
// everything up to the event of the fork point.
func (e *Engine) ancestry(c Caller, s *ledger.Session) ([]exported, error) {
	chains := []exported{{s.ID, s.Tail.Index}}
	for f := s.ForkOf; f != nil; {
		up, err := e.Store.Session(f.At.Session)
		if err != nil {
			return nil, err
		}
		if err := visible(c, &up); err != nil {
			return nil, err
		}
		t, err := e.Store.Turn(f.At)
		if err != nil {
			return nil, err
		}
		chains = append(chains, exported{up.ID, t.Index})
		f = up.ForkOf
	}
	slices.Reverse(chains)
	return chains, nil
}

func exportCursor(after string, chains int) (at int, index uint64, err error) {
	if after == "" {
		return 0, 0, nil
	}
	a, i, ok := strings.Cut(after, ".")
	at, err1 := strconv.Atoi(a)
	index, err2 := strconv.ParseUint(i, 10, 64)
	if !ok || err1 != nil || err2 != nil || at < 0 || at >= chains {
		return 0, 0, fieldErr("/after", "not what a page gave as next")
	}
	return at, index, nil
}

// Import is session.import: records of an export, in their order. Each event
// keeps its bytes and so its hash; one that is stored already is counted and
// left. Nothing is stored that does not verify.
func (e *Engine) Import(ctx context.Context, c Caller, req api.ImportRecords) (*api.Imported, error) {
	out := new(api.Imported)
	for i := range req.Records {
		if err := e.importRecord(ctx, c, &req.Records[i], out); err != nil {
			if f := (*turns.FieldError)(nil); errors.As(err, &f) {
				return nil, &turns.FieldError{Field: fmt.Sprintf("/records/%d%s", i, f.Field), Reason: f.Reason, Kind: f.Kind}
			}
			return nil, fmt.Errorf("record %d: %w", i, err)
		}
	}
	return out, nil
}

func (e *Engine) importRecord(ctx context.Context, c Caller, r *api.ExportRecord, out *api.Imported) error {
	switch {
	case r.Ledger != nil:
		if r.Ledger.Version != ExportVersion {
			return &api.Error{Code: api.Unsupported, Message: fmt.Sprintf("export version %d, this daemon knows %d", r.Ledger.Version, ExportVersion)}
		}
		return nil
	case r.Key != nil:
		return e.importKey(r.Key)
	case r.Blob != nil:
		return e.Blobs.PutBlob(ctx, c.Tenant, r.Blob.Digest, r.Blob.Sealed)
	case r.Event != nil:
		return e.importEvent(ctx, c, r.Event, out)
	}
	return fieldErr("", "neither nexus_export, key, blob nor event")
}

func (e *Engine) importKey(k *api.ExportKey) error {
	if len(k.Key) != len(seal.Key{}) {
		return fieldErr("/key/key", "%d bytes, a key has %d", len(k.Key), len(seal.Key{}))
	}
	if e.Keys == nil {
		return &api.Error{Code: api.Unsupported, Message: "this ledger does not seal and keeps no keys; it can't take a sealed export"}
	}
	return e.Keys.Put(k.ID, seal.Key(k.Key))
}

func (e *Engine) importEvent(ctx context.Context, c Caller, r *api.ExportEvent, out *api.Imported) error {
	if got := turns.HashEvent(r.Payload); got != r.Hash {
		return fmt.Errorf("%w: the event's hash is %v, the record says %v", ledger.ErrCorrupt, got, r.Hash)
	}
	ev, err := turns.Decode(r.Payload)
	if err != nil {
		return err
	}
	id, ok := ev.Chain.Session()
	if !ok {
		return fieldErr("/event", "an event of chain %s; only sessions are imported", ev.Chain)
	}
	ch, release, err := e.hold(ctx, c.Tenant+"/"+id.String())
	if err != nil {
		return err
	}
	defer release()
	for {
		s, err := e.importTail(ctx, c, ev, id)
		if err != nil {
			return err
		}
		if !s.ID.IsZero() && ev.Index <= s.Tail.Index {
			was, err := e.Store.EventAt(id, ev.Index)
			if err != nil {
				return err
			}
			if turns.HashEvent(was) != r.Hash {
				return &api.Error{Code: api.Conflict, Message: fmt.Sprintf("session %s has another event at index %d", id, ev.Index)}
			}
			out.Existing++
			return nil
		}
		next := *s
		if err := next.Apply(c.Tenant, s.Tail.Seq+1, r.Hash, ev); err != nil {
			return err
		}
		seq, err := e.Log.Append(ctx, next.Subject(), s.Tail.Seq, r.Payload)
		if errors.Is(err, ledger.ErrConflict) {
			continue
		}
		if err != nil {
			return err
		}
		ch.seq = seq
		out.Stored++
		e.Metrics.appended(ev.Kind)
		if err := e.Store.WaitFor(ctx, seq); err != nil {
			return err
		}
		return e.whyAside(id)
	}
}

// importTail is the fold that an imported event must fit behind; the zero
// Session for a chain's first. What the event names must be stored before it.
func (e *Engine) importTail(ctx context.Context, c Caller, ev *turns.Event, id turns.ID) (*ledger.Session, error) {
	if _, err := e.catchUp(ctx, c.Tenant, id); err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return nil, err
	}
	s, err := e.Store.Session(id)
	if errors.Is(err, ledger.ErrNotFound) {
		if ev.Index != 0 {
			return nil, &api.Error{Code: api.Conflict, Message: fmt.Sprintf("event %d of session %s comes before its first", ev.Index, id)}
		}
		if ev.Agent != c.Agent && !c.Operator() {
			return nil, &api.Error{Code: api.Denied, Message: fmt.Sprintf("session %s belongs to agent %s", id, ev.Agent)}
		}
		if f := ev.ForkOf; f != nil {
			at, err := e.Store.Turn(f.At)
			if err != nil {
				return nil, &api.Error{Code: api.Conflict, Message: fmt.Sprintf("session %s forks from %s, which is not stored here", id, f.At)}
			}
			if at.Hash != f.Hash {
				return nil, fmt.Errorf("%w: session %s forks from %s with another hash", ledger.ErrCorrupt, id, f.At)
			}
		}
		return new(ledger.Session), nil
	}
	if err != nil {
		return nil, err
	}
	if err := visible(c, &s); err != nil {
		return nil, &api.Error{Code: api.IDReused, Message: fmt.Sprintf("session %s is stored for another agent", id)}
	}
	if ev.Index > s.Tail.Index+1 {
		return nil, &api.Error{Code: api.Conflict, Message: fmt.Sprintf("event %d of session %s follows event %d", ev.Index, id, s.Tail.Index)}
	}
	return &s, nil
}

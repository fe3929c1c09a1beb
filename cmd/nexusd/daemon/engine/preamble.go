package engine

import (
	"context"
	"fmt"

	"nexus/ledger"
	"nexus/turns"
	"nexus/turns/tokens"
)

// apartBytes is the largest preamble, encoded, that settings hold themselves.
// What an event of settings costs is bounded by it, and a list of sessions reads
// no blobs where preambles are of an ordinary size.
const apartBytes = 64 << 10

// setApart moves a large preamble of settings to a blob, which the event is to
// link to. One that is in a blob of the tree already is not stored again.
//
// Invariant: settings in memory that have Apart have in Preamble what it holds;
// who changes Preamble, or takes the settings to another tree, clears Apart.
func (e *Engine) setApart(ctx context.Context, tenant string, root turns.ID, ev *turns.Event, set *turns.Settings) error {
	if set.Apart == nil {
		b, err := turns.EncodeBody(&set.Preamble)
		if err != nil || len(b) <= apartBytes {
			return err
		}
		k, err := e.blobKey(root)
		if err != nil {
			return err
		}
		digest, err := e.store(ctx, tenant, k, b)
		if err != nil {
			return err
		}
		set.Apart = &turns.BlobRef{Digest: digest, Size: uint64(len(b))}
	}
	set.Preamble = turns.Preamble{}
	ev.Blobs = []turns.BlobLink{{Digest: set.Apart.Digest, Size: set.Apart.Size}}
	return nil
}

// fetchApart puts the preamble that settings have in a blob into its place.
func (e *Engine) fetchApart(ctx context.Context, tenant string, root turns.ID, set *turns.Settings) error {
	if set.Apart == nil {
		return nil
	}
	k, err := e.blobKey(root)
	if err != nil {
		return err
	}
	name := blobName{tenant: tenant, key: k, digest: set.Apart.Digest}
	if p, ok := e.preambles.get(name); ok {
		set.Preamble = *p
		return nil
	}
	b, err := e.blob(ctx, tenant, k, set.Apart.Digest)
	if err != nil {
		return fmt.Errorf("system and tools: %w", err)
	}
	p, err := decodePreamble(b)
	if err != nil {
		return err
	}
	e.preambles.put(name, p, len(b))
	set.Preamble = *p
	return nil
}

func decodePreamble(b []byte) (*turns.Preamble, error) {
	p := new(turns.Preamble)
	if err := turns.DecodeBody(b, p); err != nil {
		return nil, fmt.Errorf("%w: a blob of system and tools: %v", ledger.ErrCorrupt, err)
	}
	return p, nil
}

// settingsOf is the settings in a body; nil: it has none.
func settingsOf(body any) *turns.Settings {
	switch b := body.(type) {
	case *turns.OpenedBody:
		return &b.Settings
	case *turns.ChangedBody:
		return &b.Settings
	}
	return nil
}

// preambleName names what was counted of a preamble that is a blob.
type preambleName struct {
	digest  turns.Hash
	counter string // "": its own digest
}

// overhead is the tokens of system and tools in force; see the function.
func (e *Engine) overhead(c tokens.Counter, set *turns.Settings) uint64 {
	if set.Apart == nil {
		return overhead(c, set.Preamble)
	}
	name := preambleName{set.Apart.Digest, c.Name()}
	if n, ok := e.overheads.get(name); ok {
		return n
	}
	n := overhead(c, set.Preamble)
	e.overheads.put(name, n, 128)
	return n
}

// preambleDigest is the digest of system and tools in force; see the function.
func (e *Engine) preambleDigest(set *turns.Settings) (turns.Hash, error) {
	if set.Apart == nil {
		return preambleDigest(set.Preamble)
	}
	name := preambleName{digest: set.Apart.Digest}
	if h, ok := e.digests.get(name); ok {
		return h, nil
	}
	h, err := preambleDigest(set.Preamble)
	if err == nil {
		e.digests.put(name, h, 128)
	}
	return h, err
}

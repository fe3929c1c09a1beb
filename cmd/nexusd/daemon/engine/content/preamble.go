package content

import (
	"context"
	"fmt"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/tokens"
)

func digestPreamble(p turns.Preamble) (turns.Hash, error) {
	if len(p.System) == 0 && len(p.Tools) == 0 {
		return turns.Hash{}, nil
	}
	b, err := turns.EncodeBody(&p)
	if err != nil {
		return turns.Hash{}, err
	}
	return turns.HashEvent(b), nil
}

// apartBytes is the largest preamble, encoded, that settings hold themselves.
// What an event of settings costs is bounded by it, and a list of sessions reads
// no blobs where preambles are of an ordinary size.
const maxInlinePreamble = 64 << 10

// movePreamble moves a large preamble of settings to a blob, which the event is to
// link to. One that is in a blob of the tree already is not stored again.
//
// Invariant: settings in memory that have Apart have in Preamble what it holds;
// who changes Preamble, or takes the settings to another tree, clears Apart.
func (cs *Store) movePreamble(ctx context.Context, tenant string, root turns.ID, ev *turns.Event, set *turns.Settings) error {
	if set.PreambleBlob == nil {
		b, err := turns.EncodeBody(&set.Preamble)
		if err != nil || len(b) <= maxInlinePreamble {
			return err
		}
		k, err := cs.BlobKey(root)
		if err != nil {
			return err
		}
		digest, err := cs.StoreBlob(ctx, tenant, k, b)
		if err != nil {
			return err
		}
		set.PreambleBlob = &turns.BlobRef{Digest: digest, Size: uint64(len(b))}
	}
	set.Preamble = turns.Preamble{}
	ev.Blobs = []turns.BlobLink{{Digest: set.PreambleBlob.Digest, Size: set.PreambleBlob.Size}}
	return nil
}

// LoadPreamble puts the preamble that settings have in a blob into its place.
func (cs *Store) LoadPreamble(ctx context.Context, tenant string, root turns.ID, set *turns.Settings) error {
	if set.PreambleBlob == nil {
		return nil
	}
	k, err := cs.BlobKey(root)
	if err != nil {
		return err
	}
	name := blobName{tenant: tenant, key: k, digest: set.PreambleBlob.Digest}
	if p, ok := cs.preambles.Get(name); ok {
		set.Preamble = *p
		return nil
	}
	b, err := cs.ReadBlob(ctx, tenant, k, set.PreambleBlob.Digest)
	if err != nil {
		return fmt.Errorf("system and tools: %w", err)
	}
	p, err := decodePreamble(b)
	if err != nil {
		return err
	}
	cs.preambles.Put(name, p, len(b))
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

// preambleKey names what was counted of a preamble that is a blob.
type preambleKey struct {
	digest  turns.Hash
	counter string // "": its own digest
}

// Overhead is the tokens of system and tools in force; see the function.
func (cs *Store) Overhead(c tokens.Counter, set *turns.Settings) uint64 {
	if set.PreambleBlob == nil {
		return countPreamble(c, set.Preamble)
	}
	name := preambleKey{set.PreambleBlob.Digest, c.Name()}
	if n, ok := cs.overheads.Get(name); ok {
		return n
	}
	n := countPreamble(c, set.Preamble)
	cs.overheads.Put(name, n, 128)
	return n
}

// PreambleDigest is the digest of system and tools in force; see the function.
func (cs *Store) PreambleDigest(set *turns.Settings) (turns.Hash, error) {
	if set.PreambleBlob == nil {
		return digestPreamble(set.Preamble)
	}
	name := preambleKey{digest: set.PreambleBlob.Digest}
	if h, ok := cs.digests.Get(name); ok {
		return h, nil
	}
	h, err := digestPreamble(set.Preamble)
	if err == nil {
		cs.digests.Put(name, h, 128)
	}
	return h, err
}

// countPreamble is the tokens of system and tools: what stands before the messages
// of every call, and what no compaction can shrink.
func countPreamble(c tokens.Counter, p turns.Preamble) (n uint64) {
	for _, s := range p.System {
		n += 4 + c.Text(s.Name) + c.Text(s.Content)
	}
	for _, t := range p.Tools {
		n += 8 + c.Text(string(t))
	}
	return n
}

// PreambleParts is overhead, by the sections of the system part in their order
// and the tools together.
func PreambleParts(c tokens.Counter, p turns.Preamble) (out []api.PreamblePart) {
	for _, s := range p.System {
		out = append(out, api.PreamblePart{Type: "system", Name: s.Name, Tokens: countPreamble(c, turns.Preamble{System: []turns.Section{s}})})
	}
	if n := countPreamble(c, turns.Preamble{Tools: p.Tools}); n > 0 {
		out = append(out, api.PreamblePart{Type: "tools", Tokens: n})
	}
	return out
}

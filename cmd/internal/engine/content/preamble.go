package content

import (
	"context"
	"fmt"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/tokens"
)

// digestPreamble returns the digest of a preamble, the zero Hash if it is empty.
func digestPreamble(p turns.Preamble) (turns.Hash, error) {
	if len(p.System) == 0 && len(p.Tools) == 0 {
		return turns.Hash{}, nil
	}
	b, err := turns.EncodeBody(&p)
	if err != nil {
		return turns.Hash{}, err
	}
	return turns.Digest("preamble", b), nil
}

// maxInlinePreamble bounds the encoded preamble that settings hold themselves. So an
// event with settings stays small, and a list of sessions reads no blobs when
// preambles have an ordinary size.
const maxInlinePreamble = 64 << 10

// maxForkedPreamble bounds that of the settings that a fork inherits, from the second fork on. A
// blob costs the next fork nothing, and one of less than this saves it less than a tenth.
const maxForkedPreamble = 8 << 10

// forkedPreamble names a preamble in a tree of which a fork was stored.
type forkedPreamble struct {
	tenant string
	root   turns.ID
	preambleKey
}

// ForkStored notes that a fork is stored whose settings had p, and have ref by now: nil if they have p
// themselves. The next fork that inherits p from memory moves it to a blob, or names ref. An event is
// never removed, so what it names is there as long as the ledger. epoch is of before the key of the fork was read.
func (cs *Store) ForkStored(epoch uint64, tenant string, root turns.ID, p turns.Preamble, ref *turns.BlobRef) {
	name := forkedPreamble{tenant, root, keyOfPreamble(&turns.Settings{Preamble: p}, "")}
	if known, again := cs.forked.Get(name); len(p.System)+len(p.Tools) > 0 && (!again || known == nil) {
		cs.forked.PutIn(epoch, name, ref, 512+preambleBytes(p)) // the name keeps p in memory
	}
}

// movePreamble moves a large preamble of settings to a blob, and links the event to
// it. It does not store again a preamble that is in a blob of the tree already.
//
// Invariant: if settings in memory have PreambleBlob, their Preamble is empty or has
// the content of that blob. Code that changes Preamble, or takes the settings to
// another tree, clears PreambleBlob.
func (cs *Store) movePreamble(ctx context.Context, tenant string, root turns.ID, ev *turns.Event, set *turns.Settings) error {
	if set.PreambleBlob == nil {
		ref, err := cs.blobOfPreamble(ctx, tenant, root, ev, set)
		if ref == nil || err != nil {
			return err
		}
		set.PreambleBlob = ref
	}
	set.Preamble = turns.Preamble{}
	ev.Blobs = addresses(refBlobs(set.PreambleBlob))
	return nil
}

// blobOfPreamble returns the blob of the tree that has the preamble of settings, nil if it stays in
// them.
func (cs *Store) blobOfPreamble(ctx context.Context, tenant string, root turns.ID, ev *turns.Event, set *turns.Settings) (*turns.BlobRef, error) {
	inline := maxInlinePreamble
	if ev.ForkOf != nil {
		ref, again := cs.forked.Get(forkedPreamble{tenant, root, keyOfPreamble(set, "")})
		if ref != nil {
			return ref, nil
		}
		if again {
			inline = maxForkedPreamble
		}
	}
	if boundOfPreamble(set.Preamble) <= inline {
		return nil, nil
	}
	b, err := turns.EncodeBody(&set.Preamble)
	if err != nil || len(b) <= inline {
		return nil, err
	}
	k, err := cs.TreeOf(root, ev)
	if err != nil || k.erased && len(b) <= maxInlinePreamble { // a blob would be the event's session's
		return nil, err
	}
	digest, err := cs.StoreBlob(ctx, tenant, k, b)
	if err != nil {
		return nil, err
	}
	return &turns.BlobRef{Digest: digest, Size: uint64(len(b))}, nil
}

// boundOfPreamble returns an upper bound of the bytes of an encoded preamble.
func boundOfPreamble(p turns.Preamble) int {
	const head = 5 // of a text or a list of less than 4 GiB
	n := preambleBytes(p) + 3*head
	return n + len(p.System)*(3*head) + len(p.Tools)*head
}

// LoadPreamble fills Preamble from the blob that the settings name, if they name
// one. epoch is of before the settings were opened.
func (cs *Store) LoadPreamble(ctx context.Context, epoch uint64, tenant string, root turns.ID, set *turns.Settings) error {
	if set.PreambleBlob == nil {
		return nil
	}
	k, err := cs.Tree(root)
	if err != nil {
		return err
	}
	name := blobName{tenant: tenant, tree: k, digest: set.PreambleBlob.Digest}
	if p, ok := cs.preambles.Get(name); ok {
		set.Preamble = *p
		return nil
	}
	b, err := cs.readBlob(ctx, epoch, tenant, k, set.PreambleBlob.Digest, false)
	if err != nil {
		return fmt.Errorf("system and tools: %w", err)
	}
	p, err := decodePreamble(b)
	if err != nil {
		return err
	}
	cs.preambles.PutIn(epoch, name, p, len(b))
	set.Preamble = *p
	return nil
}

// ChangePreamble has change change a copy of the preamble that the settings in a body have in a blob. If it reports true, they have the
// changed one themselves.
func (cs *Store) ChangePreamble(ctx context.Context, tenant string, root turns.ID, body any, change func(*turns.Preamble) bool) error {
	set := settingsOf(body)
	if set == nil || set.PreambleBlob == nil {
		return nil
	}
	k, err := cs.Tree(root)
	if err != nil {
		return err
	}
	b, err := cs.ReadBlob(ctx, tenant, k, set.PreambleBlob.Digest)
	if err != nil {
		return err
	}
	p, err := decodePreamble(b)
	if err == nil && change(p) {
		set.Preamble, set.PreambleBlob = *p, nil
	}
	return err
}

// decodePreamble decodes the content of a preamble's blob.
func decodePreamble(b []byte) (*turns.Preamble, error) {
	p := new(turns.Preamble)
	err := turns.DecodeBody(b, p)
	if err == nil {
		err = turns.CheckBody(p) // once for each time it is read: a cache has it
	}
	if err != nil {
		return nil, fmt.Errorf("%w: a blob of system and tools: %v", ledger.ErrCorrupt, err)
	}
	return p, nil
}

// settingsOf returns the settings in a body, nil if it has none.
func settingsOf(body any) *turns.Settings {
	switch b := body.(type) {
	case *turns.OpenedBody:
		return &b.Settings
	case *turns.ChangedBody:
		return &b.Settings
	}
	return nil
}

// preambleKey names a cached count or digest of a preamble: by the digest of its blob, or by
// where its sections and tools are in memory. What settings hold is never changed in place, and
// a key in a cache keeps its memory from being used for others.
type preambleKey struct {
	blob            turns.Hash
	system          *turns.Section
	tools           *turns.Raw
	sections, count int
	counter         string // "" for the digest of the preamble
}

func keyOfPreamble(set *turns.Settings, counter string) preambleKey {
	if set.PreambleBlob != nil {
		return preambleKey{blob: set.PreambleBlob.Digest, counter: counter}
	}
	p := &set.Preamble
	k := preambleKey{sections: len(p.System), count: len(p.Tools), counter: counter}
	if k.sections > 0 {
		k.system = &p.System[0]
	}
	if k.count > 0 {
		k.tools = &p.Tools[0]
	}
	return k
}

func isEmptyPreamble(set *turns.Settings) bool {
	return set.PreambleBlob == nil && len(set.Preamble.System) == 0 && len(set.Preamble.Tools) == 0
}

// Overhead returns the tokens of the system part and the tools of set, as
// [countPreamble] counts them. Each append and each context asks for it.
func (cs *Store) Overhead(c tokens.Counter, set *turns.Settings) uint64 {
	if isEmptyPreamble(set) {
		return 0
	}
	name := keyOfPreamble(set, c.Name())
	if n, ok := cs.overheads.Get(name); ok {
		return n
	}
	n := countPreamble(c, set.Preamble)
	cs.overheads.Put(name, n, 128)
	return n
}

// PreambleDigest returns the digest of the system part and the tools of set.
func (cs *Store) PreambleDigest(set *turns.Settings) (turns.Hash, error) {
	if isEmptyPreamble(set) {
		return turns.Hash{}, nil
	}
	name := keyOfPreamble(set, "")
	if h, ok := cs.digests.Get(name); ok {
		return h, nil
	}
	h, err := digestPreamble(set.Preamble)
	if err == nil {
		size := 128
		if set.PreambleBlob == nil { // the key keeps it in memory
			size += preambleBytes(set.Preamble)
		}
		cs.digests.Put(name, h, size)
	}
	return h, err
}

// PreambleDigests returns the digest of the system part of a preamble, and that of its tools: each of a preamble that has nothing
// else, the zero Hash where there is none.
func (cs *Store) PreambleDigests(p turns.Preamble) (system, tools turns.Hash, err error) {
	if system, err = cs.PreambleDigest(&turns.Settings{Preamble: turns.Preamble{System: p.System}}); err == nil {
		tools, err = cs.PreambleDigest(&turns.Settings{Preamble: turns.Preamble{Tools: p.Tools}})
	}
	return system, tools, err
}

// preambleBytes returns about how many bytes a preamble takes.
func preambleBytes(p turns.Preamble) (n int) {
	for _, s := range p.System {
		n += len(s.Name) + len(s.Content)
	}
	for _, t := range p.Tools {
		n += len(t)
	}
	return n
}

// countPreamble returns the tokens of the system part and the tools. They precede
// the messages of every call, and no compaction can shrink them.
func countPreamble(c tokens.Counter, p turns.Preamble) (n uint64) {
	for _, s := range p.System {
		n += 4 + c.Text(s.Name) + c.Text(s.Content)
	}
	for _, t := range p.Tools {
		n += 8 + c.Text(string(t))
	}
	return n
}

// PreambleParts returns the tokens of each section of the system part, in their
// order, and of the tools together.
func PreambleParts(c tokens.Counter, p turns.Preamble) (out []api.PreamblePart) {
	for _, s := range p.System {
		out = append(out, api.PreamblePart{Type: "system", Name: s.Name, Tokens: countPreamble(c, turns.Preamble{System: []turns.Section{s}})})
	}
	if n := countPreamble(c, turns.Preamble{Tools: p.Tools}); n > 0 {
		out = append(out, api.PreamblePart{Type: "tools", Tokens: n})
	}
	return out
}

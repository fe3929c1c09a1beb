package content

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/seal"
)

// CheckBody opens the body of an event with the keys of ring and checks that it is
// what the header says. [ledger.Admit] checks everything that takes no keys; the
// verification and the import do both.
//
// open is the calls that wait at the event's parent, nil if they are not known; then
// CheckBody does not compare their number. node is where the header places the turn.
// The returned calls are those that wait after the event.
//
// Errors: [ledger.ErrCorrupt] if body and header differ or the body can't be
// decoded; those of [seal.Open].
func CheckBody(ring seal.Keyring, ev *turns.Event, node lineage.Node, open *ledger.Calls) (body any, after *ledger.Calls, err error) {
	if body, err = NewBody(ev.Kind); err != nil {
		return nil, nil, err
	}
	if err := OpenCommitted(ring, ev, body); err != nil {
		return nil, nil, err
	}
	links := linksOf(ev)
	if err := checkRefs(links, body); err != nil {
		return nil, nil, err
	}
	switch b := body.(type) {
	case *turns.OpenedBody, *turns.ChangedBody:
		err = checkPreambleBlob(links, settingsOf(b))
	case *turns.TurnBody:
		after, err = checkTurn(ev, node, b, open)
	case *turns.CompactionBody:
		after, err = open, checkCompaction(ev, b, open)
	case *turns.DescribedBody:
		if err = turns.ValidateDescription(b); err != nil {
			err = fmt.Errorf("%w: its body: %v", ledger.ErrCorrupt, err)
		}
	}
	return body, after, err
}

// NewBody returns the zero body of an event of a session.
func NewBody(k turns.Kind) (any, error) {
	switch k {
	case turns.KindOpened:
		return new(turns.OpenedBody), nil
	case turns.KindTurn:
		return new(turns.TurnBody), nil
	case turns.KindCompaction:
		return new(turns.CompactionBody), nil
	case turns.KindMoved:
		return new(turns.MovedBody), nil
	case turns.KindChanged:
		return new(turns.ChangedBody), nil
	case turns.KindState:
		return new(turns.StateBody), nil
	case turns.KindFlush:
		return new(turns.FlushBody), nil
	case turns.KindHidden:
		return new(turns.HiddenBody), nil
	case turns.KindDescribed:
		return new(turns.DescribedBody), nil
	case turns.KindNoted:
		return new(turns.NotedBody), nil
	case turns.KindRedacted:
		return new(turns.RedactedBody), nil
	}
	return nil, fmt.Errorf("%w: a body of kind %s", ledger.ErrUnsupported, k)
}

// linksOf is the blobs that a header links to.
func linksOf(ev *turns.Event) map[turns.Hash]uint64 {
	links := make(map[turns.Hash]uint64, len(ev.Blobs))
	for _, b := range ev.Blobs {
		links[b.Address] = b.Size
	}
	return links
}

// checkRefs checks that the parts of a body refer to blobs that its header links to.
func checkRefs(links map[turns.Hash]uint64, body any) error {
	for _, p := range BodyParts(body) {
		if r := p.Ref; r != nil {
			for _, l := range addresses(refBlobs(r)) {
				if size, ok := links[l.Address]; !ok || size != l.Size {
					return fmt.Errorf("%w: its body refers to blob %s of %d bytes, its header does not", ledger.ErrCorrupt, l.Address, l.Size)
				}
			}
		}
	}
	return nil
}

// checkTurn checks the body of a normal turn against its header, and returns the
// calls that wait after it.
func checkTurn(ev *turns.Event, node lineage.Node, b *turns.TurnBody, open *ledger.Calls) (*ledger.Calls, error) {
	bad := func(format string, args ...any) (*ledger.Calls, error) {
		return nil, fmt.Errorf("%w: %s", ledger.ErrCorrupt, fmt.Sprintf(format, args...))
	}
	for _, err := range []error{turns.ValidateMessages("/messages", b.Messages), turns.ValidateResponse("/response", b.Response)} {
		if errors.Is(err, ledger.ErrTooLarge) {
			return nil, fmt.Errorf("%w: its body: %w", ledger.ErrCorrupt, err)
		}
		if err != nil {
			return bad("its body: %v", err)
		}
	}
	halves, calls := shape(b)
	if halves != ev.Halves || calls != ev.Calls {
		return bad("its header says halves %d and %d calls; its body has %d and %d", ev.Halves, ev.Calls, halves, calls)
	}
	// A header without this count is accepted unless the node is under a compaction
	// of one call, which ends with the next text of the user.
	if counted := turns.CountUserTexts(b.Messages); ev.UserTexts != counted && (ev.UserTexts != 0 || node.Call) {
		return bad("its header counts %d messages with text of the user, its body has %d", ev.UserTexts, counted)
	}
	if l := ev.External; l != nil { // its channel is a digest under the key of the ledger that stored it first
		if _, id, ok := turns.ExternalEvent(b.Meta); !ok || id != l.ID {
			return bad("its header links to external event %s, its meta does not", l.ID)
		}
	}
	var before ledger.Calls
	if open != nil {
		before = *open
	}
	// The append checked that a late response answers a call of the path.
	t, err := before.After(b.Messages, b.Response, nil)
	switch {
	case err != nil:
		return nil, err
	case open == nil && b.Response == nil:
		return nil, nil
	case open != nil && (uint64(len(t.Open)) != ev.Open || uint64(len(t.Late)) != ev.Late || uint64(len(t.Abandoned)) != ev.Abandoned):
		return bad("its header counts %d open, %d late, %d abandoned calls; its body has %d, %d, %d",
			ev.Open, ev.Late, ev.Abandoned, len(t.Open), len(t.Late), len(t.Abandoned))
	}
	return &t.Open, nil
}

// checkPreambleBlob checks that a preamble is in the settings or in a blob that the
// header links to, not in both.
func checkPreambleBlob(links map[turns.Hash]uint64, set *turns.Settings) error {
	if set.PreambleBlob == nil {
		return nil
	}
	if len(set.PreambleBlob.Pieces) > 0 {
		return fmt.Errorf("%w: its settings have system and tools in pieces", ledger.ErrCorrupt)
	}
	l := refBlobs(set.PreambleBlob)[0].Link()
	if size, ok := links[l.Address]; !ok || size != l.Size {
		return fmt.Errorf("%w: its body refers to blob %s of %d bytes, its header does not", ledger.ErrCorrupt, l.Address, l.Size)
	}
	if len(set.Preamble.System)+len(set.Preamble.Tools) > 0 {
		return fmt.Errorf("%w: its settings have system and tools in two places", ledger.ErrCorrupt)
	}
	return nil
}

// checkCompaction checks the body of a compaction against its header.
func checkCompaction(ev *turns.Event, b *turns.CompactionBody, open *ledger.Calls) error {
	if open != nil && uint64(len(*open)) != ev.Open {
		return fmt.Errorf("%w: it says %d calls are open, %d are", ledger.ErrCorrupt, ev.Open, len(*open))
	}
	if len(b.Elided) != len(ev.Span.Elisions) {
		return fmt.Errorf("%w: %d elisions, %d of them described", ledger.ErrCorrupt, len(ev.Span.Elisions), len(b.Elided))
	}
	for field, ms := range map[string][]turns.Message{"/replacement": b.Replacement, "/nudge": b.Nudge} {
		if slices.ContainsFunc(MessageParts(ms), (*turns.Part).InPieces) {
			return fmt.Errorf("%w: its body has content in pieces, which no compaction has", ledger.ErrCorrupt)
		}
		if err := turns.ValidateMessages(field, ms); err != nil {
			return fmt.Errorf("%w: its body: %v", ledger.ErrCorrupt, err)
		}
	}
	return nil
}

// KeepBlobs says that an event is about to link to blobs that are stored already, so that no
// collection takes them away before the event is stored. A cache may still hold one that was
// collected. [ledger.ErrNotFound]: one is not stored.
func (cs *Store) KeepBlobs(ctx context.Context, tenant string, links []turns.BlobLink) error {
	for _, l := range links {
		if err := cs.Blobs.KeepBlob(ctx, tenant, l.Address); err != nil {
			return err
		}
	}
	return nil
}

// CheckBlobs checks that the blobs of an event are those that its body refers to, that they
// exist, are whole, and are of its tree, that the blob of a preamble holds one, and that content
// in pieces is what its ref says.
func (cs *Store) CheckBlobs(ctx context.Context, tenant string, k Tree, ev *turns.Event, body any) error {
	checked, err := cs.checkPieces(ctx, tenant, k, body)
	if err != nil {
		return err
	}
	blobs, set := bodyBlobs(body), settingsOf(body)
	named := make(map[turns.Hash]bool, len(blobs))
	for _, l := range addresses(blobs) {
		named[l.Address] = true
	}
	for _, l := range ev.Blobs {
		if !named[l.Address] {
			return fmt.Errorf("%w: its header links to blob %s, its body does not refer to it", ledger.ErrCorrupt, l.Address)
		}
	}
	blobs = slices.DeleteFunc(blobs, func(b Blob) bool { return checked[b.Digest] })
	next := 0
	for i, l := range blobs {
		if i == next {
			next += cs.ReadAhead(ctx, tenant, k, blobs[i:])
		}
		b, err := cs.ReadBlob(ctx, tenant, k, l.Digest)
		if err != nil {
			return err
		}
		if uint64(len(b)) != l.Size {
			return fmt.Errorf("%w: blob %s has %d bytes, the event that links to it says %d", ledger.ErrCorrupt, l.Link().Address, len(b), l.Size)
		}
		if set != nil && set.PreambleBlob != nil && set.PreambleBlob.Digest == l.Digest {
			if _, err := decodePreamble(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// bodyBlobs are the blobs that a body refers to.
func bodyBlobs(body any) (blobs []Blob) {
	if set := settingsOf(body); set != nil && set.PreambleBlob != nil {
		blobs = refBlobs(set.PreambleBlob)
	}
	for _, p := range BodyParts(body) {
		if p.Ref != nil {
			blobs = append(blobs, refBlobs(p.Ref)...)
		}
	}
	return blobs
}

// DigestAt is the digest of the blob that a body refers to and that is stored at an address.
func DigestAt(body any, address turns.Hash) (digest turns.Hash, ok bool) {
	for _, b := range bodyBlobs(body) {
		if b.Link().Address == address {
			return b.Digest, true
		}
	}
	return digest, false
}

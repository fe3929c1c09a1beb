package reader

import (
	"context"
	"slices"
	"sync"

	"nexus/cmd/internal/engine/content"
	"nexus/ledger"
	"nexus/turns"
)

// redacted returns the newest redacted event for an event of a session, nil if there is none.
func (rd *Reader) redacted(session, event turns.ID) (*turns.Event, error) {
	index, ok, err := rd.Projections.RedactedBy(session, event)
	if err != nil || !ok {
		return nil, err
	}
	payload, err := rd.Projections.EventAt(session, index)
	if err != nil {
		return nil, err
	}
	return turns.Decode(payload)
}

// CheckRedacted checks the body of a redacted event against the header of the event that it is for, which its session has, and returns
// what stands in the place of that one's body. Errors: those of [content.CheckRedacted].
func (rd *Reader) CheckRedacted(ev *turns.Event, b *turns.RedactedBody) (any, error) {
	index, err := rd.Projections.Index(ev.To.Session, ev.To.Turn)
	if err != nil {
		return nil, err
	}
	payload, err := rd.Projections.EventAt(ev.To.Session, index)
	if err != nil {
		return nil, err
	}
	of, err := turns.Decode(payload)
	if err != nil {
		return nil, err
	}
	return content.CheckRedacted(ev, b, of)
}

// takenBlobs is the blobs that redactions took out of bodies.
type takenBlobs struct {
	mu    sync.Mutex
	at    uint64 // what content.Store.Redactions counted when all was read
	all   map[turns.Hash]bool
	again map[turns.Hash]bool // that somebody put again since
}

// IsTaken reports whether the content with an address was taken out of the bodies of a tree of forks: who kept a digest reads it no
// more. Equal content that another event of the tree still has, or that was put again, is there.
func (rd *Reader) IsTaken(ctx context.Context, s *ledger.Session, address turns.Hash) (bool, error) {
	n := rd.content.Redactions()
	if n == 0 {
		return false, nil
	}
	rd.taken.mu.Lock()
	if rd.taken.at != n {
		all, err := rd.allTaken(ctx)
		if err != nil {
			rd.taken.mu.Unlock()
			return false, err
		}
		rd.taken.at, rd.taken.all = n, all
	}
	taken := rd.taken.all[address] && !rd.taken.again[address]
	rd.taken.mu.Unlock()
	if !taken {
		return false, nil
	}
	tree, err := rd.Heirs(ctx, s.Root)
	if err != nil {
		return false, err
	}
	for _, id := range append(tree, s.Root) {
		for payload, err := range rd.Projections.Events(id, 0) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return false, err
			}
			ev, err := turns.Decode(payload)
			if err != nil {
				return false, err
			}
			if !slices.ContainsFunc(ev.Blobs, func(l turns.BlobLink) bool { return l.Address == address }) {
				continue
			}
			of := ev.ID
			if ev.Kind == turns.KindRedacted {
				of = ev.To.Turn
			}
			if by, redacted, err := rd.Projections.RedactedBy(id, of); err != nil {
				return false, err
			} else if !redacted || by == ev.Index {
				return false, nil // it has the content itself
			}
		}
	}
	return true, nil
}

// PutAgain notes that content that was taken out was put again.
func (rd *Reader) PutAgain(address turns.Hash) {
	rd.taken.mu.Lock()
	defer rd.taken.mu.Unlock()
	if rd.taken.all[address] {
		if rd.taken.again == nil {
			rd.taken.again = make(map[turns.Hash]bool)
		}
		rd.taken.again[address] = true
	}
}

// allTaken returns the addresses in the headers of events that were redacted, but for those that the newest bodies have.
func (rd *Reader) allTaken(ctx context.Context) (map[turns.Hash]bool, error) {
	out := make(map[turns.Hash]bool)
	for x, err := range rd.Projections.Redactions(turns.ID{}) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		if !x.Newest { // a marked text that was marked again
			if err := blobsOf(rd, x.Session, x.By, func(a turns.Hash) { out[a] = true }); err != nil {
				return nil, err
			}
			continue
		}
		index, err := rd.Projections.Index(x.Session, x.Event)
		if err == nil {
			err = blobsOf(rd, x.Session, index, func(a turns.Hash) { out[a] = true })
		}
		if err == nil {
			err = blobsOf(rd, x.Session, x.By, func(a turns.Hash) { delete(out, a) })
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// blobsOf calls f for the blobs in the header of an event.
func blobsOf(rd *Reader, session turns.ID, index uint64, f func(turns.Hash)) error {
	payload, err := rd.Projections.EventAt(session, index)
	if err != nil {
		return err
	}
	ev, err := turns.Decode(payload)
	if err != nil {
		return err
	}
	for _, l := range ev.Blobs {
		f(l.Address)
	}
	return nil
}

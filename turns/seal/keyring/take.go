package keyring

import (
	"crypto/rand"
	"errors"
	"slices"

	"nexus/turns"
	"nexus/turns/seal"
)

// take is what one rewrite takes from the key of an id: events, or, with put, all but what put has.
type take struct {
	id      turns.ID
	begun   uint64
	indexes []uint64
	put     *seal.Remains
}

// of is what is left of a key. changed: it is not what is there. Errors: those of [Store.Puncture] and [Store.PutRemains].
func (t take) of(has seal.Content, there error) (left *seal.Remains, changed bool, err error) {
	switch put := t.put.Content(); {
	case t.put == nil && there != nil:
		return nil, false, there
	case t.put == nil && has.Remains() != nil && !slices.ContainsFunc(t.indexes, has.Has):
		return has.Remains(), false, nil
	case t.put == nil:
		left, err = has.Puncture(t.begun, t.indexes, rand.Reader)
		return left, true, err
	case there == nil && (has.Same(put) || has.IsLeftOf(put)): // it lacks what is to be taken already
		return has.Remains(), false, nil
	case there == nil && !put.IsLeftOf(has):
		return nil, false, different(t.id)
	case there == nil, errors.Is(there, seal.ErrNoKey), errors.Is(there, turns.ErrCorrupt):
		return t.put, true, nil
	}
	return nil, false, there
}

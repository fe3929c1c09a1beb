package keyring

import (
	"errors"
	"fmt"
	"maps"

	"nexus/turns"
	"nexus/turns/seal"
)

// keys is what a log says of the keys.
type keys struct {
	byID   map[turns.ID]seal.Key
	left   map[turns.ID]*seal.Remains // wins over a key
	erased map[turns.ID]struct{}      // wins over a key
	broken map[turns.ID]error         // both copies of the key's record are damaged; wins over a key
	lost   error                      // so are those of a record of which nobody knows whose key it has
}

func newKeys() keys {
	return keys{byID: make(map[turns.ID]seal.Key), left: make(map[turns.ID]*seal.Remains), erased: make(map[turns.ID]struct{}), broken: make(map[turns.ID]error)}
}

func (k keys) content(id turns.ID) (seal.Content, error) {
	if _, ok := k.erased[id]; ok {
		return seal.Content{}, erased(id)
	}
	if err := k.broken[id]; err != nil {
		return seal.Content{}, err
	}
	if left, ok := k.left[id]; ok {
		return left.Content(), nil
	}
	if key, ok := k.byID[id]; ok {
		return key.Content(), nil
	}
	if k.lost != nil {
		return seal.Content{}, fmt.Errorf("no key of %s: %w", id, k.lost)
	}
	return seal.Content{}, noKey(id)
}

func (k keys) get(id turns.ID) (seal.Key, error) {
	c, err := k.content(id)
	return whole(id, c, err)
}

func (k keys) clone() keys {
	return keys{byID: maps.Clone(k.byID), left: maps.Clone(k.left), erased: maps.Clone(k.erased), broken: maps.Clone(k.broken), lost: k.lost}
}

// encode returns the log that has k, and the number of its next record.
func (k keys) encode(e *epoch) (log []byte, next uint64) {
	next = 1
	log = append(make([]byte, 0, headerSize+(len(k.byID)+1)*(recordExtra+len(seal.Key{}))+(len(k.erased)+len(k.broken))*recordExtra), e.header...)
	add := func(kind recordKind, id turns.ID, body []byte) {
		log = e.append(log, head{kind: kind, number: next, id: id}, body)
		next++
	}
	for id := range k.erased {
		add(recordDestroyed, id, nil)
	}
	for id, err := range k.broken {
		if errors.Is(err, seal.ErrPunctured) {
			add(recordLeft, id, nil)
		} else {
			add(recordLost, id, nil)
		}
	}
	if k.lost != nil {
		add(recordLost, turns.ID{}, nil)
	}
	for id, left := range k.left {
		if k.broken[id] == nil {
			add(recordLeft, id, left.Encode())
		}
	}
	for id, key := range k.byID {
		if k.broken[id] == nil && k.left[id] == nil {
			add(recordKey, id, key[:])
		}
	}
	return log, next
}

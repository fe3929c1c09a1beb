package seal

import (
	"errors"
	"fmt"

	"nexus/turns"
	"nexus/turns/seal/internal/crypt"
)

// ErrNoKey: the key was never here.
var ErrNoKey = errors.New("no key")

// Keyring gives content keys by their id: that of the session whose content
// they seal. Package keyring has the implementations. Safe for concurrent use.
type Keyring interface {
	// Content is the key of id, or what is left of it where events were taken from it. Errors: [turns.ErrErased]:
	// destroyed; [ErrNoKey]: never here; others for a key that is here but can't be read.
	Content(id turns.ID) (Content, error)
}

// The keys of an event.
//
// Each event of a session, an agent or a channel has a key of its own, derived from that
// chain's content key in two steps: content key → chunk of 256 events → event, by the
// event's index. So a content key can be replaced by the keys of all chunks and events
// but one, and that one event is erased for ever. Events of labels and tenants, whose
// content key is not theirs alone, have a key that is derived from the shared key below it by
// chain and id. In a body that comes from several sessions the shared keys of the others
// take part: it is made unreadable by whoever erases one of the sessions, and not
// by who erases one of their events.
//
// A position can be sealed more than once, where a compare-and-set was lost: the nonce of
// a body is random.

// eventKey is the key of event e under its Keys; the zero Key if there are none.
func eventKey(e *turns.Event, ring Keyring) (Key, error) {
	keys := e.Keys
	if len(keys) == 0 {
		return Key{}, nil
	}
	if len(keys) > turns.MaxKeys {
		return Key{}, fmt.Errorf("%w: %d keys", turns.ErrMalformed, len(keys))
	}
	if ring == nil {
		return Key{}, fmt.Errorf("%w: it is sealed under %v", ErrNoKey, keys)
	}
	c, err := ring.Content(keys[0])
	if err != nil {
		return Key{}, err
	}
	var k Key
	if ownChain(e.Chain.Entity) {
		if k, err = c.event(e.Index); err != nil {
			return Key{}, err
		}
	} else {
		k = Key(crypt.MAC(c.derive(sharedKey), []byte(e.Chain.Entity), []byte(e.Chain.ID), e.ID[:]))
	}
	if len(keys) == 1 {
		return k, nil
	}
	all := append(make([]byte, 0, len(keys)*len(k)), k[:]...)
	for _, id := range keys[1:] {
		c, err := ring.Content(id)
		if err != nil {
			return Key{}, err
		}
		k := c.derive(sharedKey)
		all = append(all, k[:]...)
	}
	return crypt.Expand(all, string(combinedKey)), nil
}

// ownChain reports whether the first key of an event is that of its chain alone, so that
// no two events have the same place below it.
func ownChain(e turns.Entity) bool {
	return e == turns.SessionEntity || e == turns.AgentEntity || e == turns.ChannelEntity
}

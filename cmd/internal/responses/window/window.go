// Package window makes compaction items: references to turns, sealed for the clients that
// keep them.
//
// The turn is a compaction, or where there was nothing to compact the head of a session. The
// item stands for the context that a fork at the turn shows, without the messages of the user
// that stand beside the item. A client returns it as it is, on
// this daemon or another one of the ledger, now or after any restart. An item is bound to its
// tenant and agent. One that was forged, cut or made for another agent gets the same refusal.
//
// It imports packages turns, turns/seal and ledger/api. Begin at [Window]; compact.go makes one
// in the ledger and reads it.
package window

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strings"

	"nexus/turns"
	"nexus/turns/seal"
)

// Window is what a compaction item says.
type Window struct {
	At turns.Ref
	// Users is how many messages of the user the compaction returned beside the item: the
	// latest ones of the turn's path. The item leaves them out, since the client sends them
	// again before it. [Alone]: the item stands for everything before it.
	Users uint32
}

// Alone is the [Window.Users] of an item that stands for everything before it in a list.
const Alone = math.MaxUint32

const size = 2*len(turns.ID{}) + 4

// maxSealed bounds encrypted_content in a request, in bytes.
const maxSealed = 4 << 10

// Sealer makes compaction items and reads them.
type Sealer struct {
	// Key returns the ledger's own key, the same on each of its daemons.
	Key func() (seal.Key, error)
}

// Seal returns the encrypted_content of a window for an agent. The same window has the same
// one.
func (s Sealer) Seal(tenant, agent string, w Window) (string, error) {
	k, err := s.Key()
	if err != nil {
		return "", err
	}
	b := make([]byte, 0, size)
	b = append(append(b, w.At.Session[:]...), w.At.Turn[:]...)
	b = binary.BigEndian.AppendUint32(b, w.Users)
	token, err := seal.StableToken(k, b, "compaction item", tenant, agent)
	return base64.RawURLEncoding.EncodeToString(token), err
}

// Open is the inverse of Seal. ok is false for everything that Seal did not return for the
// agent; err is for a key that can't be read.
func (s Sealer) Open(tenant, agent, sealed string) (w Window, ok bool, err error) {
	if len(sealed) > maxSealed || strings.ContainsAny(sealed, "\r\n") { // which the decoder skips
		return Window{}, false, nil
	}
	token, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil {
		return Window{}, false, nil
	}
	k, err := s.Key()
	if err != nil {
		return Window{}, false, err
	}
	b, err := seal.OpenToken(k, token, "compaction item", tenant, agent)
	if err != nil || len(b) != size {
		return Window{}, false, nil
	}
	copy(w.At.Session[:], b)
	copy(w.At.Turn[:], b[16:])
	w.Users = binary.BigEndian.Uint32(b[32:])
	return w, true, nil
}

package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"nexus/turns"
	"nexus/turns/seal/internal/crypt"
)

// RequestDigest is the digest of what a request asks for: SHA-256 of what (noun.verb) and
// its canonical JSON, each after its length. [Seal] stores it under a key of the event, so
// that nobody without that key can test a guess of the body against a header.
func RequestDigest(what string, canonical []byte) turns.Hash {
	h := sha256.New()
	for _, p := range [][]byte{[]byte("nexus.request.v1"), []byte(what), canonical} {
		crypt.WriteLength(h, uint64(len(p)))
		h.Write(p)
	}
	return turns.Hash(h.Sum(nil))
}

// SameRequest reports whether a stored event has the digest of a request, for ever: as
// long as the event can be opened. The keys of one without a body are those of its chain.
// Errors: those of ring.
func SameRequest(e *turns.Event, ring Keyring, request turns.Hash) (bool, error) {
	k, err := eventKey(keyed(e, ring), ring)
	if errors.Is(err, ErrNoKey) && len(e.Keys) == 0 { // stored while nothing was sealed
		want := storedDigest(Key{}, request)
		if hmac.Equal(want[:], e.Digest[:]) {
			return true, nil
		}
	}
	if err != nil {
		return false, fmt.Errorf("is event %s of this request? %w", e.ID, err)
	}
	want := storedDigest(k, request)
	return hmac.Equal(want[:], e.Digest[:]), nil
}

// keyed is e with the keys that its digest is under: its own, or, where it has no body, the key of
// its session.
func keyed(e *turns.Event, ring Keyring) *turns.Event {
	session, ok := e.Chain.Session()
	if len(e.Keys) > 0 || len(e.Body) > 0 || ring == nil || !ok {
		return e
	}
	h := *e
	h.Keys = []turns.ID{session}
	return &h
}

func storedDigest(k Key, request turns.Hash) turns.Hash { return k.extracted().storedDigest(request) }

func (x extracted) storedDigest(request turns.Hash) turns.Hash {
	return crypt.MAC(x.derive(requestKey), request[:])
}

// SuccessorMark is a number that a ledger alone can give to the successor of a session
// whose content key k is.
func SuccessorMark(k deriver, ledger [16]byte, session turns.ID) turns.Hash {
	return crypt.MAC(k.derive(successorKey), ledger[:], session[:])
}

// LabelDigest is the token of a label in a subject: 32 lower-case hex digits,
// the first 128 bits of an HMAC-SHA-256. K is zero where sealing is off.
func LabelDigest(k Key, tenant, agent, label string) string {
	h := crypt.MAC(k.derive(labelKey), []byte(tenant), []byte(agent), []byte(label))
	return hex.EncodeToString(h[:16])
}

// ChannelDigest returns the id of a channel's chain, 32 lower-case hex digits, and the id
// of its content key: parts of an HMAC-SHA-256. k is the ledger's key, zero if nothing is
// sealed. The id of the key begins with six bytes 0xff, so that no session can have it
// ([turns.ID.IsReserved]): headers show it, and who opens a session gets its key.
func ChannelDigest(k Key, tenant, agent, channel string) (chain string, key turns.ID) {
	h := crypt.MAC(k.derive(channelKey), []byte(tenant), []byte(agent), []byte(channel))
	copy(key[:], "\xff\xff\xff\xff\xff\xff")
	copy(key[6:], h[16:])
	return hex.EncodeToString(h[:16]), key
}

// PolicyName returns the keyed digest of the name of a policy in a tenant. k is the
// ledger's key, zero if nothing is sealed.
func PolicyName(k Key, tenant, name string) turns.Hash {
	return crypt.MAC(k.derive(policyKey), []byte(tenant), []byte(name))
}

// AgentKeyID returns the id of the content key of an agent: six bytes 0xff, so that no
// session can have it ([turns.ID.IsReserved]), and ten of a keyed digest of the agent's
// name. ledger is the ledger's key, zero if nothing is sealed. Every daemon of a ledger
// computes the same id.
func AgentKeyID(ledger Key, tenant, agent string) (id turns.ID) {
	copy(id[:], "\xff\xff\xff\xff\xff\xff")
	h := crypt.MAC(ledger.derive(agentKey), []byte(tenant), []byte(agent))
	copy(id[6:], h[:])
	return id
}

// MemoryText returns the keyed digest of a memory. Two memories of an agent with one
// digest are the same: they have the same kind and visibility, and the same text but for
// white space and a full stop at the end. k is the agent's key, zero if nothing is
// sealed; branch is the session of the branch that sees the memory, zero if all do.
func MemoryText(k deriver, kind turns.MemoryKind, private bool, branch turns.ID, text string) turns.Hash {
	scope := []byte{byte(kind), 0}
	if private {
		scope[1] = 1
	}
	return crypt.MAC(k.derive(memoryKey), append(scope, branch[:]...), []byte(turns.NormalMemory(text)))
}

// DocumentText returns the keyed digest of the text of an agent's document.
func DocumentText(k deriver, text string) turns.Hash {
	return crypt.MAC(k.derive(memoryKey), []byte("document"), []byte(text))
}

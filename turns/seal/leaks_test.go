package seal

import (
	"crypto/rand"
	"errors"
	"testing"

	"nexus/turns"
)

func eventOn(c turns.Chain, k turns.Kind, i uint64, id byte) *turns.Event {
	return &turns.Event{Version: 1, Kind: k, ID: turns.ID{1, id}, Chain: c, Index: i, Recorded: 1}
}

// One disclosed event of a chain under a shared key gives the salt of no other.
func TestEventsUnderASharedKeyShareNoSalts(t *testing.T) {
	id := turns.ID{9}
	ring := newRing(id)
	body := func(label string) []byte {
		b, err := turns.EncodeBody(&turns.ClaimedBody{Label: label})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	a := eventOn(turns.Chain{Entity: turns.LabelEntity, ID: "aa"}, turns.KindClaimed, 0, 1)
	b := eventOn(turns.Chain{Entity: turns.LabelEntity, ID: "bb"}, turns.KindClaimed, 7, 2)
	for e, l := range map[*turns.Event]string{a: "shown", b: "hidden secret"} {
		if err := Seal(e, body(l), ring, []turns.ID{id}, rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Disclose(a, ring, 0)
	if err != nil {
		t.Fatal(err)
	}
	guess := turns.Disclosed{Leaf: 0, Count: 1, Salt: d.Salt, Bytes: body("hidden secret")}
	if guess.Check(b.Commitment) == nil {
		t.Error("the salt of one event tests a guess of another's body against its header, without a key")
	}
}

// The same at one position of a session: sealed twice, or continued by two ledgers after an import.
func TestEventsAtOnePositionShareNoSalts(t *testing.T) {
	id := turns.ID{9}
	ring := newRing(id)
	enc := func(s string) []byte {
		b, _ := turns.EncodeBody(&turns.MovedBody{Note: s})
		return b
	}
	a, b := eventOn(turns.SessionChain(id), turns.KindMoved, 5, 1), eventOn(turns.SessionChain(id), turns.KindMoved, 5, 2)
	if err := errors.Join(Seal(a, enc("shown"), ring, []turns.ID{id}, rand.Reader), Seal(b, enc("secret"), ring, []turns.ID{id}, rand.Reader)); err != nil {
		t.Fatal(err)
	}
	d, err := Disclose(a, ring, 0)
	if err != nil {
		t.Fatal(err)
	}
	guess := turns.Disclosed{Leaf: 0, Count: 1, Salt: d.Salt, Bytes: enc("secret")}
	if guess.Check(b.Commitment) == nil {
		t.Error("two events at one position share salts")
	}
}

// An event with neither body nor request asks for a key that it does not use.
func TestNothingToSealNeedsNoKey(t *testing.T) {
	id := turns.ID{9}
	e := eventOn(turns.SessionChain(id), turns.KindState, 5, 1)
	if err := Seal(e, nil, newRing(), nil, rand.Reader); err != nil {
		t.Errorf("%v", err)
	}
}

// An event without a body that was stored with seal off is that of its request once seal is on.
func TestARequestIsKnownAgainAfterSealIsSwitchedOn(t *testing.T) {
	id := turns.ID{9}
	e := eventOn(turns.SessionChain(id), turns.KindState, 5, 1)
	req := RequestDigest("session.close", []byte("{}"))
	e.Digest = req
	if err := Seal(e, nil, nil, nil, rand.Reader); err != nil {
		t.Fatal(err)
	}
	if same, err := SameRequest(e, newRing(), req); !same || err != nil {
		t.Errorf("retry: %v %v", same, err)
	}
}

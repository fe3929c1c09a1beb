package seal

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"nexus/turns"
)

// Only the key and the owner's names open a token, and each changed, cut or added byte
// breaks it.
func TestTokenOpensForItsOwnerOnly(t *testing.T) {
	k, other := Key{1}, Key{2}
	token, err := Token(k, []byte("text"), rand.Reader, "tenant", "agent")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := OpenToken(k, token, "tenant", "agent"); err != nil || string(got) != "text" {
		t.Fatalf("%q, %v", got, err)
	}
	again, err := Token(k, []byte("text"), rand.Reader, "tenant", "agent")
	if err != nil || string(again) == string(token) || strings.Contains(string(token), "text") {
		t.Errorf("tokens %x and %x, %v", token, again, err)
	}
	refused := func(what string, k Key, token []byte, owner ...string) {
		t.Helper()
		got, err := OpenToken(k, token, owner...)
		if !errors.Is(err, turns.ErrCorrupt) || got != nil || err.Error() != "corrupt: no token of this ledger and owner" {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	refused("another key", other, token, "tenant", "agent")
	refused("another agent", k, token, "tenant", "agents")
	refused("names moved", k, token, "tenanta", "gent")
	refused("names joined", k, token, "tenant6:agent")
	refused("no owner", k, token)
	refused("nothing", k, nil, "tenant", "agent")
	refused("a byte more", k, append(token[:len(token):len(token)], 0), "tenant", "agent")
	for i := range token {
		refused("cut", k, token[:i], "tenant", "agent")
		changed := append([]byte(nil), token...)
		changed[i] ^= 1
		refused("changed", k, changed, "tenant", "agent")
	}
}

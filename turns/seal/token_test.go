package seal

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"nexus/turns"
	"nexus/turns/seal/internal/crypt"
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

// A stable token's nonce is made under a key that is used for nothing else, of the owner and the text.
func TestAStableTokenHasANonceUnderAKeyOfItsOwn(t *testing.T) {
	k := Key{1}
	token := func(k Key, text string, owner ...string) string {
		b, err := StableToken(k, []byte(text), owner...)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := OpenToken(k, b, owner...); err != nil || string(got) != text {
			t.Fatalf("%q, %v", got, err)
		}
		return string(b)
	}
	first := token(k, "text", "tenant", "agent")
	if first != token(k, "text", "tenant", "agent") {
		t.Error("one text has two tokens")
	}
	derived, err := hkdf.Key(sha256.New, k[:], nil, "nexus.key.v1 token nonce", 32)
	if err != nil {
		t.Fatal(err)
	}
	h := hmac.New(sha256.New, derived)
	for _, b := range []string{"nexus.token.v1\x00\x016:tenant5:agent", "text"} {
		h.Write(append(binary.BigEndian.AppendUint64(nil, uint64(len(b))), b...))
	}
	if nonce := string(h.Sum(nil)[:crypt.NonceSize]); first[1:1+crypt.NonceSize] != nonce {
		t.Errorf("the nonce is %x, want %x", first[1:1+crypt.NonceSize], nonce)
	}
	seen := map[string]bool{first[1 : 1+crypt.NonceSize]: true}
	for _, other := range []string{token(Key{2}, "text", "tenant", "agent"), token(k, "text", "tenant", "other"), token(k, "texts", "tenant", "agent"), token(k, "text", "tenantagent")} {
		if nonce := other[1 : 1+crypt.NonceSize]; seen[nonce] {
			t.Errorf("two texts have the nonce %x", nonce)
		} else {
			seen[nonce] = true
		}
	}
}

package seal

import (
	"bytes"
	"fmt"
	"io"

	"nexus/turns"
	"nexus/turns/seal/internal/crypt"
)

// tokenVersion is the first byte of a token.
const tokenVersion = 1

// tokenDomain starts what a token is bound to: domain, version, each name after its length.
const tokenDomain = "nexus.token.v1\x00"

// Token seals text that a client keeps for the daemon and gives back: only who has k can
// make or read one. owner names whom it was given to, and the same names open it. Two
// tokens of one text differ.
// Errors: rand's.
func Token(k Key, text []byte, rand io.Reader, owner ...string) ([]byte, error) {
	return crypt.Encrypt(k.derive(tokenKey), []byte{tokenVersion}, text, tokenAAD(owner), rand)
}

// StableToken is [Token], but one text has one token for an owner: the nonce is a hash, under a
// key of its own, of all that is sealed, so no two texts share one.
func StableToken(k Key, text []byte, owner ...string) ([]byte, error) {
	nonce := crypt.MAC(k.derive(tokenNonceKey), tokenAAD(owner), text)
	return Token(k, text, bytes.NewReader(nonce[:]), owner...)
}

// OpenToken is the text that [Token] or [StableToken] was given. Errors: [turns.ErrCorrupt] for one that was
// made under another key or for another owner, or is altered: it does not say which.
func OpenToken(k Key, token []byte, owner ...string) ([]byte, error) {
	if len(token) > 0 && token[0] == tokenVersion {
		if text, err := crypt.Decrypt(k.derive(tokenKey), token[1:], tokenAAD(owner)); err == nil {
			return text, nil
		}
	}
	return nil, fmt.Errorf("%w: no token of this ledger and owner", turns.ErrCorrupt)
}

func tokenAAD(owner []string) []byte {
	b := append([]byte(tokenDomain), tokenVersion)
	for _, name := range owner {
		b = fmt.Appendf(b, "%d:%s", len(name), name)
	}
	return b
}

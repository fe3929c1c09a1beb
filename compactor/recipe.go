package compactor

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"nexus/turns"
	"nexus/turns/tokens"
)

// RendererVersion names how [Render] turns a path into messages. It changes
// with any change of the bytes that a path gives.
const RendererVersion = "render-1"

// Recipe is what it takes to build the same context again: the same recipe on
// the same ledger gives the same bytes.
type Recipe struct {
	Renderer   string     `json:"renderer"`
	Session    turns.ID   `json:"session"`
	Head       turnName   `json:"head,omitzero"`
	Compaction turnName   `json:"compaction,omitzero"` // in force; absent: none
	Policy     turns.Hash `json:"policy"`
	Counter    string     `json:"counter"`
	Budget     uint64     `json:"budget"`
	Open       OpenCalls  `json:"open,omitzero"`
}

// turnName is a [turns.Ref] as a JSON object.
type turnName struct {
	Session turns.ID `json:"session"`
	Turn    turns.ID `json:"turn"`
}

// Ref is the turn that n names.
func (n turnName) Ref() turns.Ref { return turns.Ref{Session: n.Session, Turn: n.Turn} }

func named(r turns.Ref) turnName { return turnName{r.Session, r.Turn} }

// NewRecipe is the recipe of Render(p, c) under a policy and budget.
func NewRecipe(p Path, pol Policy, budget uint64, c tokens.Counter) Recipe {
	return Recipe{
		Renderer: RendererVersion, Session: p.Session, Head: named(p.Head.Ref), Compaction: named(p.previous()),
		Policy: pol.Digest(), Counter: c.Name(), Budget: budget,
	}
}

// JSON is the recipe as it is stored with a turn.
func (r Recipe) JSON() (turns.Raw, error) {
	b, err := turns.EncodeJSON(r)
	return b, err
}

// ParseRecipe reads a stored recipe. Errors: [turns.FieldError];
// [turns.ErrUnsupported] for another version of the renderer.
func ParseRecipe(raw turns.Raw) (Recipe, error) {
	var r Recipe
	if err := turns.DecodeJSON(raw, &r); err != nil {
		return Recipe{}, fmt.Errorf("read recipe: %w", err)
	}
	if r.Renderer != RendererVersion {
		return Recipe{}, fmt.Errorf("read recipe: %w: renderer %.40q, this build has %s", turns.ErrUnsupported, r.Renderer, RendererVersion)
	}
	return r, nil
}

// Fingerprint is the text form of SHA-256 over "nexus.context.v1\0" and each
// message's deterministic CBOR behind its length, 8 bytes, big-endian.
func (c Context) Fingerprint() string {
	h := sha256.New()
	h.Write([]byte("nexus.context.v1\x00"))
	for i := range c.Messages {
		b, err := turns.EncodeBody(&c.Messages[i])
		if err != nil { // a message that no event could hold
			b = []byte(err.Error())
		}
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	return turns.Hash(h.Sum(nil)).String()
}

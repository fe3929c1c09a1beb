package view

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"nexus/turns"
)

// Fingerprint returns the text form of SHA-256 over "nexus.context.v1\0" and, for
// each message, its length (8 bytes, big-endian) and its deterministic CBOR.
func (c Context) Fingerprint() string {
	f := NewFingerprint()
	for i := range c.Messages {
		f = f.Add(&c.Messages[i])
	}
	return f.String()
}

// Fingerprint is the fingerprint of messages, to which more can be added. Nothing
// changes it, so a context that grew needs to add only its new messages to the
// fingerprint of those before.
type Fingerprint struct{ sum hash.Cloner }

// NewFingerprint returns the fingerprint of no messages.
func NewFingerprint() Fingerprint {
	h := sha256.New().(hash.Cloner)
	h.Write([]byte("nexus.context.v1\x00"))
	return Fingerprint{h}
}

// Add returns the fingerprint of the messages of f and m.
func (f Fingerprint) Add(m *turns.Message) Fingerprint {
	h, err := f.sum.Clone()
	if err != nil {
		panic(err) // SHA-256 can always be cloned
	}
	b, err := turns.EncodeBody(m)
	if err != nil { // no event could hold this message
		b = []byte(err.Error())
	}
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(b)))
	h.Write(n[:])
	h.Write(b)
	return Fingerprint{h}
}

// AddSections returns the fingerprint of the messages of f and sections of the system
// part that are not the session's own; f if there are none.
func (f Fingerprint) AddSections(ss []turns.Section) Fingerprint {
	for _, s := range ss {
		m := turns.Message{Role: turns.System, Parts: []turns.Part{turns.TextPart(s.Name), turns.TextPart(s.Content)}}
		f = f.Add(&m)
	}
	return f
}

// String returns the text form of f.
func (f Fingerprint) String() string { return turns.Hash(f.sum.Sum(nil)).String() }

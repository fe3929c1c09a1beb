package api

import (
	"crypto/sha256"

	"nexus/turns"
)

// Verify is audit.verify.
type Verify struct {
	Sessions []turns.ID `json:"sessions,omitempty,omitzero"` // none: everything
	// Checkpoint is a note, with which the log is compared. Not with Sessions.
	Checkpoint string `json:"checkpoint,omitempty,omitzero"`
	// Page asks for a verification of Sessions in pages. Limit is how many events a page checks, 10,000 at
	// most; 0: all that are left.
	Page
}

// Verified is audit.verify's reply. In pages each says what was checked and found so far, and the
// last one what a verification without pages says.
type Verified struct {
	OK          bool   `json:"ok"` // false while there is a next page
	Events      uint64 `json:"events"`
	Sessions    uint64 `json:"sessions"`
	Turns       uint64 `json:"turns"`
	Compactions uint64 `json:"compactions"`
	Blobs       uint64 `json:"blobs"`
	Channels    uint64 `json:"channels,omitempty"` // of external events
	External    uint64 `json:"external_events,omitempty"`
	// Duplicates counts openings of a session under an id that an earlier opening on the
	// log has. Two daemons stored them at the same time; they open nothing, and are no
	// problem.
	Duplicates uint64 `json:"duplicate_openings,omitempty"`
	// Erased counts events whose bodies nobody can open, since their session was erased, or they were redacted: no problem.
	Erased uint64 `json:"erased,omitempty"`
	Last   Uint   `json:"last"` // log position verified through
	// Covered is how many events, from the first one, were compared with a checkpoint.
	Covered    Uint      `json:"covered,omitzero"`
	Problems   []Problem `json:"problems"`      // the first ones
	Count      uint64    `json:"problem_count"` // of all problems, those not listed included
	DurationMS uint64    `json:"duration_ms"`
	// Next is where the next page begins, "" on the last one. Total is then how many events the
	// projections have of the chains, and Through the event that was checked last.
	Next    string   `json:"next,omitempty,omitzero"`
	Total   uint64   `json:"total_events,omitempty,omitzero"`
	Through *Through `json:"through,omitempty,omitzero"`
}

// Through is an event that a verification has checked, and all before it on its chain.
type Through struct {
	Session turns.ID `json:"session"`
	Event   turns.ID `json:"event,omitzero"` // zero: it can't be read
	Seq     Uint     `json:"seq"`
}

// Problem is something that verification found.
type Problem struct {
	Code    Code     `json:"code"`
	Session turns.ID `json:"session,omitzero"`
	Event   turns.ID `json:"event,omitzero"`
	Seq     Uint     `json:"seq,omitzero"`
	Message string   `json:"message"`
}

// ExportSession is session.export: raw events, each session's ancestors first.
type ExportSession struct {
	Page
	Read
}

// Exported is one page of an export.
type Exported struct {
	Records []ExportRecord `json:"records"`
	Next    string         `json:"next,omitempty,omitzero"`
}

// ExportRecord is one line of an export; exactly one field is set. Lines come
// in an order in which they can be imported.
type ExportRecord struct {
	Ledger *ExportHeader `json:"nexus_export,omitempty,omitzero"`
	Key    *ExportKey    `json:"key,omitempty,omitzero"`
	Piece  *ExportPiece  `json:"piece,omitempty,omitzero"`
	Blob   *ExportBlob   `json:"blob,omitempty,omitzero"`
	Policy *ExportPolicy `json:"policy,omitempty,omitzero"`
	Event  *ExportEvent  `json:"event,omitempty,omitzero"`
}

// ExportHeader opens an export.
type ExportHeader struct {
	Version int      `json:"version"`
	Ledger  string   `json:"ledger"`
	Session turns.ID `json:"session"`
}

// ExportKey is a content key. Whoever has the export can read it.
type ExportKey struct {
	ID turns.ID `json:"id"`
	// Key is 32 bytes. Of a key from which turns were redacted Remains has what is left, as docs/FORMAT.md says
	// in section 10, instead.
	Key     []byte `json:"key,omitempty"`
	Remains []byte `json:"remains,omitempty"`
}

// ExportBlob is a sealed blob.
type ExportBlob struct {
	Root   turns.ID     `json:"root"` // root session of the tree, whose key opens it
	Digest turns.Hash   `json:"digest"`
	Sealed []byte       `json:"sealed,omitempty,omitzero"`
	Pieces []turns.Hash `json:"pieces,omitempty,omitzero"` // in place of Sealed: pieces that came before, in order
}

// ExportPiece is a piece of a sealed blob, or of an event, that is too large for
// one message.
type ExportPiece struct {
	Sealed []byte `json:"sealed"`
}

// PieceDigest returns the name of a piece on its way into a ledger.
func PieceDigest(sealed []byte) turns.Hash {
	return sha256.Sum256(append([]byte("nexus.piece.v1\x00"), sealed...))
}

// ExportPolicy is the content of a policy that an event behind it names.
type ExportPolicy struct {
	Digest  turns.Hash `json:"digest"`
	Content []byte     `json:"content"` // the policy's canonical bytes
}

// ExportEvent is an event's exact payload and its hash.
type ExportEvent struct {
	Payload []byte       `json:"payload,omitempty,omitzero"`
	Pieces  []turns.Hash `json:"pieces,omitempty,omitzero"` // in place of Payload: pieces that came before, in order
	Hash    turns.Hash   `json:"hash"`
}

// ImportRecords is session.import.
type ImportRecords struct {
	// ID is that of the call, as every change has one. This one has the same outcome each time, so it is not stored.
	ID      turns.ID       `json:"id,omitzero"`
	Records []ExportRecord `json:"records"`
}

// Imported is session.import's reply.
type Imported struct {
	Stored   uint64 `json:"stored"`
	Existing uint64 `json:"existing"`
}

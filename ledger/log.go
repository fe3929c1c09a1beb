package ledger

import (
	"context"
	"fmt"
	"iter"
	"time"

	"nexus/turns"
)

// Record is one stored event: where it stands, and its exact bytes.
type Record struct {
	Seq     uint64     // position in the log, from 1, strictly increasing
	Subject string     // the chain it is on, as [Subject] spells it
	Payload []byte     // the event's payload, which is not to be changed
	Hash    turns.Hash // as stored beside the payload: a hint until compared with HashEvent(Payload)
	Stored  time.Time  // about when the log stored it; in no hash
	Hashed  bool       // this process has computed Hash of these very bytes: it is no hint
}

// State describes a whole log.
type State struct {
	Identity string // changes when the log is created anew; never reused
	Created  time.Time
	First    uint64 // 1, always: nothing is ever deleted
	Last     uint64 // 0: empty
	Count    uint64 // records stored; equals Last in a sound log
}

// Sound returns nil if no record is missing from the log: it is empty, or it begins
// at 1 and Count equals Last.
func (s State) Sound() error {
	if s.Count != s.Last || (s.Last > 0 && s.First != 1) {
		return fmt.Errorf("%w: the log holds %d records from %d to %d: some are gone", ErrCorrupt, s.Count, s.First, s.Last)
	}
	return nil
}

// Log is the append-only store of events: many chains, each on a subject of
// its own, in one order. Implementations: package memlog, package jetstream.
// All methods are safe for concurrent use. Package ledgertest holds what every
// implementation must pass.
type Log interface {
	// Append stores payload as the next record of subject if and only if the
	// last record of subject is at expect (0: subject is empty). It returns the
	// new record's position; on return the record is durable as the log is
	// configured. The log may keep payload: nobody may change its bytes.
	//
	// An ambiguous answer of the store is resolved here, by looking at the
	// record that follows expect on subject: if it holds these bytes, the append
	// was stored, once, whichever try did it.
	//
	// Errors: *ConflictError: another record follows expect, and these bytes
	// are not and never will be stored under this expectation.
	// [ErrUnavailable]: this call wrote nothing and nothing of it will be
	// written; it says nothing of earlier calls. [ErrMalformed]: no subject of a
	// chain.
	// [ErrIndeterminate]: may be written, now or later; only a further
	// compare-and-set on subject can tell. [ErrTooLarge] before anything is sent.
	// [ErrCorrupt]: the log is unsound and takes no appends.
	Append(ctx context.Context, subject string, expect uint64, payload []byte) (seq uint64, err error)

	// Last is the last record of subject (wildcard tokens "*" allowed), read
	// from where appends are decided. A deposed leader may still answer with an
	// older one, so only an Append proves a tail. [ErrNotFound]: none.
	Last(ctx context.Context, subject string) (Record, error)

	// Get is the record at seq. [ErrNotFound]: none.
	Get(ctx context.Context, seq uint64) (Record, error)

	// Read yields the records from position from on, in order, without gaps: a
	// gap is yielded as [ErrCorrupt] and ends the sequence. A record whose payload
	// has another hash than its Hash is yielded, so that one of them stops no reader; the
	// caller compares. With follow it goes
	// on with new records until ctx ends, and then ends without an error; without,
	// it ends after the record that was last when Read was called.
	Read(ctx context.Context, from uint64, follow bool) iter.Seq2[Record, error]

	// Chain yields the records of subject after position after, in order, as Read does: those
	// that it has when Chain is called, and maybe those that come meanwhile. It reads no record
	// of another chain. A record that can't be read may be left out: the chain's own rules tell.
	Chain(ctx context.Context, subject string, after uint64) iter.Seq2[Record, error]

	// State describes the log. Errors: [ErrUnavailable].
	State(ctx context.Context) (State, error)
}

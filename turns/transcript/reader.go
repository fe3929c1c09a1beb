package transcript

import (
	"io"
	"iter"

	"nexus/turns"
)

// Options say how a transcript is read. A format ignores those that it does not
// name. The zero value reads a transcript that may still grow.
type Options struct {
	// Final says that the transcript has ended. The turns at its end are read too if
	// they have no response or one that may go on, and a torn last line is reported.
	Final bool
	// MaxLine is the longest line read, in bytes; a longer one is skipped and
	// reported. Zero means [DefaultMaxLine].
	MaxLine int
	// Name is the base name of the file; empty: unknown. Codex puts the id of the session
	// there, which is read of it where the header is torn.
	Name string
	// Copied, for Codex and pi, says that the history which a fork's file begins with
	// is read as turns of its parent, with the ids that the parent's own file gives
	// them. Without it only the fork is read, for a ledger that has the parent.
	Copied bool
	// SpawnedBy, for Claude Code and Gemini CLI, is the turn that started the sub-agent
	// whose file this is. Zero: unknown.
	SpawnedBy turns.Ref
	// Spawner, for Gemini CLI, is what the agent calls the session that started the
	// sub-agent, where SpawnedBy is not known. Empty: the file may say it.
	Spawner string
}

// DefaultMaxLine is the longest line of a transcript that is read, in bytes.
const DefaultMaxLine = 256 << 20

// Reader reads a transcript as steps. Not safe for concurrent use.
//
// A file may grow between two reads. Without [Options].Final a reader emits no turn
// that a further line could change, so the steps of a shorter copy are among those
// of a longer one, byte for byte. It reports how many turns it held back.
type Reader struct{ s *Source }

// Next returns the next step, and [io.EOF] after the last. It returns
// [turns.ErrMalformed] if the source is no transcript of this format, and the errors
// of the source as they are. The steps before an error are valid. The caller owns the
// step.
func (r *Reader) Next() (Step, error) { return r.s.next() }

// Steps returns an iterator over the steps of [Reader.Next]. An error comes with a zero
// Step and ends it. It can be used once.
func (r *Reader) Steps() iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		for {
			s, err := r.Next()
			if err == io.EOF {
				return
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// Losses returns what was lost or changed so far: single defects in the order of the
// file, then counts, sorted by kind and reason. The caller owns the slice.
func (r *Reader) Losses() []Loss { return r.s.Loss.report() }

// Titles returns the titles of sessions, by the session's id, as the transcript states
// them so far. Nil: none.
func (r *Reader) Titles() map[turns.ID]string { return r.s.titlesSoFar() }

package transcript

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"nexus/turns"
)

// WrittenSession is the head of a transcript that is written. Empty fields are left out.
type WrittenSession struct {
	ID     turns.ID
	Time   time.Time
	Cwd    string // the folder that the agent works in
	Branch string // of git
	Commit string // of git
	Title  string // "": none. It is not written for Gemini CLI
	// Through is the last turn of the path, of a path as a ledger has it. What reads the
	// transcript then has it in [Open].Exported, and a ledger knows its own turns again.
	// Zero: it is not known. Claude Code's transcripts have no place for it.
	Through turns.ID
	// Resumed says that the agent is to go on with the transcript: reasoning that its
	// provider did not sign, and would refuse, is left out, and a compaction says word for
	// word what was kept beside its summary, where the format has no other place for that.
	Resumed bool
}

// TranscriptID returns the id that the session has in the transcript: its ID as a UUID.
func (s *WrittenSession) TranscriptID() string { return uuid.UUID(s.ID).String() }

// ExportMark is the member nexus of a transcript's head. Agents ignore members that they
// do not know.
type ExportMark struct {
	Through turns.ID `json:"through"`
}

// Mark returns the member, nil for none.
func (s *WrittenSession) Mark() *ExportMark {
	if s.Through.IsZero() {
		return nil
	}
	return &ExportMark{s.Through}
}

// ExportedFrom returns what a transcript was written from, by its id and its mark; zero for
// one that another program wrote.
func ExportedFrom(id string, mark jsontext.Value) turns.Ref {
	var m ExportMark
	u, err := uuid.Parse(id)
	if err != nil || mark.Kind() != '{' || json.Unmarshal(mark, &m) != nil || m.Through.IsZero() {
		return turns.Ref{}
	}
	return turns.Ref{Session: turns.ID(u), Turn: m.Through}
}

// Writer writes a path as the transcript of an agent. The same path gives the
// same lines. Not safe for concurrent use.
type Writer interface {
	// Turn returns the lines for the next turn or compaction, without line breaks. The
	// caller owns them. It returns an error only for a turn that can't be encoded, which
	// no ledger holds.
	Turn(WrittenTurn) ([][]byte, error)
	// End returns the lines after the last turn.
	End() ([][]byte, error)
}

// EncodedLines returns values as JSON, one a line. Errors name the turn.
func EncodedLines[T any](turn turns.ID, out []T) ([][]byte, error) {
	lines := make([][]byte, len(out))
	for i := range out {
		b, err := turns.EncodeJSON(&out[i])
		if err != nil {
			return nil, fmt.Errorf("write turn %s: %w", turn, err)
		}
		lines[i] = b
	}
	return lines, nil
}

// WrittenTurn is a turn or compaction for a [Writer]. Its parts hold their
// content: a Ref is not followed.
type WrittenTurn struct {
	ID       turns.ID
	Time     time.Time
	Model    string
	Messages []turns.Message
	Response *turns.Message
	Usage    *turns.Usage
	Details  turns.UsageDetails // what the source counted beside Usage
	Cost     turns.Raw          // what the source recorded, as [turns.CostOf] reads it; nil: nothing

	// A compaction has these instead. Summary stands for the turns before it.
	Compaction   bool
	Summary      string
	Automatic    bool
	TokensBefore uint64
	FirstKept    turns.ID        // first turn that it kept; zero: none
	Kept         []turns.Message // what it kept, from there on
}

// WriterName is the version that transcripts of Claude Code have in each line; their
// sessionId is the session's ID as a UUID.
const WriterName = "nexus"

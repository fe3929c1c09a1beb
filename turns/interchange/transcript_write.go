package interchange

import (
	"fmt"
	"strings"
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

// exportMark is the member nexus of a transcript's head. Agents ignore members that they
// do not know.
type exportMark struct {
	Through turns.ID `json:"through"`
}

// mark returns the member, nil for none.
func (s *WrittenSession) mark() *exportMark {
	if s.Through.IsZero() {
		return nil
	}
	return &exportMark{s.Through}
}

// exportedFrom returns what a transcript was written from, by its id and its mark; zero for
// one that another program wrote.
func exportedFrom(id string, mark jsontext.Value) turns.Ref {
	var m exportMark
	u, err := uuid.Parse(id)
	if err != nil || mark.Kind() != '{' || json.Unmarshal(mark, &m) != nil || m.Through.IsZero() {
		return turns.Ref{}
	}
	return turns.Ref{Session: turns.ID(u), Turn: m.Through}
}

// TranscriptWriter writes a path as the transcript of an agent. The same path gives the
// same lines. Not safe for concurrent use.
type TranscriptWriter interface {
	// Turn returns the lines for the next turn or compaction, without line breaks. The
	// caller owns them. It returns an error only for a turn that can't be encoded, which
	// no ledger holds.
	Turn(WrittenTurn) ([][]byte, error)
	// End returns the lines after the last turn.
	End() ([][]byte, error)
}

// WriterFormats returns the names of the formats that transcripts are written in. They are
// those of [Formats].
func WriterFormats() []string { return []string{"claude-code", "codex", "pi", "gemini-cli"} }

// NewTranscriptWriter returns a writer of a format. ok is false for another one than those
// of [WriterFormats].
//
// The path is written as [Paired] returns it: of the calls, those at its end alone may lack
// a result.
func NewTranscriptWriter(format string, s WrittenSession) (w TranscriptWriter, ok bool) {
	switch format {
	case "claude-code":
		c := NewClaudeCodeWriter(s.ID)
		c.cwd, c.branch, c.title, c.resumed = s.Cwd, s.Branch, s.Title, s.Resumed
		w = c
	case "codex":
		w = &codexWriter{s: s, now: s.Time}
	case "pi":
		w = &piWriter{s: s, now: s.Time, used: make(map[string]bool), first: make(map[turns.ID]string)}
	case "gemini-cli":
		w = &geminiCLIWriter{s: s}
	default:
		return nil, false
	}
	return &pairedWriter{to: w}, true
}

// End implements [TranscriptWriter].
func (w *ClaudeCodeWriter) End() ([][]byte, error) {
	if w.title == "" {
		return nil, nil
	}
	return encodedLines(&WrittenTurn{}, []claudeTitleLine{{"ai-title", w.title, w.session}})
}

// encodedLines returns values as JSON, one a line.
func encodedLines[T any](t *WrittenTurn, out []T) ([][]byte, error) {
	lines := make([][]byte, len(out))
	for i := range out {
		b, err := turns.EncodeJSON(&out[i])
		if err != nil {
			return nil, fmt.Errorf("write turn %s: %w", t.ID, err)
		}
		lines[i] = b
	}
	return lines, nil
}

// lineTime is a time as the lines of transcripts have it.
func lineTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// writtenResult is a result as text and pictures.
func writtenResult(p *turns.Part) (text string, pictures []turns.Part) {
	if p.Ref == nil {
		if s, ok := p.Response.Text(); ok {
			return s, nil
		}
	}
	var said []string
	for _, q := range resultParts(p) {
		if pic, ok := pictureOf(&q); ok && pic.base64 != "" {
			pictures = append(pictures, q)
			continue
		}
		said = append(said, textOf(&q))
	}
	return strings.Join(said, "\n"), pictures
}

// resultText is a result as text, its pictures described.
func resultText(p *turns.Part) string {
	text, pictures := writtenResult(p)
	for i := range pictures {
		if text != "" {
			text += "\n"
		}
		text += textOf(&pictures[i])
	}
	return text
}

// keptText is what a compaction kept, as text.
func keptText(kept []turns.Message) string {
	var b strings.Builder
	for i := range kept {
		m := &kept[i]
		for j := range m.Parts {
			p := &m.Parts[j]
			switch p.Type {
			case turns.Reasoning:
			case turns.ToolCall:
				fmt.Fprintf(&b, "\n[%s called %s with %s]\n", m.Role, p.Name, shownArguments(p))
			case turns.ToolCallResponse:
				fmt.Fprintf(&b, "\n[it returned]\n%s\n", resultText(p))
			default:
				fmt.Fprintf(&b, "\n[%s]\n%s\n", m.Role, textOf(p))
			}
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n\nWhat was said last, word for word:\n" + b.String()
}

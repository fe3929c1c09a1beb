package handover

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"nexus/turns"
	"nexus/turns/interchange"
)

// notRun is the result of a call that was open where the session was handed over. It never
// changes: [NewJoint] writes the transcript again.
const notRun = "[The conversation went on from here before this tool had returned.]"

// Transcript is a session as another agent gets it.
type Transcript struct {
	Format  string
	Session interchange.WrittenSession // with Through: an export, which is not for an agent to go on with
	Path    []interchange.WrittenTurn  // from the root to the turn where the agent goes on
}

// Write writes the transcript. Calls that are open at its end get a result that says so: no
// provider takes a call without one. An export has the path alone.
func (t *Transcript) Write(to io.Writer) error {
	s := t.Session
	s.Resumed = !t.isExport()
	w, ok := interchange.NewTranscriptWriter(t.Format, s)
	if !ok {
		return fmt.Errorf("no transcripts of format %q are written", t.Format)
	}
	out := bufio.NewWriter(to)
	put := func(lines [][]byte, err error) error {
		for _, l := range lines {
			_, _ = out.Write(append(l, '\n')) // Flush returns the error
		}
		return err
	}
	for i := range t.Path {
		x := t.Path[i]
		if x.Compaction {
			x.Kept = kept(t.Path[:i], x.FirstKept)
		}
		if err := put(w.Turn(x)); err != nil {
			return err
		}
	}
	if end := t.openCalls(); end != nil && !t.isExport() {
		if err := put(w.Turn(*end)); err != nil {
			return err
		}
	}
	if err := put(w.End()); err != nil {
		return err
	}
	return out.Flush()
}

func (t *Transcript) isExport() bool { return !t.Session.Through.IsZero() }

// kept returns the messages from a turn on.
func kept(path []interchange.WrittenTurn, first turns.ID) (out []turns.Message) {
	from := slices.IndexFunc(path, func(t interchange.WrittenTurn) bool { return t.ID == first })
	if first.IsZero() || from < 0 {
		return nil
	}
	for _, t := range path[from:] {
		out = append(out, t.Messages...)
		if t.Response != nil {
			out = append(out, *t.Response)
		}
	}
	return out
}

// openCalls returns a turn with results for the calls that are open at the end, nil if there
// are none. Its time is that of the handover, when the results were put in: readers take
// the age of a session, and of what is said next, from it.
func (t *Transcript) openCalls() *interchange.WrittenTurn {
	var open []string
	var last *interchange.WrittenTurn
	for i := range t.Path {
		x := &t.Path[i]
		for _, m := range x.Messages {
			for _, p := range m.Parts {
				if p.Type == turns.ToolCallResponse {
					open = slices.DeleteFunc(open, func(id string) bool { return id == p.ID })
				}
			}
		}
		if x.Response != nil {
			open = x.Response.Calls(nil) // an answer abandons the calls before it
		}
		last = x
	}
	if len(open) == 0 {
		return nil
	}
	end := interchange.WrittenTurn{ID: turns.DeriveID(last.ID.Time(), "handover", last.ID.String()), Time: last.Time}
	if t.Session.Time.After(end.Time) {
		end.Time = t.Session.Time
	}
	for _, id := range open {
		end.Messages = append(end.Messages, turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: id, Response: turns.RawText(notRun)}}})
	}
	return &end
}

// ErrExists says that there is a file in the transcript's place already.
var ErrExists = errors.New("there is a file in its place already")

// Save writes the transcript to a file, which must not be there. A crash leaves at most a
// file that ends in .partial.
func (t *Transcript) Save(file string) (err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*.partial")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	if err := errors.Join(t.Write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), file); err != nil { // unlike a rename, it replaces nothing
		if errors.Is(err, os.ErrExist) {
			return fmt.Errorf("%w: %s", ErrExists, file)
		}
		return err
	}
	return nil
}

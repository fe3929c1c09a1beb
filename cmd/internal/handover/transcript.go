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
	"nexus/turns/render"
	"nexus/turns/transcript"
	"nexus/turns/transcript/formats"
)

// Transcript is a session as another agent gets it.
type Transcript struct {
	Format  string
	Session transcript.WrittenSession // with Through: an export, which is not for an agent to go on with
	Path    []transcript.WrittenTurn  // from the root to the turn where the agent goes on
	Model   string                    // that the agent is to use; "": that of the last response
	Results []turns.Part              // of calls that are open at the end of the path, as they were stored behind it
}

// Write writes the transcript. Calls that are open at its end get their result if it is
// known, else one that says so: no provider takes a call without one. Signatures of a model
// that is not the agent's are left out. An export has the path alone.
//
// What it writes never changes: [NewJoint] writes the transcript again.
func (t *Transcript) Write(to io.Writer) error {
	s := t.Session
	s.Resumed = !t.isExport()
	w, ok := formats.NewWriter(t.Format, s)
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
	path := t.Path
	if s.Resumed {
		if end := t.openCalls(); end != nil {
			path = append(path[:len(path):len(path)], *end)
		}
		path = t.readable(transcript.Paired(path))
	}
	for i, x := range path {
		if x.Compaction {
			x.Kept = kept(path[:i], x.FirstKept)
		}
		if err := put(w.Turn(x)); err != nil {
			return err
		}
	}
	if err := put(w.End()); err != nil {
		return err
	}
	return out.Flush()
}

// readable returns a path without the signatures that the agent's model can't read.
func (t *Transcript) readable(path []transcript.WrittenTurn) []transcript.WrittenTurn {
	model := t.Model
	for i := len(path) - 1; i >= 0 && model == ""; i-- {
		if path[i].Model != turns.Synthetic {
			model = path[i].Model
		}
	}
	path = slices.Clone(path)
	for i := range path {
		if r := path[i].Response; r != nil {
			m := render.WithoutForeignSignatures(*r, path[i].Model, model)
			path[i].Response = &m
		}
	}
	return path
}

func (t *Transcript) isExport() bool { return !t.Session.Through.IsZero() }

// kept returns the messages from a turn on.
func kept(path []transcript.WrittenTurn, first turns.ID) (out []turns.Message) {
	from := slices.IndexFunc(path, func(t transcript.WrittenTurn) bool { return t.ID == first })
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

// OpenCalls returns the calls that are open at the end of the path.
func (t *Transcript) OpenCalls() (open []string) {
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
	}
	return open
}

// openCalls returns a turn with results for the calls that are open at the end, nil if there
// are none. Its time is that of the handover, when the results were put in: readers take
// the age of a session, and of what is said next, from it.
func (t *Transcript) openCalls() *transcript.WrittenTurn {
	open := t.OpenCalls()
	if len(open) == 0 {
		return nil
	}
	last := &t.Path[len(t.Path)-1]
	end := transcript.WrittenTurn{ID: turns.DeriveID(last.ID.Time(), "handover", last.ID.String()), Time: last.Time}
	if t.Session.Time.After(end.Time) {
		end.Time = t.Session.Time
	}
	for _, id := range open {
		i := slices.IndexFunc(t.Results, func(p turns.Part) bool { return p.Type == turns.ToolCallResponse && p.ID == id })
		if i < 0 {
			end.Messages = append(end.Messages, transcript.Results([]string{id}, transcript.NoResult))
			continue
		}
		end.Messages = append(end.Messages, turns.Message{Role: turns.Tool, Parts: []turns.Part{t.Results[i]}})
	}
	return &end
}

// ErrExists says that there is a file in the transcript's place already.
var ErrExists = errors.New("there is a file in its place already")

// Save writes the transcript to a file, which must not be there. A crash leaves at most a
// file that ends in .partial.
func (t *Transcript) Save(file string) error {
	p, err := t.Prepare(file)
	if err != nil {
		return err
	}
	defer p.Discard()
	return p.Place()
}

// Prepared is a transcript that is written, and not yet in its place.
type Prepared struct{ partial, file string }

// Prepare writes the transcript next to a file, which must not be there. The caller calls
// Place and Discard of what it returns.
func (t *Transcript) Prepare(file string) (p *Prepared, err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(file); err == nil {
		return nil, fmt.Errorf("%w: %s", ErrExists, file)
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*.partial")
	if err != nil {
		return nil, err
	}
	p = &Prepared{f.Name(), file}
	if err := errors.Join(t.Write(f), f.Sync(), f.Close()); err != nil {
		p.Discard()
		return nil, err
	}
	return p, nil
}

// Place puts the transcript into its place.
func (p *Prepared) Place() error {
	if err := os.Link(p.partial, p.file); err != nil { // unlike a rename, it replaces nothing
		if errors.Is(err, os.ErrExist) {
			return fmt.Errorf("%w: %s", ErrExists, p.file)
		}
		return err
	}
	return nil
}

// Discard removes what Prepare wrote, unless Place put it into its place.
func (p *Prepared) Discard() { _ = os.Remove(p.partial) }

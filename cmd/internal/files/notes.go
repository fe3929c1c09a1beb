package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"nexus/cmd/internal/engine/reader"
	"nexus/ledger/api"
	"nexus/turns"
)

// note is an agent with files of its memory. What was written of them is in a state of its
// own, beside them: in one state for all agents each file would cost as much as all files
// together.
type note struct {
	Tenant string `json:"tenant"`
	Agent  string `json:"agent"`
	// notesState is where an earlier build had it, until the first write.
	notesState

	failed bool // the last try to write them did
}

// notesState says what the files of an agent's memory have.
type notesState struct {
	Position uint64              `json:"position,omitzero"` // of the newest event; 0: look into the state
	Written  map[string]contents `json:"files,omitempty"`   // by name
}

const notesStateName = ".nexus-notes.json"

func (n *note) stateName() string {
	return path.Join(agentFolder(n.Tenant, n.Agent), notesStateName)
}

// read reads the state of an agent's files. One that can't be read is that of an agent
// without files.
func (x *Exporter) readNotes(n *note) error {
	var s notesState
	err := x.root.readFile(n.stateName(), func(r io.Reader) error {
		b, err := io.ReadAll(io.LimitReader(r, maxState))
		if err != nil {
			return err
		}
		if err := turns.DecodeJSON(b, &s); err != nil {
			x.Logger.Warn("files: the state of an agent's memory is damaged; files that differ from what the agent remembers are left as they are", "tenant", n.Tenant, "agent", n.Agent, "err", err)
			s = notesState{}
		}
		return nil
	})
	switch {
	case err == nil:
		n.notesState = s
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if n.Written == nil {
		n.Written = make(map[string]contents)
	}
	return nil
}

func (x *Exporter) saveNotes(n *note) error {
	return x.root.replace(n.stateName(), func(w io.Writer) error {
		b, err := turns.EncodeJSON(n.notesState)
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	}, nil)
}

// failedNotes returns the number of agents whose memory files could not be written.
func (x *Exporter) failedNotes() (n int) {
	for _, k := range x.state.Notes {
		if k.failed {
			n++
		}
	}
	return n
}

// contents are the hashes of what a file was given last, and of what it had before: a
// crash leaves one of them.
type contents struct {
	Now    turns.Hash `json:"now"`
	Before turns.Hash `json:"before,omitzero"`
}

// remembers notes that an agent has files of its memory.
func (x *Exporter) remembers(tenant, agent string) {
	if slices.ContainsFunc(x.state.Notes, func(n *note) bool { return n.Tenant == tenant && n.Agent == agent }) {
		return
	}
	x.state.Notes = append(x.state.Notes, &note{Tenant: tenant, Agent: agent})
}

// notes writes the memory files of the agents whose memories have changed: a file for
// each day, and MEMORY.md. A file that a person changed is not written any more, until
// it is removed. retry says to try again what failed before.
func (x *Exporter) notes(ctx context.Context, retry bool) (written int) {
	for _, n := range x.state.Notes {
		if n.failed && !retry {
			continue
		}
		at, err := x.Source.NotesAt(n.Tenant, n.Agent)
		if err == nil && at > n.Position {
			var k int
			k, err = x.bringNotes(ctx, n, at)
			written += k
		}
		if ctx.Err() != nil {
			return written
		}
		if err != nil && !n.failed {
			x.Logger.Error("files: those of an agent's memory can't be written; they are tried again", "tenant", n.Tenant, "agent", n.Agent, "err", err)
		}
		n.failed = err != nil
	}
	return written
}

// bringNotes writes what the state of an agent's files lacks, up to position at. What was
// written is in memory only meanwhile.
func (x *Exporter) bringNotes(ctx context.Context, n *note, at uint64) (written int, err error) {
	if err := x.readNotes(n); err != nil {
		return 0, err
	}
	if at > n.Position {
		if written, err = x.writeNotes(ctx, n); err != nil {
			return written, err
		}
		was := n.Position
		n.Position = at
		if err := x.saveNotes(n); err != nil {
			n.Position = was
			return written, err
		}
	}
	n.Written = nil
	return written, nil
}

func (x *Exporter) writeNotes(ctx context.Context, n *note) (written int, err error) {
	all, err := x.Source.Notes(ctx, n.Tenant, n.Agent)
	if err != nil {
		return 0, err
	}
	dir := agentFolder(n.Tenant, n.Agent)
	var failed error // a file that can't be written stops no other
	write := func(name string, content []byte) {
		ok, err := x.note(n, path.Join(dir, name), content)
		written, failed = written+ok, errors.Join(failed, err)
	}
	switch name := path.Join(dir, "MEMORY.md"); {
	case all.Document != nil:
		write("MEMORY.md", []byte(all.Document.Text))
	case all.Erased && n.Written[name] != contents{}:
		write("MEMORY.md", nil)
	}
	days := make(map[string][]api.Memory)
	var order []string
	for _, m := range slices.Backward(all.Daily) {
		day := local(&m).Format(time.DateOnly)
		if days[day] == nil {
			order = append(order, day)
		}
		days[day] = append(days[day], m)
	}
	for name := range n.Written { // days whose last memory was withdrawn
		day, ok := strings.CutSuffix(path.Base(name), ".md")
		if ok && path.Base(path.Dir(name)) == "memory" && days[day] == nil && !all.Cut {
			order = append(order, day)
		}
	}
	for i, day := range order {
		if all.Cut && i == 0 {
			continue // a part of it is older than what was read
		}
		write(path.Join("memory", day+".md"), dayFile(days[day]))
	}
	return written, failed
}

// plainText passes on what is written to it without a mark of the byte order, and with line
// ends of one character: as the ledger takes a person's file in.
type plainText struct {
	to    hash.Hash
	begun bool
	cr    bool // the last byte was a carriage return, which is not passed on yet
}

func (p *plainText) Write(b []byte) (int, error) {
	n := len(b)
	if !p.begun && n > 0 { // readers give the first three bytes at once
		p.begun = true
		b = bytes.TrimPrefix(b, []byte("\uFEFF"))
	}
	for len(b) > 0 {
		if p.cr && b[0] != '\n' {
			p.to.Write([]byte{'\r'})
		}
		p.cr = false
		i := bytes.IndexByte(b, '\r')
		if i < 0 {
			p.to.Write(b)
			break
		}
		p.to.Write(b[:i])
		b, p.cr = b[i+1:], true
	}
	return n, nil
}

// sum returns the hash of all that was written.
func (p *plainText) sum() []byte {
	if p.cr {
		p.to.Write([]byte{'\r'})
		p.cr = false
	}
	return p.to.Sum(nil)
}

// maxNote is more bytes than any of these files has, which are a thousand memories at most. A
// person's file may have any size.
const maxNote = 1 << 30

// note writes a file if its content changed, and nobody else changed it.
func (x *Exporter) note(n *note, name string, content []byte) (written int, err error) {
	h, plain := sha256.New(), &plainText{to: sha256.New()}
	size := int64(0)
	err = x.root.readFile(name, func(r io.Reader) (err error) {
		size, err = io.Copy(io.MultiWriter(h, plain), io.LimitReader(r, maxNote+1))
		return err
	})
	there := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	has := turns.Hash(h.Sum(nil))
	if there && size <= maxNote && turns.Hash(plain.sum()) == sha256.Sum256(content) { // also one that a person's editor saved, and that was taken into the ledger
		n.Written[name] = contents{Now: has}
		return 0, nil
	}
	if k := n.Written[name]; there && (size > maxNote || has != k.Now && has != k.Before) {
		x.Logger.Warn("files: a person changed this file, it is left as it is; remove it to have it written again (ledgerctl memory document --replace takes a changed MEMORY.md into the ledger)", "file", name)
		return 0, nil
	}
	n.Written[name] = contents{Now: sha256.Sum256(content), Before: has}
	if err := x.saveNotes(n); err != nil {
		return 0, err
	}
	if err := x.root.replace(name, func(w io.Writer) error { _, err := w.Write(content); return err }, nil); err != nil {
		return 0, err
	}
	x.written.Inc()
	return 1, nil
}

// dayFile returns the file of a day, from its memories in the order of their time.
func dayFile(ms []api.Memory) []byte {
	slices.SortStableFunc(ms, func(a, b api.Memory) int { return local(&a).Compare(local(&b)) })
	var b strings.Builder
	last := ""
	for _, m := range ms {
		heading := "### Saved (" + local(&m).Format("15:04") + ")"
		if m.Compaction != nil || m.Extracted {
			heading = "### Extracted from context compaction (" + local(&m).Format("15:04") + ")"
		}
		if heading != last {
			if last != "" {
				b.WriteString("\n")
			}
			fmt.Fprintf(&b, "%s\n\n", heading)
			last = heading
		}
		b.WriteString("- " + markdownText(m.Text) + "\n")
	}
	return []byte(b.String())
}

// local returns the time of a memory in its zone, else in UTC.
func local(m *api.Memory) time.Time {
	t := time.Time(m.Time).UTC()
	if zone, err := reader.Zone(m.Zone); err == nil && m.Zone != "" {
		t = t.In(zone)
	}
	return t
}

// markdownText returns a text as one item of a list. No line of it can look like a
// heading, an item, a fence or a tag.
func markdownText(s string) string {
	s = strings.NewReplacer("\\", "\\\\", "`", "\\`", "<", "\\<", "\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n", "\u0085", "\n").Replace(s)
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for i, l := range lines {
		l = strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return ' '
			}
			return r
		}, strings.TrimSpace(l))
		if l != "" && strings.ContainsRune("#-+*=>|~_", rune(l[0])) {
			l = "\\" + l
		}
		if i > 0 && l != "" {
			l = "  " + l
		}
		lines[i] = l
	}
	return strings.Join(lines, "\n")
}

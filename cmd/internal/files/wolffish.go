package files

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/dustin/go-humanize"

	"nexus/cmd/internal/engine/archive"
	"nexus/turns"
	"nexus/turns/tokens"
)

const (
	// previewChars is how much of an output the task file shows.
	previewChars = 2000
	// maxTask bounds a task file, in bytes. The oldest steps leave it first; the detail
	// log has all.
	maxTask = 96 << 10
)

// step is the result of a tool call.
type step struct {
	number  int
	tool    string
	turn    turns.ID
	preview string
}

// wolffish writes the task file of a session, with a preview of each output of a tool,
// and its detail log, with all of it.
func (x *Exporter) wolffish(ctx context.Context, s *archive.Session) (written int, err error) {
	dir := path.Join("brain", "motor", "tasks")
	if s.Tenant != "default" {
		dir = path.Join("tenants", s.Tenant, dir)
	}
	base := path.Join(dir, "TASK-"+s.ID.String())
	u, err := x.unit(path.Join(dir, ".TASK-"+s.ID.String()+".json"))
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil || s.Final() {
			x.drop(u) // an ended session is not written any more
		}
	}()
	at := u.state.Sessions[s.ID]
	first := at.Next
	var steps []step
	var log []byte
	flush := func() error {
		err := u.append(base+"-detail.log", log) // no state counts it yet, so a crash cuts it off
		log = log[:0]
		return err
	}
	err = x.steps(ctx, s, &at, func(st step, output string) error {
		st.preview = preview(output)
		steps = append(steps, st)
		log = fmt.Appendf(log, "### Step %d: %s (%s chars, turn %s)\n%s\n\n", st.number, st.tool, thousands(int(tokens.UTF16Len(output))), st.turn, output)
		if len(log) > flushBytes {
			return flush()
		}
		return nil
	})
	if err != nil || at.Next == first {
		return 0, err
	}
	if err := flush(); err != nil {
		return 0, err
	}
	if len(steps) > 0 || first == 0 {
		task, err := u.content(base + ".md")
		if err != nil {
			return 0, err
		}
		if err := u.prepare(base+".md", taskFile(s.ID, at.Request, string(task), steps)); err != nil {
			return 0, err
		}
		written = 2
		x.written.Inc()
	}
	u.state.Sessions[s.ID] = at
	return written, u.commit()
}

// steps calls f with each result of a tool call that is not written yet, and moves at
// behind them.
func (x *Exporter) steps(ctx context.Context, s *archive.Session, at *sessionWritten, f func(st step, output string) error) error {
	calls := make(map[string]string)
	for id, name := range at.Calls {
		calls[id] = name
	}
	for t, err := range x.Source.Turns(ctx, s, at.Next) {
		if err != nil {
			return err
		}
		at.Next = t.Index + 1
		for _, m := range t.Messages {
			for _, p := range m.Parts {
				if at.Request == "" && m.Role == turns.User && p.Type == turns.Text {
					at.Request = firstLine(p.Content, 200)
				}
				if p.Type != turns.ToolCallResponse {
					continue
				}
				at.Steps++
				tool := calls[p.ID]
				if delete(calls, p.ID); tool == "" {
					tool = "result"
				}
				if err := f(step{number: at.Steps, tool: firstLine(tool, 100), turn: t.ID}, outputOf(&p)); err != nil {
					return err
				}
			}
		}
		if t.Response != nil {
			for _, p := range t.Response.Parts {
				if p.Type == turns.ToolCall {
					calls[p.ID] = p.Name
				}
			}
		}
	}
	at.Calls = calls
	return nil
}

// outputOf returns the text of a result, or its JSON.
func outputOf(p *turns.Part) string {
	if p.Ref != nil {
		return fmt.Sprintf("%s\n[%s bytes in all, in the ledger]", p.Ref.Preview, thousands(int(p.Ref.Size)))
	}
	if s, ok := p.Response.Text(); ok {
		return s
	}
	return string(p.Response)
}

// taskFile returns a task file: what it has, with the new steps behind it.
func taskFile(session turns.ID, request, old string, steps []step) []byte {
	head := fmt.Sprintf("# Task %s\n\n%s\n", session, request)
	var all []string
	old = strings.TrimPrefix(old, head) // its request may look like a step
	if i := strings.Index(old, "\n### Step "); i >= 0 {
		for _, s := range strings.Split(old[i+1:], "\n### Step ") {
			all = append(all, "### Step "+strings.TrimPrefix(strings.TrimSuffix(s, "\n"), "### Step ")+"\n")
		}
	}
	for _, st := range steps {
		all = append(all, fmt.Sprintf("### Step %d: %s\n- **Output:** %s\n", st.number, st.tool, st.preview))
	}
	size := len(head)
	from := len(all)
	for from > 0 && size+len(all[from-1])+1 <= maxTask {
		from--
		size += len(all[from]) + 1
	}
	var b strings.Builder
	b.WriteString(head)
	if from > 0 {
		b.WriteString("\nThe steps before these are in the detail log.\n")
	}
	for _, s := range all[from:] {
		b.WriteString("\n" + s)
	}
	return []byte(b.String())
}

// preview returns the beginning of an output on one line, with its length in UTF-16 units. So
// no line of an output can look like a step.
func preview(output string) string {
	n := int(tokens.UTF16Len(output))
	shown, rest := output, ""
	if n > previewChars {
		shown = tokens.HeadUTF16(output, previewChars)
		rest = fmt.Sprintf("... [%s chars omitted]", thousands(n-int(tokens.UTF16Len(shown))))
	}
	return fmt.Sprintf("(%s chars) %s%s", thousands(n), oneLine(shown), rest)
}

// oneLine writes line ends as \n. Other control characters become spaces.
func oneLine(s string) string {
	s = strings.NewReplacer("\r\n", `\n`, "\n", `\n`, "\r", `\n`, "\u2028", `\n`, "\u2029", `\n`, "\u0085", `\n`).Replace(s)
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

func firstLine(s string, n int) string {
	if r := []rune(oneLine(strings.TrimSpace(s))); len(r) > n {
		return string(r[:n]) + "..."
	} else {
		return string(r)
	}
}

// thousands writes a number with commas, as the design does.
func thousands(n int) string { return humanize.Comma(int64(n)) }

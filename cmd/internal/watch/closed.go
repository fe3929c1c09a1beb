package watch

import (
	"bytes"
	"cmp"
	"context"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/turns"
	"nexus/turns/transcript"
)

// closedWithin is how long ago a transcript was written to at most when its folder is what
// the last turn left. Later others may have changed it.
const closedWithin = 10 * time.Second

// Closed is a moment between two turns: the transcript has the results of all tool calls.
type Closed struct {
	Folder string      // that the agent works in
	Same   func() bool // whether nobody has written to the transcript since
}

// Keep keeps what was seen at a [Closed] as that after a turn, which the ledger has.
type Keep func(ctx context.Context, at turns.Ref)

// closed calls the configured function if the end of a file is between two turns. The turn
// before it may not be complete yet: a further call of its response could follow.
func (w *Watcher) closed(ctx context.Context, f *file, info fs.FileInfo) {
	l := f.live
	if w.cfg.Closed == nil || l.intake.Own() || l.calls.folder == "" || l.offset != info.Size() || len(l.calls.open) > 0 || time.Since(info.ModTime()) > w.cfg.ClosedWithin {
		return
	}
	keep := w.cfg.Closed(ctx, Closed{Folder: l.calls.folder, Same: func() bool {
		now, err := os.Stat(f.path)
		return err == nil && now.Size() == info.Size() && now.ModTime().Equal(info.ModTime())
	}})
	if keep == nil {
		return
	}
	if len(l.calls.unstored) > 0 {
		f.keep, f.keepOf = keep, l.calls.last
		return
	}
	f.keep = nil
	if last := l.intake.Last(); !last.Turn.IsZero() {
		keep(ctx, last)
	}
}

// noteStored keeps what was seen after the turn of a step, now that the ledger has it.
func (f *file) noteStored(ctx context.Context, l *live, s transcript.Step) {
	if s.Append == nil || s.Append.Response == nil {
		return
	}
	for _, id := range s.Append.Response.Calls(nil) {
		delete(l.calls.unstored, id)
		if f.keep != nil && id == f.keepOf {
			if last := l.intake.Last(); !last.Turn.IsZero() { // zero: its session was erased
				f.keep(ctx, last)
			}
			f.keep = nil
		}
	}
}

// calls tells in which folder an agent works, and which tool calls have no result yet. Lines are written to it.
// A call that never gets a result stays open until the agent answers something else.
type calls struct {
	line    []byte // its beginning
	folder  string // that the agent works in
	message string // the response that the open calls are of
	last    string // the last call

	open     map[string]bool // calls without a result
	unstored map[string]bool // calls whose turn no step has given yet
}

func (c *calls) add(id string) {
	c.open[id], c.unstored[id], c.last = true, true, id
}

func (c *calls) Write(p []byte) (int, error) {
	n := len(p)
	for {
		line, rest, ok := bytes.Cut(p, []byte("\n"))
		c.line = append(c.line, line...)
		if !ok {
			return n, nil
		}
		c.take(c.line)
		c.line, p = c.line[:0], rest
	}
}

// callLine has the members of all formats that name calls and results.
type callLine struct {
	Sidechain bool   `json:"isSidechain"`
	Cwd       string `json:"cwd"`
	Message   struct {
		ID      string    `json:"id"`
		Role    string    `json:"role"`
		CallID  string    `json:"toolCallId"` // of pi
		Content turns.Raw `json:"content"`
	} `json:"message"`
	Payload struct { // of Codex
		Type   string `json:"type"`
		Role   string `json:"role"`
		CallID string `json:"call_id"`
		Cwd    string `json:"cwd"`
	} `json:"payload"`
}

func (c *calls) take(line []byte) {
	var x callLine
	if json.Unmarshal(line, &x) != nil {
		return // another kind of line
	}
	if c.open == nil {
		c.open, c.unstored = make(map[string]bool), make(map[string]bool)
	}
	c.folder = cmp.Or(x.Cwd, x.Payload.Cwd, c.folder)
	switch p := x.Payload; {
	case p.Type == "message" && p.Role == "user":
		clear(c.open)
	case strings.HasSuffix(p.Type, "_call_output"):
		delete(c.open, p.CallID)
	case strings.HasSuffix(p.Type, "_call") && p.CallID != "":
		c.add(p.CallID)
	}
	switch m := x.Message; m.Role {
	case "assistant":
		if !x.Sidechain && (m.ID == "" || m.ID != c.message) {
			clear(c.open)
			c.message = m.ID
		}
	case "toolResult":
		delete(c.open, m.CallID)
	}
	var parts []struct {
		Type string `json:"type"`
		ID   string `json:"id"`
		Of   string `json:"tool_use_id"`
	}
	if json.Unmarshal(x.Message.Content, &parts) != nil {
		return // text
	}
	for _, p := range parts {
		switch p.Type {
		case "tool_use", "toolCall":
			c.add(p.ID)
		case "tool_result":
			delete(c.open, p.Of)
		}
	}
}

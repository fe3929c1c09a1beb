package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/transcripts"
	"nexus/cmd/internal/transcripts/steps"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/cmd/internal/transcripts/written"
	"nexus/cmd/ledgerctl/internal/export"
	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/formats"
)

// exported returns the export of a session, with turns behind it that another program said.
func exported(ctx context.Context, t *testing.T, c *client.Client, session turns.ID, format string, added ...transcript.WrittenTurn) string {
	t.Helper()
	s, err := c.Session(ctx, session)
	if err != nil {
		t.Fatal(err)
	}
	if len(added) == 0 {
		var out bytes.Buffer
		if err := export.Transcript(ctx, c, s, format, &out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	head := written.Session(s)
	head.Through = *s.Head
	w, _ := formats.NewWriter(format, head)
	var out strings.Builder
	put := func(lines [][]byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			out.Write(append(l, '\n'))
		}
	}
	for x, err := range c.Turns(ctx, s.ID, api.ListTurns{Full: true}) {
		if err != nil {
			t.Fatal(err)
		}
		put(w.Turn(must(written.Turn(ctx, c, s.ID, &x))(t)))
	}
	for _, x := range added {
		put(w.Turn(x))
	}
	put(w.End())
	return out.String()
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// An export is known again, also when its session has gone on, or was rewound, since. What
// another program added to it goes onto a fork at its last turn, once.
func TestExportsAreKnownAgain(t *testing.T) {
	ctx := t.Context()
	e := newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard})
	c, stop, err := local.Start(ctx, e.Terminal, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	count := func() (n int) {
		for _, err := range c.Sessions(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	var opened api.CreateSession
	opened.Meta = turns.Raw(`{"cwd":"/w"}`)
	say := func(text string) turns.Message {
		return turns.Message{Role: turns.Assistant, Parts: []turns.Part{turns.TextPart(text)}}
	}
	for _, format := range []string{"codex", "pi", "gemini-cli"} {
		for _, open := range []bool{false, true} { // a call is open at its end
			name := format
			if open {
				name += ", an open call"
			}
			t.Run(name, func(t *testing.T) {
				s := must(c.Create(ctx, opened))(t)
				add := func(m turns.Message, response turns.Message) turns.ID {
					t.Helper()
					return must(c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{m}, Response: &response, Model: "m", Usage: &turns.Usage{InputTokens: 9, OutputTokens: 2}}))(t).ID
				}
				call := say("I look")
				call.Parts = append(call.Parts, turns.Part{Type: turns.ToolCall, ID: "c1", Name: "ls", Arguments: turns.Raw(`{}`)})
				result := turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "c1", Response: turns.RawText("ok")}}}
				first := add(turns.TextMessage(turns.User, "one"), say("first"))
				tip := add(turns.TextMessage(turns.User, "two"), call)
				if !open {
					tip = add(result, say("second"))
				}
				file := filepath.Join(t.TempDir(), "transcript")
				bring := func(text string) *tally.Report {
					t.Helper()
					if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
					im := transcripts.Importer{Client: c, Format: "auto", Final: true}
					return must(im.File(ctx, file))(t)
				}
				whole := exported(ctx, t, c, s.ID, format)
				before := count()
				unchanged := func(when string) {
					t.Helper()
					if r := bring(whole); r.Stored != 0 || count() != before || len(r.Losses) == 0 || r.Sessions[0] != s.ID {
						t.Errorf("%s: %+v, %d sessions, not %d", when, r, count(), before)
					}
				}
				unchanged("as it is")
				more := transcript.WrittenTurn{ID: api.NewID(), Time: time.UnixMilli(1775000000000), Model: "n", Messages: []turns.Message{turns.TextMessage(turns.User, "and on")}, Response: &turns.Message{Role: turns.Assistant, Parts: []turns.Part{turns.TextPart("on")}}}
				if open {
					more.Messages = []turns.Message{result, more.Messages[0]}
				}
				last := more
				last.ID, last.Messages = api.NewID(), []turns.Message{turns.TextMessage(turns.User, "and further")}
				grown, further := exported(ctx, t, c, s.ID, format, more), exported(ctx, t, c, s.ID, format, more, last)
				if open {
					add(turns.Message{Role: turns.Tool, Parts: result.Parts}, say("second"))
				}
				add(turns.TextMessage(turns.User, "three"), say("third"))
				unchanged("the session went on")
				head := must(c.Session(ctx, s.ID))(t).Head
				must(c.Move(ctx, s.ID, api.MoveSession{To: &first}))(t)
				unchanged("the session was rewound")
				must(c.Move(ctx, s.ID, api.MoveSession{To: head}))(t)

				r := bring(grown)
				if count() != before+1 || r.Stored != 1 || len(r.Sessions) != 2 {
					t.Fatalf("what was added: %+v, %d sessions", r, count()-before)
				}
				fork := must(c.Session(ctx, r.Sessions[1]))(t)
				if fork.ForkedFrom == nil || fork.ForkedFrom.Turn != tip || fork.ForkedFrom.Session != s.ID {
					t.Errorf("the fork: %+v", fork.ForkedFrom)
				}
				if r := bring(grown); r.Stored != 0 {
					t.Errorf("a second time: %+v", r)
				}
				if r := bring(further); r.Stored != 1 || count() != before+1 {
					t.Errorf("what was added later: %+v", r)
				}
				if parts := pathParts(ctx, t, c, fork.ID); len(parts) == 0 || !slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(p, "and further") }) {
					t.Errorf("%q", parts)
				}
				again := steps.Intake{Writer: &steps.Writer{Client: c}, Report: &tally.Report{Format: format}}
				f := must(transcriptfile.Detect([]byte(further)))(t)
				n := 0
				for st, err := range f.Open(strings.NewReader(further), transcript.Options{Final: true}).Steps() {
					if err == nil && n < 3 {
						err = again.Resume(ctx, st)
					} else if err == nil {
						err = again.Step(ctx, st)
					}
					if n++; err != nil {
						t.Fatal(err)
					}
				}
				if again.Report.Stored != 0 || again.Report.Existing == 0 {
					t.Errorf("a reading that goes on: %+v", again.Report)
				}
				if now := must(c.Session(ctx, s.ID))(t).Head; *now != *head {
					t.Error("the session changed")
				}
			})
		}
	}
}

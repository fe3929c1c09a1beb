package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"

	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/cmd/internal/watch"
	"nexus/cmd/ledgerctl/internal/audit"
	"nexus/cmd/ledgerctl/internal/comparison"
	"nexus/cmd/ledgerctl/internal/contextview"
	"nexus/cmd/ledgerctl/internal/follow"
	"nexus/cmd/ledgerctl/internal/importreport"
	"nexus/cmd/ledgerctl/internal/sessionview"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/cmd/ledgerctl/internal/turnview"
	"nexus/compactor/compare"
	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

func anID(n byte) (id turns.ID) {
	for i := range id {
		id[i] = n + byte(i)*17
	}
	id[0] = 1
	return id
}

// Nothing that is shown as a table wraps in a terminal of 80 or 120 cells, and what
// a row is known by stays.
func TestFitsTheTerminal(t *testing.T) {
	words := strings.Repeat("why does the build fail on 日本語 ", 8)
	said := api.Time(time.Date(2025, 4, 29, 23, 50, 0, 0, time.UTC))
	var sessions []api.Session
	for i := range byte(3) {
		sessions = append(sessions, api.Session{ID: anID(i), Agent: "main", State: "open", Turns: 1234, Compactions: 12, Tokens: 1_234_567,
			Pressure: 0.99, HeadTime: &said, Title: words, Meta: turns.Raw(`{"source":"claude-code"}`)})
	}
	sessions[1].Label, sessions[2].State, sessions[2].Agent = strings.Repeat("label", 8), "closed", "a-second-agent"
	cx := &api.Context{Tokens: 163_136, Overhead: 12_345, Budget: 165_232, Fingerprint: "sha256:" + strings.Repeat("a", 64), Recipe: turns.Raw(`{"counter":"wolffish-1"}`),
		Preamble: []api.PreamblePart{{Type: "system", Name: words, Tokens: 12}}}
	for i := range byte(40) {
		cx.Sources = append(cx.Sources, api.Source{Turn: anID(i), Half: "messages", Status: "verbatim", Tokens: 123_456, Why: words})
	}
	bar := api.Context{Tokens: 143_136, Overhead: 12_345, Budget: 165_232, WindowGuess: true}
	tree := &api.Tree{Sessions: []api.TreeSession{{ID: anID(0), Label: strings.Repeat("label", 12), State: "open", Turns: 12_345, Depth: 12_345, BranchCount: 70,
		Branches: []api.Branch{{Tip: anID(9), From: 1, To: 12_345, Compactions: []api.PathTurn{{ID: anID(5), Depth: 12_344}}, CompactionCount: 9}, {Tip: anID(7), From: 12, To: 345}}}}}
	for i := range byte(9) {
		f := api.TreeSession{ID: anID(i + 1), State: "closed", ForkedFrom: &api.ForkedFrom{Session: anID(i), Mode: "as_seen"}, ForkDepth: 123}
		tree.Sessions = append(tree.Sessions, f)
	}
	x := &comparison.Comparison{Window: 200_000, Prices: compare.DefaultPrice, Sums: make([]compare.Sum, 3), Costs: make([]comparison.ComparedCost, 3)}
	for i, name := range []string{"balanced", "nexus", `balanced{"keep_tokens":8000}`} {
		x.Policies = append(x.Policies, policy.Policy{Name: name})
		x.Sums[i] = compare.Sum{Calls: 12_345, Compactions: 123, Elisions: 1234, Rewritten: 123_456_789, Usage: compare.Usage{Read: 123_456_789_012}}
	}
	rep := &tally.Report{File: strings.Repeat("a-folder/", 12) + "session.jsonl", Format: "claude-code", Sessions: []turns.ID{anID(1)}, Turns: 1234, Forks: 12, Compactions: 3, Stored: 1300, Existing: 12_000,
		Losses: []transcript.Loss{{Kind: "repaired", Reason: words}, {Kind: "skipped", Reason: "bookkeeping lines: progress", Count: 1234}, {Kind: "skipped", Reason: "bookkeeping lines: mode", Count: 2}}}

	at := api.Time(time.Unix(0, 0))
	if l := turnview.Line(&api.Turn{Time: &at, Messages: []turns.Message{turns.TextMessage(turns.User, "why does the build fail")}}, 40); !strings.Contains(l, "why does") || lipgloss.Width(l) > 40 {
		t.Errorf("a turn in 40 cells: %q", l)
	}
	for _, width := range []int{80, 120} {
		var out bytes.Buffer
		e := newEnv(&terminal.Terminal{Out: &out, Err: &out, Width: width})
		for what, c := range map[string]struct {
			show func()
			want []string
		}{
			"sessions": {func() { out.WriteString(sessionview.Table(e.Terminal, sessions)) }, []string{prose.Short(sessions[0].ID), "2025-04-29", "why does the build", "labellabel", "closed", "a-second-agent"}},
			"context":  {func() { printContext(e, cx, true) }, []string{prose.Short(cx.Sources[39].Turn), "175,481 of 165,232", "counted by wolffish-1", "why does the build fail"}},
			"log": {func() {
				m := turns.TextMessage(turns.Assistant, words)
				turn := api.Turn{ID: anID(1), Depth: 12_345, TokenCount: 1_234_567, Messages: []turns.Message{turns.TextMessage(turns.User, strings.Repeat("日本語", 50))}, Response: &m}
				fmt.Fprintln(&out, turnview.Line(&turn, width))
			}, []string{prose.Short(anID(1)), "1,234,567", "日本語"}},
			"folded": {func() { printContext(e, cx, false) }, []string{"24 more"}},
			"tree":   {func() { sessionview.PrintTree(e.Terminal, tree, anID(0)) }, []string{prose.Short(anID(9)), prose.Short(anID(5)), "8 compactions more", "68 more", "◀"}},
			"bar":    {func() { printContext(e, &bar, false) }, []string{"155,481 of 165,232 tokens (estimated) window guessed, 12,345 of them"}},
			"hint":   {func() { fmt.Fprintln(&out, hintText(width, words+"\n  a line\n  another")) }, []string{"why does the build", "a line another"}},
			"verify": {func() {
				id := anID(3)
				audit.Print(e.Terminal, &api.Verified{Problems: []api.Problem{{Code: api.Corrupt, Seq: 12_345, Session: id, Event: id,
					Message: "open the body of event " + id.String() + ": content can't be read: no key " + id.String() + "; " + words}}, Count: 1})
				if n := strings.Count(out.String(), id.String()); n != 1 {
					t.Errorf("the id is named whole %d times:\n%s", n, out.String())
				}
			}, []string{"at position 12345, session " + anID(3).String(), "no key " + prose.Short(anID(3))}},
			"compare": {func() { out.WriteString(x.Table(e.Terminal)) }, []string{"123,456,789,012", "relative", "earlier", "ledgerctl help compare"}},
			"import": {func() {
				a := importreport.Report{Terminal: e.Terminal, Files: 2}
				if err := a.Add(rep, false); err != nil {
					t.Error(err)
				}
				a.Unrecognized = []string{words, words, words, words}
				a.End()
			}, []string{"session.jsonl", "1,300 events stored", "1,236", "bookkeeping lines: progress, mode", "4 files are no transcripts"}},
			"session": {func() {
				if err := sessionview.Print(e.Terminal, &sessions[1]); err != nil {
					t.Error(err)
				}
			}, []string{"title", "claude-code"}},
		} {
			t.Run(fmt.Sprint(what, " ", width), func(t *testing.T) {
				out.Reset()
				c.show()
				for line := range strings.Lines(out.String()) {
					if n := lipgloss.Width(strings.TrimRight(line, "\n")); n > width && !strings.Contains(line, "sha256:") && !strings.Contains(line, "label") || n > width && what == "sessions" {
						t.Errorf("%d cells: %s", n, line)
					}
				}
				for _, w := range c.want {
					if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), strings.Join(strings.Fields(w), " ")) {
						t.Errorf("%q is not in:\n%s", w, out.String())
					}
				}
			})
		}
	}
}

// The state of a watch fits a narrow terminal.
func TestWatchStatusFitsANarrowTerminal(t *testing.T) {
	for _, width := range []int{40, 80} {
		var out bytes.Buffer
		e := newEnv(&terminal.Terminal{Out: &out, Err: io.Discard, Width: width})
		follow.PrintStatus(e.Env, &watch.Status{Sources: []watch.SourceStatus{{Agent: "claude", Files: 1234, Behind: 12, Failed: 1, Delivered: time.Now().Add(-46 * time.Second), Folder: "/home/me/.claude/projects"}, {Agent: "codex", Missing: true, Folder: "/home/me/.codex/archived_sessions"}}})
		for line := range strings.Lines(out.String()) {
			if n := lipgloss.Width(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("%d cells: %s", n, line)
			}
		}
		if !strings.Contains(out.String(), "no such folder") || !strings.Contains(out.String(), "behind") {
			t.Errorf("%s", out.String())
		}
	}
}

// Where the provider's count and the rows are of two sources, the output says which is
// which, and what the rows total.
func TestContextSaysWhatIsBilledAndWhatIsEstimated(t *testing.T) {
	var out bytes.Buffer
	cx := &api.Context{Tokens: 900, Overhead: 100, Reported: 1500, Budget: 3000, Recipe: turns.Raw(`{"counter":"wolffish-1"}`),
		Sources: []api.Source{{Turn: anID(1), Half: "messages", Status: "verbatim", Tokens: 900}}}
	printContext(newEnv(&terminal.Terminal{Out: &out}), cx, true)
	for _, want := range []string{"1,500 of 3,000 tokens (billed)", "estimates of wolffish-1: 900 messages + 100 system and tools = 1,000 tokens"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "1,500 of 3,000 tokens (billed), 100 of them") {
		t.Errorf("an estimate is a part of the provider's count:\n%s", out.String())
	}
}

func TestPolicyCounter(t *testing.T) {
	for _, c := range []struct{ name, set, want string }{
		{"balanced", "", contextview.DefaultCounter}, {"wolffish", "", "wolffish-1"}, {"nexus", `{"counter":"gsv-1"}`, "gsv-1"}, {"of another build", "", contextview.DefaultCounter},
	} {
		if got := contextview.PolicyCounter(c.name, turns.Raw(c.set)); got != c.want {
			t.Errorf("%s%s counts by %q, want %q", c.name, c.set, got, c.want)
		}
	}
}

// printContext prints a context as that of a session's next call.
func printContext(e *env, cx *api.Context, all bool) {
	contextview.PrintFullness(e.Terminal, cx)
	if err := contextview.PrintPieces(e.Terminal, cx, nil, contextview.Options{Explain: all}); err != nil {
		fmt.Fprintln(e.Out, err)
	}
}

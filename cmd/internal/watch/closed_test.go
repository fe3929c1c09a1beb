package watch

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nexus/ledger/api"
	"nexus/turns"
)

// Each format's calls and results, with the calls that are open after each line.
func TestCallsAreOpenUntilTheirResults(t *testing.T) {
	for name, lines := range map[string][][2]string{
		"claude": {
			{`{"type":"user","cwd":"/w","message":{"role":"user","content":"go"}}`, ""},
			{`{"type":"assistant","message":{"id":"m1","role":"assistant","content":[{"type":"text","text":"so"}]}}`, ""},
			{`{"type":"assistant","message":{"id":"m1","role":"assistant","content":[{"type":"tool_use","id":"a","name":"Bash","input":{}}]}}`, "a"},
			{`{"type":"assistant","message":{"id":"m1","role":"assistant","content":[{"type":"tool_use","id":"b","name":"Bash","input":{}}]}}`, "a b"},
			{`{"type":"assistant","isSidechain":true,"message":{"id":"s1","role":"assistant","content":[{"type":"tool_use","id":"c","name":"Bash","input":{}}]}}`, "a b c"},
			{`{"type":"user","isSidechain":true,"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"x"}]}}`, "a b"},
			{`{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"b","content":"x"}]}}`, "a"},
			{`{"type":"progress","data":{"message":"tool_use"}}`, "a"},
			{`not JSON`, "a"},
			{`{"type":"assistant","message":{"id":"m2","role":"assistant","content":[{"type":"text","text":"a was interrupted"}]}}`, ""},
		},
		"codex": {
			{`{"type":"session_meta","payload":{"id":"x","cwd":"/w"}}`, ""},
			{`{"type":"response_item","payload":{"type":"function_call","call_id":"a","name":"shell","arguments":"{}"}}`, "a"},
			{`{"type":"response_item","payload":{"type":"custom_tool_call","call_id":"b","name":"apply_patch","input":""}}`, "a b"},
			{`{"type":"response_item","payload":{"type":"web_search_call","status":"completed"}}`, "a b"},
			{`{"type":"response_item","payload":{"type":"custom_tool_call_output","call_id":"b","output":"ok"}}`, "a"},
			{`{"type":"response_item","payload":{"type":"function_call_output","call_id":"a","output":"ok"}}`, ""},
			{`{"type":"response_item","payload":{"type":"function_call","call_id":"c","name":"shell","arguments":"{}"}}`, "c"},
			{`{"type":"response_item","payload":{"type":"message","role":"user","content":[]}}`, ""},
		},
		"pi": {
			{`{"type":"session","version":3,"cwd":"/w"}`, ""},
			{`{"type":"message","id":"1","message":{"role":"assistant","content":[{"type":"toolCall","id":"a","name":"edit","arguments":{}}]}}`, "a"},
			{`{"type":"message","id":"2","message":{"role":"toolResult","toolCallId":"a","content":[{"type":"text","text":"ok"}]}}`, ""},
		},
	} {
		var c calls
		for i, l := range lines {
			text := []byte(l[0] + "\n")
			for len(text) > 0 { // in pieces, as a reader gives them
				n := min(len(text), 7)
				if k, err := c.Write(text[:n]); k != n || err != nil {
					t.Fatal(k, err)
				}
				text = text[n:]
			}
			if got := strings.Join(slices.Sorted(maps.Keys(c.open)), " "); got != l[1] {
				t.Errorf("%s, line %d: %q are open, want %q", name, i+1, got, l[1])
			}
		}
		if c.folder != "/w" {
			t.Errorf("%s: the folder is %q", name, c.folder)
		}
	}
}

// The running watch reports each moment between two turns of a live file, once the turn is
// stored, and none of a file that nobody writes to.
func TestWatchKeepsWhatWasSeenAfterATurnWhenItIsStored(t *testing.T) {
	l, home := openLedger(t), t.TempDir()
	line := func(kind, id, parent, message string) string {
		return fmt.Sprintf(`{"type":%q,"uuid":%q,"parentUuid":%s,"sessionId":"s-1","version":"2.1.0","cwd":"/w","timestamp":"2026-01-01T00:00:00Z","message":%s}`+"\n", kind, id, parent, message)
	}
	ask := line("user", "u", "null", `{"role":"user","content":"go"}`)
	call := line("assistant", "a", `"u"`, `{"id":"m1","role":"assistant","model":"m","stop_reason":"tool_use","content":[{"type":"tool_use","id":"c","name":"Bash","input":{}}]}`)
	result := line("user", "r", `"a"`, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"x"}]}`)
	answer := line("assistant", "b", `"r"`, `{"id":"m2","role":"assistant","model":"m","stop_reason":"end_turn","content":[{"type":"text","text":"done"}]}`)
	file := filepath.Join(home, ".claude", "projects", "p", "s-1.jsonl")
	old := filepath.Join(home, ".claude", "projects", "p", "s-0.jsonl")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, []byte(strings.ReplaceAll(ask+answer, "s-1", "s-0")), 0o600); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	seen, kept := make(chan int64, 1000), make(chan turns.Ref, 1000)
	watchHome(t, l, home, func(c *Config) {
		c.ClosedWithin = 24 * time.Hour
		c.Closed = func(_ context.Context, x Closed) Keep {
			if x.Folder != "/w" {
				t.Errorf("the folder is %q", x.Folder)
			}
			if st, err := os.Stat(file); err == nil {
				seen <- st.Size()
			}
			return func(_ context.Context, at turns.Ref) { kept <- at }
		}
	})
	add := func(text string) {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
			_ = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add(ask + call)
	add(result)
	for size := int64(0); size < int64(len(ask+call+result)); size = <-seen {
	}
	add(answer)
	first := <-kept
	second := <-kept
	for second == first { // a moment may be seen twice
		second = <-kept
	}
	if first.Session != second.Session {
		t.Errorf("kept after %v and %v, want two turns of a session", first, second)
	}
	var stored []turns.ID
	for x, err := range l.client.Turns(t.Context(), first.Session, api.ListTurns{}) {
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, x.ID)
	}
	if !slices.Equal(stored, []turns.ID{first.Turn, second.Turn}) {
		t.Errorf("kept after %v, the ledger has %v", []turns.ID{first.Turn, second.Turn}, stored)
	}
}

// Real transcripts of each format, line by line: each turn with calls is reported, under
// the id that the ledger has.
func TestMomentsOfRealTranscriptsAreThoseOfTheirTurns(t *testing.T) {
	data := filepath.Join("..", "..", "..", "..", "shared", "data")
	if _, err := os.Stat(data); err != nil {
		t.Skip("real transcripts are not beside the project (../shared/data)")
	}
	for _, x := range []struct{ agent, pattern string }{{"claude", "claude-code-git-sync/46-*.jsonl"}, {"codex", "codex-git-sync/*.jsonl"}, {"pi", "pi/*.jsonl"}} {
		t.Run(x.agent, func(t *testing.T) {
			names, err := filepath.Glob(filepath.Join(data, x.pattern))
			if err != nil || len(names) == 0 {
				t.Fatal("no transcript of", x.pattern, err)
			}
			slices.SortFunc(names, func(a, b string) int { return int(size(t, a) - size(t, b)) })
			l, kept, calling := openLedger(t), make(map[turns.ID]bool), 0
			for _, name := range names[:1] {
				text, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				text = bytes.Join(bytes.SplitAfterN(text, []byte("\n"), 201)[:min(200, bytes.Count(text, []byte("\n")))], nil)
				text = bytes.Replace(text, []byte(`"branchedFrom"`), []byte(`"was"`), 1) // what a fork copied is its parent's
				file := filepath.Join(t.TempDir(), "rollout-x.jsonl")
				cfg := configOf(l, t.TempDir())
				cfg.Sources, cfg.ClosedWithin = []Source{{x.agent, filepath.Dir(file)}}, time.Hour
				cfg.Closed = func(context.Context, Closed) Keep {
					return func(_ context.Context, at turns.Ref) { kept[at.Turn] = true }
				}
				d, err := NewDeliverer(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				end := 0
				for line := range strings.Lines(string(text)) {
					end += len(line)
					if err := os.WriteFile(file, text[:end], 0o600); err != nil {
						t.Fatal(err)
					}
					if _, err := d.Deliver(t.Context(), file); err != nil && end == len(text) { // the first lines may not tell the format
						t.Fatal(err)
					}
				}
				d.w.client.Conn().Close()
			}
			missing, sessions := 0, 0
			for s, err := range l.client.Sessions(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				sessions++
				for x, err := range l.client.Turns(t.Context(), s.ID, api.ListTurns{}) {
					if err != nil {
						t.Fatal(err)
					}
					if x.ToolCalls > 0 && x.Session == s.ID {
						calling++
						if !kept[x.ID] {
							missing++
						}
					}
				}
			}
			t.Logf("%d turns with calls, %d of them without a moment; %d moments", calling, missing, len(kept))
			if calling == 0 || missing > sessions+calling/50 { // calls at the end, and those that were abandoned, have no result
				t.Errorf("%d of %d turns with calls of %d sessions have no moment", missing, calling, sessions)
			}
		})
	}
}

func size(t *testing.T, name string) int64 {
	st, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return st.Size()
}

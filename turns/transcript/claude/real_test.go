package claude

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

// claudeFiles are the real Claude Code transcripts next to the project.
func claudeFiles(t *testing.T) []string {
	t.Helper()
	data := transcripttest.Data(t)
	var files []string
	for _, pattern := range []string{
		"claude-code-*/*.jsonl", "agentcmd-fixtures/claude*.jsonl", "multi-agent-fixtures/stage0/agents/claude/*.jsonl",
		"multi-agent-fixtures/stage0/agents/claude/subagent/*.jsonl", "multi-agent-fixtures/stage0/agents/claude/subagent/*/subagents/*.jsonl",
	} {
		m, err := filepath.Glob(filepath.Join(data, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, m...)
	}
	if len(files) == 0 {
		t.Skip("real transcripts are not next to the project (../shared/data)")
	}
	return files
}

func shortName(file string) string {
	return strings.TrimSuffix(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), ".jsonl")
}

// readClaude reads all steps and checks each of them.
func readClaude(t rapid.TB, b []byte, final bool) ([]transcript.Step, []transcript.Loss) {
	t.Helper()
	steps, losses := transcripttest.ReadAll(t, Read(bytes.NewReader(b), transcript.Options{Final: final}))
	checkClaudeSteps(t, steps, false)
	return steps, losses
}

// checkClaudeSteps does the steps on a toy ledger: what a step names is there
// before it, IDs are new, messages are valid. With copied the steps have what was copied from other
// sessions, and its first compaction may follow turns that the copy lacks.
func checkClaudeSteps(t rapid.TB, steps []transcript.Step, copied bool) {
	t.Helper()
	sessions := make(map[turns.ID]turns.ID) // session → head
	turnOf := make(map[turns.ID]turns.ID)   // turn → session
	elsewhere := false                      // a session goes on from one that is in another file
	for i, s := range steps {
		set := 0
		bad := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("step %d: %s", i, fmt.Sprintf(format, args...))
		}
		follow := func(session, id, parent turns.ID) {
			head, ok := sessions[session]
			if !ok || head != parent {
				bad("parent %s on session %s (there: %v), head is %s", parent, session, ok, head)
			}
			if _, ok := turnOf[id]; ok {
				bad("turn %s is there already", id)
			}
			sessions[session], turnOf[id] = id, session
		}
		meta := func(m turns.Raw) {
			var v map[string]any
			if err := json.Unmarshal(m, &v); err != nil {
				bad("meta %s: %v", m, err)
			}
		}
		if o := s.Open; o != nil {
			set++
			if _, ok := sessions[o.ID]; ok {
				bad("session %s is there already", o.ID)
			}
			if _, here := sessions[o.SpawnedBy.Session]; here && !o.SpawnedBy.Turn.IsZero() && turnOf[o.SpawnedBy.Turn] != o.SpawnedBy.Session {
				bad("spawned by an unknown turn")
			}
			sessions[o.ID] = turns.ID{}
			meta(o.Meta)
		}
		if f := s.Fork; f != nil {
			set++
			_, here := sessions[f.At.Session]
			elsewhere = elsewhere || !here
			if here && turnOf[f.At.Turn] != f.At.Session || f.At.Turn.IsZero() {
				bad("fork at an unknown turn")
			}
			if _, ok := sessions[f.ID]; ok {
				bad("session %s is there already", f.ID)
			}
			sessions[f.ID] = f.At.Turn
			meta(f.Meta)
		}
		if a := s.Append; a != nil {
			set++
			follow(a.Session, a.ID, a.Parent)
			meta(a.Meta)
			if len(a.Messages) == 0 && a.Response == nil {
				bad("an empty turn")
			}
			if err := turns.ValidateMessages("/messages", a.Messages); err != nil {
				bad("%v", err)
			}
			if err := turns.ValidateResponse("/response", a.Response); err != nil {
				bad("%v", err)
			}
			for _, m := range a.Messages {
				for _, p := range m.Parts {
					if (p.Type == turns.ToolCallResponse) != (m.Role == turns.Tool) {
						bad("a %s part in a %s message", p.Type, m.Role)
					}
				}
			}
		}
		if c := s.Compaction; c != nil {
			set++
			if c.Parent.IsZero() && !copied {
				bad("a compaction of nothing")
			}
			follow(c.Session, c.ID, c.Parent)
			meta(c.Meta)
			if err := turns.ValidateMessages("/replacement", c.Replacement); err != nil {
				bad("%v", err)
			}
			for _, cl := range c.Cleared {
				if _, ok := turnOf[cl.Turn]; !ok && !elsewhere {
					bad("cleared in an unknown turn")
				}
			}
			if c.Trigger != "manual" && c.Trigger != "threshold" {
				bad("trigger %q", c.Trigger)
			}
		}
		if set != 1 {
			bad("%d fields set", set)
		}
	}
}

// claudeCount is what a transcript holds, by either way of counting.
type claudeCount struct {
	Responses, Reasoning, Text, Calls, Other int // blocks of assistant messages
	UserText, Images                         int // blocks of user lines
	Results, Stray, Pairs                    int
	Compactions, Micro, Rewinds              int
	Signatures                               string // all, sorted
	InputTokens, OutputTokens                int
	Chars                                    int // of all texts, code points
}

// scanClaude counts the lines of b by a simple scan that knows nothing of
// turns. Broken lines are split by hand where "}{" parts them.
func scanClaude(b []byte) (n claudeCount, losses int) {
	seen := map[string]bool{}
	ids := map[string]bool{}
	calls, answered := map[string]bool{}, map[string]bool{}
	usage := map[string][2]int{}
	var sigs []string
	prompts := map[string]int{} // prompts by the nearest line above that counts
	through := map[string]string{}
	var all []map[string]any
	for line := range bytes.Lines(b) {
		for len(bytes.TrimSpace(line)) > 0 {
			var o map[string]any
			d := jsontext.NewDecoder(bytes.NewReader(line))
			if err := json.UnmarshalDecode(d, &o); err != nil {
				break
			}
			line = line[d.InputOffset():]
			all = append(all, o)
		}
	}
	str := func(m map[string]any, k string) string { s, _ := m[k].(string); return s }
	blocksOf := func(v any) (out []map[string]any) {
		switch v := v.(type) {
		case string:
			out = append(out, map[string]any{"type": "text", "text": v})
		case []any:
			for _, b := range v {
				out = append(out, b.(map[string]any))
			}
		}
		return out
	}
	num := func(m map[string]any, k string) int { f, _ := m[k].(float64); return int(f) }
	text := func(s string) { n.Chars += len([]rune(s)) }
	for _, o := range all { // calls first: a result may stand before its call
		if msg, ok := o["message"].(map[string]any); ok && o["type"] == "assistant" {
			for _, b := range blocksOf(msg["content"]) {
				if b["type"] == "tool_use" && str(b, "id") != "" {
					calls[str(b, "id")] = true
				}
			}
		}
	}
	for _, o := range all {
		uuid := str(o, "uuid")
		if uuid == "" {
			continue
		}
		if seen[uuid] {
			losses++
			continue
		}
		seen[uuid] = true
		up := str(o, "parentUuid")
		for through[up] != "" {
			up = through[up]
		}
		msg, _ := o["message"].(map[string]any)
		switch o["type"] {
		case "assistant":
			id := str(msg, "id")
			ids[id] = true
			if u, ok := msg["usage"].(map[string]any); ok {
				usage[id] = [2]int{num(u, "input_tokens") + num(u, "cache_creation_input_tokens") + num(u, "cache_read_input_tokens"), num(u, "output_tokens")}
			}
			for _, b := range blocksOf(msg["content"]) {
				switch b["type"] {
				case "text":
					n.Text++
					text(str(b, "text"))
				case "thinking":
					n.Reasoning++
					text(str(b, "thinking"))
					if s := str(b, "signature"); s != "" {
						sigs = append(sigs, s)
					}
				case "tool_use":
					n.Calls++
				default:
					n.Other++
				}
			}
		case "user":
			if o["isCompactSummary"] == true {
				continue
			}
			prompt := false
			for _, b := range blocksOf(msg["content"]) {
				switch b["type"] {
				case "tool_result":
					id := str(b, "tool_use_id")
					if !calls[id] {
						n.Stray++
						continue
					}
					if answered[id] {
						losses++
						continue
					}
					answered[id] = true
					n.Results++
				case "image":
					n.Images++
					prompt = true
				default:
					n.UserText++
					prompt = true
					text(str(b, "text"))
				}
			}
			if prompt && o["isMeta"] != true {
				if prompts[up]++; prompts[up] > 1 {
					n.Rewinds++
				}
			}
		case "system":
			switch o["subtype"] {
			case "compact_boundary":
				n.Compactions++
			case "microcompact_boundary":
				n.Micro++
			}
			through[uuid] = up
		case "attachment":
			if a := o["attachment"].(map[string]any); a["type"] == "queued_command" {
				n.UserText++
				text(str(a, "prompt"))
			} else {
				through[uuid] = up
			}
		default:
			through[uuid] = up
		}
	}
	for _, u := range usage {
		n.InputTokens += u[0]
		n.OutputTokens += u[1]
	}
	n.Responses, n.Pairs = len(ids), len(answered)
	slices.Sort(sigs)
	n.Signatures = strings.Join(sigs, "\n")
	return n, losses
}

// countClaude counts the same over steps.
func countClaude(t *testing.T, steps []transcript.Step) (n claudeCount) {
	t.Helper()
	open := map[string]bool{}
	var sigs []string
	text := func(s string) { n.Chars += len([]rune(s)) }
	for _, s := range steps {
		if c := s.Compaction; c != nil {
			if c.Cleared != nil {
				n.Micro++
			} else {
				n.Compactions++
			}
		}
		if s.Fork != nil {
			n.Rewinds++
		}
		a := s.Append
		if a == nil {
			continue
		}
		for _, m := range a.Messages {
			for _, p := range m.Parts {
				switch {
				case p.Type == turns.ToolCallResponse:
					n.Results++
					if open[p.ID] {
						n.Pairs++
					}
					delete(open, p.ID)
				case p.Type == turns.Text && strings.Contains(string(p.Ext), `"claude-code":{"tool_result"`):
					n.Stray++
				case p.Type == turns.Text:
					n.UserText++
					text(p.Content)
				case p.Type == turns.Blob:
					n.Images++
				}
			}
		}
		if a.Response == nil {
			continue
		}
		n.Responses++
		if a.Usage != nil {
			n.InputTokens += int(a.Usage.InputTokens)
			n.OutputTokens += int(a.Usage.OutputTokens)
		}
		for _, p := range a.Response.Parts {
			switch p.Type {
			case turns.Text:
				if p.Ext != nil {
					n.Other++
					continue
				}
				n.Text++
				text(p.Content)
			case turns.Reasoning:
				n.Reasoning++
				text(p.Content)
				if p.Ext == nil {
					continue
				}
				var ext struct {
					Anthropic struct {
						Signature string `json:"signature"`
					} `json:"anthropic"`
				}
				if err := json.Unmarshal(p.Ext, &ext); err != nil {
					t.Fatal(err)
				}
				if s := ext.Anthropic.Signature; s != "" {
					sigs = append(sigs, s)
				}
			case turns.ToolCall:
				n.Calls++
				open[p.ID] = true
			}
		}
	}
	slices.Sort(sigs)
	n.Signatures = strings.Join(sigs, "\n")
	return n
}

// Everything that a simple scan of the file finds is in the steps.
func TestClaudeRealCounts(t *testing.T) {
	var table strings.Builder
	fmt.Fprintf(&table, "%-48s %6s %6s %5s %5s %5s %5s %5s\n", "file", "turns", "calls", "sess", "forks", "comp", "micro", "loss")
	for _, file := range claudeFiles(t) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		steps, losses := readClaude(t, b, true)
		opens, forks, nturns := 0, 0, 0
		for _, s := range steps {
			switch {
			case s.Open != nil:
				opens++
			case s.Fork != nil:
				forks++
			case s.Append != nil:
				nturns++
			}
		}
		got := countClaude(t, steps)
		fmt.Fprintf(&table, "%-48s %6d %6d %5d %5d %5d %5d %5d\n", shortName(file), nturns, got.Calls, opens, forks, got.Compactions, got.Micro, len(losses))
		if strings.Contains(file, "stage0") {
			continue // synthetic: calls without ids, made-up parents; read for validity only
		}
		want, _ := scanClaude(b)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-scan +steps):\n%s", shortName(file), d)
		}
		if !Sniff(b[:min(len(b), 4096)]) {
			t.Errorf("%s: not recognised", shortName(file))
		}
	}
	t.Log("\n" + table.String())
}

package pi

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/render"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

func readPi(t testing.TB, text string, final bool) ([]transcript.Step, []transcript.Loss) {
	t.Helper()
	return transcripttest.ReadAll(t, Read(strings.NewReader(text), transcript.Options{Final: final}))
}

func TestPi(t *testing.T) {
	steps, losses := readPi(t, transcripttest.PiV1, true)
	want := []string{
		"open S1",
		`S1 T1 after - user(look) => assistant(hm call c1 read{"n":1.50})`,
		`S1 T2 after T1 tool(result c1 "data") => assistant()`,
		"S1 T3 after T2 user([the user ran a command]\n$ ls\na\n[exit status 0]), user(go on) => assistant(done)",
		"S1 compaction after T3 keeps T3: it looked",
		"S1 T4 after T3 user(and now?) => pending",
	}
	if d := cmp.Diff(want, transcripttest.OutlineSteps(steps)); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
	a := steps[1].Append
	if string(a.Response.Parts[0].Ext) != `{"anthropic":{"signature":"sig="}}` || a.Response.FinishReason != "tool_call" || a.Model != "m2" {
		t.Errorf("response %+v", a.Response)
	}
	if *a.Usage != (turns.Usage{InputTokens: 8, OutputTokens: 2, CacheRead: 3, CacheCreation: 4}) || !bytes.Contains(a.Meta, []byte(`"cost":{"total":0.1}`)) {
		t.Errorf("usage %+v, meta %s", a.Usage, a.Meta)
	}
	if m := string(steps[2].Append.Meta); !strings.Contains(m, `"error":"Request was aborted."`) || !strings.Contains(m, `"thinking_level":"high"`) {
		t.Errorf("meta of the aborted answer: %s", m)
	}
	wantLoss := []transcript.Loss{
		{Line: 1, Kind: "repaired", Reason: "branched from another session's file, whose name does not say which session it is; the history copied from there is this session's own", Record: "/x.jsonl"},
		{Kind: "repaired", Reason: "commands that the user ran are kept as user text", Count: 1},
		{Kind: "skipped", Reason: "details of tool results, which the model does not see; the results are stored", Count: 1},
	}
	if d := cmp.Diff(wantLoss, losses); d != "" {
		t.Errorf("losses (-want +got):\n%s", d)
	}
}

func TestPiTree(t *testing.T) {
	steps, losses := readPi(t, transcripttest.PiV3, true)
	want := []string{
		"open S1",
		"S1 T1 after - user(one) => assistant(1)",
		"S1 T2 after T1 user(two) => assistant(2)",
		"fork S2 at T1 of S1",
		"S2 T3 after T1 user([summary of a branch that was left]\ntried two), user(three) => assistant(3)",
		"S1 T4 after T2 user(four) => assistant(4)",
		"S1 compaction after T4 keeps T4: all",
		"open S3",
		"S3 T5 after - user(anew) => assistant(5)",
	}
	if d := cmp.Diff(want, transcripttest.OutlineSteps(steps)); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
	if len(losses) != 2 || losses[1].Reason != `entries of type "label"` {
		t.Errorf("losses %+v", losses)
	}
}

// A compaction on a branch belongs to that branch: what it keeps is the
// branch's turn, and what follows it goes on there.
func TestPiCompactionOnABranch(t *testing.T) {
	text := `{"type":"session","version":3,"id":"s3","timestamp":"2025-12-09T00:53:29.825Z","cwd":"/w"}
{"type":"message","id":"a1","parentId":null,"timestamp":"2025-12-09T00:54:00Z","message":{"role":"user","content":"one"}}
{"type":"message","id":"a2","parentId":"a1","timestamp":"2025-12-09T00:54:01Z","message":{"role":"assistant","content":"1"}}
{"type":"model_change","id":"m1","parentId":"a2","timestamp":"2025-12-09T00:54:01Z","modelId":"m"}
{"type":"message","id":"a3","parentId":"m1","timestamp":"2025-12-09T00:54:02Z","message":{"role":"user","content":"two"}}
{"type":"message","id":"a4","parentId":"a3","timestamp":"2025-12-09T00:54:03Z","message":{"role":"assistant","content":"2"}}
{"type":"message","id":"b4","parentId":"a3","timestamp":"2025-12-09T00:55:03Z","message":{"role":"assistant","content":"2 again"}}
{"type":"compaction","id":"k1","parentId":"b4","timestamp":"2025-12-09T00:56:02Z","summary":"one","tokensBefore":5,"firstKeptEntryId":"m1"}
{"type":"compaction","id":"k2","parentId":"a2","timestamp":"2025-12-09T00:56:03Z","summary":"side","tokensBefore":5,"firstKeptEntryId":"a1"}
{"type":"message","id":"c1","parentId":"k2","timestamp":"2025-12-09T00:57:00Z","message":{"role":"user","content":"three"}}
{"type":"message","id":"c2","parentId":"c1","timestamp":"2025-12-09T00:57:01Z","message":{"role":"assistant","content":"3"}}
`
	steps, losses := readPi(t, text, true)
	want := []string{
		"open S1",
		"S1 T1 after - user(one) => assistant(1)",
		"S1 T2 after T1 user(two) => assistant(2)",
		"fork S2 at T1 of S1",
		"S2 T3 after T1 user(two) => assistant(2 again)",
		"S2 compaction after T3 keeps T3: one",
		"fork S3 at T1 of S1",
		"S3 compaction after T1 keeps T1: side",
		"S3 T4 after T1 user(three) => assistant(3)",
	}
	if d := cmp.Diff(want, transcripttest.OutlineSteps(steps)); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
	if len(losses) != 0 {
		t.Errorf("losses %+v", losses)
	}
}

func TestPiErrors(t *testing.T) {
	for _, text := range []string{`{"type":"message"}`, "{\"x\":1}\n"} {
		var err error
		for _, err = range Read(strings.NewReader(text), transcript.Options{Final: true}).Steps() {
		}
		if !errors.Is(err, turns.ErrMalformed) {
			t.Errorf("%s: %v, want malformed", text, err)
		}
	}
	if !Sniff([]byte(transcripttest.PiV1[:300])) || Sniff([]byte(transcripttest.GeminiCLIChat)) || Sniff([]byte(`{"type":"session_meta"}`)) {
		t.Error("not recognized by its beginning")
	}
}

// A shorter copy, cut at any byte, gives a prefix of the steps of the whole.
func TestPiPrefix(t *testing.T) {
	for _, text := range []string{transcripttest.PiV1, transcripttest.PiV3} {
		whole, _ := readPi(t, text, false)
		for n := strings.IndexByte(text, '\n') + 1; n < len(text); n += 7 {
			got, _ := readPi(t, text[:n], false)
			if len(got) > len(whole) || !cmp.Equal(got, whole[:len(got)]) {
				t.Fatalf("cut at %d: %s", n, cmp.Diff(whole, got))
			}
		}
	}
}

// The real session against a count that knows nothing of the reader.
func TestPiReal(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(transcripttest.Data(t), "pi", "*.jsonl"))
	if len(files) == 0 {
		t.Skip("real transcripts are not next to the project (../shared/data)")
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want, got := map[string]int{}, map[string]int{}
		for line := range bytes.Lines(b) {
			var e struct {
				Type    string `json:"type"`
				Message struct {
					Role    string    `json:"role"`
					Content turns.Raw `json:"content"`
					Usage   struct {
						Output int `json:"output"`
					} `json:"usage"`
				} `json:"message"`
			}
			if err := values.Decode(bytes.TrimSpace(line), &e); err != nil {
				t.Fatal(err)
			}
			switch e.Type {
			case "message":
				want[e.Message.Role]++
				want["output"] += e.Message.Usage.Output
				want["calls"] += bytes.Count(e.Message.Content, []byte(`"type":"toolCall"`))
				want["signatures"] += bytes.Count(e.Message.Content, []byte(`"thinkingSignature":"`))
			case "compaction":
				want["compaction"]++
			}
		}
		want["user"] += want["bashExecution"]
		delete(want, "bashExecution")
		read := func(text string, final bool) ([]transcript.Step, []transcript.Loss) { // the file is a fork whose parent is not there
			return transcripttest.ReadAll(t, Read(strings.NewReader(text), transcript.Options{Final: final, Copied: true}))
		}
		steps, losses := read(string(b), true)
		seen := map[turns.ID]bool{}
		for _, s := range steps {
			switch {
			case s.Compaction != nil:
				got["compaction"]++
				if !seen[s.Compaction.FirstKept] {
					t.Errorf("a compaction keeps from %s, which is no turn", s.Compaction.FirstKept)
				}
			case s.Append != nil:
				a := s.Append
				if seen[a.ID] || (!a.Parent.IsZero() && !seen[a.Parent]) {
					t.Errorf("turn %s after %s", a.ID, a.Parent)
				}
				seen[a.ID] = true
				for _, m := range a.Messages {
					got[map[turns.Role]string{turns.Tool: "toolResult", turns.User: "user"}[m.Role]]++
				}
				if a.Response != nil {
					got["assistant"]++
					got["calls"] += len(a.Response.Calls(nil))
					for _, p := range a.Response.Parts {
						if p.Type == turns.Reasoning && p.Ext != nil {
							got["signatures"]++
						}
					}
				}
				if a.Usage != nil {
					got["output"] += int(a.Usage.OutputTokens)
				}
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-count of the source +steps):\n%s", filepath.Base(name), d)
		}
		t.Logf("%s: %v; losses %+v", filepath.Base(name), got, losses)
		growing, _ := read(string(b), false)
		for n := 1000; n < len(b); n += 150_000 {
			short, _ := read(string(b[:n]), false)
			if len(short) > 0 && !reflect.DeepEqual(short, growing[:len(short)]) {
				t.Errorf("cut at %d: %s", n, cmp.Diff(growing[:len(short)], short))
			}
		}
	}
}

func FuzzPi(f *testing.F) {
	f.Add([]byte(transcripttest.PiV1))
	f.Add([]byte(transcripttest.PiV3))
	for _, text := range piFamily() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p := Read(bytes.NewReader(b), transcript.Options{Final: true, Copied: true})
		turnsOf := map[turns.ID]bool{}
		sessions := map[turns.ID]bool{}
		for s, err := range p.Steps() {
			if err != nil {
				return
			}
			switch {
			case s.Open != nil:
				sessions[s.Open.ID] = true
			case s.Fork != nil:
				if !turnsOf[s.Fork.At.Turn] {
					t.Fatalf("fork at %s, which is no turn", s.Fork.At.Turn)
				}
				sessions[s.Fork.ID] = true
			case s.Append != nil:
				a := s.Append
				if !sessions[a.Session] || (!a.Parent.IsZero() && !turnsOf[a.Parent]) {
					t.Fatalf("turn %s after %s in %s", a.ID, a.Parent, a.Session)
				}
				turnsOf[a.ID] = true
			}
		}
	})
}

// piText is a session of entries; each is the entry's members after its type.
func piText(entries ...string) string {
	text := `{"type":"session","version":3,"id":"s3","timestamp":"2025-12-09T00:53:29.825Z","cwd":"/w"}` + "\n"
	for _, e := range entries {
		text += `{"type":"message",` + e + "}\n"
	}
	return text
}

func piEntryText(id, parent, role, content string) string {
	if parent != "null" {
		parent = `"` + parent + `"`
	}
	return `"id":"` + id + `","parentId":` + parent + `,"timestamp":"2025-12-09T00:54:00Z","message":{"role":"` + role + `","content":` + content + `}`
}

// Signatures stand verbatim under the provider that made them, and go back to
// no other.
func TestPiSignatures(t *testing.T) {
	item := `{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[],\"n\":12345678901234567890}`
	blocks := func(signature string) string {
		return `[{"type":"thinking","thinking":"hm","thinkingSignature":"` + signature + `"},{"type":"text","text":"so","textSignature":"c2ln"},{"type":"toolCall","id":"c1","name":"ls","arguments":{},"thoughtSignature":"dGhv"}]`
	}
	for _, c := range []struct {
		api, signature, extra string
		want                  []string // ext of reasoning, text and call
	}{
		{"anthropic-messages", "sig=", "", []string{`{"anthropic":{"signature":"sig="}}`, `{"anthropic":{"textSignature":"c2ln"}}`, `{"anthropic":{"thoughtSignature":"dGhv"}}`}},
		{"anthropic-messages", "data", `"redacted":true,`, []string{`{"anthropic":{"data":"data"}}`, `{"anthropic":{"textSignature":"c2ln"}}`, `{"anthropic":{"thoughtSignature":"dGhv"}}`}},
		{"openai-responses", item, "", []string{`{"openai":{"item":{"type":"reasoning","id":"rs_1","summary":[],"n":12345678901234567890}}}`, `{"openai":{"textSignature":"c2ln"}}`, `{"openai":{"thoughtSignature":"dGhv"}}`}},
		{"openai-completions", "reasoning_content", "", []string{`{"openai":{"thinkingSignature":"reasoning_content"}}`, `{"openai":{"textSignature":"c2ln"}}`, `{"openai":{"thoughtSignature":"dGhv"}}`}},
		{"google-vertex", "Z2Vt", "", []string{`{"gemini":{"thoughtSignature":"Z2Vt"}}`, `{"gemini":{"thoughtSignature":"c2ln"}}`, `{"gemini":{"thoughtSignature":"dGhv"}}`}},
		{"mistral-conversations", "bWlz", "", []string{`{"mistral-conversations":{"thinkingSignature":"bWlz"}}`, `{"mistral-conversations":{"textSignature":"c2ln"}}`, `{"mistral-conversations":{"thoughtSignature":"dGhv"}}`}},
	} {
		content := strings.Replace(blocks(c.signature), `{"type":"thinking",`, `{"type":"thinking",`+c.extra, 1)
		text := piText(strings.TrimSuffix(piEntryText("a", "null", "assistant", content), "}")+`,"api":"`+c.api+`"}`, piEntryText("b", "a", "toolResult", `"x"`))
		text = strings.Replace(text, `"role":"toolResult"`, `"role":"toolResult","toolCallId":"c1"`, 1)
		steps, _ := readPi(t, text, true)
		m := *steps[1].Append.Response
		var got []string
		for _, p := range m.Parts {
			got = append(got, string(p.Ext))
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: ext (-want +got):\n%s", c.api, d)
		}
		for name, render := range map[string]func(system []turns.Section, tools []turns.Raw, ms []turns.Message) (render.Rendered, error){"anthropic-messages": render.Anthropic, "google-vertex": render.Gemini, "openai": render.OpenAI} {
			r, err := render(nil, nil, append([]turns.Message{m}, steps[2].Append.Messages...))
			if err != nil {
				t.Fatal(err)
			}
			sent := bytes.Contains(transcripttest.Joined(r.Messages), []byte(c.signature)) || bytes.Contains(transcripttest.Joined(r.Messages), []byte("dGhv"))
			if sent != (name == c.api) {
				t.Errorf("%s, rendered for %s: %s", c.api, name, transcripttest.Joined(r.Messages))
			}
		}
	}
}

// One entry twice is stored once; another under the same id is another entry.
func TestPiSameID(t *testing.T) {
	one, two := piEntryText("a1", "null", "user", `"one"`), piEntryText("a2", "a1", "assistant", `"1"`)
	text := piText(one, two, two, one, piEntryText("a3", "a2", "user", `"two"`), piEntryText("a3", "a2", "assistant", `"other"`), piEntryText("a4", "a3", "assistant", `"4"`),
		strings.Replace(piEntryText("a4", "a4", "assistant", `"4"`), `00Z"`, `01Z"`, 1))
	steps, losses := readPi(t, text, true)
	want := []string{
		"open S1", "S1 T1 after - user(one) => assistant(1)", "S1 T2 after T1 => assistant(other)", "S1 T3 after T2 => assistant(4)", "S1 T4 after T3 => assistant(4)",
		"fork S2 at T1 of S1", "S2 T5 after T1 user(two) => pending",
	}
	got := transcripttest.OutlineSteps(steps)
	for i := range got {
		got[i] = strings.Replace(got[i], "  =>", " =>", 1)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
	var what []string
	for _, l := range losses {
		what = append(what, l.Kind+" "+l.Record)
	}
	if d := cmp.Diff([]string{"skipped a2", "skipped a1", "repaired a3", "repaired a4"}, what); d != "" {
		t.Errorf("losses (-want +got):\n%s\n%+v", d, losses)
	}
	ids := map[turns.ID]bool{}
	for _, s := range steps {
		if a := s.Append; a != nil {
			if ids[a.ID] {
				t.Errorf("two turns have the id %s", a.ID)
			}
			ids[a.ID] = true
		}
	}
	call := `{"type":"toolCall","id":"c","name":"ls","arguments":{}}`
	result := `"id":"%","parentId":"!","timestamp":"2025-12-09T00:54:00Z","message":{"role":"toolResult","toolCallId":"c","content":"%"}`
	steps, losses = readPi(t, piText(piEntryText("a", "null", "assistant", "["+call+","+call+"]"), strings.NewReplacer("%", "b", "!", "a").Replace(result), strings.NewReplacer("%", "d", "!", "b").Replace(result)), true)
	if got := transcripttest.OutlineSteps(steps); len(got) != 3 || !strings.HasSuffix(got[1], "assistant(call c ls{} call c-2 ls{})") || !strings.Contains(got[2], `tool(result c "b"), tool(result c-2 "d")`) || len(losses) != 1 {
		t.Errorf("a call's id twice: %v, losses %+v", got, losses)
	}
}

// A child may stand before its parent, with what follows it; one whose parent
// does not come within the next entries follows the entry before it.
func TestPiLateParent(t *testing.T) {
	text := piText(
		piEntryText("a1", "null", "user", `"one"`), piEntryText("a4", "a3", "assistant", `"2"`), piEntryText("a5", "a4", "user", `"three"`),
		piEntryText("a2", "a1", "assistant", `"1"`), piEntryText("a3", "a2", "user", `"two"`), piEntryText("a6", "a5", "assistant", `"3"`))
	steps, losses := readPi(t, text, false)
	want := []string{
		"open S1", "S1 T1 after - user(one) => assistant(1)", "S1 T2 after T1 user(two) => assistant(2)", "S1 T3 after T2 user(three) => assistant(3)",
	}
	if d := cmp.Diff(want, transcripttest.OutlineSteps(steps)); d != "" || len(losses) != 0 {
		t.Errorf("steps (-want +got):\n%s\nlosses %+v", d, losses)
	}
	entries := []string{piEntryText("a1", "null", "user", `"one"`), piEntryText("b0", "gone", "assistant", `"0"`)}
	for i := range maxWaitingEntries {
		entries = append(entries, piEntryText(fmt.Sprintf("b%d", i+1), fmt.Sprintf("b%d", i), "assistant", fmt.Sprintf(`"%d"`, i+1)))
	}
	steps, losses = readPi(t, piText(entries[:len(entries)-1]...), false)
	if len(steps) != 1 || len(losses) != 2 || losses[0].Count != 1 || losses[1].Count != maxWaitingEntries {
		t.Errorf("before they are given up: %v, losses %+v", transcripttest.OutlineSteps(steps), losses)
	}
	steps, losses = readPi(t, piText(entries...), false)
	if len(steps) != 2+maxWaitingEntries || transcripttest.OutlineSteps(steps)[1] != "S1 T1 after - user(one) => assistant(0)" || len(losses) != 1 || losses[0].Record != "b0" {
		t.Errorf("after: %v, losses %+v", transcripttest.OutlineSteps(steps), losses)
	}
	final, _ := readPi(t, piText(entries[:4]...), true)
	if d := cmp.Diff(steps[:len(final)], final); d != "" || len(final) != 4 {
		t.Errorf("at the end of the file: %s", d)
	}
	text = piText(append(entries, piEntryText("c", "d", "user", `"c"`), piEntryText("d", "c", "assistant", `"d"`), piEntryText("e", "e", "assistant", `"e"`))...)
	whole, _ := readPi(t, text, true)
	growing, _ := readPi(t, text, false)
	if len(whole) != 4+maxWaitingEntries || !cmp.Equal(growing, whole[:len(growing)]) {
		t.Errorf("circles: %v", transcripttest.OutlineSteps(whole)[maxWaitingEntries:])
	}
	for n := strings.IndexByte(text, '\n') + 1; n < len(text); n += 101 {
		if got, _ := readPi(t, text[:n], false); len(got) > len(growing) || !cmp.Equal(got, growing[:len(got)]) {
			t.Fatalf("cut at %d: %s", n, cmp.Diff(growing, got))
		}
	}
}

// A session of many messages in a row, with no answer between them, takes memory in
// proportion to its size. The limit is six times what it takes, and a twentieth of
// what a copy of the row for each entry takes.
func TestPiMemoryIsLinear(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"type":"session","version":3,"id":"s","timestamp":"2025-12-09T00:53:29.825Z","cwd":"/w"}` + "\n")
	const n = 10_000
	parent := "null"
	for i := range n {
		fmt.Fprintf(&b, `{"type":"message","id":"%d","parentId":%s,"message":{"role":"user","content":"one"}}`+"\n", i, parent)
		parent = fmt.Sprintf(`"%d"`, i)
	}
	text := b.String()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := Read(strings.NewReader(text), transcript.Options{Final: true})
	var last *transcript.Append
	for st, err := range r.Steps() {
		if err != nil {
			t.Fatal(err)
		}
		if st.Append != nil {
			last = st.Append
		}
	}
	runtime.ReadMemStats(&after)
	if last == nil || len(last.Messages) != n {
		t.Fatalf("the last turn is %+v, want one of %d messages", last, n)
	}
	got := after.TotalAlloc - before.TotalAlloc
	t.Logf("%d bytes of text, %d allocated", len(text), got)
	if limit := uint64(300 * len(text)); got > limit {
		t.Errorf("%d bytes allocated for %d bytes of text, want at most %d", got, len(text), limit)
	}
}

package codex

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

func readCodex(t testing.TB, text string, opt transcript.Options) ([]transcript.Step, []transcript.Loss) {
	t.Helper()
	return transcripttest.ReadAll(t, Read(strings.NewReader(text), opt))
}

func TestCodexReportsUsageThatNoTurnCanHold(t *testing.T) {
	head, _, _ := strings.Cut(transcripttest.CodexParent, "\n")
	_, losses := readCodex(t, head+"\n"+`{"timestamp":"2026-04-11T14:53:12Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":120},"last_token_usage":{"input_tokens":100,"cached_input_tokens":80,"output_tokens":20}}}}
`, transcript.Options{Final: true})
	want := []transcript.Loss{{Line: 2, Kind: "skipped", Reason: "usage of a call whose response is not in the file", Usage: &turns.Usage{InputTokens: 100, OutputTokens: 20, CacheRead: 80}}}
	if d := cmp.Diff(want, losses); d != "" {
		t.Errorf("losses (-want +got):\n%s", d)
	}
}

func TestCodex(t *testing.T) {
	steps, losses := readCodex(t, transcripttest.CodexParent+transcripttest.CodexRest, transcript.Options{Final: true})
	want := []string{
		"open S1",
		`S1 T1 after - system(rules), user(look ) => assistant(hm I look. call c1 exec{"n":1.50} call c2 apply_patch"*** Begin")`,
		`S1 T2 after T1 tool(result c1 "data"), tool(result c2 "{\"ok\":true}") => assistant(call c3 spawn_agent{})`,
		`S1 T3 after T2 tool(result c3 "{\"agent\":1}") => pending`,
		"S1 compaction after T3 keeps -: ",
		"S1 T4 after T3 => assistant([web_search_call] done)",
		`S1 T5 after T4 user([result of a tool call that is not in the transcript, id "lost"]` + "\nx) => pending",
	}
	got := transcripttest.OutlineSteps(steps)
	for i := range got {
		got[i] = strings.Replace(got[i], "after T3  =>", "after T3 =>", 1)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
	if o := steps[0].Open; len(o.System) != 1 || o.System[0].Content != "You are an agent." || o.ID.Time().Format("2006-01-02T15:04") != "2026-04-11T14:53" {
		t.Errorf("session %+v", o)
	}
	a := steps[1].Append
	if *a.Usage != (turns.Usage{InputTokens: 100, OutputTokens: 20, CacheRead: 80}) || a.Model != "m-1" || steps[2].Append.Usage != nil {
		t.Errorf("usage %+v, model %s; of the next turn %+v", a.Usage, a.Model, steps[2].Append.Usage)
	}
	if d := turns.UsageDetailsOf(a.Meta); d != (turns.UsageDetails{Reasoning: 12}) {
		t.Errorf("details of the usage: %+v in %s", d, a.Meta)
	}
	if ext := string(a.Response.Parts[0].Ext); !strings.Contains(ext, `"encrypted_content":"gAAA="`) {
		t.Errorf("ext of the reasoning: %s", ext)
	}
	k := steps[4].Compaction
	if len(k.Replacement) != 2 || transcripttest.Brief(k.Replacement[1]) != "assistant(looked)" {
		t.Errorf("replacement %+v", k.Replacement)
	}
	var reasons []string
	for _, l := range losses {
		reasons = append(reasons, l.Kind+" "+l.Reason)
	}
	wantLoss := []string{
		"repaired a tool result is kept as text: its call is not in the file",
		"repaired calls of the provider's own tools are kept as reasoning",
		"skipped copies for the terminal: context_compacted",
		"skipped copies for the terminal: user_message",
		"skipped reasoning items that hold nothing",
	}
	if d := cmp.Diff(wantLoss, reasons); d != "" {
		t.Errorf("losses (-want +got):\n%s", d)
	}
}

func TestCodexFork(t *testing.T) {
	parent, _ := readCodex(t, transcripttest.CodexParent+transcripttest.CodexRest, transcript.Options{Final: true})
	own := `S2 T1 after T2 tool(result c3 "You are the new agent."), user(review) => assistant(reviewed)`
	steps, _ := readCodex(t, transcripttest.CodexChild(), transcript.Options{Final: true})
	if d := cmp.Diff([]string{"fork S1 at T1 of S2", strings.NewReplacer("S2", "S1", "T1", "T2", "T2", "T1").Replace(own)}, transcripttest.OutlineSteps(steps)); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
	if at, want := steps[0].Fork.At, (turns.Ref{Session: parent[0].Open.ID, Turn: parent[2].Append.ID}); at != want {
		t.Errorf("forked at %v, want the parent's second turn, %v", at, want)
	}
	copied, _ := readCodex(t, transcripttest.CodexChild(), transcript.Options{Final: true, Copied: true})
	if len(copied) != 5 || copied[0].Open.ID != parent[0].Open.ID || copied[1].Append.ID != parent[1].Append.ID || copied[2].Append.ID != parent[2].Append.ID || copied[3].Fork == nil {
		t.Errorf("with the copy: %v", transcripttest.OutlineSteps(copied))
	}
	forkTime := time.Date(2026, 4, 11, 20, 15, 2, 721_000_000, time.UTC) // in the child's id
	if a := copied[1].Append; !cmp.Equal(a.Messages, parent[1].Append.Messages) || !a.Time.Equal(forkTime) || turns.TimeBoundOf(a.Meta) != turns.TimeNotAfter {
		t.Errorf("the copy of turn 1: %+v, meta %s", a, a.Meta)
	}
	if sp, want := steps[0].Fork.SpawnedBy, (turns.Ref{Session: parent[0].Open.ID}); sp != want {
		t.Errorf("spawned by %v, want the parent, %v", sp, want)
	}
}

func TestCodexErrors(t *testing.T) {
	for _, text := range []string{`{"timestamp":"x","type":"event_msg","payload":{}}`, "{}\n"} {
		var err error
		for _, err = range Read(strings.NewReader(text), transcript.Options{Final: true}).Steps() {
		}
		if !errors.Is(err, turns.ErrMalformed) {
			t.Errorf("%s: %v, want malformed", text, err)
		}
	}
	if !Sniff([]byte(transcripttest.CodexParent[:120])) || !Sniff([]byte(transcripttest.CodexParent)) || Sniff([]byte(transcripttest.PiV1)) {
		t.Error("not recognized by its beginning")
	}
}

func TestCodexPrefix(t *testing.T) {
	for _, text := range []string{transcripttest.CodexParent + transcripttest.CodexRest, transcripttest.CodexChild()} {
		whole, _ := readCodex(t, text, transcript.Options{})
		for n := strings.IndexByte(text, '\n') + 1; n < len(text); n += 11 {
			got, _ := readCodex(t, text[:n], transcript.Options{})
			if err := transcripttest.NewStepIndex(whole).Contains(got); err != nil {
				t.Fatalf("cut at %d: %v: %s", n, err, cmp.Diff(whole, got))
			}
		}
	}
}

// Real rollouts against a count that knows nothing of the reader, and forks
// against their parent.
func TestCodexReal(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(transcripttest.Data(t), "codex-git-sync", "*.jsonl"))
	if len(files) == 0 {
		t.Skip("real transcripts are not next to the project (../shared/data)")
	}
	known := make(map[turns.ID]*transcript.Append)
	var forks []*transcript.Fork
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want := countCodex(t, b)
		steps, losses := readCodex(t, string(b), transcript.Options{Final: true, Copied: true})
		got := map[string]int{}
		seen := map[turns.ID]bool{}
		calls := map[string]bool{}
		for _, s := range steps {
			switch {
			case s.Fork != nil:
				forks = append(forks, s.Fork)
				if !seen[s.Fork.At.Turn] {
					t.Errorf("%s: forked at %s, which is not in the copy", filepath.Base(name), s.Fork.At.Turn)
				}
			case s.Compaction != nil:
				got["compacted"]++
				got["replacement"] += len(s.Compaction.Replacement)
			case s.Append != nil:
				a := s.Append
				if seen[a.ID] || (!a.Parent.IsZero() && !seen[a.Parent]) {
					t.Errorf("turn %s after %s", a.ID, a.Parent)
				}
				seen[a.ID] = true
				if turns.TimeBoundOf(a.Meta) == "" { // no copy
					known[a.ID] = a
				}
				ms := a.Messages
				if a.Response != nil {
					for _, id := range a.Response.Calls(nil) {
						calls[id] = true
					}
					ms = append(ms[:len(ms):len(ms)], *a.Response)
				}
				for _, m := range ms {
					got["calls"] += len(m.Calls(nil))
					for _, p := range m.Parts {
						switch {
						case p.Type == turns.ToolCallResponse:
							got["outputs"]++
							if !calls[p.ID] {
								t.Errorf("%s: a result of %s, which was not called", filepath.Base(name), p.ID)
							}
						case p.Type == turns.Text:
							got[string(m.Role)+" texts"]++
						}
					}
				}
				if a.Usage != nil {
					got["output tokens"] += int(a.Usage.OutputTokens)
				}
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-count of the source +steps):\n%s\n%+v", filepath.Base(name), d, losses)
		}
		growing, _ := readCodex(t, string(b), transcript.Options{})
		for n := 40_000; n < len(b); n += 400_000 {
			short, _ := readCodex(t, string(b[:n]), transcript.Options{})
			if err := transcripttest.NewStepIndex(growing).Contains(short); err != nil {
				t.Errorf("%s: cut at %d: %v", filepath.Base(name), n, err)
			}
		}
	}
	if len(forks) != 2 {
		t.Errorf("%d forks, want 2", len(forks))
	}
	for _, f := range forks {
		if known[f.At.Turn] == nil {
			t.Errorf("fork %s at %v: the parent's own rollout has no such turn", f.ID, f.At)
		}
	}
}

// countCodex counts a rollout's items line by line.
func countCodex(t *testing.T, b []byte) map[string]int {
	t.Helper()
	n := map[string]int{}
	total := 0
	for line := range bytes.Lines(b) {
		var r struct {
			Type    string `json:"type"`
			Payload struct {
				Type    string `json:"type"`
				Role    string `json:"role"`
				Content turns.Raw
				Call    string      `json:"call_id"`
				History []turns.Raw `json:"replacement_history"`
				Info    *struct {
					Total struct {
						Total int `json:"total_tokens"`
					} `json:"total_token_usage"`
					Last struct {
						Output int `json:"output_tokens"`
					} `json:"last_token_usage"`
				} `json:"info"`
			} `json:"payload"`
		}
		if err := values.Decode(bytes.TrimSpace(line), &r); err != nil {
			t.Fatal(err)
		}
		p := &r.Payload
		switch {
		case r.Type == "compacted":
			n["compacted"]++
			n["replacement"] += len(p.History)
		case r.Type == "event_msg" && p.Type == "token_count" && p.Info != nil && p.Info.Total.Total != total:
			total = p.Info.Total.Total
			n["output tokens"] += p.Info.Last.Output
		case r.Type != "response_item":
		case p.Type == "message":
			role := strings.Replace(p.Role, "developer", "system", 1)
			n[role+" texts"] += bytes.Count(line, []byte(`{"type":"input_text"`)) + bytes.Count(line, []byte(`{"type":"output_text"`))
		case strings.HasSuffix(p.Type, "_call") && p.Call != "":
			n["calls"]++
		case strings.HasSuffix(p.Type, "_output"):
			n["outputs"]++
		}
	}
	return n
}

func FuzzCodex(f *testing.F) {
	f.Add([]byte(transcripttest.CodexParent + transcripttest.CodexRest))
	f.Add([]byte(transcripttest.CodexChild()))
	f.Fuzz(func(t *testing.T, b []byte) {
		checkCodexSteps(t, b)
	})
}

// checkCodexSteps fails if a step of a rollout names what no step before it stores.
func checkCodexSteps(t *testing.T, b []byte) {
	t.Helper()
	c := Read(bytes.NewReader(b), transcript.Options{Final: true, Copied: true})
	have := map[turns.ID]bool{}
	for s, err := range c.Steps() {
		if err != nil {
			return
		}
		switch {
		case s.Open != nil:
			have[s.Open.ID] = true
		case s.Fork != nil:
			if !have[s.Fork.At.Turn] {
				t.Fatalf("fork at %s, which is no turn", s.Fork.At.Turn)
			}
			have[s.Fork.ID] = true
		case s.Compaction != nil:
			have[s.Compaction.ID] = true
		case s.Append != nil:
			if a := s.Append; !have[a.Session] || (!a.Parent.IsZero() && !have[a.Parent]) {
				t.Fatalf("turn %s after %s in %s", a.ID, a.Parent, a.Session)
			}
			have[s.Append.ID] = true
		}
	}
}

// The settings of a task stand in the meta of its first turn, those that are
// other than before; a fork's are those that differ from its parent's.
func TestCodexSettings(t *testing.T) {
	set := func(s string) string {
		return `{"timestamp":"2026-04-11T14:53:20Z","type":"turn_context","payload":{` + s + `}}` + "\n"
	}
	say := func(s string) string {
		return `{"timestamp":"2026-04-11T14:53:21Z","type":"response_item","payload":{"type":"message","role":"assistant","content":"` + s + `"}}` + "\n" +
			`{"timestamp":"2026-04-11T14:53:21Z","type":"response_item","payload":{"type":"message","role":"user","content":"more"}}` + "\n"
	}
	head, _, _ := strings.Cut(transcripttest.CodexParent, "\n")
	text := head + "\n" + set(`"model":"m","effort":"high","sandbox_policy":{"type":"none"},"turn_id":"1"`) + say("1") + say("2") +
		set(`"model":"m","effort":"low","turn_id":"1"`) + say("3") + set(`"effort":"low","turn_id":"1"`) + say("4")
	steps, losses := readCodex(t, text, transcript.Options{Final: true})
	var got []string
	for _, s := range steps[1:] {
		got = append(got, string(s.Append.Meta))
	}
	want := []string{
		`{"turn_context":{"effort":"high","sandbox_policy":{"type":"none"},"turn_id":"1"}}`, "",
		`{"turn_context":{"effort":"low","sandbox_policy":null}}`, "", "",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("meta (-want +got):\n%s", d)
	}
	if len(losses) != 0 {
		t.Errorf("losses %+v", losses)
	}
	long := set(`"model":"m","developer_instructions":"` + strings.Repeat("x", values.MaxMeta) + `"`)
	steps, losses = readCodex(t, head+"\n"+long+say("1"), transcript.Options{Final: true})
	if m := steps[1].Append.Meta; m != nil || len(losses) != 1 || losses[0].Line != 2 || !strings.Contains(losses[0].Reason, "settings") {
		t.Errorf("meta %s, losses %+v", m, losses)
	}
	header := strings.Replace(head, `"cwd":"/w"`, `"cwd":"/w","model_provider":"openai","history_mode":"legacy"`, 1)
	steps, _ = readCodex(t, header+"\n"+say("1"), transcript.Options{Final: true})
	if m := string(steps[0].Open.Meta); !strings.Contains(m, `"header":{"history_mode":"legacy","model_provider":"openai","source":"cli"}`) {
		t.Errorf("meta of the session: %s", m)
	}
}

// A fork of a fork: the headers of all three stand first, then the histories,
// oldest first, each up to the first task of the next.
func TestCodexForkOfAFork(t *testing.T) {
	const grandchild = "019d7e36-577c-7d90-9f1c-a447ba2254b4"
	own := `{"timestamp":"2026-04-11T20:23:03Z","type":"event_msg","payload":{"type":"task_started","turn_id":"019d7e36-58aa-7000-8000-000000000001"}}
{"timestamp":"2026-04-11T20:23:04Z","type":"response_item","payload":{"type":"message","role":"user","content":"again"}}
{"timestamp":"2026-04-11T20:23:05Z","type":"response_item","payload":{"type":"message","role":"assistant","content":"reviewed twice"}}
`
	header := `{"timestamp":"2026-04-11T20:23:03Z","type":"session_meta","payload":{"id":"` + grandchild + `","forked_from_id":"019d7e2f-0041-7310-951c-94020254dfc9"}}` + "\n"
	text := header + transcripttest.CodexChild() + own
	parent, _ := readCodex(t, transcripttest.CodexParent+transcripttest.CodexRest, transcript.Options{Final: true})
	child, _ := readCodex(t, transcripttest.CodexChild(), transcript.Options{Final: true})
	steps, losses := readCodex(t, text, transcript.Options{Final: true})
	if d := cmp.Diff([]string{"fork S1 at T1 of S2", "S1 T2 after T1 user(again) => assistant(reviewed twice)"}, transcripttest.OutlineSteps(steps)); d != "" {
		t.Fatalf("steps (-want +got):\n%s\n%+v", d, losses)
	}
	if at, want := steps[0].Fork.At, (turns.Ref{Session: child[0].Fork.ID, Turn: child[1].Append.ID}); at != want {
		t.Errorf("forked at %v, want the child's last turn, %v", at, want)
	}
	for _, l := range losses {
		if l.Kind == "repaired" {
			t.Errorf("loss %+v", l)
		}
	}
	copied, _ := readCodex(t, text, transcript.Options{Final: true, Copied: true})
	want := []string{
		"open S1",
		`S1 T1 after - system(rules), user(look ) => assistant(hm I look. call c1 exec{"n":1.50} call c2 apply_patch"*** Begin")`,
		`S1 T2 after T1 tool(result c1 "data"), tool(result c2 "{\"ok\":true}") => assistant(call c3 spawn_agent{})`,
		"fork S2 at T2 of S1",
		`S2 T3 after T2 tool(result c3 "You are the new agent."), user(review) => assistant(reviewed)`,
		"fork S3 at T3 of S2",
		"S3 T4 after T3 user(again) => assistant(reviewed twice)",
	}
	if d := cmp.Diff(want, transcripttest.OutlineSteps(copied)); d != "" {
		t.Fatalf("with the copies (-want +got):\n%s", d)
	}
	if copied[0].Open.ID != parent[0].Open.ID || copied[3].Fork.ID != child[0].Fork.ID || copied[4].Append.ID != child[1].Append.ID {
		t.Errorf("the copies have other ids than the originals: %+v", copied[4].Append)
	}

	// The middle one did nothing of its own: the fork is taken where it was.
	idle := header + strings.SplitAfterN(transcripttest.CodexChild(), "\n", 2)[0] + transcripttest.CodexParent + own
	steps, _ = readCodex(t, idle, transcript.Options{Final: true})
	if at, want := steps[0].Fork.At, (turns.Ref{Session: parent[0].Open.ID, Turn: parent[2].Append.ID}); at != want {
		t.Errorf("forked at %v, want the first one's turn, %v", at, want)
	}

	// A header is missing: the thread is named all the same.
	headers := strings.SplitAfterN(text, "\n", 4)
	steps, losses = readCodex(t, headers[0]+headers[1]+headers[3], transcript.Options{Final: true})
	if at, want := steps[0].Fork.At, (turns.Ref{Session: child[0].Fork.ID, Turn: child[1].Append.ID}); at != want {
		t.Errorf("without a header: forked at %v, want the child's last turn, %v: %+v", at, want, losses)
	}
	growing, _ := readCodex(t, text, transcript.Options{})
	for n := 0; n < len(text); n += 37 {
		if !strings.Contains(text[:n], "\n") {
			continue
		}
		got, _ := readCodex(t, text[:n], transcript.Options{})
		if err := transcripttest.NewStepIndex(growing).Contains(got); err != nil {
			t.Fatalf("cut at %d: %v: %v", n, err, transcripttest.OutlineSteps(got))
		}
	}
}

// Two calls of one response with the same id, and the results of both.
func TestCodexCallTwice(t *testing.T) {
	head, _, _ := strings.Cut(transcripttest.CodexParent, "\n")
	item := func(s string) string {
		return `{"timestamp":"2026-04-11T14:53:21Z","type":"response_item","payload":{` + s + `}}` + "\n"
	}
	call := item(`"type":"function_call","name":"exec","arguments":"{}","call_id":"c1"`)
	result := func(s string) string {
		return item(`"type":"function_call_output","call_id":"c1","output":"` + s + `"`)
	}
	steps, losses := readCodex(t, head+"\n"+call+call+result("a")+result("b")+call+result("c"), transcript.Options{Final: true})
	want := []string{
		"open S1", "S1 T1 after - => assistant(call c1 exec{} call c1-2 exec{})",
		`S1 T2 after T1 tool(result c1 "a"), tool(result c1-2 "b") => assistant(call c1 exec{})`, `S1 T3 after T2 tool(result c1 "c") => pending`,
	}
	got := transcripttest.OutlineSteps(steps)
	got[1] = strings.Replace(got[1], "-  =>", "- =>", 1)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
	if len(losses) != 1 || losses[0].Kind != "repaired" || losses[0].Record != "c1" {
		t.Errorf("losses %+v", losses)
	}
}

// A thread that Codex resumed in a further file is a session of its own: its turns have not
// the ids of those in the first file.
func TestResumedThreadInAFurtherFileHasIDsOfItsOwn(t *testing.T) {
	file := func(base string) (ids []turns.ID, losses []transcript.Loss) {
		text := `{"timestamp":"2026-04-11T14:53:07.700Z","type":"session_meta","payload":{"id":"019d7d08-46c9-7f73-affe-000000000001","timestamp":"2026-04-11T14:53:07.660Z"` + base + `}}
{"timestamp":"2026-04-11T14:53:08Z","type":"response_item","payload":{"type":"message","role":"user","content":"one"}}
{"timestamp":"2026-04-11T14:53:09Z","type":"response_item","payload":{"type":"message","role":"assistant","content":"two"}}
`
		steps, losses := readCodex(t, text, transcript.Options{Final: true})
		for _, s := range steps {
			ids = append(ids, s.ID())
		}
		return ids, losses
	}
	first, _ := file("")
	resumed, losses := file(`,"history_base":{"thread_id":"019d7d08-46c9-7f73-affe-000000000001","end_ordinal_exclusive":3,"end_byte_offset":400}`)
	again, _ := file(`,"history_base":{"thread_id":"019d7d08-46c9-7f73-affe-000000000001","end_ordinal_exclusive":9,"end_byte_offset":900}`)
	seen := make(map[turns.ID]bool)
	for _, ids := range [][]turns.ID{first, resumed, again} {
		if len(ids) != 2 {
			t.Fatalf("%d steps, want a session and a turn", len(ids))
		}
		for _, id := range ids {
			if seen[id] {
				t.Errorf("id %s comes again", id)
			}
			seen[id] = true
		}
	}
	if len(losses) == 0 || !strings.Contains(losses[0].Reason, "in another") {
		t.Errorf("losses %v", losses)
	}
}

// A search for tools is a call with an object of arguments, and its result has the tools that
// were found.
func TestCodexSearchForToolsIsACall(t *testing.T) {
	item := func(payload string) string {
		return `{"timestamp":"2026-08-03T10:48:56.000Z","type":"response_item","payload":{` + payload + "}}\n"
	}
	text := `{"timestamp":"2026-08-03T10:48:50Z","type":"session_meta","payload":{"id":"c","timestamp":"2026-08-03T10:48:50Z"}}` + "\n" +
		item(`"type":"message","role":"user","content":[{"type":"input_text","text":"find one"}]`) +
		item(`"type":"tool_search_call","id":"ts-1","call_id":"call-3","status":"completed","execution":"local","arguments":{"query":"example"}`) +
		item(`"type":"tool_search_output","id":"tso-1","call_id":"call-3","status":"completed","execution":"local","tools":[{"type":"function","name":"example_tool"}]`) +
		item(`"type":"message","role":"assistant","content":[{"type":"output_text","text":"There is one."}]`)
	steps, losses := readCodex(t, text, transcript.Options{Final: true})
	var got []turns.Part
	for _, s := range steps {
		if s.Append == nil {
			continue
		}
		for _, m := range s.Append.Messages {
			got = append(got, m.Parts...)
		}
		if s.Append.Response != nil {
			got = append(got, s.Append.Response.Parts...)
		}
	}
	want := []turns.Part{
		turns.TextPart("find one"),
		{Type: turns.ToolCall, ID: "call-3", Name: "tool_search", Arguments: turns.Raw(`{"query":"example"}`)},
		{Type: turns.ToolCallResponse, ID: "call-3", Response: turns.Raw(`{"tools":[{"type":"function","name":"example_tool"}]}`)},
		turns.TextPart("There is one."),
	}
	if diff := cmp.Diff(want, got); diff != "" || len(losses) > 0 {
		t.Errorf("losses %v, parts (-want +got):\n%s", losses, diff)
	}
}

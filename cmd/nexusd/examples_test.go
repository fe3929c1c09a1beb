package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/nexusd/internal/faulttest"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/render/strict"
)

// The agents of docs/examples, against a real daemon and a scripted provider,
// checked by what is in the ledger then. Messages are of 256 KiB, so that a large
// one of a context comes in pieces.
func TestExamples(t *testing.T) {
	ns := startServer(t, server.Options{ServerName: "small", MaxPayload: 256 << 10, JetStreamMaxStore: 1 << 30, JetStreamMaxMemory: 1 << 26})
	_, c := startDaemon(t, config.Config{Plaintext: true, NATS: ns.ClientURL(), Replicas: 1, Create: true})
	examples := filepath.Join("..", "..", "docs", "examples")
	for _, lang := range []struct {
		name    string
		command func(*testing.T) *exec.Cmd
	}{
		{"go", func(t *testing.T) *exec.Cmd {
			return exec.Command(faulttest.Build(t, "./"+filepath.Join(examples, "go")))
		}},
		{"js", func(t *testing.T) *exec.Cmd {
			dir := t.TempDir()
			if _, err := exec.LookPath("npm"); err != nil {
				t.Skip("no npm here")
			}
			for _, f := range []string{"agent.mjs", "package.json"} {
				copyFile(t, filepath.Join(examples, "js", f), filepath.Join(dir, f))
			}
			install := exec.Command("npm", "install", "--no-audit", "--no-fund", "--silent")
			install.Dir = dir
			if out, err := install.CombinedOutput(); err != nil {
				t.Skipf("npm install: %v\n%s", err, out)
			}
			return exec.Command("node", filepath.Join(dir, "agent.mjs"))
		}},
		{"python", func(t *testing.T) *exec.Cmd {
			if out, err := exec.Command("python3", "-c", "import nats, ulid").CombinedOutput(); err != nil {
				t.Skipf("no nats-py or python-ulid here: %s", bytes.TrimSpace(out))
			}
			return exec.Command("python3", filepath.Join(examples, "python", "agent.py"))
		}},
	} {
		t.Run(lang.name, func(t *testing.T) {
			cmd := lang.command(t)
			run := func(label, holds string, script ...answer) {
				p := &scripted{t: t, script: script, holds: holds}
				model := httptest.NewServer(p)
				defer model.Close()
				again := exec.Command(cmd.Path, cmd.Args[1:]...)
				again.Env = append(os.Environ(), "NEXUS_URL="+ns.ClientURL(), "MODEL_URL="+model.URL, "LABEL="+label)
				finish(t, again)
				p.done()
			}
			label := "weather-" + lang.name
			run(label, "Oslo", script...)
			checkExample(t, c, label, nil)

			// One that ended in the middle goes on in the same session.
			label += "-again"
			before := began(t, c, label)
			run(label, everything, append([]answer{{200, message(`"content":"Sunny in both."`)}}, script...)...)
			checkExample(t, c, label, before)
			run(label, "Oslo", script...) // all that it makes is there
		})
	}
	if v, err := c.As(api.Operator).Verify(t.Context()); err != nil || !v.OK {
		t.Errorf("verify: %+v, %v", v, err)
	}
}

// The agent of docs/examples/python/memory.py saves what its model says with the turn that it
// comes from; a session that begins later has it in its first context, and finds it.
func TestPythonExampleRemembers(t *testing.T) {
	if out, err := exec.Command("python3", "-c", "import nats, ulid").CombinedOutput(); err != nil {
		t.Skipf("no nats-py or python-ulid here: %s", bytes.TrimSpace(out))
	}
	ns := startServer(t, server.Options{ServerName: "memory", MaxPayload: 1 << 20, JetStreamMaxStore: 1 << 30, JetStreamMaxMemory: 1 << 26})
	_, c := startDaemon(t, config.Config{Plaintext: true, NATS: ns.ClientURL(), Replicas: 1, Create: true})
	const fact = "The project uses pnpm."
	call := func(name, text string) answer {
		return answer{200, message(`"content":null,"tool_calls":[{"id":"` + name + `","type":"function","function":{"name":"` + name + `","arguments":"{\"text\":\"` + text + `\"}"}}]`)}
	}
	p := &scripted{t: t, tools: 2, script: []answer{call("remember", fact), {200, message(`"content":"Noted."`)}, call("recall", "pnpm"), {200, message(`"content":"With pnpm."`)}}}
	model := httptest.NewServer(p)
	defer model.Close()
	run := exec.Command("python3", filepath.Join("..", "..", "docs", "examples", "python", "memory.py"))
	run.Env = append(os.Environ(), "NEXUS_URL="+ns.ClientURL(), "MODEL_URL="+model.URL, "LABEL=memory")
	finish(t, run)
	p.done()
	if strings.Contains(p.asked[0], fact) || !strings.Contains(p.asked[2], fact) {
		t.Errorf("the memory is in the first context of the second session only, want so:\n%.2000s\n%.2000s", p.asked[0], p.asked[2])
	}
	if !strings.Contains(p.asked[3], "tool_call_id") || strings.Count(p.asked[3], fact) < 2 {
		t.Errorf("recall did not find it:\n%.3000s", p.asked[3])
	}
	var found []api.Memory
	for m, err := range c.Memories(t.Context(), api.ListMemories{}) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, m)
	}
	if len(found) != 1 || found[0].Text != fact || found[0].Trust != "agent" || len(found[0].Sources) != 1 {
		t.Fatalf("remembered: %+v", found)
	}
	source, err := c.Turn(t.Context(), found[0].Sources[0].Session, found[0].Sources[0].Turn)
	if err != nil || source.Response == nil || !slices.ContainsFunc(source.Response.Parts, func(p turns.Part) bool { return p.Name == "remember" }) {
		t.Errorf("its source is %+v, %v, want the turn with the call", source, err)
	}
}

// began makes the session of an agent that ended while its tools ran: of two calls,
// the second has its result, the first has none.
func began(t *testing.T, c *client.Client, label string) (path []string) {
	t.Helper()
	ctx := t.Context()
	s, err := c.Create(ctx, api.CreateSession{SessionSettings: api.SessionSettings{Label: &label, System: &api.System{{Content: "You are terse."}},
		Tools: &[]turns.Raw{turns.Raw(`{"type":"function","function":{"name":"weather","parameters":{}}}`)}, Limits: &turns.Limits{ContextWindow: 128_000}}})
	if err != nil {
		t.Fatal(err)
	}
	large := []byte(everything)
	var put api.PutBlob
	for b := range slices.Chunk(large, 100_000) {
		info, err := c.PutBlob(ctx, api.PutBlob{Session: s.ID, Data: b})
		if err != nil {
			t.Fatal(err)
		}
		put.Pieces = append(put.Pieces, info.Digest)
	}
	put.Session = s.ID
	info, err := c.PutBlob(ctx, put)
	if err != nil {
		t.Fatal(err)
	}
	call := func(id, arguments string) turns.Part {
		return turns.Part{Type: turns.ToolCall, ID: id, Name: "weather", Arguments: turns.Raw(arguments)}
	}
	read := turns.TextMessage(turns.Assistant, "Read.")
	calls := turns.Message{Role: turns.Assistant, Parts: []turns.Part{call("a", `{"city":"Oslo","station":`+station+`}`), call("b", `{"city":"Rome"}`)}}
	for _, r := range []api.AppendTurn{
		{Messages: []turns.Message{{Role: turns.User, Parts: []turns.Part{{Type: turns.Text, Ref: &turns.BlobRef{Digest: info.Digest, Size: info.Size}}}}}, Response: &read},
		{Messages: []turns.Message{turns.TextMessage(turns.User, "And the weather?")}},
		{Response: &calls},
		{Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "b", Response: turns.Raw(`"sunny"`)}}}}},
	} {
		if _, err := c.Append(ctx, s.ID, r); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"normal user text => text", "normal user text", "normal => tool_call tool_call", "normal tool tool_call_response",
		"normal tool tool_call_response", "normal => text"}
}

// everything is more than a reply holds.
var everything = strings.Repeat("everything ", 24_500)

// station is a number that no float64 holds.
const station = "9007199254740993"

// checkExample checks what an agent stored after the turns in before.
func checkExample(t *testing.T, c *client.Client, label string, before []string) {
	t.Helper()
	ctx := t.Context()
	s, err := c.Resolve(ctx, label)
	if err != nil {
		t.Fatal(err)
	}
	list := func(id turns.ID) (out []string) {
		for x, err := range c.Turns(ctx, id, api.ListTurns{Full: true}) {
			if err != nil {
				t.Fatal(err)
			}
			line := x.Type
			for _, m := range x.Messages {
				for _, p := range m.Parts {
					line += " " + string(m.Role) + " " + string(p.Type)
				}
			}
			if x.Compaction != nil {
				line += " " + x.Compaction.Trigger.Kind
			} else if x.Response != nil {
				line += " =>"
				for _, p := range x.Response.Parts {
					line += " " + string(p.Type)
				}
			}
			out = append(out, line)
		}
		return out
	}
	want := append(before,
		"normal user text", // stored before it was answered
		"normal => text",   // the regenerated answer
		"normal user text", "normal => text",
		"normal user text",
		"compaction overflow",
		"normal => text",
	)
	if got := list(s.ID); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s:\n%s\nwant\n%s", label, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	f, err := c.Resolve(ctx, label+"-fork")
	if err != nil {
		t.Fatal(err)
	}
	if got := list(f.ID); len(got) != len(before)+3 || f.ForkedFrom == nil || f.ForkedFrom.Session != s.ID {
		t.Errorf("the fork: %v, %+v", got, f.ForkedFrom)
	}
	// The first answer, with its two calls and their results, is on a branch.
	tree, err := c.Tree(ctx, s.ID)
	if err != nil || len(tree.Sessions) != 2 || len(tree.Sessions[0].Branches) != 2 {
		t.Fatalf("tree: %+v, %v", tree, err)
	}
	if b := tree.Sessions[0].Branches[0]; b.From != 1 || b.To != uint64(len(before))+5 {
		t.Errorf("the first branch goes from depth %d to %d, want 1 to %d: question, calls, two results, answer", b.From, b.To, len(before)+5)
	}
	// Numbers are as the model wrote them, in its call and in what the tool was
	// given; the call that was no JSON is a text, and its result an error.
	var seen []string
	for x, err := range c.Turns(ctx, s.ID, api.ListTurns{At: tree.Sessions[0].Branches[0].Tip, Full: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if x.Response != nil {
			x.Messages = append(x.Messages, *x.Response)
		}
		for _, m := range x.Messages {
			for _, p := range m.Parts {
				switch {
				case p.Type == turns.ToolCall:
					seen = append(seen, string(p.Arguments))
				case p.Type == turns.ToolCallResponse && (p.IsError || strings.Contains(string(p.Response), station)):
					seen = append(seen, fmt.Sprint("failed: ", p.IsError))
				}
			}
		}
	}
	last := seen[max(0, len(seen)-4):]
	slices.Sort(last)
	if want := []string{`"{\"city\":\"Rome"`, "failed: false", "failed: true", `{"city":"Oslo","station":` + station + `}`}; !slices.Equal(last, want) {
		t.Errorf("calls and results: %q, want %q", last, want)
	}
	if answered := slices.Contains(seen[:len(seen)-len(last)], "failed: false"); answered != (before != nil) {
		t.Errorf("the call that was open: %q", seen)
	}
	if s.Usage.InputTokens == 0 {
		t.Error("no usage was counted")
	}
}

// scripted is a model server with a script, in OpenAI's form.
type scripted struct {
	t      *testing.T
	script []answer
	holds  string // what the first request must hold
	tools  int    // that each request offers; 0: one
	asked  []string
	mu     sync.Mutex
	next   int
}

// answer is one of the provider's.
type answer struct {
	status int
	body   string
}

// script is what the provider answers, one request after the other.
var script = []answer{
	{200, message(`"content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Oslo\",\"station\":` + station + `}"}},{"id":"call_2","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Rome"}}]`)},
	{429, `{"error":{"message":"Rate limit reached","type":"tokens","code":"rate_limit_exceeded"}}`},
	{200, message(`"content":"Sunny in both."`)},
	{200, message(`"content":"Both sunny."`)}, // regenerated
	{200, message(`"content":"Noted."`)},
	{400, `{"error":{"message":"This model's maximum context length is 8192 tokens. However, you requested 12213 tokens (12213 in the messages, 0 in the completion). Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`},
	{200, message(`"content":"Everything."`)},
	{200, message(`"content":"Rome is sunny."`)}, // on the fork
}

func message(m string) string {
	return `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant",` + m + `}}],"usage":{"prompt_tokens":100,"completion_tokens":5}}`
}

func (p *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Error(err)
	}
	var req struct {
		Model    string      `json:"model"`
		Messages []turns.Raw `json:"messages"`
		Tools    []turns.Raw `json:"tools"`
	}
	if err := turns.DecodeJSON(b, &req); err != nil {
		p.t.Errorf("request %d: %v", p.next, err)
	}
	ms, err := turns.EncodeJSON(req.Messages)
	if err != nil {
		p.t.Error(err)
	}
	if err := strict.OpenAI(ms); err != nil {
		p.t.Errorf("request %d: %v\n%.2000s", p.next, err, ms)
	}
	p.asked = append(p.asked, string(ms))
	if len(req.Tools) != max(p.tools, 1) || !strings.Contains(string(ms), "You are terse.") {
		p.t.Errorf("request %d: %d tools, messages %.300s", p.next, len(req.Tools), ms)
	}
	if p.next == 0 && !strings.Contains(string(ms), p.holds) {
		p.t.Errorf("the first request lacks %.40q", p.holds)
	}
	if p.next >= len(p.script) {
		p.t.Errorf("request %d, more than the script has", p.next)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Retry-After", "0.01")
	w.WriteHeader(p.script[p.next].status)
	_, _ = io.WriteString(w, p.script[p.next].body)
	p.next++
}

func (p *scripted) done() {
	if p.next != len(p.script) {
		p.t.Errorf("%d requests, the script has %d", p.next, len(p.script))
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

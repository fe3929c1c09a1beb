package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/cmd/nexusd/daemon"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/interchange/strict"
)

// The agents of docs/examples, against a real daemon and a scripted provider,
// checked by what is in the ledger then.
func TestExamples(t *testing.T) {
	d, err := daemon.Open(t.Context(), daemon.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	nc, err := nats.Connect(d.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := api.NewClient(nc, "default", "main")
	examples := filepath.Join("..", "..", "docs", "examples")
	for _, lang := range []struct {
		name    string
		command func(*testing.T) *exec.Cmd
	}{
		{"go", func(t *testing.T) *exec.Cmd {
			bin := filepath.Join(t.TempDir(), "agent")
			finish(t, exec.Command("go", "build", "-o", bin, "./"+filepath.Join(examples, "go")))
			return exec.Command(bin)
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
			p := &provider{t: t}
			server := httptest.NewServer(p)
			defer server.Close()
			label := "weather-" + lang.name
			cmd.Env = append(os.Environ(), "NEXUS_URL="+d.ClientURL(), "MODEL_URL="+server.URL, "LABEL="+label)
			finish(t, cmd)
			p.done()
			checkExample(t, c, label)
		})
	}
	if v, err := c.As(api.Operator).Verify(t.Context()); err != nil || !v.OK {
		t.Errorf("verify: %+v, %v", v, err)
	}
}

// checkExample checks what an agent left in the ledger.
func checkExample(t *testing.T, c *api.Client, label string) {
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
	want := []string{
		"normal user text", // stored before it was answered
		"normal => text",   // the regenerated answer
		"normal user text", "normal => text",
		"normal user text",
		"compaction overflow",
		"normal => text",
	}
	if got := list(s.ID); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s:\n%s\nwant\n%s", label, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	f, err := c.Resolve(ctx, label+"-fork")
	if err != nil {
		t.Fatal(err)
	}
	if got := list(f.ID); len(got) != 3 || f.ForkedFrom == nil || f.ForkedFrom.Session != s.ID {
		t.Errorf("the fork: %v, %+v", got, f.ForkedFrom)
	}
	// The first answer, with its two calls and their results, is on a branch.
	tree, err := c.Tree(ctx, s.ID)
	if err != nil || len(tree.Sessions) != 2 || len(tree.Sessions[0].Branches) != 2 {
		t.Fatalf("tree: %+v, %v", tree, err)
	}
	if b := tree.Sessions[0].Branches[0]; b.From != 1 || b.To != 5 {
		t.Errorf("the first branch goes from depth %d to %d, want 1 to 5: question, calls, two results, answer", b.From, b.To)
	}
	if s.Usage.InputTokens == 0 {
		t.Error("no usage was counted")
	}
}

// provider is a model server with a script, in OpenAI's form.
type provider struct {
	t    *testing.T
	mu   sync.Mutex
	next int
}

// script is what the provider answers, one request after the other.
var script = []struct {
	status int
	body   string
}{
	{200, message(`"content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}},{"id":"call_2","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}}]`)},
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

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	if len(req.Tools) != 1 || !strings.Contains(string(ms), "You are terse.") {
		p.t.Errorf("request %d: %d tools, messages %.300s", p.next, len(req.Tools), ms)
	}
	if p.next >= len(script) {
		p.t.Errorf("request %d, more than the script has", p.next)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Retry-After", "0.01")
	w.WriteHeader(script[p.next].status)
	_, _ = io.WriteString(w, script[p.next].body)
	p.next++
}

func (p *provider) done() {
	if p.next != len(script) {
		p.t.Errorf("%d requests, the script has %d", p.next, len(script))
	}
}

func finish(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
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

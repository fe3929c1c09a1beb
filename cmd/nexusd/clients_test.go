package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/provider/providertest"
	"nexus/cmd/nexusd/internal/faulttest"
)

// clientsFolder has the node_modules of clients that are not ours; docs/TESTING.md says
// which.
var clientsFolder = flag.String("clients", "", "folder with a node_modules of client libraries, for TestRealClients")

// nodeClient runs a script of testdata/clients with the packages of the folder.
func nodeClient(t *testing.T, dir, script string, args ...string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "clients", script))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, fmt.Sprintf("nexus-%d-%s", os.Getpid(), script)) // node looks for packages from here
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(file)
	if out, err := command(t, dir, nil, "node", append([]string{file}, args...)...); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// command runs a program, bounded in time, and returns what it printed.
func command(t *testing.T, dir string, environ []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), suiteDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, append(os.Environ(), environ...), &out, &out, 10*time.Second
	err := cmd.Run()
	return out.String(), err
}

// Clients that are not ours have whole conversations before a provider of each kind.
func TestRealClients(t *testing.T) {
	if *clientsFolder == "" {
		t.Skip("SKIPPED: -clients names no folder with client libraries")
	}
	config, servers := scriptedProviders(t)
	d := startForSuite(t, faulttest.Build(t, "."), t.TempDir(), config)
	for _, kind := range providertest.Kinds() {
		model := "model-of-" + kind
		for _, script := range []string{"openai.mjs", "agents.mjs", "ai.mjs"} {
			t.Run(kind+"/"+script, func(t *testing.T) { nodeClient(t, *clientsFolder, script, d.HTTP+"/v1", model) })
		}
		for _, socket := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/codex, WebSocket %v", kind, socket), func(t *testing.T) { codex(t, d.HTTP, model, socket, servers[kind]) })
		}
		t.Run(kind+"/pi", func(t *testing.T) { pi(t, d.HTTP+"/v1", model) })
		if errs := servers[kind].Refused(); len(errs) > 0 {
			t.Errorf("%s refused %v", kind, errs)
		}
	}
}

// codex runs a turn, resumes its thread, and lets it compact.
func codex(t *testing.T, base, model string, socket bool, s *providertest.Server) {
	bin := filepath.Join(*clientsFolder, "node_modules", ".bin", "codex")
	if _, err := os.Stat(bin); err != nil {
		t.Skipf("SKIPPED: there is no codex: %v", err)
	}
	var sockets atomic.Int64
	to, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	pass := httputil.NewSingleHostReverseProxy(to)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "websocket" {
			sockets.Add(1)
		}
		r.Host = to.Host
		pass.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	base = proxy.URL + "/v1"
	home, work, label := t.TempDir(), t.TempDir(), fmt.Sprintf("codex %s %v", model, socket)
	write := func(limit string) {
		text := fmt.Sprintf("model = %q\nmodel_provider = \"nexus\"\n%s\n[model_providers.nexus]\nname = \"nexus\"\nbase_url = %q\nenv_key = \"NEXUS_KEY\"\nwire_api = \"responses\"\nsupports_websockets = %v\nhttp_headers = { \"x-nexus-session\" = %q, \"x-nexus-input\" = \"whole\" }\n", model, limit, base, socket, label)
		if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) {
		t.Helper()
		out, err := command(t, work, []string{"CODEX_HOME=" + home, "NEXUS_KEY=none"}, bin, append([]string{"exec", "--skip-git-repo-check", "--sandbox", "read-only"}, args...)...)
		if want := strings.TrimPrefix(args[len(args)-1], "exactly: "); err != nil || !strings.HasSuffix(strings.TrimSpace(out), want) {
			t.Fatalf("codex %q: %v\n%s", args, err, out)
		}
	}
	write("")
	run("exactly: the first answer")
	run("resume", "--last", "exactly: the second answer")
	storedOnce(t, base, model, label)
	// A threshold that is passed already: the next turn begins with a compaction.
	write("model_auto_compact_token_limit = 10")
	run("resume", "--last", "exactly: the third answer")
	if socket != (sockets.Load() > 0) {
		t.Errorf("%d WebSockets were opened", sockets.Load())
	}
	if s.Count("CONTEXT CHECKPOINT") == 0 {
		t.Error("codex did not compact")
	}
}

// pi runs a turn, continues its session, and uses a tool of its own.
func pi(t *testing.T, base, model string) {
	bin := filepath.Join(*clientsFolder, "node_modules", ".bin", "pi")
	if _, err := os.Stat(bin); err != nil {
		t.Skipf("SKIPPED: there is no pi: %v", err)
	}
	home, work := t.TempDir(), t.TempDir()
	text := fmt.Sprintf(`{"providers":{"nexus":{"baseUrl":%q,"api":"openai-responses","apiKey":"none","headers":{"x-nexus-session":"pi %[2]s","x-nexus-input":"whole"},"models":[{"id":%[2]q}]}}}`, base, model)
	if err := os.WriteFile(filepath.Join(home, "models.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"exactly: the first answer"}, "the first answer"},
		{[]string{"--continue", "exactly: the second answer"}, "the second answer"},
		{[]string{"--continue", "please read it"}, "The tools say: "},
	} {
		out, err := command(t, work, []string{"PI_CODING_AGENT_DIR=" + home, "PI_OFFLINE=1"}, bin, append([]string{"--provider", "nexus", "--model", model, "-p"}, c.args...)...)
		if err != nil || !strings.Contains(out, c.want) {
			t.Fatalf("pi %q: %v\n%s", c.args, err, out)
		}
		if c.want == "the second answer" {
			storedOnce(t, base, model, "pi "+model)
		}
	}
}

// storedOnce checks that a client that sends its history with each request has each question
// and answer once in the session of label. It adds a turn of its own, beside the client's path.
func storedOnce(t *testing.T, base, model, label string) {
	t.Helper()
	send := func(method, path, body string) (out struct {
		Nexus struct {
			Session string `json:"session"`
		} `json:"nexus"`
		Data []struct {
			Role    string `json:"role"`
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"data"`
	}) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("X-Nexus-Session", label)
		q.Header.Set("X-Nexus-Input", "new")
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK || json.Unmarshal(b, &out) != nil {
			t.Fatalf("%s %s: %v %s %.500s", method, path, err, r.Status, b)
		}
		return out
	}
	session := send("POST", "/responses", fmt.Sprintf(`{"model":%q,"input":"exactly: the end"}`, model)).Nexus.Session
	count := make(map[string]int)
	for _, it := range send("GET", "/conversations/conv_"+session+"/items?limit=100", "").Data {
		for _, c := range it.Content {
			count[it.Role+": "+c.Text]++
		}
	}
	for _, text := range []string{"user: exactly: the first answer", "assistant: the first answer", "user: exactly: the second answer", "assistant: the second answer"} {
		if count[text] != 1 {
			t.Errorf("%q is %d times in the session %s", text, count[text], label)
		}
	}
}

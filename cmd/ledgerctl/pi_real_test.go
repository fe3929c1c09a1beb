package main

import (
	"bufio"
	"flag"
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

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/transcripts"
	"nexus/cmd/ledgerctl/internal/hooks"
	"nexus/ledger/api/client"
)

var piProgram = flag.String("pi", "", "cli.js of pi's package, from npm: TestPiStoresTheLedgersCompaction runs it")

// scriptedModel answers like a model with the API of chat completions. It keeps requests.
type scriptedModel struct {
	mu       sync.Mutex
	requests []string
}

func (m *scriptedModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	m.mu.Lock()
	m.requests = append(m.requests, string(b))
	n := len(m.requests)
	m.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	text := fmt.Sprintf("Answer %d: the file /barn/roof-%d.go holds the tiles of the north barn. %s", n, n, strings.Repeat("The larch shingles stay dry under the eaves. ", 20))
	fmt.Fprintf(w, "data: {\"id\":\"r%d\",\"object\":\"chat.completion.chunk\",\"model\":\"scripted\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":%q},\"finish_reason\":null}]}\n\n", n, text)
	fmt.Fprintf(w, "data: {\"id\":\"r%d\",\"object\":\"chat.completion.chunk\",\"model\":\"scripted\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":200,\"total_tokens\":%d}}\n\ndata: [DONE]\n\n", n, 300*n, 300*n+200)
}

func (m *scriptedModel) last() (text string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests[len(m.requests)-1], len(m.requests)
}

// piRPC is pi as a process that takes commands as lines of JSON.
type piRPC struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

// do sends a command and returns the first line for which is holds.
func (p *piRPC) do(command string, is func(line string) bool) string {
	p.t.Helper()
	if _, err := io.WriteString(p.in, command+"\n"); err != nil {
		p.t.Fatal(err)
	}
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			p.t.Fatalf("pi ended: %v", err)
		}
		if is(line) {
			return line
		}
	}
}

// The real pi asks its extension, stores the ledger's compaction, shows it to its model, and
// never asks the model for a summary. The session comes in with the compaction, once.
func TestPiStoresTheLedgersCompaction(t *testing.T) {
	if *piProgram == "" {
		t.Skip("-pi names no program")
	}
	ctx := t.Context()
	url, creds, stop, err := startDaemon(t, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	bin := filepath.Join(t.TempDir(), "ledgerctl")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	model := new(scriptedModel)
	server := httptest.NewServer(model)
	defer server.Close()
	home, work := t.TempDir(), t.TempDir()
	environ := append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+home+"/state", "PI_CODING_AGENT_DIR="+home+"/agent", "PI_CODING_AGENT_SESSION_DIR=", "PI_OFFLINE=1", "NEXUS_URL=", "NEXUS_CREDS=")
	if err := os.MkdirAll(filepath.Join(home, "agent"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"models.json":   fmt.Sprintf(`{"providers":{"here":{"baseUrl":"%s/v1","api":"openai-completions","apiKey":"none","models":[{"id":"scripted","contextWindow":100000}]}}}`, server.URL),
		"settings.json": `{"compaction":{"enabled":true,"reserveTokens":1000,"keepRecentTokens":300}}`,
	} {
		if err := os.WriteFile(filepath.Join(home, "agent", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	install := exec.CommandContext(ctx, bin, "--server", url, "--creds", creds, "hooks", "install", "--agent", "pi")
	install.Env = environ
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.CommandContext(ctx, "node", *piProgram, "--mode", "rpc", "--provider", "here", "--model", "scripted")
	cmd.Dir, cmd.Env, cmd.Stderr = work, environ, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &piRPC{t, in, bufio.NewReaderSize(out, 1<<20)}
	ask := func(text string) {
		p.do(fmt.Sprintf(`{"type":"prompt","message":%q}`, text), func(l string) bool { return strings.Contains(l, `"type":"agent_end"`) })
	}
	for i := range 6 {
		ask(fmt.Sprintf("Step %d: which file holds the tiles? %s", i, strings.Repeat("The gutter of the north barn leaks. ", 20)))
	}
	_, before := model.last()
	var done struct {
		Success bool   `json:"success"`
		Error   string `json:"error"`
		Data    struct {
			Summary string         `json:"summary"`
			Details map[string]any `json:"details"`
		} `json:"data"`
	}
	line := p.do(`{"type":"compact","customInstructions":"the tiles"}`, func(l string) bool {
		return strings.Contains(l, `"type":"response"`) && strings.Contains(l, `"command":"compact"`)
	})
	if err := json.Unmarshal([]byte(line), &done); err != nil || !done.Success || done.Data.Details["nexus_compaction"] == nil {
		t.Fatalf("%v: %.2000s", err, line)
	}
	if _, n := model.last(); n != before {
		t.Errorf("pi asked its model %d times for a summary", n-before)
	}
	ask("And now?")
	request, _ := model.last()
	var sent struct {
		Messages []struct {
			Role    string `json:"role"`
			Content any    `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal([]byte(request), &sent); err != nil {
		t.Fatal(err)
	}
	shown, users := false, 0
	for _, m := range sent.Messages {
		if m.Role == "user" {
			users++
			shown = shown || strings.Contains(fmt.Sprint(m.Content), done.Data.Summary)
		}
	}
	if !shown || users > 3 {
		t.Errorf("the summary is shown: %v, in %d messages of the user: %s", shown, users, request)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Logf("pi: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(home, "agent", "sessions", "*", "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	nc, err := client.Dial(url, creds)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := client.New(nc, "default", "main")
	im := transcripts.Importer{Client: c, Format: "auto", Final: true}
	r, err := im.File(ctx, files[0])
	if err != nil || r.Compactions != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	n := 0
	for x, err := range c.Compactions(ctx, r.Sessions[0]) {
		if err != nil || x.Compaction.Summary == nil || *x.Compaction.Summary != done.Data.Summary {
			t.Errorf("%+v, %v", x.Compaction, err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d compactions", n)
	}
	for _, event := range []string{"PreCompact", "PostCompact", "SessionEnd"} {
		if f, ok := hooks.ReadFired(filepath.Join(home, "state", "nexus", "hooks"), "pi", event); !ok || f.Failed != "" {
			t.Errorf("%s: %+v", event, f)
		} else {
			t.Logf("%s took %d ms", event, f.TookMS)
		}
	}
}

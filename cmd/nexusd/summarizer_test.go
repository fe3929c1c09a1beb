package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"nexus/cmd/internal/daemon"
	"nexus/ledger/api"
	"nexus/turns"
)

// A daemon with a model asks it for summaries, and falls back to the extractive
// summary if the model fails. The key of the model is in no log, reply or file.
func TestAModelSummarizes(t *testing.T) {
	const key = "sk-very-secret-key"
	var down atomic.Bool
	var asked atomic.Int32
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != "Bearer "+key || down.Load() {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"no, `+r.Header.Get("Authorization")+`"}}`)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"TASK: written by a model"}}],"usage":{"prompt_tokens":70,"completion_tokens":7}}`)
	}))
	defer provider.Close()
	data := t.TempDir()
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	logs := new(lockedBuffer)
	cfg := daemon.Config{Data: data, Logger: slog.New(slog.NewTextHandler(logs, nil)),
		Summarizer: "openai", SummarizerURL: provider.URL, SummarizerModel: "m", SummarizerKeyFile: keyFile}
	var err error
	if cfg.Models, err = models(cfg); err != nil {
		t.Fatal(err)
	}
	_, c := startDaemon(t, cfg)
	ctx := t.Context()
	s, err := c.Create(ctx, api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	say := func(n int) {
		for i := range n {
			m := turns.TextMessage(turns.Assistant, "answer "+strings.Repeat("words ", 300))
			if _, err := c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, fmt.Sprint("question ", i))}, Response: &m}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		down bool
		tier string
	}{{false, "llm"}, {true, "extractive"}} {
		down.Store(tc.down)
		say(20)
		run, err := c.Compact(ctx, s.ID, api.RunCompaction{WaitMS: 20_000})
		if err != nil || run.Compaction == nil {
			t.Fatalf("%+v, %v", run, err)
		}
		if k := run.Compaction; k.Compaction.Tier != tc.tier || (tc.tier == "llm" && (*k.Compaction.Summary != "TASK: written by a model" || k.Usage == nil || k.Usage.InputTokens != 70)) {
			t.Errorf("compaction by %s, usage %+v: %s", k.Compaction.Tier, k.Usage, *k.Compaction.Summary)
		}
	}
	if asked.Load() < 2 {
		t.Errorf("the model was asked %d times", asked.Load())
	}
	if v, err := c.As(api.Operator).Verify(ctx); err != nil || !v.OK {
		t.Errorf("verify: %+v, %v", v, err)
	}
	if strings.Contains(logs.String(), key) {
		t.Error("the key is in the log")
	}
	err = filepath.WalkDir(data, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // files of a running store come and go
		}
		if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), key) {
			t.Errorf("the key is in %s", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// S8-18, WOL-8: the model of a summary is the one that the policy names, or the
// session's own where the policy says so, as far as the operator lists them; the
// default one else. Each is asked at its own place under its own key, and the
// compaction says which it was.
func TestS8_18WOL8ModelsByPolicyAndSession(t *testing.T) {
	const haiku = "claude-haiku-4-5-20251001" // spec-008's summary_model
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Model string `json:"model"`
		}
		b, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(b, &q)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"%s at %s under %s"}}]}`,
			q.Model, r.URL.Path, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	}))
	defer provider.Close()
	file := filepath.Join(t.TempDir(), "nexus.toml")
	err := os.WriteFile(file, []byte(fmt.Sprintf(`
summarizer = "openai"
summarizer_url = "%[1]s/default/"
summarizer_model = "usual"

[[summarizers]]
name = "side-door"
provider = "openai"
url = "%[1]s/side/"
model = %[2]q
models = ["own"]
`, provider.URL, haiku)), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := parse([]string{"--config", file, "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "off", "--max-store", "1000000000"},
		[]string{"NEXUS_SUMMARIZER_KEY=one", "NEXUS_SUMMARIZER_KEY_SIDE_DOOR=two"})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Models, err = models(cfg); err != nil {
		t.Fatal(err)
	}
	_, c := startDaemon(t, cfg)
	type made struct{ Tier, Model, Summary string }
	usual, side, own := made{"llm", "usual", "usual at /default/chat/completions under one"},
		made{"side-door", haiku, haiku + " at /side/chat/completions under two"}, made{"side-door", "own", "own at /side/chat/completions under two"}
	for _, tc := range []struct {
		policy, set, model string
		want               made
	}{
		{"spec-008", ``, "own", side}, // whatever the session's model is
		{"wolffish", ``, "own", own},
		{"wolffish", ``, "elsewhere/own", usual},
		{"wolffish", ``, "", usual},
		{"wolffish", `{"summary_by":""}`, "own", usual}, // as version 1
		{"nexus", ``, "own", usual},
		{"nexus", `{"summary_model":"own"}`, "", own},
		{"nexus", `{"summary_model":"not-listed"}`, "", usual},
		{"nexus", `{"summary_by":"session_model","summary_model":"claude-haiku-4-5-20251001"}`, "not-listed", side},
		{"nexus", `{"tiers":["extractive"],"summary_model":"own"}`, "", made{"extractive", "", ""}},
	} {
		set := turns.Raw(nil)
		if tc.set != "" {
			set = turns.Raw(tc.set)
		}
		s, err := c.Create(t.Context(), api.CreateSession{SessionSettings: api.SessionSettings{Policy: &api.Policy{Name: tc.policy, Set: set}, Model: &tc.model,
			Limits: &turns.Limits{ContextWindow: 16_000, MaxOutputTokens: 1000}}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			m := turns.TextMessage(turns.Assistant, "answer "+strings.Repeat("words ", 300))
			if _, err := c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, fmt.Sprint("question ", i))}, Response: &m}); err != nil {
				t.Fatal(err)
			}
		}
		run, err := c.Compact(t.Context(), s.ID, api.RunCompaction{WaitMS: 20_000})
		if err != nil || run.Compaction == nil {
			t.Fatalf("%+v: %+v, %v", tc, run, err)
		}
		k := run.Compaction.Compaction
		got := made{k.Tier, k.Model, *k.Summary}
		if got.Tier == "extractive" {
			got.Summary = ""
		}
		if got != tc.want {
			t.Errorf("%s %s, session's model %q:\n got %+v\nwant %+v", tc.policy, tc.set, tc.model, got, tc.want)
		}
	}
}

// What a configuration's summarizers can't be is refused, each fault by its name.
func TestSummarizerRowsThatCantBe(t *testing.T) {
	for _, tc := range []struct{ rows, fault string }{
		{`[[summarizers]]
name = "llm-partial"
provider = "openai"
model = "b"`, `"llm-partial" is not a name, or one that is taken`},
		{`[[summarizers]]
name = "extractive"
provider = "openai"
model = "b"`, `"extractive" is not a name, or one that is taken`},
		{`[[summarizers]]
name = "file"
provider = "openai"
model = "b"`, `"file" is not a name, or one that is taken`},
		{`[[summarizers]]
name = "other"
provider = "openai"
model = "b"
models = ["usual"]`, `summarizer other: model usual is too long, or asked by two`},
		{`[[summarizers]]
name = "other"
provider = "openai"`, `summarizer other: no model is named`},
		{`[[summarizers]]
name = "other"
provider = "openai"
model = "b"
spend_limit = -1`, `a spend limit of -1`},
		{`[[summarizers]]
name = "other"
provider = "openai"
model = "b"
key = "sk-1"`, `key`}, // no configuration file may hold a key
	} {
		file := filepath.Join(t.TempDir(), "nexus.toml")
		if err := os.WriteFile(file, []byte("summarizer = \"openai\"\nsummarizer_model = \"usual\"\n"+tc.rows), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := parse([]string{"--config", file}, nil); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), `"usual"`, "usual"), tc.fault) {
			t.Errorf("%s:\n got %v\nwant %s", tc.rows, err, tc.fault)
		}
	}
	// A limit without a price would never hold, under any of the models.
	cfg := daemon.Config{Summarizers: []daemon.SummarizerRow{{Name: "a", Provider: "openai", Model: "gpt-5.5", Models: []string{"nobody-knows-this"}, SpendLimit: 1}}}
	if _, err := models(cfg); err == nil || !strings.Contains(err.Error(), `no price of model "nobody-knows-this"`) {
		t.Errorf("a spend limit without a price: %v", err)
	}
}

// The configuration that the docs show is one that nexusd takes.
func TestSummarizersExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/policies/llm.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```toml\n")
	block, _, _ = strings.Cut(block, "```")
	file := filepath.Join(t.TempDir(), "nexus.toml")
	if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := parse([]string{"--config", file}, []string{"NEXUS_SUMMARIZER_KEY_CLAUDE=k"})
	if err != nil {
		t.Fatal(err)
	}
	tiers, err := models(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tier := range tiers {
		names = append(names, tier.Name+" "+tier.Model)
	}
	want := "llm local-large, llm-partial local-large, llm claude-haiku-4-5-20251001, llm-partial claude-haiku-4-5-20251001, llm claude-opus-4-8, llm-partial claude-opus-4-8"
	if got := strings.Join(names, ", "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// lockedBuffer is a log that is written and read at once.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

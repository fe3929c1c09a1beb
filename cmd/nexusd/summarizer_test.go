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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"nexus/cmd/internal/daemon/config"
	asked "nexus/cmd/internal/provider"
	"nexus/ledger/api"
	"nexus/turns"
)

// A daemon with a model asks it for summaries, and falls back to the extractive
// summary if the model fails. The key of the model is in no log, reply or file.
func TestAModelSummarizes(t *testing.T) {
	const key = "sk-very-secret-key"
	var down atomic.Bool
	var requests atomic.Int32
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
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
	cfg := config.Config{Data: data, Logger: slog.New(slog.NewTextHandler(logs, nil)), Summarizer: "p/m",
		Providers: []asked.Row{{Name: "p", Kind: "openai-chat", URL: provider.URL, KeyFile: keyFile, Models: []any{"m"}}}}
	if err := withProviders(&cfg, nil); err != nil {
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
	if requests.Load() < 2 {
		t.Errorf("the model was asked %d times", requests.Load())
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
// session's own where the policy says so, as far as a provider has them; the
// default one else. Each is asked at its own provider under its own key, and the
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
summarizer = "default/usual"

[[provider]]
name = "default"
kind = "openai-chat"
url = "%[1]s/default"
key_env = "FIRST"
models = ["usual"]

[[provider]]
name = "side"
kind = "openai-chat"
url = "%[1]s/side"
key_env = "SECOND"
models = {"%[2]s" = "%[2]s", own = "own-at-side"}
`, provider.URL, haiku)), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := parse([]string{"--config", file, "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "off", "--max-store", "1000000000"},
		nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	if err := withProviders(&cfg, []string{"FIRST=one", "SECOND=two"}); err != nil {
		t.Fatal(err)
	}
	_, c := startDaemon(t, cfg)
	type made struct{ Tier, Model, Summary string }
	usual, side, own := made{"llm", "usual", "usual at /default/chat/completions under one"},
		made{"llm", haiku, haiku + " at /side/chat/completions under two"}, made{"llm", "own", "own-at-side at /side/chat/completions under two"}
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

// What a configuration's summarizer can't be is refused, each fault by its name.
func TestSummarizersThatCantBe(t *testing.T) {
	const row = "\n[[provider]]\nname = \"p\"\nkind = \"openai-chat\"\nurl = \"http://127.0.0.1:1\"\nmodels = [\"usual\", \"nobody-knows-*\"]\n"
	for rows, fault := range map[string]string{
		`summarizer = "openai"` + row:                                              "is not PROVIDER/MODEL",
		`summarizer = "p/"` + row:                                                  "is not PROVIDER/MODEL",
		`summarizer = "other/usual"` + row:                                         `no [[provider]] row "other" has the model "usual"`,
		`summarizer = "p/other"` + row:                                             `no [[provider]] row "p" has the model "other"`,
		`summarizer = "p/nobody-knows-*"` + row:                                    `"nobody-knows-*" is a pattern`,
		`summarizer = "p/usual"`:                                                   `no [[provider]] row "p"`,
		"summarizer_spend_limit = 2.0" + row:                                       "there is no summarizer that it could limit",
		"summarizer_spend_limit = -1" + row:                                        "-1 is not a number of dollars",
		"summarizer = \"p/nobody-knows-this\"\nsummarizer_spend_limit = 1.0" + row: `no price of model "nobody-knows-this"`, // it would never hold
		"summarizer_url = \"http://127.0.0.1:1\"" + row:                            "summarizer_url",
		"[[summarizers]]\nname = \"a\"\n" + row:                                    "summarizers",
	} {
		file := filepath.Join(t.TempDir(), "nexus.toml")
		if err := os.WriteFile(file, []byte(rows), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := parse([]string{"--config", file}, nil)
		if err == nil {
			cfg.Logger = slog.New(slog.DiscardHandler)
			err = withProviders(&cfg, nil)
		}
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s:\n got %v\nwant %s", rows, err, fault)
		}
	}
}

// The configuration that the docs show is one that nexusd takes.
func TestSummarizerExample(t *testing.T) {
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
	cfg, err := parse([]string{"--config", file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	if err := withProviders(&cfg, []string{"ANTHROPIC_API_KEY=k"}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tier := range slices.Concat(cfg.Models, cfg.ModelTiers("claude-haiku-4-5-20251001"), cfg.ModelTiers("nobody-has-this")) {
		names = append(names, tier.Name+" "+tier.Model)
	}
	want := "llm local-large, llm-partial local-large, llm claude-haiku-4-5-20251001, llm-partial claude-haiku-4-5-20251001"
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

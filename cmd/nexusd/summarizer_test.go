package main

import (
	"bytes"
	"context"
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
	"time"

	"github.com/nats-io/nats.go"

	"nexus/cmd/nexusd/daemon"
	"nexus/ledger/api"
	"nexus/turns"
)

// A daemon that is told of a model has it write the summaries, and falls back
// to the extract where it fails; its key is in no log, reply or file.
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
	cfg := daemon.Config{Data: data, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30, Logger: slog.New(slog.NewTextHandler(logs, nil)),
		Summarizer: "openai", SummarizerURL: provider.URL, SummarizerModel: "m", SummarizerKeyFile: keyFile}
	var err error
	if cfg.Models, err = models(cfg); err != nil {
		t.Fatal(err)
	}
	d, err := daemon.Open(t.Context(), cfg)
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

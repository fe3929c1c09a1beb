package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nexus/cmd/internal/transcripts"
	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/turns/transcript/gemini"
)

const (
	geminiMain = `{"sessionId":"5fd0a1b2-1111-4222-8333-000000000001","projectHash":"p","startTime":"2026-04-11T14:53:00Z","kind":"main"}
{"id":"u1","timestamp":"2026-04-11T14:53:01Z","type":"user","content":"ask the agent"}
{"id":"g1","timestamp":"2026-04-11T14:53:02Z","type":"gemini","content":"","model":"m","toolCalls":[{"id":"t","name":"delegate","args":{},"agentId":"helper-7","status":"success","result":[{"functionResponse":{"id":"t","name":"delegate","response":{"output":"x"}}}]}]}
{"id":"g2","timestamp":"2026-04-11T14:53:09Z","type":"gemini","content":"done","model":"m"}
`
	geminiSub = `{"sessionId":"helper-7","projectHash":"p","startTime":"2026-04-11T14:53:03Z","kind":"subagent"}
{"id":"a","timestamp":"2026-04-11T14:53:04Z","type":"user","content":"task"}
{"id":"b","timestamp":"2026-04-11T14:53:05Z","type":"gemini","content":"x","model":"m"}
`
)

// A sub-agent of Gemini CLI knows the turn that started it, by the folder of its file.
func TestGeminiSubagentKnowsItsSpawner(t *testing.T) {
	ctx := t.Context()
	e := newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard})
	c, stop, err := local.Start(ctx, e.Terminal, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	chats := filepath.Join(t.TempDir(), "chats")
	id := "5fd0a1b2-1111-4222-8333-000000000001"
	main, sub := filepath.Join(chats, "session-2026-04-11T14-53-5fd0a1b2.jsonl"), filepath.Join(chats, id, "helper-7.jsonl")
	alone := filepath.Join(t.TempDir(), "chats", id, "helper-8.jsonl")
	for name, text := range map[string]string{main: geminiMain, sub: geminiSub, alone: strings.ReplaceAll(geminiSub, "helper-7", "helper-8")} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	im := transcripts.Importer{Client: c, Format: "auto", Final: true}
	var sessions []string
	for _, name := range []string{main, sub, alone} {
		r, err := im.File(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Session(ctx, r.Sessions[0])
		if err != nil {
			t.Fatal(err)
		}
		by := ""
		if s.SpawnedBy != nil {
			turn, err := c.Turn(ctx, s.SpawnedBy.Session, s.SpawnedBy.Turn)
			if err != nil {
				t.Fatal(err)
			}
			by = turn.Response.Parts[len(turn.Response.Parts)-1].Name
		}
		sessions = append(sessions, by)
		if name == alone && (len(r.Losses) != 1 || !strings.Contains(string(s.Meta), `"parent_session_id":"`+id+`"`)) {
			t.Errorf("without its spawner: losses %+v, meta %s", r.Losses, s.Meta)
		}
	}
	if got := strings.Join(sessions, ","); got != ",delegate," {
		t.Errorf("started by %q", got)
	}
	f, err := os.Open(main)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if by := gemini.Spawner(f, "another"); by.Session.IsZero() || !by.Turn.IsZero() {
		t.Errorf("an agent that no call names: %v", by)
	}
}

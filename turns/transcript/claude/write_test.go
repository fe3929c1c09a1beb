package claude

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

// writeClaude writes the appends and compactions of one session as Claude Code
// would.
func writeClaude(t *testing.T, steps []transcript.Step, session turns.ID) []byte {
	t.Helper()
	w := Format().Write(transcript.WrittenSession{ID: session})
	var out bytes.Buffer
	for _, s := range steps {
		var turn transcript.WrittenTurn
		switch {
		case s.Append != nil && s.Append.Session == session:
			a := s.Append
			turn = transcript.WrittenTurn{ID: a.ID, Time: a.Time, Model: a.Model, Messages: a.Messages, Response: a.Response, Usage: a.Usage}
		case s.Compaction != nil && s.Compaction.Session == session && s.Compaction.Summary != "":
			k := s.Compaction
			turn = transcript.WrittenTurn{ID: k.ID, Time: k.Time, Compaction: true, Summary: k.Summary, Automatic: k.Trigger == "threshold", TokensBefore: k.TokensBefore}
		default:
			continue
		}
		lines, err := w.Turn(turn)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			out.Write(append(l, '\n'))
		}
	}
	return out.Bytes()
}

// messageTexts returns the messages of a session: roles, texts, calls and results in order,
// with usage once a response.
func messageTexts(steps []transcript.Step, session turns.ID) (out []string) {
	for _, s := range steps {
		switch {
		case s.Append != nil && s.Append.Session == session:
			for _, m := range s.Append.Messages {
				for _, p := range m.Parts {
					if b := transcripttest.Brief(turns.Message{Role: m.Role, Parts: []turns.Part{p}}); b != "user()" {
						out = append(out, b)
					}
				}
			}
			if r := s.Append.Response; r != nil {
				out = append(out, transcripttest.Brief(*r)+" "+s.Append.Model)
				if u := s.Append.Usage; u != nil {
					b, _ := turns.EncodeJSON(u)
					out = append(out, string(b))
				}
			}
		case s.Compaction != nil && s.Compaction.Session == session && s.Compaction.Summary != "":
			out = append(out, "compaction "+s.Compaction.Summary)
		}
	}
	return out
}

// What was written is read back unchanged; written again, the lines are
// the same.
func TestWriteClaudeCode(t *testing.T) {
	signed := turns.Part{Type: turns.Reasoning, Content: "hm", Ext: turns.Raw(`{"anthropic":{"signature":"sig="}}`)}
	call := turns.Part{Type: turns.ToolCall, ID: "toolu_1", Name: "ls", Arguments: turns.Raw(`{"n":1.50}`)}
	result := turns.Part{Type: turns.ToolCallResponse, ID: "toolu_1", Response: turns.RawText("a"), IsError: true}
	session := turns.ID{15: 9}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	steps := []transcript.Step{
		{Append: &transcript.Append{Session: session, ID: turns.ID{15: 1}, Time: at, Model: "m", Messages: []turns.Message{turns.TextMessage(turns.User, "look")},
			Response: &turns.Message{Role: turns.Assistant, Parts: []turns.Part{signed, turns.TextPart("I look"), call}}, Usage: &turns.Usage{InputTokens: 10, OutputTokens: 2, CacheRead: 4, CacheCreation: 1}}},
		{Append: &transcript.Append{Session: session, ID: turns.ID{15: 2}, Time: at, Model: "m", Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{result}}, turns.TextMessage(turns.User, "and?")},
			Response: &turns.Message{Role: turns.Assistant, Parts: []turns.Part{turns.TextPart("done")}, FinishReason: "end_turn"}}},
		{Compaction: &transcript.Compaction{Session: session, ID: turns.ID{15: 3}, Time: at, Summary: "it looked", Trigger: "threshold", TokensBefore: 12}},
		{Append: &transcript.Append{Session: session, ID: turns.ID{15: 4}, Time: at, Model: "m", Messages: []turns.Message{turns.TextMessage(turns.User, "more")},
			Response: &turns.Message{Role: turns.Assistant, Parts: []turns.Part{turns.TextPart("yes")}}}},
	}
	text := writeClaude(t, steps, session)
	back, losses := readClaude(t, text, true)
	if d := cmp.Diff(messageTexts(steps, session), messageTexts(back, back[0].Open.ID)); d != "" || len(losses) != 0 {
		t.Errorf("read back (-written +read):\n%s\n%+v\n%s", d, losses, text)
	}
	for _, s := range back {
		if s.Append != nil && s.Append.Response != nil && s.Append.Response.Parts[0].Type == turns.Reasoning {
			if got := string(s.Append.Response.Parts[0].Ext); !strings.Contains(got, `"signature":"sig="`) {
				t.Errorf("ext %s", got)
			}
		}
	}
	if !Sniff(text) {
		t.Error("not recognized as Claude Code's")
	}
}

// Real transcripts, read, written and read again, say the same.
func TestWriteRealClaudeCode(t *testing.T) {
	for _, file := range claudeFiles(t) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		steps, _ := readClaude(t, b, true)
		forked := false
		for _, s := range steps {
			forked = forked || s.Fork != nil
		}
		if len(steps) == 0 || steps[0].Open == nil || forked {
			continue
		}
		session := steps[0].Open.ID
		back, _ := readClaude(t, writeClaude(t, steps, session), true)
		if len(back) == 0 {
			continue
		}
		if d := cmp.Diff(messageTexts(steps, session), messageTexts(back, back[0].Open.ID)); d != "" {
			t.Errorf("%s (-read +written and read again):\n%.3000s", filepath.Base(file), d)
		}
	}
}

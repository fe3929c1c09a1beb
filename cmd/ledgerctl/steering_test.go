package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// onTerminal runs a command as on a terminal of 100 cells without colours, and returns
// what it wrote.
func onTerminal(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	e := newEnv(&terminal.Terminal{In: strings.NewReader(""), Raw: &out, NoColor: true, OutIsTerminal: true, Width: 100})
	e.Out = e.Plain(&out)
	e.Err = e.Plain(&out)
	root := commands(e)
	root.SetArgs(args)
	root.SetOut(e.Out)
	root.SetErr(e.Err)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Errorf("%q: %v", args, err)
	}
	if e.NC != nil {
		e.NC.Close()
	}
	return out.String()
}

// Names inside turns come from providers and are stored as they are, since no import
// may lose a turn. Whatever shows them on a terminal shows no hidden character, and
// what goes to an agent is the name as it was.
func TestNoCommandShowsHiddenCharactersOfANameOnATerminal(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("NEXUS_CREDS", "")
	url := daemonURL(t)
	nc, err := client.Dial(url, os.Getenv("NEXUS_CREDS"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := client.New(nc, "default", "main")
	s, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	const evil = "rm\u009b2J\u202etxt\u0085\u200b" // names with C0 controls are refused
	const text = evil + "\x1b[31m"
	user := turns.Message{Role: turns.User, Name: evil, Parts: []turns.Part{{Type: turns.Text, Content: "hello " + text}}}
	call := turns.Message{Role: turns.Assistant, Name: evil, FinishReason: evil, Parts: []turns.Part{
		{Type: turns.Reasoning, Content: text},
		{Type: turns.ToolCall, ID: evil, Name: evil, Arguments: turns.Raw(`{"path\u009b":"a\u202eb\u001b[2J"}`)}}}
	result := turns.Message{Role: turns.Tool, Name: evil, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: evil, Name: evil, Response: turns.Raw(`"done\u009b2J"`), IsError: true}}}
	uri := turns.Message{Role: turns.User, Parts: []turns.Part{{Type: turns.URI, Modality: "image", MimeType: "image/png", Content: "https://x.example/" + evil}}}
	var last turns.ID
	for _, r := range []api.AppendTurn{
		{Messages: []turns.Message{user}, Response: &call, Model: "model"},
		{Messages: []turns.Message{result, uri}, Response: &turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.Text, Content: "end"}}}},
	} {
		a, err := c.Append(t.Context(), s.ID, r)
		if err != nil {
			t.Fatal(err)
		}
		last = a.ID
	}
	id := s.ID.String()
	for _, args := range [][]string{
		{"log", id}, {"show", id + "@head"}, {"show", id + "@1"}, {"show", id + "@1", "--part", "3"}, {"tree", id}, {"path", id}, {"tail", id},
		{"context", id}, {"context", id, "--explain"}, {"context", id, "--format", "openai"}, {"context", id, "--format", "anthropic"}, {"context", id, "--format", "gemini"},
		{"sessions"}, {"sessions", "show", id}, {"diff", id + "@1", last.String()}, {"compact", id, "--dry-run"}, {"verify", id},
		{"export", id, "--with-keys"}, {"export", id, "--format", "openai"}, {"export", id, "--format", "claude-code"},
	} {
		for _, json := range []bool{false, true} {
			if json && args[0] == "export" {
				continue
			}
			args := append([]string{"--server", url}, args...)
			if json {
				args = append(args, "--json")
			}
			if out := onTerminal(t, args...); strings.ContainsFunc(strings.NewReplacer("\n", "", "\t", "").Replace(out), turns.IsHidden) {
				t.Errorf("%q shows hidden characters: %q", args, out)
			}
		}
	}
	// To an agent, and into a file, goes the name as it is.
	cx, err := c.Context(t.Context(), s.ID, api.GetContext{Format: "otel"})
	if err != nil {
		t.Fatal(err)
	}
	var whole []byte
	for _, m := range cx.Messages {
		whole = append(whole, m...)
	}
	var m turns.Message
	if err := turns.DecodeJSON(cx.Messages[1], &m); err != nil || m.Parts[1].Name != evil || m.Parts[1].ID != evil {
		t.Errorf("the context has %+v, %v in %s", m, err, whole)
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"--server", url, "show", id + "@1", "--json"}, strings.NewReader(""), &out, &errs); code != 0 || !strings.Contains(out.String(), "\u202etxt") {
		t.Errorf("in a file: exit status %d: %q%s", code, out.String(), &errs)
	}
}

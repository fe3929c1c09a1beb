package claude

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

// A command that ran in Claude Code itself, also one with arguments, is nothing that the person
// asked the model: what follows is. One that Claude Code sends on to the model is.
func TestALocalCommandIsNoPrompt(t *testing.T) {
	for name, c := range map[string]struct {
		texts []string
		want  string // the messages that are a program's
	}{
		"local":               {[]string{"<command-name>/add-dir</command-name> <command-args>../lib</command-args>", "<local-command-stdout>Added</local-command-stdout>", "Mend it."}, "[0,1]"},
		"local, it failed":    {[]string{"<command-message>model</command-message> <command-name>/model</command-name> <command-args>x</command-args>", "<local-command-stderr>no</local-command-stderr>", "Mend it."}, "[0,1]"},
		"sent to the model":   {[]string{"<command-name>/review</command-name> <command-args>94</command-args>", "Mend it."}, ""},
		"a person's own text": {[]string{"Say it.", "<local-command-stdout>x</local-command-stdout>"}, "[1]"},
	} {
		var text strings.Builder
		parent := "null"
		for i, s := range c.texts {
			fmt.Fprintf(&text, `{"parentUuid":%s,"type":"user","uuid":"00000000-0000-4000-8000-00000000000%d","sessionId":"81234567-89ab-4def-8123-456789abcdef","timestamp":"2026-08-11T09:00:0%dZ","message":{"role":"user","content":%s}}`+"\n", parent, i, i, turns.RawText(s))
			parent = fmt.Sprintf(`"00000000-0000-4000-8000-00000000000%d"`, i)
		}
		steps, _ := transcripttest.ReadAll(t, Read(strings.NewReader(text.String()), transcript.Options{Final: true}))
		var m struct {
			Program turns.Raw `json:"program_messages"`
		}
		if len(steps) != 2 {
			t.Fatalf("%s: %v", name, transcripttest.OutlineSteps(steps))
		}
		if err := json.Unmarshal(steps[1].Append.Meta, &m); err != nil || string(m.Program) != c.want {
			t.Errorf("%s: %s are a program's, want %s (%v)", name, m.Program, c.want, err)
		}
	}
}

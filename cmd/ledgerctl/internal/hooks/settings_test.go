package hooks

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// The settings of a user keep every byte but those of the hooks, and an uninstall gives
// back what was there.
func TestSettingsKeepEverythingElse(t *testing.T) {
	for name, before := range map[string]string{
		"empty object":       "{}\n",
		"spread object":      "{\n}\n",
		"other members":      "{\n  \"model\": \"m\",\n  \"n\" :1.50\n}\n",
		"tabs":               "{\n\t\"model\": \"m\"\n}",
		"one line":           `{"model":"m","permissions":{"allow":["Bash(ls)"]}}`,
		"hooks of others":    "{\n  \"hooks\": {\n    \"SessionStart\": [\n      {\n        \"hooks\": [{\"type\": \"command\", \"command\": \"other\"}]\n      }\n    ],\n    \"Stop\": []\n  },\n  \"z\": null\n}\n",
		"several commands":   `{"hooks": {"PreCompact": [{"hooks": [{"command": "ledgerctl hook --from claude PreCompact"}, {"command": "mine"}]}]}}`,
		"text like ours":     `{"hooks": {"Stop": [{"hooks": [{"command": "echo ledgerctl"}]}]}, "note": "ledgerctl hook --from x"}`,
		"unicode and escape": "{\n  \"a\": \"\\u00e9 é \\/\"\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			after, err := Install([]byte(before), "/bin/ledgerctl hook --from claude", Of("claude"))
			if err != nil {
				t.Fatal(err)
			}
			var v map[string]any
			if err := json.Unmarshal(after, &v); err != nil {
				t.Fatalf("%v:\n%s", err, after)
			}
			have, err := Installed(after)
			if want := "PostCompact PreCompact SessionEnd SessionStart"; err != nil || strings.Join(have, " ") != want {
				t.Errorf("installed %v, %v\n%s", have, err, after)
			}
			again, err := Install(after, "/bin/ledgerctl hook --from claude", Of("claude"))
			if err != nil || string(again) != string(after) {
				t.Errorf("a second install changes the settings, %v:\n%s", err, again)
			}
			back, err := Uninstall(after)
			if err != nil {
				t.Fatal(err)
			}
			if strings.ReplaceAll(string(back), "{\n}", "{}") != strings.ReplaceAll(before, "{\n}", "{}") {
				t.Errorf("before:\n%s\nafter an uninstall:\n%s", before, back)
			}
		})
	}
}

// Settings that are not understood are refused, never overwritten.
func TestSettingsOfAnotherFormAreRefused(t *testing.T) {
	for _, text := range []string{"[]", "{", "{} {}", "// comment\n{}", `{"hooks": []}`, `{"hooks": {"Stop": {}}}`, `{"a":1,"a":2}`, "\xff"} {
		if _, err := Install([]byte(text), "x", Of("claude")); !errors.Is(err, ErrSettings) {
			t.Errorf("install into %q: %v", text, err)
		}
		if _, err := Uninstall([]byte(text)); !errors.Is(err, ErrSettings) {
			t.Errorf("uninstall from %q: %v", text, err)
		}
	}
}

// A link to settings that are not there yet stays a link: they are made where it points.
func TestLinkToNoSettingsStaysALink(t *testing.T) {
	dir := t.TempDir()
	link, to := filepath.Join(dir, "settings.json"), filepath.Join(dir, "elsewhere", "s.json")
	if err := os.Symlink(filepath.Join("elsewhere", "s.json"), link); err != nil {
		t.Fatal(err)
	}
	before, file, err := Read(link)
	if err == nil {
		err = Write(file, before, []byte("{}"))
	}
	if got, _ := os.ReadFile(to); err != nil || string(got) != "{}" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := os.Readlink(link); err != nil {
		t.Error(err)
	}
}

func TestProgramsOfHooks(t *testing.T) {
	for _, program := range []string{"/usr/bin/ledgerctl", "/home/o'neil and me/ledgerctl"} {
		word := program
		if strings.ContainsAny(program, " '") {
			word = "'" + strings.ReplaceAll(program, "'", `'\''`) + "'"
		}
		settings, err := Install(nil, word+" hook --from claude", Of("claude"))
		if err != nil {
			t.Fatal(err)
		}
		programs := Programs(settings)
		if len(programs) != len(Of("claude")) {
			t.Errorf("%v", programs)
		}
		for event, got := range programs {
			if got != program {
				t.Errorf("%s: %q", event, got)
			}
		}
	}
	if got := Programs([]byte("{")); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/provider/providertest"
	"nexus/cmd/nexusd/internal/faulttest"
)

// block returns the first block of a language in the text.
func block(t *testing.T, text, language string) string {
	t.Helper()
	_, b, ok := strings.Cut(text, "\n```"+language+"\n")
	b, _, ended := strings.Cut(b, "\n```\n")
	if !ok || !ended {
		t.Fatalf("docs/RESPONSES.md has no block of %s", language)
	}
	return b
}

// The beginning of docs/RESPONSES.md runs as it is written, but for the two addresses: the
// configuration, the request of curl, and the program, with OpenAI's library where that is
// installed, and in any case with a stand-in for the part of it that the program uses.
func TestTheResponsesPageBegins(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "docs", "RESPONSES.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	server := providertest.Start(t, nil)
	config := filepath.Join(t.TempDir(), "nexus.toml")
	if err := os.WriteFile(config, []byte(strings.ReplaceAll(block(t, page, "toml"), "https://api.openai.com", server.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OPENAI_API_KEY", "a-key")
	d := startForSuite(t, faulttest.Build(t, "."), t.TempDir(), config)
	here := func(s string) string { return strings.ReplaceAll(s, "http://127.0.0.1:8422", d.HTTP) }

	t.Run("curl", func(t *testing.T) {
		lines := strings.Split(block(t, page, "sh norun"), "\n")
		at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "curl ") })
		if at < 0 {
			t.Fatal("the page has no request")
		}
		if _, err := exec.LookPath("curl"); err != nil {
			t.Skip("SKIPPED: the request of docs/RESPONSES.md was not sent, curl is not here")
		}
		out, err := exec.Command("sh", "-c", here(lines[at])).Output()
		if err != nil {
			t.Fatal(err)
		}
		var response struct {
			Status string
			Nexus  struct{ Session string }
		}
		if err := json.Unmarshal(out, &response, json.MatchCaseInsensitiveNames(true)); err != nil || response.Status != "completed" || response.Nexus.Session == "" {
			t.Errorf("%v: %s", err, out)
		}
	})
	standIn, err := filepath.Abs(filepath.Join("testdata", "python"))
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range []struct{ name, path string }{{"openai", ""}, {"stand-in", standIn}} {
		t.Run(library.name, func(t *testing.T) {
			python := func(program string) ([]byte, error) {
				cmd := exec.Command("python3", "-B", "-c", program)
				cmd.Env = append(os.Environ(), "PYTHONPATH="+library.path)
				return cmd.CombinedOutput()
			}
			if out, err := python("import openai"); err != nil {
				t.Skipf("SKIPPED: the program of docs/RESPONSES.md was not run, python3 with openai is not here: %v %s", err, out)
			}
			before := len(server.Calls())
			if out, err := python(here(block(t, page, "python"))); err != nil || strings.TrimSpace(string(out)) == "" {
				t.Errorf("%v: %s", err, out)
			}
			if n := len(server.Calls()) - before; n != 2 {
				t.Errorf("the program asked a model %d times, want 2", n)
			}
		})
	}
	for _, err := range server.Refused() {
		t.Error(err)
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
)

// An error of the configuration names the line and the field, and quotes no
// value: it may be a key in a place where no key belongs.
func TestAConfigurationsErrorQuotesNothing(t *testing.T) {
	for text, want := range map[string]string{
		"listen = \"127.0.0.1:0\"\nsummarizer_key = \"sk-SECRET\"\n":      "line 2: there is no field summarizer_key",
		"[[provider]]\nname = \"a\"\nkey = \"sk-SECRET\"\n":               "line 3: there is no field provider.key",
		"summarizer_spend_limit = \"sk-SECRET\"\n":                        "line 1",
		"data = \"sk-SECRET\n":                                            "line 1",
		"[[provider]]\nname = \"a\"\nmax_output = \"sk-SECRET\"\nx = 1\n": "line 3",
	} {
		name := filepath.Join(t.TempDir(), "nexus.toml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := readFile(name, new(config.Config))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nexus/cmd/nexusd/daemon"
)

// Rows of providers are read from the configuration, and each fault names its row, without
// the key or the URL.
func TestProviderRows(t *testing.T) {
	dir := t.TempDir()
	keyFile := filepath.Join(dir, "key")
	if err := os.WriteFile(keyFile, []byte("sk-1\nrest"), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := providers(daemon.Config{Providers: []daemon.ProviderRow{
		{Name: "local", Kind: "openai-chat", URL: "http://127.0.0.1:1/v1", Models: map[string]any{"small": "qwen3-8b"}},
		{Name: "rest", Kind: "anthropic", URL: "https://host/v1", KeyFile: keyFile, Models: []any{"claude-*"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, name, err := set.For("small"); err != nil || name != "qwen3-8b" {
		t.Errorf("%q, %v", name, err)
	}
	if _, _, err := set.For("claude-9"); err != nil {
		t.Error(err)
	}
	if _, err := providers(daemon.Config{Providers: []daemon.ProviderRow{{Name: "p", Kind: "anthropic", URL: "https://host/v1", KeyEnv: "NEXUS_TEST_NO_SUCH_KEY", Models: []any{"*"}}}}); err == nil || !strings.Contains(err.Error(), "provider p: key_env") {
		t.Errorf("%v", err)
	}
	for body, want := range map[string]string{
		`name="p"` + "\n" + `kind="x"` + "\n" + `url="https://h/v1"` + "\n" + `models=["*"]`:                        `kind "x"`,
		`name="p"` + "\n" + `kind="anthropic"` + "\n" + `url="ftp://secret@h"` + "\n" + `models=["*"]`:              "url is not http",
		`name="p"` + "\n" + `kind="anthropic"` + "\n" + `url="https://u:secret@h/v1"` + "\n" + `models=["*"]`:       "url holds a password",
		`name="p"` + "\n" + `kind="anthropic"` + "\n" + `url="https://h/v1"` + "\n" + `models=7`:                    "models is a list",
		`name="p"` + "\n" + `kind="anthropic"` + "\n" + `url="https://h/v1"` + "\n" + `models=[]`:                   "models is a list",
		`name="p"` + "\n" + `kind="anthropic"` + "\n" + `url="https://h/v1"` + "\n" + `models=["*"]` + "\n" + `x=1`: "x",
	} {
		file := filepath.Join(dir, "c.toml")
		if err := os.WriteFile(file, []byte("[[provider]]\n"+body+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs strings.Builder
		code := run(t.Context(), []string{"--config", file, "--data", filepath.Join(dir, "d")}, nil, &out, &errs)
		if code != 2 || !strings.Contains(errs.String(), want) || strings.Contains(errs.String(), "secret") {
			t.Errorf("%s: exit %d: %s", body, code, errs.String())
		}
	}
}

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
)

// configured reads a configuration file and makes its providers.
func configured(t *testing.T, text string, environ ...string) (config.Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nexus.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := parse([]string{"--config", file}, environ)
	if err == nil {
		err = withProviders(&cfg, environ)
	}
	return cfg, err
}

func TestTheFirstProviderWhosePatternMatchesServes(t *testing.T) {
	cfg, err := configured(t, `
[[provider]]
name = "renames"
kind = "openai-chat"
url = "http://127.0.0.1:1/v1"
models = {small = "qwen3-8b", "gpt-4*" = "other"}
[[provider]]
name = "all"
kind = "anthropic"
url = "https://127.0.0.1:1/v1/"
key_env = "A_KEY"
models = ["claude-*", "b"]
`, "A_KEY=secret-key")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := cfg.ProviderModels(), []string{"b", "small"}; !reflect.DeepEqual(got, want) {
		t.Errorf("models %v, want %v", got, want)
	}
	for model, want := range map[string]string{"small": "qwen3-8b", "gpt-4-turbo": "other", "claude-x": "claude-x", "b": "b", "bb": "", "smal": "", "": ""} {
		c, upstream, err := cfg.Provider(model)
		if upstream != want || (want == "") != (err != nil) || (want == "") != (c == nil) {
			t.Errorf("%q: %q, %v, want %q", model, upstream, err, want)
		}
	}
}

func TestAProviderRowIsCheckedByField(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open.key")
	if err := os.WriteFile(open, []byte("secret-key\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	row := func(change ...string) string {
		text := "[[provider]]\nname = \"a\"\nkind = \"openai-chat\"\nurl = \"https://h/v1\"\nmodels = [\"*\"]\n"
		return strings.NewReplacer(change...).Replace(text)
	}
	for text, want := range map[string]string{
		row(`"a"`, `"a b"`):                                  "name",
		row() + row():                                        `provider "a": name: another row has it`,
		row("openai-chat", "openai"):                         `provider "a": kind`,
		row("https://h/v1", "h:80"):                          `provider "a": url`,
		row("https://h", "https://u:secret-key@h"):           `provider "a": url: a password`,
		row("https", "http") + "key_env = \"A_KEY\"\n":       `provider "a": url: a key is not sent`,
		row(`["*"]`, `"*"`):                                  `provider "a": models`,
		row(`["*"]`, `[]`):                                   `provider "a": models`,
		row(`["*"]`, `{a = 1}`):                              `provider "a": models`,
		row() + "key_env = \"B_KEY\"\n":                      `provider "a": key_env: B_KEY is not set`,
		row() + "key_file = \"" + open + "\"\n":              `provider "a": key_file: others can read`,
		row() + "key_file = \"" + open + "-no\"\n":           `provider "a": key_file`,
		row() + "key_env = \"A\"\nkey_file = \"b\"\n":        `provider "a": key_env, key_file`,
		row() + "headers = {Authorization = \"secret-key\"}": `provider "a": headers`,
		row() + "key = \"secret-key\"\n":                     "there is no field provider.key",
	} {
		_, err := configured(t, text, "A_KEY=secret-key")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret-key") {
			t.Errorf("%s\n%v, want %s", text, err, want)
		}
	}
}

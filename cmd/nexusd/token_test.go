package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The row on stdout is a configuration, and holds no secret.
func TestTokenPrintsARowAndTheSecretOnce(t *testing.T) {
	for _, args := range [][]string{{"token", "ci"}, {"token", "ci", "--agent", "_", "--scope", "admin"}, {"token", "--scope", "write", "ci"}} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, nil, &out, &errs); code != 0 {
			t.Fatalf("%q: exit status %d: %s", args, code, &errs)
		}
		_, secret, ok := strings.Cut(strings.TrimSpace(errs.String()), "once: ")
		if !ok || len(secret) < 40 || strings.Contains(out.String(), secret) {
			t.Errorf("%q prints %s and %s", args, &out, &errs)
		}
		file := filepath.Join(t.TempDir(), "nexus.toml")
		if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := parse([]string{"--config", file}, nil)
		if err != nil || len(cfg.Token) != 1 || cfg.Token[0].Name != "ci" || cfg.Token[0].Tenant != "default" {
			t.Errorf("%q: %+v, %v", args, cfg.Token, err)
		}
	}
	for _, args := range [][]string{{"token"}, {"token", "a b"}, {"token", "ci", "more"}, {"token", "ci", "--scope", "root"}, {"token", "ci", "--agent", "_"}, {"token", "ci", "--secret", "x"}} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, nil, &out, &errs); code != 2 || out.Len() > 0 || !strings.Contains(errs.String(), "error: ") {
			t.Errorf("%q: exit status %d: %s%s", args, code, &out, &errs)
		}
	}
}

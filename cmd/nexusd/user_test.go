package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"
)

// The row on stdout is a configuration that holds no secret; the seed is in a file of its
// owner's, and belongs to the row's key.
func TestUserNewPrintsARowAndWritesTheSeed(t *testing.T) {
	for _, c := range []struct {
		args     []string
		agents   string
		operator bool
	}{
		{[]string{"user", "new", "alice"}, "alice", false},
		{[]string{"user", "new", "alice", "--agents", "alice,alice-tests"}, "alice alice-tests", false},
		{[]string{"user", "new", "--operator", "--agents", "*", "alice"}, "*", true},
	} {
		dir := t.TempDir()
		seed := filepath.Join(dir, "alice.nk")
		args := append(c.args[:2:2], append([]string{"--seed", seed}, c.args[2:]...)...)
		if c.args[2] == "alice" { // the name may stand before the flags
			args = append(c.args[:len(c.args):len(c.args)], "--seed", seed)
		}
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, nil, &out, &errs); code != 0 {
			t.Fatalf("%q: exit status %d: %s", args, code, &errs)
		}
		file := filepath.Join(dir, "nexus.toml")
		if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := parse([]string{"--config", file}, nil)
		if err != nil || len(cfg.User) != 1 || cfg.User[0].Name != "alice" || cfg.User[0].Operator != c.operator || strings.Join(cfg.User[0].Agents, " ") != c.agents {
			t.Fatalf("%q: %+v, %v", args, cfg.User, err)
		}
		b, err := os.ReadFile(seed)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := nkeys.FromSeed(b)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(seed)
		if public, perr := pair.PublicKey(); err != nil || perr != nil || public != cfg.User[0].NKey || info.Mode().Perm() != 0o600 {
			t.Errorf("%q: key %s of the row %+v, %v, %v, %v", args, public, cfg.User, info.Mode(), err, perr)
		}
		if strings.Contains(out.String()+errs.String(), string(b)) {
			t.Errorf("%q prints the seed", args)
		}
		out.Reset()
		if code := run(t.Context(), args, nil, &out, &errs); code != 1 || out.Len() > 0 {
			t.Errorf("a second user in the same file: exit status %d, %s", code, &out)
		}
	}
	t.Chdir(t.TempDir())
	for _, args := range [][]string{{"user"}, {"user", "new"}, {"user", "old", "a"}, {"user", "new", "A b"}, {"user", "new", "a", "b"}, {"user", "new", "operator"}, {"user", "new", "a", "--agents", "_"}} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, nil, &out, &errs); code != 2 || out.Len() > 0 || !strings.Contains(errs.String(), "error: ") {
			t.Errorf("%q: exit status %d: %s%s", args, code, &out, &errs)
		}
	}
}

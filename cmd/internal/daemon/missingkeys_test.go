package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/daemon/folder"
	"nexus/cmd/internal/daemon/mend"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal/sealtest"
)

// A log of keys that was cut in both copies at the end of a record is sound by itself. The ledger's sessions say what is missing.
func TestKeysThatAreCutAreNamed(t *testing.T) {
	const header, key = 76, 2*36 + 12 + 16 + 32 // docs/FORMAT.md, section 10
	data := t.TempDir()
	d, c := start(t, data)
	first := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, first.ID, 1)
	last := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, last.ID, 1)
	extend(t, c, first.ID, 1) // the last event of the stream has its key
	stop(t, d, c)
	cut := func(at func(size int) int) {
		for _, side := range []string{"a", "b"} {
			name := filepath.Join(data, "keys", side, "0000000000000001.log")
			b := must[[]byte](t)(os.ReadFile(name))
			if err := os.Truncate(name, int64(at(len(b)))); err != nil {
				t.Fatal(err)
			}
		}
	}
	cut(func(size int) int { return size - key })
	logs := new(bytes.Buffer)
	cfg := config.Config{Data: data, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30, Logger: slog.New(slog.NewTextHandler(logs, nil))}
	d, c = startWith(t, cfg)
	must[*api.Session](t)(c.Session(t.Context(), first.ID))
	report := must[*api.Verified](t)(c.Verify(t.Context(), last.ID))
	if len(report.Problems) == 0 || !strings.Contains(report.Problems[0].Message, last.ID.String()) {
		t.Errorf("verify: %+v", report.Problems)
	}
	stop(t, d, c)
	if n := strings.Count(logs.String(), "keys of sessions are missing"); n != 1 || !strings.Contains(logs.String(), "sessions=1 first="+last.ID.String()) {
		t.Errorf("the log has %d lines of missing keys:\n%s", n, logs)
	}
	cut(func(int) int { return header })
	d, err := Open(t.Context(), cfg)
	if err == nil {
		_ = d.Close(t.Context())
	}
	if !errors.Is(err, turns.ErrCorrupt) || !strings.Contains(err.Error(), "nexusd keys") {
		t.Errorf("without any key: %v, want corrupt, and what to do", err)
	}
}

// A monitor sees how many sessions can't be read; the daemon serves the others, so it stays ready.
func TestMissingKeysAreAtReadyzAndInAMetric(t *testing.T) {
	data := t.TempDir()
	d, c := start(t, data)
	lost := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, lost.ID, 1)
	extend(t, c, must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{})).ID, 1)
	stop(t, d, c)
	fresh := config.Config{Data: data, Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", MaxStore: 1 << 30}
	d, c = startWith(t, fresh)
	if body := read(t, d.HTTPURL()+"/readyz"); body != "ok\n" {
		t.Errorf("with all keys: %q", body)
	}
	stop(t, d, c)
	sealtest.Forget(t, filepath.Join(data, "keys"), lost.ID)
	d, _ = startWith(t, fresh)
	await(t, d, "readyz names the number", func() bool {
		return strings.HasPrefix(read(t, d.HTTPURL()+"/readyz"), "ok\n1 session can't be read: its key is missing or damaged")
	})
	if !strings.Contains(read(t, d.HTTPURL()+"/metrics"), "\nnexus_sessions_without_key 1\n") {
		t.Error("no metric has the number")
	}
}

// A restore that was told to go on without keys makes a ledger that starts, also where the newest event has none. It
// names the sessions that can't be read, and still refuses keys that nobody gave up.
func TestARestoreWithoutTheNewestKeysStarts(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	d, c := start(t, dir)
	kept := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, kept.ID, 2)
	cfg, _ := backUp(t, c.As(api.Operator), out)
	older := filepath.Join(out, "older.keys")
	if err := os.WriteFile(older, must[[]byte](t)(os.ReadFile(cfg.Keys)), 0o600); err != nil {
		t.Fatal(err)
	}
	lost := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, lost.ID, 2)
	backUp(t, c.As(api.Operator), out)
	stop(t, d, c)

	where := filepath.Join(t.TempDir(), "restored")
	rc := mend.RestoreConfig{File: cfg.File, Keys: older, Data: where, AcceptMissingKeys: true}
	if got := must[mend.Restored](t)(mend.Restore(t.Context(), rc)); got.KeysMissing != 1 || !strings.Contains(got.Text(), lost.ID.String()) {
		t.Errorf("the restore names no session: %s", got.Text())
	}
	logs := new(bytes.Buffer)
	fresh := config.Config{Data: where, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30, Logger: slog.New(slog.NewTextHandler(logs, nil))}
	d, c = startWith(t, fresh)
	if v := must[*api.Verified](t)(c.Verify(t.Context(), kept.ID)); !v.OK {
		t.Errorf("the session with its key: %+v", v.Problems)
	}
	if v := must[*api.Verified](t)(c.As(api.Operator).Verify(t.Context())); v.OK || !strings.Contains(v.Problems[0].Message, lost.ID.String()) {
		t.Errorf("verify: %+v", v.Problems)
	}
	if _, err := c.Append(t.Context(), lost.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "on")}}); codeOf(err) != api.Corrupt {
		t.Errorf("append to the session without a key: %v, want corrupt", err)
	}
	stop(t, d, c)
	if !strings.Contains(logs.String(), "sessions=1 first="+lost.ID.String()) {
		t.Errorf("the log names no session:\n%s", logs)
	}
	keys := filepath.Join(where, "keys")
	refused := func(why string) {
		t.Helper()
		d, err := Open(t.Context(), fresh)
		if err == nil {
			_ = d.Close(t.Context())
		}
		if !errors.Is(err, turns.ErrCorrupt) || !strings.Contains(err.Error(), "nexusd keys") {
			t.Errorf("%s: %v, want corrupt, and what to do", why, err)
		}
	}
	sealtest.Forget(t, keys, kept.ID)
	refused("a key that nobody gave up")
	if err := os.RemoveAll(keys); err != nil {
		t.Fatal(err)
	}
	refused("no keys")

	// The keys come back: nothing is given up any more.
	if out, err := mend.AddKeys(where, cfg.Keys); err != nil || len(out.Refused) > 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	if _, err := os.Stat(filepath.Join(where, folder.MissingFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("all keys are there, and %s says otherwise: %v", folder.MissingFile, err)
	}
	d, c = startWith(t, fresh)
	verified(t, c)
	stop(t, d, c)
	sealtest.Forget(t, keys, lost.ID)
	refused("a key that was given up, came back and is gone again")

	// Crash state: the list was written, and the restore did not end. The next one begins again.
	if err := os.WriteFile(filepath.Join(where, folder.RestoringFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	rc.Keys = cfg.Keys
	must[mend.Restored](t)(mend.Restore(t.Context(), rc))
	if _, err := os.Stat(filepath.Join(where, folder.MissingFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a restore with all keys left the list of an earlier one: %v", err)
	}
}

// An agent whose key was given up saves no memory under another one: that would not know what it saved before, and
// the old key could not come back.
func TestNoKeyIsMadeInThePlaceOfAMissingOne(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	d, c := start(t, dir)
	saves := func(agent, text string) error {
		_, err := c.As(agent).SaveMemory(t.Context(), api.SaveMemory{Kind: "semantic", Text: text})
		return err
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(saves("early", "one")) // makes the ledger's own key
	cfg, _ := backUp(t, c.As(api.Operator), out)
	older := filepath.Join(out, "older.keys")
	ok(os.WriteFile(older, must[[]byte](t)(os.ReadFile(cfg.Keys)), 0o600))
	ok(saves("late", "one"))
	ok(saves("early", "two")) // so that the newest event has its key
	backUp(t, c.As(api.Operator), out)
	stop(t, d, c)

	where := filepath.Join(t.TempDir(), "restored")
	must[mend.Restored](t)(mend.Restore(t.Context(), mend.RestoreConfig{File: cfg.File, Keys: older, Data: where, AcceptMissingKeys: true}))
	d, c = start(t, where)
	if err := saves("late", "two"); codeOf(err) != api.Corrupt || !strings.Contains(err.Error(), "nexusd keys") {
		t.Errorf("an agent without its key saves: %v, want corrupt", err)
	}
	ok(saves("early", "three"))
	stop(t, d, c)

	if got, err := mend.AddKeys(where, cfg.Keys); err != nil || len(got.Refused) > 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	d, c = start(t, where)
	ok(saves("late", "two"))
	for agent, want := range map[string]string{"early": "one two three", "late": "one two"} {
		var all []string
		for m, err := range c.As(agent).Memories(t.Context(), api.ListMemories{}) {
			ok(err)
			all = append(all, m.Text)
		}
		slices.Reverse(all)
		if got := strings.Join(all, " "); got != want {
			t.Errorf("%s has %q, want %q", agent, got, want)
		}
	}
	if v := must[*api.Verified](t)(c.As(api.Operator).Verify(t.Context())); !v.OK {
		t.Errorf("verify: %+v", v.Problems)
	}
	stop(t, d, c)
}

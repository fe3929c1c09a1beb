package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/prose"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/seal/sealtest"
)

// A session whose content key is missing shows what its headers say: turns, numbers,
// depths; and in place of its content, that there is no key. No turn of it looks like
// one that waits for its response.
func TestMissingKeyIsSaidInPlaceOfTheContent(t *testing.T) {
	dir := t.TempDir()
	open := func() *daemon.Daemon {
		d, err := daemon.Open(t.Context(), config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	stop := func(d *daemon.Daemon) {
		if err := d.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
	d := open()
	nc, err := d.Connect()
	if err != nil {
		t.Fatal(err)
	}
	c := client.New(nc, "default", "main")
	text := strings.Repeat("some words of a secret ", 60)
	answer := turns.TextMessage(turns.Assistant, text)
	session := func(label string) *api.Session {
		s, err := c.Create(t.Context(), api.CreateSession{SessionSettings: api.SessionSettings{Label: &label}})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, text)}, Response: &answer}); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	s := session("label-two") // no id ends like this
	if _, err := c.Compact(t.Context(), s.ID, api.RunCompaction{Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{"keep_tokens":50}`)}}); err != nil {
		t.Fatal(err)
	}
	session("whole")
	nc.Close()
	stop(d)
	sealtest.Forget(t, filepath.Join(dir, "keys"), s.ID)
	d = open()
	defer stop(d)
	tell := func(want int, args ...string) string {
		t.Helper()
		var out, errw bytes.Buffer
		if got := run(t.Context(), append([]string{"--server", d.ClientURL(), "--creds", d.Credentials().Operator}, args...), strings.NewReader(""), &out, &errw); got != want {
			t.Errorf("%v: exit status %d, want %d\n%s%s", args, got, want, &out, &errw)
		}
		return out.String() + errw.String()
	}
	const unreadable = "content can't be read: no key"
	id := s.ID.String()
	for _, x := range []struct {
		args  []string
		exit  int
		want  []string
		times int // that unreadable is said
	}{
		{[]string{"log", id}, 0, []string{"    3  ", "◆ compaction"}, 4},
		{[]string{"log", prose.Short(s.ID)}, 0, nil, 4},
		{[]string{"tree", id}, 0, []string{"3 turns, depth 4", "at depth 4"}, 1},
		{[]string{"sessions"}, 0, []string{"open (no key)"}, 0},
		{[]string{"sessions", "show", id}, 6, []string{"at depth 4", "nexusd keys"}, 2},
		{[]string{"show", id + "@3"}, 6, []string{"normal, depth 3", "nexusd keys"}, 2},
		{[]string{"show", prose.Short(s.ID) + "@head"}, 6, []string{"compaction, depth 4"}, 2},
		{[]string{"context", id}, 6, []string{"nexusd keys"}, 1},
		{[]string{"log", "label-two"}, 0, nil, 4}, // found by the digest of the label
		{[]string{"log", "whole"}, 0, []string{"some words"}, 0},
	} {
		got := tell(x.exit, x.args...)
		for _, w := range x.want {
			if !strings.Contains(got, w) {
				t.Errorf("%v: no %q in\n%s", x.args, w, got)
			}
		}
		if n := strings.Count(got, unreadable); n != x.times {
			t.Errorf("%v: %d times %q, want %d:\n%s", x.args, n, unreadable, x.times, got)
		}
		if strings.Contains(got, "pending") || strings.Contains(got, "no response") || strings.Contains(got, "report it") {
			t.Errorf("%v:\n%s", x.args, got)
		}
	}
}

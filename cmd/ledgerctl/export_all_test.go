package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/ledgerctl/internal/export"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/seal/sealtest"
)

// The key of an agent's memories and events is gone: what can't be read is listed, and not
// counted, also when the export is run again.
func TestAnExportOfAllListsWhatHasNoContent(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	var d *daemon.Daemon
	open := func() *client.Client {
		t.Helper()
		var err error
		if d, err = daemon.Open(t.Context(), config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30}); err != nil {
			t.Fatal(err)
		}
		nc, err := d.Connect()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return client.New(nc, "default", "main")
	}
	keys := filepath.Join(dir, "keys")
	closed := func() {
		t.Helper()
		if err := d.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	c := open()
	if _, err := c.Create(t.Context(), api.CreateSession{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.As("second").SaveMemory(t.Context(), api.SaveMemory{Kind: "semantic", Text: "the build needs Go"}); err != nil {
		t.Fatal(err)
	}
	last, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	closed()
	before := sealtest.IDs(t, keys)
	c = open()
	if _, err := c.SaveMemory(t.Context(), api.SaveMemory{Kind: "semantic", Text: "the tests need an hour"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AppendEvent(t.Context(), api.AppendEvent{Channel: "mail", Kind: "message", Body: turns.Raw(`{"n":1}`)}); err != nil {
		t.Fatal(err)
	}
	m := turns.TextMessage(turns.User, "a daemon starts with the key of its newest event only")
	if _, err := c.Append(t.Context(), last.ID, api.AppendTurn{Messages: []turns.Message{m}}); err != nil {
		t.Fatal(err)
	}
	closed()
	after := sealtest.IDs(t, keys)
	gone := len(after) - len(before)
	sealtest.Forget(t, keys, slices.DeleteFunc(after, func(id turns.ID) bool { return slices.Contains(before, id) })...)
	c = open()
	defer func() {
		if err := d.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	for range 2 {
		got, err := export.All(t.Context(), c.As(api.Operator), out)
		if err != nil {
			t.Fatal(err)
		}
		var failed []string
		for _, f := range got.Failed {
			failed = append(failed, strings.Fields(f.What)[0]+" "+string(f.Code))
		}
		slices.Sort(failed)
		if got.Memories != 1 || !slices.Equal(failed, []string{"channel corrupt", "memory corrupt"}) {
			t.Errorf("%d keys are gone: %+v", gone, got)
		}
	}
}

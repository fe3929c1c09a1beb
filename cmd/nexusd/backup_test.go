package main

import (
	"context"
	"flag"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"nexus/cmd/nexusd/internal/faulttest"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/jetstream/backup"
	"nexus/turns"
)

var backups = flag.Int("backups", 2, "backups that TestABackupOfARunningNexusd makes under writers; docs/TESTING.md runs 40")

// Several writers append to a nexusd while it is backed up, again and again. A
// restored nexusd has every turn that was acknowledged before each backup began, with its hash.
func TestABackupOfARunningNexusd(t *testing.T) {
	bin := faulttest.Build(t, ".")
	data, out := t.TempDir(), t.TempDir()
	a := newAcked()
	cmd, url := launch(t, bin, data)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 8 {
		w := &write{session: api.NewID()}
		wg.Go(func() {
			for ctx.Err() == nil && !t.Failed() { // again where a machine that pauses left it without an answer
				w.run(ctx, t, url, data, a)
			}
		})
	}
	gone := make(chan struct{})
	go func() { wg.Wait(); close(gone) }()
	nc, err := client.Dial(url, filepath.Join(data, "users", "operator.nk"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	operator := client.New(nc, "default", api.Operator)
	file, keys := filepath.Join(out, "nexus.backup"), filepath.Join(out, "nexus.keys")
	before := make(map[turns.ID]turns.Hash)
	for n := range *backups {
		for len(before) < (n+1)*50 { // there is something new to back up
			select {
			case <-gone:
				t.Fatalf("the writers ended with %d turns", len(before))
			case <-time.After(5 * time.Millisecond):
			}
			a.mu.Lock()
			before = maps.Clone(a.hash)
			a.mu.Unlock()
		}
		if _, err := backup.Run(t.Context(), operator, backup.Config{File: file, Keys: keys, Now: time.Now}); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	cancel()
	wg.Wait()
	restored := filepath.Join(out, "restored")
	finish(t, exec.Command(bin, "restore", file, "--keys", keys, "--data", restored))
	again := exec.Command(bin, "restore", file, "--keys", keys, "--data", restored)
	if text, err := again.CombinedOutput(); err == nil || !strings.Contains(string(text), "is not empty") {
		t.Errorf("a second restore into the folder: %v\n%s", err, text)
	}
	c, stop := asOperator(t, bin, restored)
	defer stop()
	stored := make(map[turns.ID]turns.Hash)
	for session := range a.turns {
		for x, err := range c.Turns(t.Context(), session, api.ListTurns{}) {
			if err != nil {
				t.Fatal(err)
			}
			stored[x.ID] = x.Hash
			if h, ok := a.hash[x.ID]; ok && h != x.Hash {
				t.Errorf("turn %s was acknowledged with %v and has %v", x.ID, h, x.Hash)
			}
		}
	}
	for id := range before {
		if _, ok := stored[id]; !ok {
			t.Errorf("turn %s was acknowledged before the last backup began, and is not in it", id)
		}
	}
	if v, err := c.Verify(t.Context()); err != nil || !v.OK {
		t.Errorf("verify: %+v, %v", v, err)
	}
	t.Logf("%d turns acknowledged before the last backup, %d in it, %d in all", len(before), len(stored), len(a.hash))
}

package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Of more sessions than a list reads, a short one has the newest of those that changed last, and
// one of all has all.
func TestAShortListOfManySessions(t *testing.T) {
	url, creds, stop, err := startDaemon(t, filepath.Join(t.TempDir(), "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	nc, err := client.Dial(url, creds)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := client.New(nc, "default", "owner")
	const many = 2010
	var open errgroup.Group
	open.SetLimit(64)
	for i := range many {
		open.Go(func() error {
			label := fmt.Sprintf("session-%d", i)
			_, err := c.Create(t.Context(), api.CreateSession{SessionSettings: api.SessionSettings{Label: &label}})
			return err
		})
	}
	if err := open.Wait(); err != nil {
		t.Fatal(err)
	}
	newest := make([]string, 3)
	for i := range newest {
		s, err := c.Resolve(t.Context(), fmt.Sprintf("session-%d", 700+i))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Append(t.Context(), s.ID, api.AppendTurn{ID: api.NewID(), Messages: []turns.Message{turns.TextMessage(turns.User, "Still there?")}}); err != nil {
			t.Fatal(err)
		}
		newest[i] = s.ID.String()
	}
	list := func(args ...string) []string {
		t.Helper()
		var out, errw bytes.Buffer
		if got := run(t.Context(), append([]string{"--server", url, "--creds", creds, "sessions"}, args...), strings.NewReader(""), &out, &errw); got != 0 {
			t.Fatalf("status %d: %s", got, &errw)
		}
		return strings.Split(strings.TrimSpace(out.String()), "\n")
	}
	lines := list("-n", "3")
	if len(lines) != 4 {
		t.Fatalf("%q", lines)
	}
	for i, id := range newest { // the newest is the last
		if !strings.HasPrefix(lines[1+i], id) {
			t.Errorf("line %d is %q, want %s", 1+i, lines[1+i], id)
		}
	}
	if lines := list("-n", "0"); len(lines) != many+1 {
		t.Errorf("all are %d lines", len(lines))
	}
	if lines := list("-n", "3", "--json"); len(lines) != 3 || !strings.Contains(strings.Join(lines, ""), newest[0]) {
		t.Errorf("as JSON: %q", lines)
	}
}

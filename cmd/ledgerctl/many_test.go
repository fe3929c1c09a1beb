package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"nexus/cmd/internal/prose"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// ownerOfNewLedger is the client of an agent on a daemon of its own, with the address and the credentials.
func ownerOfNewLedger(t *testing.T) (c *client.Client, url, creds string) {
	t.Helper()
	url, creds, stop, err := startDaemon(t, filepath.Join(t.TempDir(), "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	nc, err := client.Dial(url, creds)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return client.New(nc, "default", "owner"), url, creds
}

// Of more sessions than a list reads, a short one has the newest of those that changed last, and
// one of all has all.
func TestAShortListOfManySessions(t *testing.T) {
	c, url, creds := ownerOfNewLedger(t)
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
	newest, kept := make([]string, 3), make(map[turns.ID]bool)
	for i := range newest {
		s, err := c.Resolve(t.Context(), fmt.Sprintf("session-%d", 700+i))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Append(t.Context(), s.ID, api.AppendTurn{ID: api.NewID(), Messages: []turns.Message{turns.TextMessage(turns.User, "Still there?")}}); err != nil {
			t.Fatal(err)
		}
		newest[i], kept[s.ID] = s.ID.String(), true
	}
	list := func(args ...string) []string {
		t.Helper()
		var out, errw bytes.Buffer
		if got := run(t.Context(), append([]string{"--server", url, "--creds", creds, "sessions"}, args...), strings.NewReader(""), &out, &errw); got != 0 {
			t.Fatalf("status %d: %s", got, &errw)
		}
		return strings.Split(strings.TrimSpace(out.String()), "\n")
	}
	hasNewest := func(when string) {
		t.Helper()
		lines := list("-n", "3")
		if len(lines) != 4 {
			t.Fatalf("%s: %q", when, lines)
		}
		for i, id := range newest { // the newest is the last
			if !strings.HasPrefix(lines[1+i], id) {
				t.Errorf("%s: line %d is %q, want %s", when, 1+i, lines[1+i], id)
			}
		}
	}
	hasNewest("at first")
	for _, filter := range [][]string{{"--since", "1h"}, {"--tag", "late"}} { // of those that a filter keeps
		if filter[0] == "--tag" {
			for id := range kept {
				if _, err := c.Describe(t.Context(), id, api.DescribeSession{Tag: []string{"late"}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		lines := list(append(filter, "-n", "3")...)
		if len(lines) != 4 || !strings.HasPrefix(lines[3], newest[2]) {
			t.Errorf("%v: %q", filter, lines)
		}
	}
	if lines := list("--since", "2999-01-01", "-n", "3"); len(lines) != 1 || lines[0] != "" {
		t.Errorf("of the future: %q", lines)
	}
	if lines := list("-n", "0"); len(lines) != many+1 {
		t.Errorf("all are %d lines", len(lines))
	}
	if lines := list("-n", "3", "--json"); len(lines) != 3 || !strings.Contains(strings.Join(lines, ""), newest[0]) {
		t.Errorf("as JSON: %q", lines)
	}

	// Sessions that were hidden since, as those of an import that was undone, take no place of others.
	var hide errgroup.Group
	hide.SetLimit(64)
	for s, err := range c.Sessions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if !kept[s.ID] {
			hide.Go(func() error { _, err := c.Hide(t.Context(), s.ID, api.HideSession{}); return err })
		}
	}
	if err := hide.Wait(); err != nil {
		t.Fatal(err)
	}
	hasNewest("with the others hidden")
}

// The tree of a session names its sub-agents, also one whose content is gone.
func TestTreeNamesAnErasedSubAgent(t *testing.T) {
	c, url, creds := ownerOfNewLedger(t)
	open := func(by *api.SpawnedBy, says string) *api.Session {
		t.Helper()
		s, err := c.Create(t.Context(), api.CreateSession{SpawnedBy: by})
		if err == nil {
			_, err = c.Append(t.Context(), s.ID, api.AppendTurn{ID: api.NewID(), Messages: []turns.Message{turns.TextMessage(turns.User, says)}})
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	main := open(nil, "Build it.")
	whole := open(&api.SpawnedBy{Session: main.ID}, "Write the tests.")
	gone := open(&api.SpawnedBy{Session: main.ID}, "Look for the fault.")
	if _, err := c.As(api.Operator).Erase(t.Context(), gone.ID, api.EraseSession{}); err != nil {
		t.Fatal(err)
	}
	var out, errw bytes.Buffer
	if got := run(t.Context(), []string{"--server", url, "--creds", creds, "tree", main.ID.String()}, strings.NewReader(""), &out, &errw); got != 0 {
		t.Fatalf("status %d: %s", got, &errw)
	}
	for _, want := range []string{prose.Short(whole.ID), "Write the tests.", prose.Short(gone.ID)} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

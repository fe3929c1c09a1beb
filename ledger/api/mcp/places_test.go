package mcp

import (
	"context"
	"errors"
	"strings"
	"testing"

	"nexus/ledger"
)

// One agent sends more calls than it may: they wait for its own places, and the calls of
// other agents and of other tenants are served.
func TestTheCallsOfOneAgentLeavePlacesToOthers(t *testing.T) {
	p := newPlaces(defaultCalls, defaultPerAgent)
	ended, end := context.WithCancel(t.Context())
	end()
	greedy := owner{"default", "greedy"}
	var releases []func()
	take := func(o owner) error {
		release, err := p.take(ended, o) // without waiting
		if err == nil {
			releases = append(releases, release)
		}
		return err
	}
	for n := range defaultPerAgent {
		if err := take(greedy); err != nil {
			t.Fatalf("call %d: %v", n, err)
		}
	}
	for range 2 * defaultCalls {
		if err := take(greedy); !errors.Is(err, ledger.ErrBusy) || !strings.Contains(err.Error(), "of this agent") {
			t.Fatalf("one more: %v, want busy", err)
		}
	}
	for _, o := range []owner{{"default", "other"}, {"another", "greedy"}} {
		if err := take(o); err != nil {
			t.Errorf("%v: %v", o, err)
		}
	}
	waited := make(chan error)
	go func() { // a call that waits gets the place that becomes free
		release, err := p.take(t.Context(), greedy)
		if err == nil {
			release()
		}
		waited <- err
	}()
	for _, release := range releases {
		release()
	}
	if err := <-waited; err != nil {
		t.Errorf("a call that waited: %v", err)
	}
	if len(p.of) != 0 || len(p.all) != 0 {
		t.Errorf("%d agents and %d places are left", len(p.of), len(p.all))
	}
}

func TestAllAgentsTogetherHaveABound(t *testing.T) {
	p := newPlaces(2, 2)
	ended, end := context.WithCancel(t.Context())
	end()
	for _, agent := range []string{"a", "b"} {
		if _, err := p.take(ended, owner{"default", agent}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.take(ended, owner{"default", "c"}); !errors.Is(err, ledger.ErrBusy) {
		t.Errorf("%v, want busy", err)
	}
	if len(p.of) != 2 {
		t.Errorf("%d agents, want the two that are served", len(p.of))
	}
}

package live

import (
	"fmt"
	"testing"

	"nexus/cmd/internal/explorer/login"
)

// One person's pages take no stream from another's.
func TestStreamsAreBoundedForEachPerson(t *testing.T) {
	l := New(nil)
	flood := login.Who{Tenant: "default", By: "flood"}
	taken := 0
	for i := range 3 * streamsOfOne {
		flood.Agent = fmt.Sprint("a", i)
		if l.enter(flood.Person()) {
			taken++
		}
	}
	if taken != streamsOfOne {
		t.Errorf("one person has %d streams", taken)
	}
	other := login.Who{Tenant: "default", Agent: "main"}.Person()
	if !l.enter(other) {
		t.Error("another gets none")
	}
	l.leave(other)
	for range streamsOfOne {
		l.leave(flood.Person())
	}
	if l.Count() != 0 || len(l.of) != 0 {
		t.Errorf("%d are left, %v", l.Count(), l.of)
	}
	for i := range 2 * maxStreams {
		l.enter(login.Who{Tenant: "default", Agent: fmt.Sprint("b", i)}.Person())
	}
	if l.Count() != maxStreams {
		t.Errorf("%d of all", l.Count())
	}
}

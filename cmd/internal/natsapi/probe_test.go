package natsapi

import (
	"testing"
	"time"
)

// A probe comes back behind the requests that the server had before it, through the
// verbs that are in use; only the newest one comes back.
func TestAProbeComesBackThroughTheVerbsInUse(t *testing.T) {
	s, nc := serviceOn(t)
	await := func(what string, c chan string) {
		t.Helper()
		select {
		case got := <-c:
			if got != what {
				t.Fatalf("%s came back, want %s", got, what)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s does not come back", what)
		}
	}
	back := make(chan string, 4)
	probe := func(name string) { s.Probe(func() { back <- name }) }
	probe("unused")
	await("unused", back) // nothing is in use, so nothing waits
	for _, v := range s.prober.verbs[:3] {
		v.used.Store(true)
	}
	probe("used")
	await("used", back)
	s.prober.mu.Lock() // the messages of the first can't come back before the second is sent
	number := s.prober.number
	s.prober.mu.Unlock()
	if number != 2 {
		t.Fatalf("%d probes", number)
	}
	// A message of an earlier probe, and one under another name, change nothing.
	for _, subject := range []string{prefix + s.prober.tenant + ".1.turn.get.probe", prefix + s.prober.tenant + "x.3.turn.get.probe"} {
		if got := s.prober.back(subject); got != (subject[len(prefix)+len(s.prober.tenant)] == '.') {
			t.Errorf("%s: %v", subject, got)
		}
	}
	probe("last")
	await("last", back)
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if len(back) != 0 {
		t.Errorf("%s came back twice", <-back)
	}
}

package content_test

import (
	"crypto/rand"
	"runtime"
	"strings"
	"testing"

	"nexus/cmd/internal/engine/cache"
	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/tokens"
)

// countingCounter counts the texts that it is given.
type countingCounter struct {
	tokens.Counter
	texts int
}

func (c *countingCounter) Text(s string) uint64 {
	c.texts++
	return c.Counter.Text(s)
}

// The system part and the tools are counted and hashed once, not by each append and each
// context; others in their place are counted anew.
func TestAPreambleIsCountedOnce(t *testing.T) {
	counter := &countingCounter{Counter: tokens.Approx{}}
	cs := content.New([16]byte{}, nil, nil, counter, rand.Reader, nil, cache.NewBudget(1<<20))
	set := &turns.Settings{Preamble: turns.Preamble{System: []turns.Section{{Name: "a", Content: strings.Repeat("rule ", 1000)}}, Tools: []turns.Raw{turns.Raw(`{"name":"ls"}`)}}}
	first, hash := cs.Overhead(counter, set), enginetest.Must(cs.PreambleDigest(set))(t)
	texts := counter.texts
	shared := *set // as a request has it
	if n := cs.Overhead(counter, &shared); n != first || counter.texts != texts {
		t.Errorf("counted again: %d texts more, %d tokens, %d before", counter.texts-texts, n, first)
	}
	if n := testing.AllocsPerRun(10, func() { _, _ = cs.PreambleDigest(&shared) }); n > 2 {
		t.Errorf("hashed again: %v allocations", n)
	}
	shared.Preamble.System = []turns.Section{{Name: "a", Content: "another rule"}}
	if n, h := cs.Overhead(counter, &shared), enginetest.Must(cs.PreambleDigest(&shared))(t); n == first || h == hash {
		t.Errorf("another system part has %d tokens and the digest %v, as the first", n, h)
	}
	shared.Preamble = turns.Preamble{}
	if n, h := cs.Overhead(counter, &shared), enginetest.Must(cs.PreambleDigest(&shared))(t); n != 0 || !h.IsZero() {
		t.Errorf("no preamble has %d tokens and the digest %v", n, h)
	}
}

// An append to a session with 40 kB of system text and 20 tools allocates about what one
// without does.
func TestAppendsDoNotEncodeThePreambleAgain(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	allocated := func(r api.SessionSettings) uint64 {
		s := enginetest.Must(e.Sessions.Create(t.Context(), enginetest.Alice, api.CreateSession{SessionSettings: r}, []byte("{}")))(t)
		enginetest.Add(t, e, s.ID, enginetest.Say("first", "answer"))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 50 {
			enginetest.Add(t, e, s.ID, enginetest.Say("question", "answer"))
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	system, tools := enginetest.Preamble(40_000)
	bare := allocated(api.SessionSettings{})
	full := allocated(api.SessionSettings{System: &system, Tools: &tools})
	if full > bare+bare/2 {
		t.Errorf("50 appends allocate %d bytes with a preamble, %d without", full, bare)
	}
}

package contexts_test

import (
	"fmt"
	"sync"
	"testing"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
)

// Contexts that are read at once go on from one that is kept, while turns come. Each has the
// messages that an engine which keeps nothing makes of the same turn. The calls of each turn wait
// for their results at the next reading, so that each context ends otherwise than it goes on.
func TestContextsReadAtOnceGoOnFromOne(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	id := enginetest.Must(e.Sessions.Create(t.Context(), enginetest.Alice, api.CreateSession{}, []byte("{}")))(t).ID
	type read struct{ recipe, messages, fingerprint string }
	var mu sync.Mutex
	seen := make(map[read]bool)
	for i := range 30 {
		turn := enginetest.Say(fmt.Sprint("question ", i), "answer")
		if i%3 > 0 {
			turn = enginetest.CallTool(fmt.Sprint("call-", i))
		}
		var wg sync.WaitGroup
		for _, format := range []string{"", "anthropic", "openai", ""} {
			wg.Go(func() {
				c, err := e.Contexts.Context(t.Context(), enginetest.Alice, id, api.GetContext{Format: format})
				if err != nil {
					t.Error(err)
					return
				}
				if format == "" {
					mu.Lock()
					defer mu.Unlock()
					seen[read{string(c.Recipe), fmt.Sprintf("%s", c.Messages), c.Fingerprint}] = true
				}
			})
		}
		enginetest.Add(t, e, id, turn)
		wg.Wait()
	}
	other := w.EngineOver(e.Reader.Projections)
	if len(seen) < 10 {
		t.Errorf("%d contexts of 30 turns", len(seen))
	}
	for got := range seen {
		c := enginetest.Must(other.Contexts.Context(t.Context(), enginetest.Alice, id, api.GetContext{Recipe: []byte(got.recipe)}))(t)
		if got.fingerprint != c.Fingerprint || got.messages != fmt.Sprintf("%s", c.Messages) {
			t.Errorf("%s:\n%s\nwant\n%s", got.recipe, got.messages, c.Messages)
		}
	}
}

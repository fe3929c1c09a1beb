package reader_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/turns"
)

// What the cache of settings counts for a session is about what it takes in memory.
func TestSizesOfStoredSettings(t *testing.T) {
	const sessions = 500
	tools := make([]turns.Raw, 20)
	for i := range tools {
		tools[i] = turns.Raw(fmt.Sprintf(`{"name":"tool_%d","description":%q}`, i, enginetest.Noise(400)))
	}
	words := strings.Repeat("what it does and when to use it, ", 124)
	for name, r := range map[string]api.CreateSession{
		"bare":        {},
		"system part": {SessionSettings: api.SessionSettings{System: &api.System{{Name: "instructions", Content: words}}}},
		"not words":   {SessionSettings: api.SessionSettings{System: &api.System{{Name: "instructions", Content: enginetest.Noise(4 << 10)}}}},
		"tools":       {SessionSettings: api.SessionSettings{Tools: &tools}},
		"import":      {SessionSettings: api.SessionSettings{Model: new("claude-sonnet-4-5"), Meta: turns.Raw(`{"source":"claude-code","cwd":"/home/a/project","git_branch":"main","title":"How the cache is counted"}`)}},
		"large meta":  {SessionSettings: api.SessionSettings{Meta: turns.Raw(`{"x":"` + words + `"}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			w := enginetest.NewWorld()
			e := w.Engine(t)
			var ids []turns.ID
			for range sessions {
				ids = append(ids, enginetest.Must(e.Sessions.Create(t.Context(), enginetest.Alice, r, nil))(t).ID)
			}
			store := e.Reader.Projections
			if err := store.WaitFor(t.Context(), enginetest.Must(w.Log.State(t.Context()))(t).Last); err != nil {
				t.Fatal(err)
			}
			other := w.EngineOver(store)
			read := func() {
				for _, id := range ids {
					s := enginetest.Must(store.Session(id))(t)
					if _, _, _, err := other.Reader.StoredSettings(&s); err != nil {
						t.Fatal(err)
					}
				}
			}
			read() // what is made once
			other.Caches.Clear()
			before := inUse()
			read()
			after := inUse()
			used, counted := (after-before)/sessions, other.Caches.Sizes()["settings"]/sessions
			if used > counted*4/3 || counted > used*4/3 {
				t.Errorf("%d bytes are counted as %d", used, counted)
			}
			runtime.KeepAlive(other)
		})
	}
}

func inUse() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

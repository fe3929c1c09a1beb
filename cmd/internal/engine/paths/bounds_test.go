package paths_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
)

// One blob that many turns name is loaded as often as there is room for it. A
// context that would need more is refused, and a compaction of it is made.
func TestBlobOfManyTurnsLoadsWithinTheBound(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	e.Loader.MaxContent = 4 << 20
	s := enginetest.Create(t, e, 10_000_000, "nexus")
	whole := bytes.Repeat([]byte("all work and no play "), 50_000)
	info := enginetest.Must(e.Writer.PutBlob(t.Context(), enginetest.Alice, api.PutBlob{Session: s.ID, Data: whole}))(t)
	for i := range 60 {
		enginetest.Add(t, e, s.ID, enginetest.NameBlob(fmt.Sprint("read number ", i), info))
	}
	operator := enginetest.Operator
	for name, f := range map[string]func() (api.Code, api.Code){
		"context.get": func() (api.Code, api.Code) {
			_, err := e.Contexts.Context(t.Context(), operator, s.ID, api.GetContext{Budget: 200_000_000})
			return enginetest.Code(err), api.TooLarge
		},
		"dry run from originals": func() (api.Code, api.Code) {
			_, err := e.Compactions.Compact(t.Context(), enginetest.Alice, s.ID, api.RunCompaction{DryRun: true, FromOriginals: true}, nil)
			return enginetest.Code(err), ""
		},
		"compaction.take": func() (api.Code, api.Code) {
			_, err := e.Compactions.Take(t.Context(), enginetest.Alice, s.ID, api.TakeCompaction{})
			return enginetest.Code(err), ""
		},
	} {
		n := enginetest.Allocated(func() {
			if got, want := f(); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		})
		most := uint64(40)
		if name == "dry run from originals" { // it makes the summary too, and counts what survives
			most = 120
		}
		if uint64(n) > most {
			t.Errorf("%s allocates %d MiB; a path has room for 4", name, n)
		}
	}
	enginetest.Must(e.Compactions.Compact(t.Context(), enginetest.Alice, s.ID, api.RunCompaction{ID: enginetest.ID(t)}, nil))(t)
	cx := enginetest.Must(e.Contexts.Context(t.Context(), operator, s.ID, api.GetContext{Budget: 200_000_000}))(t)
	if !strings.Contains(string(enginetest.JSON(cx.Messages)), "[59 messages]") {
		t.Error("the summary knows nothing of the newest turn")
	}
	enginetest.Verified(t, e)
}

// Whatever there is room for: every policy compacts, the context after it is
// shown whole, and it has the same newest turns.
func TestCompactionOfAClippedPathGivesTheSameContext(t *testing.T) {
	for _, pol := range enginetest.Must(enginetest.NewWorld().Engine(t).Policies.ListPolicies(t.Context(), enginetest.Alice, api.ListPolicies{}))(t).Policies {
		t.Run(pol.Name, func(t *testing.T) {
			e := enginetest.NewWorld().Engine(t)
			s := enginetest.Create(t, e, 20_000, pol.Name)
			for i := range 30 {
				enginetest.Add(t, e, s.ID, enginetest.Say(fmt.Sprintf("question %d ", i)+strings.Repeat("word ", 300), ""))
				enginetest.Add(t, e, s.ID, enginetest.CallTool(fmt.Sprint("call-", i)))
				r := enginetest.AnswerCalls(fmt.Sprint("call-", i))
				r.Messages[0].Parts[0].Response = enginetest.JSON(strings.Repeat("output ", 400))
				enginetest.Add(t, e, s.ID, r)
			}
			e.Loader.MaxContent = 30_000
			if _, err := e.Compactions.Compact(t.Context(), enginetest.Alice, s.ID, api.RunCompaction{ID: enginetest.ID(t)}, nil); err != nil && enginetest.Code(err) != api.Nothing {
				t.Fatal(err)
			}
			enginetest.Verified(t, e)
			few, err := e.Contexts.Context(t.Context(), enginetest.Operator, s.ID, api.GetContext{})
			if enginetest.Code(err) == api.TooLarge {
				return // what the policy keeps has no room, and the error says so
			}
			if err != nil {
				t.Fatal(err)
			}
			e.Loader.MaxContent = 0
			all := enginetest.Must(e.Contexts.Context(t.Context(), enginetest.Operator, s.ID, api.GetContext{}))(t)
			if few.Fingerprint != all.Fingerprint {
				t.Error("the context is another one with more room")
			}
		})
	}
}

// A context that needs more content than a request may load is refused, and no part of
// it is shown clipped.
func TestContextOverTheBoundOnContentIsRefused(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	for range 10 {
		enginetest.Add(t, e, s.ID, enginetest.Say(strings.Repeat("x", 10_000), "ok"))
	}
	for _, tt := range []struct {
		limit int
		want  api.Code
	}{
		{99_000, api.TooLarge},
		{101_000, ""},
		{99_000, ""}, // it is kept by now, and nothing is loaded
	} {
		e.Loader.MaxContent = tt.limit
		if _, err := e.Contexts.Context(t.Context(), enginetest.Operator, s.ID, api.GetContext{Budget: 1 << 30}); enginetest.Code(err) != tt.want {
			t.Errorf("100,020 bytes within %d: %v, want code %q", tt.limit, err, tt.want)
		}
	}
}

// What all requests load together has a bound, and is given back.
func TestLoadedBytesOfAllRequestsAreBounded(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	enginetest.Add(t, e, s.ID, enginetest.Say(strings.Repeat("x", 10_000), "ok"))
	ctx, end := e.Loader.Memory.Begin(t.Context())
	enginetest.Must(e.Contexts.Context(ctx, enginetest.Alice, s.ID, api.GetContext{}))(t)
	// The content, and 256 bytes each for two halves and their two parts.
	if n := e.Loader.Memory.Loaded(); n < 10_000+4*256 {
		t.Errorf("%d bytes are counted while the request goes on", n)
	}
	end()
	if n := e.Loader.Memory.Loaded(); n != 0 {
		t.Errorf("%d bytes are counted after it", n)
	}
	e.Loader.Memory.Max = 1
	ctx, end = e.Loader.Memory.Begin(t.Context())
	if _, err := e.Contexts.Context(ctx, enginetest.Alice, s.ID, api.GetContext{}); enginetest.Code(err) != api.Busy {
		t.Errorf("without memory: %v, want busy", err)
	}
	end()
	if n := e.Loader.Memory.Loaded(); n != 0 {
		t.Errorf("a refused request left %d bytes", n)
	}
}

// The pages after the first of a plan from compaction.take are not planned again.
func TestTakePagesAreMadeOnce(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	e.Limits.MaxPayload = 64 << 10
	keys := &countKeys{Keys: e.Store.Keys}
	e.Store.Keys = keys
	s := enginetest.Create(t, e, 1_000_000, "nexus")
	for i := range 100 {
		enginetest.Add(t, e, s.ID, enginetest.Say(fmt.Sprintf("%d %s", i, strings.Repeat("word ", 400)), "ok"))
	}
	var content string
	pages, opened := 0, 0
	for r := (api.TakeCompaction{}); ; {
		keys.n = 0
		p := enginetest.Must(e.Compactions.Take(t.Context(), enginetest.Alice, s.ID, r))(t)
		if content += p.Content; pages > 0 {
			opened += keys.n
		}
		if pages++; p.Next == "" {
			break
		}
		r.After = p.Next
	}
	if pages < 5 || opened > 2*pages {
		t.Errorf("%d pages opened %d bodies after the first", pages, opened)
	}
	if n := strings.Count(content, "word"); n < 10_000 {
		t.Errorf("the content has %d words", n)
	}
}

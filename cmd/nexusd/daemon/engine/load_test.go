package engine_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"nexus/cmd/nexusd/daemon/engine/reader"
	"nexus/ledger/api"
	"nexus/turns"
)

// named is a turn that names a blob.
func named(i int, info *api.BlobInfo) api.AppendTurn {
	r := say(fmt.Sprint("read number ", i), "done")
	r.Messages[0].Parts = append(r.Messages[0].Parts, turns.Part{Type: turns.Text, Ref: &turns.BlobRef{Digest: info.Digest, Size: info.Size}})
	return r
}

// allocated is how many MiB f allocates.
func allocated(f func()) int {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	f()
	runtime.ReadMemStats(&b)
	return int((b.TotalAlloc - a.TotalAlloc) >> 20)
}

// One blob that many turns name is loaded as often as there is room for it. A
// context that would need more is refused, and a compaction of it is made.
func TestOneBlobNamedByManyTurns(t *testing.T) {
	e := newWorld().Engine(t)
	e.MaxContent = 4 << 20
	s := create(t, e, 10_000_000, "nexus")
	whole := bytes.Repeat([]byte("all work and no play "), 50_000)
	info := must(e.PutBlob(t.Context(), alice, api.PutBlob{Session: s.ID, Data: whole}))(t)
	for i := range 60 {
		add(t, e, s.ID, named(i, info))
	}
	operator := reader.Caller{Tenant: "default", Agent: "_"}
	for name, f := range map[string]func() (api.Code, api.Code){
		"context.get": func() (api.Code, api.Code) {
			_, err := e.Context(t.Context(), operator, s.ID, api.GetContext{Budget: 200_000_000})
			return code(err), api.TooLarge
		},
		"dry run from originals": func() (api.Code, api.Code) {
			_, err := e.Compact(t.Context(), alice, s.ID, api.RunCompaction{DryRun: true, FromOriginals: true}, nil)
			return code(err), ""
		},
		"compaction.take": func() (api.Code, api.Code) {
			_, err := e.Take(t.Context(), alice, s.ID, api.TakeCompaction{})
			return code(err), ""
		},
	} {
		n := allocated(func() {
			if got, want := f(); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		})
		if n > 40 {
			t.Errorf("%s allocates %d MiB; a path has room for 4", name, n)
		}
	}
	must(e.Compact(t.Context(), alice, s.ID, api.RunCompaction{ID: newID(t)}, nil))(t)
	cx := must(e.Context(t.Context(), operator, s.ID, api.GetContext{Budget: 200_000_000}))(t)
	if !strings.Contains(string(canon(cx.Messages)), "[59 messages]") {
		t.Error("the summary knows nothing of the newest turn")
	}
	verified(t, e)
}

// Whatever there is room for: every policy compacts, the context after it is
// shown whole, and it has the same newest turns.
func TestCompactionWithLittleRoom(t *testing.T) {
	for _, pol := range must(newWorld().Engine(t).Policies())(t).Policies {
		t.Run(pol.Name, func(t *testing.T) {
			e := newWorld().Engine(t)
			s := create(t, e, 20_000, pol.Name)
			for i := range 30 {
				add(t, e, s.ID, say(fmt.Sprintf("question %d ", i)+strings.Repeat("word ", 300), ""))
				add(t, e, s.ID, callTool(fmt.Sprint("call-", i)))
				r := answers(fmt.Sprint("call-", i))
				r.Messages[0].Parts[0].Response = canon(strings.Repeat("output ", 400))
				add(t, e, s.ID, r)
			}
			e.MaxContent = 30_000
			if _, err := e.Compact(t.Context(), alice, s.ID, api.RunCompaction{ID: newID(t)}, nil); err != nil && code(err) != api.Nothing {
				t.Fatal(err)
			}
			verified(t, e)
			few, err := e.Context(t.Context(), reader.Caller{Tenant: "default", Agent: "_"}, s.ID, api.GetContext{})
			if code(err) == api.TooLarge {
				return // what the policy keeps has no room: it is told so
			}
			if err != nil {
				t.Fatal(err)
			}
			e.MaxContent = 0
			all := must(e.Context(t.Context(), reader.Caller{Tenant: "default", Agent: "_"}, s.ID, api.GetContext{}))(t)
			if few.Fingerprint != all.Fingerprint {
				t.Error("the context is another one with more room")
			}
		})
	}
}

// What all requests load together has a bound, and is given back.
func TestLoadsTogether(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 0, "nexus")
	add(t, e, s.ID, say(strings.Repeat("x", 10_000), "ok"))
	ctx, end := e.MeterRequest(t.Context())
	must(e.Context(ctx, alice, s.ID, api.GetContext{}))(t)
	if n := e.Loaded(); n < 10_000 {
		t.Errorf("%d bytes are counted while the request goes on", n)
	}
	end()
	if n := e.Loaded(); n != 0 {
		t.Errorf("%d bytes are counted after it", n)
	}
	e.MaxLoaded = 1
	ctx, end = e.MeterRequest(t.Context())
	if _, err := e.Context(ctx, alice, s.ID, api.GetContext{}); code(err) != api.Busy {
		t.Errorf("without memory: %v, want busy", err)
	}
	end()
	if n := e.Loaded(); n != 0 {
		t.Errorf("a refused request left %d bytes", n)
	}
}

// The pages of a taken plan after the first are not planned again.
func TestTakePagesAreMadeOnce(t *testing.T) {
	e := newWorld().Engine(t)
	e.MaxPayload = 64 << 10
	keys := &countKeys{Keys: e.Keys}
	e.Keys = keys
	s := create(t, e, 1_000_000, "nexus")
	for i := range 100 {
		add(t, e, s.ID, say(fmt.Sprintf("%d %s", i, strings.Repeat("word ", 400)), "ok"))
	}
	var content string
	pages, opened := 0, 0
	for r := (api.TakeCompaction{}); ; {
		keys.n = 0
		p := must(e.Take(t.Context(), alice, s.ID, r))(t)
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

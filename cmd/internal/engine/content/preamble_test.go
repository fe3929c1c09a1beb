package content_test

import (
	"context"
	"fmt"
	"testing"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// sizeLog adds up what is appended.
type sizeLog struct {
	ledger.Log
	bytes int
}

func (l *sizeLog) Append(ctx context.Context, subject string, expect uint64, payload []byte) (uint64, error) {
	l.bytes += len(payload)
	return l.Log.Append(ctx, subject, expect, payload)
}

// countedBlobs has the names of the blobs that were put.
type countedBlobs struct {
	ledger.Blobs
	put map[turns.Hash]bool
}

func (b *countedBlobs) PutBlob(ctx context.Context, tenant string, digest turns.Hash, sealed []byte) error {
	if b.put == nil {
		b.put = make(map[turns.Hash]bool)
	}
	b.put[digest] = true
	return b.Blobs.PutBlob(ctx, tenant, digest, sealed)
}

// countedLedger is a ledger that seals or not, with an engine whose log and blobs are counted.
type countedLedger struct {
	*enginetest.World
	sealed bool
	e      *engine.Engine
	log    *sizeLog
	blobs  *countedBlobs
}

// open starts an engine of a ledger that seals as l does.
func (l *countedLedger) open(t *testing.T, w *enginetest.World) *engine.Engine {
	e := w.Engine(t)
	if !l.sealed {
		e.Store.Keys = nil
	}
	return e
}

// sealedAndNot runs a test on a ledger that seals, and on one that does not.
func sealedAndNot(t *testing.T, test func(t *testing.T, l *countedLedger)) {
	for name, sealed := range map[string]bool{"sealed": true, "unsealed": false} {
		t.Run(name, func(t *testing.T) {
			w := enginetest.NewWorld()
			l := &countedLedger{World: w, sealed: sealed, log: &sizeLog{Log: w.Log}, blobs: &countedBlobs{Blobs: w.Blobs}}
			l.e = l.open(t, w)
			l.e.Reader.Log, l.e.Store.Blobs = l.log, l.blobs
			test(t, l)
		})
	}
}

// A large system part is stored once in a tree of forks: neither a set of
// something else nor a fork stores it again, and all of them show it.
func TestLargeSystemPartIsStoredOnce(t *testing.T) {
	sealedAndNot(t, func(t *testing.T, l *countedLedger) {
		e := l.e
		system := enginetest.Noise(1 << 20)
		tools := []turns.Raw{turns.Raw(`{"name":"ls","parameters":{}}`)}
		s := enginetest.Must(e.Sessions.Create(t.Context(), enginetest.Alice, api.CreateSession{SessionSettings: api.SessionSettings{System: &api.System{{Content: system}}, Tools: &tools}}, []byte("{}")))(t)
		overheadOf := func(id turns.ID) uint64 {
			return enginetest.Must(e.Reader.Get(t.Context(), enginetest.Alice, id, api.Read{}))(t).Overhead
		}
		want := overheadOf(s.ID)
		if want < 100_000 {
			t.Errorf("overhead %d", want)
		}
		first := enginetest.Add(t, e, s.ID, enginetest.Say("q", "a"))
		sessions := []turns.ID{s.ID}
		for i := range 10 {
			m := fmt.Sprint("model-", i)
			enginetest.Must(e.Sessions.Set(t.Context(), enginetest.Alice, s.ID, api.SetSession{SessionSettings: api.SessionSettings{Model: &m}}, []byte(m)))(t)
			f := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s.ID, api.CreateFork{Turn: first.ID}, []byte("{}")))(t)
			sessions = append(sessions, f.ID)
		}
		if l.log.bytes > 64<<10 {
			t.Errorf("20 events and a turn have %d bytes", l.log.bytes)
		}
		next := enginetest.Must(e.Sessions.Reset(t.Context(), enginetest.Alice, s.ID, api.ResetSession{}, []byte("{}")))(t)
		sessions = append(sessions, next.ID)
		for _, id := range sessions {
			cx := enginetest.Must(e.Contexts.Context(t.Context(), enginetest.Alice, id, api.GetContext{Format: "anthropic", Budget: 10_000_000}))(t)
			if n := len(cx.System); n < len(system) || len(cx.Tools) != 1 {
				t.Errorf("session %s shows %d bytes of system and %d tools", id, n, len(cx.Tools))
			}
			if got := overheadOf(id); got != want {
				t.Errorf("session %s: overhead %d, want %d", id, got, want)
			}
		}
		// The tools alone are set: the system part stays.
		none := []turns.Raw{}
		enginetest.Must(e.Sessions.Set(t.Context(), enginetest.Alice, next.ID, api.SetSession{SessionSettings: api.SessionSettings{Tools: &none}}, []byte("1")))(t)
		cx := enginetest.Must(e.Contexts.Context(t.Context(), enginetest.Alice, next.ID, api.GetContext{Format: "anthropic", Budget: 10_000_000}))(t)
		if len(cx.Tools) != 0 || len(cx.System) < len(system) {
			t.Errorf("after a set of tools: %d tools, %d bytes of system", len(cx.Tools), len(cx.System))
		}
		short := api.System{{Content: "short"}}
		enginetest.Must(e.Sessions.Set(t.Context(), enginetest.Alice, next.ID, api.SetSession{SessionSettings: api.SessionSettings{System: &short}}, []byte("2")))(t)
		if n := overheadOf(next.ID); n > 20 {
			t.Errorf("after a set of system: overhead %d", n)
		}
		enginetest.Verified(t, e)

		to := l.open(t, enginetest.NewWorld())
		for r := (api.ExportSession{}); ; {
			page := enginetest.Must(e.Transfer.Export(t.Context(), enginetest.Alice, sessions[1], r))(t)
			enginetest.Must(to.Transfer.Import(t.Context(), enginetest.Alice, api.ImportRecords{Records: page.Records}))(t)
			if r.After = page.Next; r.After == "" {
				break
			}
		}
		if got := enginetest.Must(to.Reader.Get(t.Context(), enginetest.Alice, sessions[1], api.Read{}))(t); got.Overhead != want {
			t.Errorf("after an import: overhead %d, want %d", got.Overhead, want)
		}
		enginetest.Verified(t, to)

		other := l.Engine(t)
		other.Store.Keys, other.Store.Blobs = e.Store.Keys, e.Store.Blobs
		if got := enginetest.Must(other.Reader.Get(t.Context(), enginetest.Alice, s.ID, api.Read{}))(t); got.Overhead != want {
			t.Errorf("on another daemon: overhead %d, want %d", got.Overhead, want)
		}
	})
}

// The first fork of a session stores the system part that it inherits, the second moves it to a blob, and the others
// name that: all show it, after a start of the daemon too, and when their source, and one of them, are erased.
func TestForksOfASessionShareTheirSystemPart(t *testing.T) {
	sealedAndNot(t, func(t *testing.T, l *countedLedger) {
		e, log, blobs := l.e, l.log, l.blobs
		system := enginetest.Noise(20 << 10)
		r := api.CreateSession{}
		r.System = &api.System{{Content: system}}
		s := enginetest.Must(e.Sessions.Create(t.Context(), enginetest.Alice, r, []byte("{}")))(t)
		at := enginetest.Add(t, e, s.ID, enginetest.Say("q", "a")).ID
		var forks []turns.ID
		fork := func(of turns.ID, most, stored int) {
			t.Helper()
			before := log.bytes
			f := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, of, api.CreateFork{Turn: at}, []byte("{}")))(t)
			if n := log.bytes - before; n > most {
				t.Errorf("fork %d has %d bytes, want at most %d", len(forks), n, most)
			}
			if n := len(blobs.put); n != stored {
				t.Errorf("with fork %d there are %d blobs, want %d", len(forks), n, stored)
			}
			if f.Overhead != s.Overhead || f.Overhead == 0 {
				t.Errorf("fork %d: overhead %d, want %d", len(forks), f.Overhead, s.Overhead)
			}
			forks = append(forks, f.ID)
		}
		shown := func(e *engine.Engine, ids ...turns.ID) {
			t.Helper()
			for _, id := range ids {
				cx := enginetest.Must(e.Contexts.Context(t.Context(), enginetest.Alice, id, api.GetContext{Format: "anthropic"}))(t)
				if n := len(cx.System); n < len(system) {
					t.Errorf("session %s shows %d bytes of system", id, n)
				}
			}
		}
		fork(s.ID, 30<<10, 0)
		fork(s.ID, 2<<10, 1)
		for range 4 {
			fork(s.ID, 2<<10, 1)
		}
		fork(forks[2], 2<<10, 1) // of a fork that names the blob
		fork(forks[0], 30<<10, 1)
		fork(forks[0], 2<<10, 1) // the same content in the tree
		model := "m"
		enginetest.Must(e.Sessions.Set(t.Context(), enginetest.Alice, forks[3], api.SetSession{SessionSettings: api.SessionSettings{Model: &model}}, []byte("1")))(t)
		shown(e, append(forks, s.ID)...)
		enginetest.Verified(t, e)
		other := l.open(t, l.World)
		shown(other, append(forks, s.ID)...)
		if !l.sealed {
			return
		}
		for _, id := range []turns.ID{forks[1], s.ID} {
			enginetest.Must(e.Erasure.Erase(t.Context(), enginetest.Operator, id, api.EraseSession{}))(t)
			if n := e.Caches.Sizes()["forked"]; n != 0 {
				t.Errorf("%d bytes of what forks inherit are in memory after an erasure", n)
			}
		}
		// Turns that they inherit are erased; the system part is their own.
		for _, id := range append(forks[2:], forks[0]) {
			if got := enginetest.Must(other.Reader.Get(t.Context(), enginetest.Alice, id, api.Read{}))(t); got.Overhead != s.Overhead {
				t.Errorf("fork %s after the erasures: overhead %d, want %d", id, got.Overhead, s.Overhead)
			}
		}
		for range 3 { // of a tree whose root is erased
			own := enginetest.Add(t, e, forks[0], enginetest.Say("own", "yes")).ID
			f := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, forks[0], api.CreateFork{Turn: own}, []byte("{}")))(t)
			if f.Overhead != s.Overhead {
				t.Errorf("a fork in a tree without its root: overhead %d, want %d", f.Overhead, s.Overhead)
			}
		}
		if n := len(blobs.put); n != 1 {
			t.Errorf("%d blobs", n)
		}
		enginetest.Verified(t, e)
	})
}

// Forks that inherit little name no blob.
func TestForksKeepAShortSystemPart(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	blobs := &countedBlobs{Blobs: w.Blobs}
	e.Store.Blobs = blobs
	r := api.CreateSession{}
	r.System = &api.System{{Content: enginetest.Noise(7 << 10)}}
	s := enginetest.Must(e.Sessions.Create(t.Context(), enginetest.Alice, r, []byte("{}")))(t)
	at := enginetest.Add(t, e, s.ID, enginetest.Say("q", "a")).ID
	for range 4 {
		enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s.ID, api.CreateFork{Turn: at}, []byte("{}")))(t)
	}
	if n := len(blobs.put); n != 0 {
		t.Errorf("%d blobs", n)
	}
	enginetest.Verified(t, e)
}

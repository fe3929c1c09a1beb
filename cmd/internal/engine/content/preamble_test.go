package content_test

import (
	"context"
	"fmt"
	"testing"

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

// A large system part is stored once in a tree of forks: neither a set of
// something else nor a fork stores it again, and all of them show it.
func TestLargeSystemPartIsStoredOnce(t *testing.T) {
	for _, sealed := range []bool{true, false} {
		t.Run(map[bool]string{true: "sealed", false: "unsealed"}[sealed], func(t *testing.T) {
			w := enginetest.NewWorld()
			e := w.Engine(t)
			if !sealed {
				e.Store.Keys = nil
			}
			log := &sizeLog{Log: w.Log}
			e.Reader.Log = log
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
			if log.bytes > 64<<10 {
				t.Errorf("20 events and a turn have %d bytes", log.bytes)
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

			to := enginetest.NewWorld().Engine(t)
			if !sealed {
				to.Store.Keys = nil
			}
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

			other := w.Engine(t)
			other.Store.Keys, other.Store.Blobs = e.Store.Keys, e.Store.Blobs
			if got := enginetest.Must(other.Reader.Get(t.Context(), enginetest.Alice, s.ID, api.Read{}))(t); got.Overhead != want {
				t.Errorf("on another daemon: overhead %d, want %d", got.Overhead, want)
			}
		})
	}
}

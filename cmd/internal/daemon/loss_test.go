package daemon

import (
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/cmd/internal/daemon/mend"
	"nexus/cmd/internal/engine/page"
	"nexus/ledger/api"
	"nexus/ledger/jetstream"
	"nexus/turns"
)

// lose damages records of the log, by their positions, of which there is no other copy,
// and accepts the loss.
func lose(t *testing.T, dir string, positions ...uint64) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(dir, "projections")); err != nil {
		t.Fatal(err)
	}
	ends := recordEnds(t, dir, jetstream.StreamName)
	change(t, largest(t, dir, jetstream.StreamName), func(b []byte) []byte {
		for _, p := range positions {
			b[ends[p-1]-20] ^= 1
		}
		return b
	})
	out, err := mend.Repair(t.Context(), mend.RepairConfig{Data: dir, AcceptLoss: true})
	if err != nil || len(out.Streams[0].Lost) != len(positions) || out.Streams[0].Lost[0].Seq != positions[0] {
		t.Fatalf("%+v, %v", out, err)
	}
}

// A session loses one turn in its middle. What is before it is served as it was, the lost
// turn is named, what is after it is served by id and says so, and a fork goes on.
func TestASessionThatLostATurnIsReadUpToThere(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	var ids []turns.ID
	for _, text := range []string{"one", "two", "three", "four", "five", "six"} {
		ids = append(ids, appended(t, c, s.ID, text))
	}
	two, three, four, five, six := ids[1], ids[2], ids[3], ids[4], ids[5]
	before := must[*api.Session](t)(c.Fork(t.Context(), s.ID, api.CreateFork{Turn: two}))
	after := must[*api.Session](t)(c.Fork(t.Context(), s.ID, api.CreateFork{Turn: six}))
	appended(t, c, before.ID, "of the fork")
	lost := must[*api.Turn](t)(c.Turn(t.Context(), s.ID, four))
	was := map[turns.ID]*api.Turn{}
	for _, id := range ids {
		was[id] = must[*api.Turn](t)(c.Turn(t.Context(), s.ID, id))
	}
	list := must[[]api.Turn](t)(all(c.Turns(t.Context(), s.ID, api.ListTurns{At: three, Full: true})))
	context := must[*api.Context](t)(c.Context(t.Context(), s.ID, api.GetContext{At: three}))
	beforeContext := must[*api.Context](t)(c.Context(t.Context(), before.ID, api.GetContext{}))
	at := must[uint64](t)(page.ParsePosition(lost.Position))
	last := must[*api.Session](t)(c.Session(t.Context(), after.ID)).Position
	stop(t, d, c)
	lose(t, dir, at)
	_, c = start(t, dir)

	list[2].HasChildren = false // its child is lost
	if diff := cmp.Diff(text(t, list), text(t, must[[]api.Turn](t)(all(c.Turns(t.Context(), s.ID, api.ListTurns{At: three, Full: true}))))); diff != "" {
		t.Errorf("turn.list at the turn before the loss (-was +is):\n%s", diff)
	}
	if got := must[*api.Context](t)(c.Context(t.Context(), s.ID, api.GetContext{At: three})); got.Fingerprint != context.Fingerprint {
		t.Errorf("context.get at the turn before the loss: %v, was %v", got.Fingerprint, context.Fingerprint)
	}
	if got := must[*api.Context](t)(c.Context(t.Context(), before.ID, api.GetContext{})); got.Fingerprint != beforeContext.Fingerprint {
		t.Error("a fork from before the loss has another context")
	}
	for i, id := range ids {
		got, err := c.Turn(t.Context(), s.ID, id)
		if id == four {
			wantLoss(t, "turn.get of the lost turn", err, lost, three)
			continue
		}
		want := *was[id]
		want.AfterLoss = i > 3
		want.HasChildren = id != six && id != three // the child of three is lost, the fork has no turn yet
		if err != nil || text(t, &want) != text(t, got) {
			t.Errorf("turn %d: %v\n%s", i+1, err, cmp.Diff(text(t, &want), text(t, got)))
		}
	}
	for name, f := range map[string]func() error{
		"session.get":           func() error { _, err := c.Session(t.Context(), s.ID); return err },
		"turn.list":             func() error { _, err := all(c.Turns(t.Context(), s.ID, api.ListTurns{})); return err },
		"context.get":           func() error { _, err := c.Context(t.Context(), s.ID, api.GetContext{}); return err },
		"turn.list after it":    func() error { _, err := all(c.Turns(t.Context(), s.ID, api.ListTurns{At: five})); return err },
		"context.get after it":  func() error { _, err := c.Context(t.Context(), s.ID, api.GetContext{At: five}); return err },
		"fork at the lost turn": func() error { _, err := c.Fork(t.Context(), s.ID, api.CreateFork{Turn: four}); return err },
		"fork after it":         func() error { _, err := c.Fork(t.Context(), s.ID, api.CreateFork{Turn: five}); return err },
		"export":                func() error { _, err := all(c.Export(t.Context(), s.ID)); return err },
		"append": func() error {
			_, err := c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "go on")}})
			return err
		},
	} {
		wantLoss(t, name, f(), lost, three)
	}
	if _, err := c.Session(t.Context(), after.ID); api.FromError(err).Code != api.Corrupt {
		t.Errorf("a fork from after the loss: %v, want corrupt", err)
	}

	// The agent goes on from the last turn before the loss.
	on := must[*api.Session](t)(c.Fork(t.Context(), s.ID, api.CreateFork{Turn: three}))
	appended(t, c, on.ID, "go on")
	if got := must[*api.Session](t)(c.Session(t.Context(), on.ID)); got.Depth != 4 || must[uint64](t)(page.ParsePosition(got.Position)) <= must[uint64](t)(page.ParsePosition(last)) {
		t.Errorf("the fork: %+v; its position must be after %s", got, last)
	}

	// What is before the loss can be taken to another ledger.
	records, err := all(c.ExportBeforeLoss(t.Context(), s.ID))
	if err != nil {
		t.Fatal(err)
	}
	_, other := start(t, t.TempDir())
	must[*api.Imported](t)(other.Import(t.Context(), records))
	if got := must[*api.Session](t)(other.Session(t.Context(), s.ID)); *got.Head != three || got.Turns != 3 {
		t.Errorf("imported: %+v", got)
	}
	v := must[*api.Verified](t)(c.As(api.Operator).Verify(t.Context()))
	if v.OK || slices.ContainsFunc(v.Problems, func(p api.Problem) bool { return p.Session == on.ID || p.Session == before.ID }) {
		t.Errorf("verify: %+v", v)
	}
}

// Two events in a row are lost, and the opening of another session: each error counts what
// is known.
func TestLossesAreCounted(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	var ids []turns.ID
	var at []uint64
	for _, text := range []string{"one", "two", "three", "four", "five"} {
		ids = append(ids, appended(t, c, s.ID, text))
		at = append(at, must[uint64](t)(page.ParsePosition(must[*api.Session](t)(c.Session(t.Context(), s.ID)).Position)))
	}
	unopened := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	appended(t, c, unopened.ID, "of a session without its opening")
	stop(t, d, c)
	lose(t, dir, at[1], at[2], at[4]+1)
	_, c = start(t, dir)

	_, err := c.Turn(t.Context(), s.ID, ids[2])
	e := (*api.Error)(nil)
	if !errors.As(err, &e) || e.Details["lost"] != 2.0 || e.Details["last_turn"] != ids[0].String() {
		t.Errorf("a turn of two that are lost: %v", err)
	} else if diff := cmp.Diff([]any{ids[2].String()}, e.Details["lost_turns"]); diff != "" {
		t.Errorf("the lost turn that the next continues (-want +got):\n%s", diff)
	}
	if got := must[*api.Turn](t)(c.Turn(t.Context(), s.ID, ids[4])); !got.AfterLoss {
		t.Errorf("a turn after two that are lost: %s", text(t, got))
	}
	if _, err := c.Session(t.Context(), unopened.ID); api.FromError(err).Code != api.Corrupt {
		t.Errorf("a session without its opening: %v, want corrupt", err)
	}
}

// all returns what a list yields, until its first error.
func all[T any](list iter.Seq2[T, error]) (out []T, err error) {
	for v, err := range list {
		if err != nil {
			return out, err
		}
		out = append(out, v)
	}
	return out, nil
}

// text returns v as JSON.
func text(t *testing.T, v any) string { return string(must[[]byte](t)(turns.EncodeJSON(v))) }

// wantLoss checks that an error names the lost event and the turn before it.
func wantLoss(t *testing.T, what string, err error, lost *api.Turn, last turns.ID) {
	t.Helper()
	e := (*api.Error)(nil)
	if !errors.As(err, &e) || e.Code != api.Corrupt {
		t.Errorf("%s: %v, want corrupt", what, err)
		return
	}
	want := map[string]any{"last_turn": last.String(), "lost": float64(1), "lost_turns": []any{lost.ID.String()},
		"lost_events": []any{map[string]any{"index": float64(lost.Depth), "position": lost.Position, "hash": lost.Hash.String()}}}
	if diff := cmp.Diff(want, e.Details); diff != "" {
		t.Errorf("%s: details (-want +got):\n%s", what, diff)
	}
}

package history_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/turns"
)

// A list of compactions has those that were in force at a turn, where the request names one. An outline lacks
// what they show, and nothing else.
func TestCompactionsAreListedAtATurn(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s := enginetest.Create(t, e, 0, "balanced")
	var made []turns.ID // the compactions, newest first
	at := make(map[turns.ID][]turns.ID)
	for i := range 3 {
		for j := range 6 {
			at[enginetest.Add(t, e, s.ID, enginetest.Say(fmt.Sprint("question ", i, j, enginetest.Text(800)), "an answer")).ID] = slices.Clone(made)
		}
		k := enginetest.Must(e.Compactions.Compact(t.Context(), enginetest.Alice, s.ID, api.RunCompaction{AtOnce: true, Budget: 1500}, []byte(fmt.Sprintf(`{"n":%d}`, i))))(t).Compaction
		made = slices.Insert(made, 0, k.ID)
		at[k.ID] = slices.Clone(made)
	}
	list := func(r api.ListCompactions) (out []api.Turn) {
		for {
			page := enginetest.Must(e.History.ListCompactions(t.Context(), enginetest.Alice, s.ID, r))(t)
			out = append(out, page.Turns...)
			if r.After = page.Next; r.After == "" {
				return out
			}
		}
	}
	for turn, want := range at {
		for _, limit := range []int{1, 100} {
			var got []turns.ID
			for _, k := range list(api.ListCompactions{At: turn, Outline: true, Page: api.Page{Limit: limit}}) {
				got = append(got, k.ID)
			}
			if !slices.Equal(got, want) {
				t.Errorf("at %s, %d a page: %v, want %v", turn, limit, got, want)
			}
		}
	}
	whole := list(api.ListCompactions{})
	if len(whole) != 3 || whole[0].Compaction.Summary == nil || len(whole[0].Compaction.Replacement) == 0 {
		t.Fatalf("the whole list: %+v", whole)
	}
	for i := range whole {
		k := whole[i].Compaction
		k.Replacement, k.Nudge, k.Summary, k.Memories = nil, nil, nil, nil
	}
	if got, want := enginetest.JSON(list(api.ListCompactions{Outline: true})), enginetest.JSON(whole); !bytes.Equal(got, want) {
		t.Errorf("an outline is\n%s\nwant\n%s", got, want)
	}
	if _, err := e.History.ListCompactions(t.Context(), enginetest.Alice, s.ID, api.ListCompactions{At: enginetest.ID(t)}); enginetest.Code(err) != api.NotFound {
		t.Errorf("at a turn of nobody: %v, want not_found", err)
	}
}

// An outline is kept, and never longer than what it is of: a text that is taken out of a compaction is not in it, and that of an
// erased session can't be read.
func TestAnOutlineIsThatOfWhatIsStoredNow(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s := enginetest.Create(t, e, 0, "balanced")
	for i := range 6 {
		enginetest.Add(t, e, s.ID, enginetest.Say(fmt.Sprint("question ", i, enginetest.Text(800)), "an answer"))
	}
	made := enginetest.Must(e.Compactions.Compact(t.Context(), enginetest.Alice, s.ID, api.RunCompaction{AtOnce: true, Budget: 1500, Focus: "the hunter2 page"}, []byte("{}")))(t).Compaction
	outline := func() *api.Turn {
		list := enginetest.Must(e.History.ListCompactions(t.Context(), enginetest.Alice, s.ID, api.ListCompactions{Outline: true}))(t).Turns
		if len(list) != 1 {
			t.Fatalf("%+v", list)
		}
		return &list[0]
	}
	for range 2 {
		if k := outline().Compaction; k.Focus != "the hunter2 page" || k.TokensBefore != made.Compaction.TokensBefore || k.Summary != nil {
			t.Errorf("an outline: %+v", k)
		}
	}
	redact := api.RedactTurn{Turn: made.ID, Text: "hunter2"}
	enginetest.Must(e.Erasure.Redact(t.Context(), enginetest.Operator, s.ID, redact, enginetest.JSON(redact)))(t)
	for range 2 {
		if k := outline().Compaction; k.Focus != "the [redacted] page" {
			t.Errorf("after hunter2 was taken out: %+v", k)
		}
	}
	enginetest.Must(e.Erasure.Erase(t.Context(), enginetest.Operator, s.ID, api.EraseSession{}))(t)
	if k := outline(); k.Error != api.Erased || k.Compaction != nil {
		t.Errorf("after the session was erased: %+v", k)
	}
}

package view_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/compactor/compactortest"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/turns"
)

// TestRecipe: a recipe reads back as it was written, and names its renderer.
func TestRecipe(t *testing.T) {
	w := compactortest.NewLongSession(t)
	pol, _ := policy.Builtin("balanced")
	p := w.Path()
	must(t, w.Commit(p.Span(8), turns.CompactionBody{Summary: "s", Replacement: []turns.Message{view.Replacement(pol, 4, view.Quoted{}, "s")}}))
	want := view.NewRecipe(w.Path(), pol.Digest(), 3000)
	want.Settings = w.ID
	raw, err := want.JSON()
	must(t, err)
	got, err := view.ParseRecipe(raw)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Compaction.Ref() != w.Head.Ref || got.Renderer != "render-1" || got.Counter != "approx-1" {
		t.Errorf("%s", raw)
	}
	if _, err := view.ParseRecipe(turns.Raw(`{"renderer":"render-0"}`)); !errors.Is(err, turns.ErrUnsupported) {
		t.Errorf("another renderer: %v", err)
	}
	if _, err := view.ParseRecipe(turns.Raw(`{"renderer":"render-1"}`)); !errors.Is(err, turns.ErrUnsupported) {
		t.Errorf("without settings: %v", err)
	}
	// Golden: the encoding under a fingerprint is part of the contract.
	c := view.Context{Messages: []turns.Message{turns.TextMessage(turns.User, "hello"), *says("hi", "a")}}
	if got, want := c.Fingerprint(), "sha256:54224423f86817ec66104b024dcfcbcbe61ea7adce6743998f3d36ea4b8498d9"; got != want {
		t.Errorf("fingerprint %s, want %s", got, want)
	}
}

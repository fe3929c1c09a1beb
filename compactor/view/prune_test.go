package view_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nexus/compactor/compactortest"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/render"
)

// S8-4: a result older than 3 assistant turns and over 4,000 characters shows its
// first and last 1,500, and "..." between.
func TestOldLongResultShowsItsEnds(t *testing.T) {
	for _, c := range []struct {
		text    string
		trimmed bool
	}{
		{strings.Repeat("a", 4000), false},
		{strings.Repeat("a", 2000) + "|" + strings.Repeat("b", 2000), true},
		{compactortest.Runes(4000), false},
		{compactortest.Runes(4001), true},
		{"<|>" + compactortest.Runes(90_000) + "<|>", true},
	} {
		for n := range 10 {
			cx := compactortest.Behind(t, spec008(t, `{}`), n, result("c", c.text))
			want, status := c.text, view.Verbatim
			if c.trimmed && n >= 3 {
				r := []rune(c.text)
				want, status = string(r[:1500])+"..."+string(r[len(r)-1500:]), view.Trimmed
			}
			got := compactortest.ResultIn(t, cx)
			if s, _ := got.Response.Text(); s != want || got.ID != "c" {
				t.Errorf("%d characters behind %d assistant messages: %d characters are shown, want %d", len([]rune(c.text)), n, len([]rune(s)), len([]rune(want)))
			}
			if s := cx.Sources[2].Status; s != status {
				t.Errorf("behind %d assistant messages: status %s, want %s", n, s, status)
			}
		}
	}
}

// S8-5: a result older than 10 assistant turns becomes "[Tool result cleared]";
// an error stays one. One that is no longer than those words stays: in place of
// it they would take room, where pruning is there to make some.
func TestVeryOldResultIsCleared(t *testing.T) {
	const shortResult = "a result of some words, or a few lines"
	for _, c := range []struct {
		set    string
		behind int
		want   string
	}{
		{`{}`, 9, shortResult},
		{`{}`, 10, "[Tool result cleared]"},
		{`{}`, 40, "[Tool result cleared]"},
		{`{"prune":{"clear_after_assistants":4}}`, 3, shortResult},
		{`{"prune":{"clear_after_assistants":4}}`, 4, "[Tool result cleared]"},
		{`{"prune":{"clear_after_assistants":0}}`, 40, shortResult},
		{`{"prune":{"clear_mark":"[gone]"}}`, 10, "[gone]"},
		{`{"prune":{"when":""}}`, 40, shortResult},
	} {
		r := result("c", shortResult)
		r.IsError = true
		cx := compactortest.Behind(t, spec008(t, c.set), c.behind, r)
		got := compactortest.ResultIn(t, cx)
		if s, _ := got.Response.Text(); s != c.want || !got.IsError || got.ID != "c" {
			t.Errorf("%s, behind %d: %q, want %q", c.set, c.behind, s, c.want)
		}
		if cleared := cx.Sources[2].Status == view.Cleared; cleared != (c.want != shortResult) {
			t.Errorf("%s, behind %d: status %s", c.set, c.behind, cx.Sources[2].Status)
		}
	}
	if got := compactortest.ResultIn(t, compactortest.Behind(t, spec008(t, `{}`), 40, result("c", "ok"))); string(got.Response) != `"ok"` {
		t.Errorf("a short result became %s", got.Response)
	}
}

func TestPrunePreservesRecentToolResults(t *testing.T) {
	w := prunedSession(t)
	w.ToolTurns(t, 30, 5000)
	cx, err := view.Render(w.Path(), w.Path().Counter)
	must(t, err)
	whole := 0
	for i := len(cx.Messages) - 1; i > len(cx.Messages)-7; i-- { // the newest three rounds
		if m := cx.Messages[i]; m.Role == turns.Tool && m.Parts[0].ID != w.Halves[len(w.Halves)-1].Messages[0].Calls(nil)[0] {
			if s, _ := m.Parts[0].Response.Text(); len(s) < 5000 {
				t.Errorf("message %d has %d characters", i, len(s))
			}
			whole++
		}
	}
	if whole != 2 { // the third waits for its response
		t.Errorf("%d recent results", whole)
	}
}

func TestPruneSoftTrimsOversizedOldResults(t *testing.T) {
	got := compactortest.ResultIn(t, compactortest.Behind(t, spec008(t, `{}`), 3, result("c", strings.Repeat("a", 9000))))
	if s, _ := got.Response.Text(); len(s) != 1500+3+1500 {
		t.Errorf("%d characters", len(s))
	}
}

func TestPruneHardClearsVeryOldResults(t *testing.T) {
	got := compactortest.ResultIn(t, compactortest.Behind(t, spec008(t, `{}`), 10, result("c", strings.Repeat("a", 9000))))
	if s, _ := got.Response.Text(); s != "[Tool result cleared]" {
		t.Errorf("%q", s)
	}
}

// unpruned returns the same path with no view.
func unpruned(p view.Path) view.Path {
	p.View = policy.Prune{}
	return p
}

// onlyResults checks that a pruned context differs from the whole one only in results
// of tools.
func onlyResults(whole, pruned []turns.Message) error {
	if len(whole) != len(pruned) {
		return fmt.Errorf("%d messages became %d", len(whole), len(pruned))
	}
	for i := range whole {
		a, b := whole[i], pruned[i]
		if a.Role != b.Role || a.Name != b.Name || len(a.Parts) != len(b.Parts) {
			return fmt.Errorf("message %d by %s became one by %s", i, a.Role, b.Role)
		}
		for j := range a.Parts {
			p, q := a.Parts[j], b.Parts[j]
			const late = "[Late: the result of tool call "
			switch {
			case p.Type == turns.ToolCallResponse:
				p.Response, q.Response = nil, nil
			case strings.HasPrefix(p.Content, late) && strings.HasPrefix(q.Content, late): // a result too
				p.Content, q.Content = "", ""
			}
			if d := cmp.Diff(p, q); d != "" {
				return fmt.Errorf("message %d by %s, part %d (-whole +pruned):\n%s", i, a.Role, j, d)
			}
		}
	}
	return nil
}

// S8-7: pruning never changes a message of a user or of the assistant, a call, or
// anything that is stored; pairs stay, and no context grows.
func TestPruningChangesOnlyResults(t *testing.T) {
	shortened := 0
	rapid.Check(t, func(t *rapid.T) {
		pol, _ := policy.Builtin("spec-008")
		g := compactortest.NewSession()
		g.Policy = pol
		var next compactortest.RandomTurns
		for range rapid.IntRange(1, 40).Draw(t, "turns") {
			if err := g.Turn(next.Next(t, 2000)); err != nil {
				t.Fatal(err)
			}
		}
		p := g.Path()
		stored := fmt.Sprint(p.Halves)
		whole, err := view.Render(unpruned(p), p.Counter)
		if err != nil {
			t.Fatal(err)
		}
		pruned, err := view.Render(p, p.Counter)
		if err != nil {
			t.Fatal(err)
		}
		if err := onlyResults(whole.Messages, pruned.Messages); err != nil {
			t.Fatal(err)
		}
		if err := checkPairs(pruned.Messages); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(g.Path().Halves) != stored || p.Tokens() != unpruned(p).Tokens() {
			t.Fatal("what is stored was changed")
		}
		if pruned.Tokens < whole.Tokens {
			shortened++
		}
	})
	if shortened == 0 {
		t.Error("nothing was ever pruned")
	}
}

func TestPruneNeverModifiesUserMessages(t *testing.T) { pruneLeaves(t, turns.User) }

func TestPruneNeverModifiesAssistantMessages(t *testing.T) { pruneLeaves(t, turns.Assistant) }

func pruneLeaves(t *testing.T, role turns.Role) {
	t.Helper()
	w := prunedSession(t)
	for i := range 20 {
		id := fmt.Sprintf("c%d", i)
		must(t, w.Turn(user(fmt.Sprint("U", i, strings.Repeat("u", 9000))), says(fmt.Sprint("A", i, strings.Repeat("a", 9000)), id)))
		must(t, w.Turn([]turns.Message{tool(result(id, strings.Repeat("r", 9000)))}, says("done "+strings.Repeat("d", 9000))))
	}
	whole, err := view.Render(unpruned(w.Path()), approx)
	must(t, err)
	pruned, err := view.Render(w.Path(), approx)
	must(t, err)
	n := 0
	for i := range whole.Messages {
		if whole.Messages[i].Role == role {
			n++
			if d := cmp.Diff(whole.Messages[i], pruned.Messages[i]); d != "" {
				t.Errorf("message %d (-whole +pruned):\n%s", i, d)
			}
		}
	}
	if n < 20 || pruned.Tokens > whole.Tokens*5/6 {
		t.Errorf("%d messages by %s; %d of %d tokens are left", n, role, pruned.Tokens, whole.Tokens)
	}
}

// Text next to an image in a result is pruned, the image is not: it reaches the
// provider as the image that it was.
func TestPruneSkipsImageContentBlocks(t *testing.T) {
	image := turns.Part{Type: turns.Blob, Modality: "image", MimeType: "image/png", Data: []byte("\x89PNG" + strings.Repeat("p", 9000))}
	with := func(parts ...turns.Part) turns.Part {
		return turns.Part{Type: turns.ToolCallResponse, ID: "c", Name: "see", Response: jsonOf(t, parts)}
	}
	long := strings.Repeat("x", 9000)
	for _, c := range []struct {
		behind int
		text   string
	}{{2, long}, {3, long[:1500] + "..." + long[:1500]}, {10, "[Tool result cleared]"}} {
		cx := compactortest.Behind(t, spec008(t, `{}`), c.behind, with(turns.TextPart(long), image))
		if d := cmp.Diff(string(with(turns.TextPart(c.text), image).Response), string(compactortest.ResultIn(t, cx).Response)); d != "" {
			t.Fatalf("behind %d (-want +got):\n%s", c.behind, d)
		}
		r, err := render.Anthropic(nil, nil, cx.Messages)
		must(t, err)
		if b := string(jsonOf(t, r.Messages)); !strings.Contains(b, `"type":"image"`) || !strings.Contains(b, c.text) {
			t.Errorf("behind %d: the provider sees %.300s", c.behind, b)
		}
		messagesOnly := with(image)
		if got := compactortest.ResultIn(t, compactortest.Behind(t, spec008(t, `{}`), c.behind, messagesOnly)); string(got.Response) != string(messagesOnly.Response) {
			t.Errorf("behind %d: an image alone became %.100s", c.behind, got.Response)
		}
	}
}

func spec008(t *testing.T, set string) policy.Policy {
	t.Helper()
	pol, err := compactortest.Builtin("spec-008").With(turns.Raw(set))
	must(t, err)
	return pol
}

// prunedSession returns a session under the view of policy spec-008.
func prunedSession(t *testing.T) *compactortest.Session {
	t.Helper()
	w := compactortest.NewSession()
	w.Policy = spec008(t, `{}`)
	return w
}

func jsonOf(t *testing.T, v any) []byte {
	t.Helper()
	b, err := turns.EncodeJSON(v)
	must(t, err)
	return b
}

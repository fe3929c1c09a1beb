package view_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nexus/compactor/compactortest"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// covered returns a session of six turns of about 200 tokens, and the compaction that
// covers the first two and a half.
func covered(t *testing.T) *compactortest.Session {
	t.Helper()
	w := compactortest.NewSession()
	w.Talk(t, "some", 6, 100)
	p := w.Path()
	span := p.Span(5)
	span.SawThrough = p.Halves[7].Ref
	meta := turns.Raw(`{"first_request":"begin","pins":["rule"]}`)
	must(t, w.Commit(span, turns.CompactionBody{Summary: "sum", Meta: meta, Replacement: []turns.Message{turns.TextMessage(turns.User, "all of the sum")}}))
	return w
}

func TestSpanAndCutFollowTheHalf(t *testing.T) {
	w := compactortest.NewSession()
	w.Talk(t, "some", 3, 10)
	p := w.Path()
	ref := func(i int) turns.Ref { return p.Halves[i].Ref }
	for i, want := range []turns.Span{
		{FirstKept: ref(0)},
		{FirstKept: ref(0), Through: ref(0), Split: true, Covered: 1},
		{FirstKept: ref(2), Through: ref(0), Covered: 1},
		{FirstKept: ref(2), Through: ref(2), Split: true, Covered: 2},
		{FirstKept: ref(4), Through: ref(2), Covered: 2},
		{FirstKept: ref(4), Through: ref(4), Split: true, Covered: 3},
		{Through: ref(4), Covered: 3},
	} {
		want.Provenance = turns.ByNexus
		if d := cmp.Diff(want, p.Span(i)); d != "" {
			t.Errorf("span before half %d (-want +got):\n%s", i, d)
		}
		cut := lineage.CutBefore(uint64(i/2+1), []turns.Half{turns.MessagesHalf, turns.ResponseHalf}[i%2])
		if got := p.CutAt(i); got != cut {
			t.Errorf("cut before half %d: %d, want %d", i, got, cut)
		}
	}
	if p.Previous() != (turns.Ref{}) || p.Last() != ref(5) || !p.Contains(ref(0)) || p.Contains(turns.Ref{}) {
		t.Error("a path without a compaction")
	}
}

func TestPathAfterCompactionNamesItsCompaction(t *testing.T) {
	w := covered(t)
	compaction := w.Head.Ref
	p := w.Path()
	if p.Previous() != compaction || len(p.Halves) != 7 || p.Contains(w.Halves[3].Ref) || !p.Contains(w.Halves[4].Ref) {
		t.Errorf("compaction %v, %d halves", p.Previous(), len(p.Halves))
	}
	want := turns.Span{Provenance: turns.ByNexus, Previous: compaction, FirstKept: w.Halves[5].Ref, Through: w.Halves[5].Ref, Split: true}
	if d := cmp.Diff(want, p.Span(0)); d != "" { // the path begins with the response of a turn
		t.Errorf("span before its first half (-want +got):\n%s", d)
	}
	if got := p.CutAt(0); got != p.InForce.Node.Cut {
		t.Errorf("cut %d, the cut in force is %d", got, p.InForce.Node.Cut)
	}
	empty := p
	empty.Halves = nil
	if empty.Last() != p.InForce.Span.Through || empty.Span(0).Through != p.InForce.Span.Through {
		t.Error("a path without halves ends where its compaction does")
	}
	saw := w.Halves[7].Ref // the summary in force was made from turns through this one
	for _, c := range []struct {
		saw  turns.Ref
		cut  int
		want turns.Ref
	}{{turns.Ref{}, 0, saw}, {p.Halves[0].Ref, 1, saw}, {p.Halves[6].Ref, 7, p.Halves[6].Ref}} {
		if got := p.LaterSeen(c.saw, c.cut); got != c.want {
			t.Errorf("seen through %v, cut before half %d: %v, want %v", c.saw, c.cut, got, c.want)
		}
	}
	if p.PreviousSummary() != "sum" || p.Replaced() != tokens.Messages(approx, p.InForce.Body.Replacement) || p.Tokens() != p.Replaced()+p.ShownFrom(0) {
		t.Errorf("summary %q, %d tokens stand for what is covered", p.PreviousSummary(), p.Replaced())
	}
}

// A nudge's summary is of parts that are still there: the next summary must hold the one
// before it.
func TestPreviousSummaryIsOfCoveredTurns(t *testing.T) {
	message := []turns.Message{turns.TextMessage(turns.User, "shown")}
	for want, body := range map[string]turns.CompactionBody{
		"":               {},
		"sum":            {Summary: "sum", Replacement: message},
		"shown":          {Replacement: message},
		"carried":        {Summary: "of parts", Nudge: message, Replacement: message, Meta: turns.Raw(`{"carried":"carried"}`)},
		"shown\n\nshown": {Summary: "of parts", Nudge: message, Replacement: append(message, message...)},
	} {
		p := view.Path{InForce: &view.InForce{Body: body}}
		if got := p.PreviousSummary(); got != want {
			t.Errorf("%+v: %q, want %q", body, got, want)
		}
	}
	only := view.Path{InForce: &view.InForce{Body: turns.CompactionBody{Summary: "of parts", Nudge: message}}}
	if got := only.PreviousSummary(); got != "" {
		t.Errorf("of a nudge alone: %q", got)
	}
}

func TestFirstRequestAndPinsAreQuotedOn(t *testing.T) {
	pol := policy.Policy{KeepFirstRequest: true}
	w := compactortest.NewSession()
	w.Talk(t, "some", 3, 1)
	w.Halves[2].Pinned, w.Halves[3].Pinned = true, true
	p := w.Path()
	if got := p.FirstRequest(pol, p.Halves); !strings.HasPrefix(got, "some question 0") {
		t.Errorf("first request %q", got)
	}
	if p.FirstRequest(policy.Policy{}, p.Halves) != "" || p.FirstRequest(pol, p.Halves[2:]) != "" || p.FirstRequest(pol, nil) != "" {
		t.Error("a first request that is off, or not in what is read")
	}
	if got := p.PinnedTexts(6); len(got) != 1 || !strings.HasPrefix(got[0], "some question 1") {
		t.Errorf("pins %q: only what the user says is quoted", got)
	}
	if got := p.PinnedTexts(2); got != nil {
		t.Errorf("pins before their turn %q", got)
	}
	after := covered(t).Path()
	if after.FirstRequest(pol, after.Halves) != "begin" || cmp.Diff([]string{"rule"}, after.PinnedTexts(0)) != "" {
		t.Error("the compaction in force quotes the request and a pin")
	}
	for i := range after.Halves {
		after.Halves[i].Pinned = true
	}
	if got := after.PinnedTexts(len(after.Halves)); len(got) != 4 || got[0] != "rule" {
		t.Errorf("pins %.20q", got)
	}
}

// The sums of a path, kept and added to, are those of the path that grew.
func TestSumsGrowAsThePathDoes(t *testing.T) {
	for _, w := range []*compactortest.Session{compactortest.NewSession(), covered(t)} {
		w.Overhead = 300
		p := w.Path()
		sums := p.Summed()
		for i := range 8 {
			w.Talk(t, "more", 1, 10+i)
			reported := 700 + 100*uint64(i)
			w.Halves[len(w.Halves)-1].Reported = reported
			grown := w.Path()
			added := grown.Halves[len(grown.Halves)-2:]
			sums = sums.AddMessages(added[0].Tokens).AddResponse(w.Overhead, added[1].Tokens, reported)
			if d := cmp.Diff(grown.Summed(), sums, cmp.AllowUnexported(view.Sums{}, tokens.Calibration{})); d != "" {
				t.Fatalf("after %d turns (-path +sums):\n%s", i+1, d)
			}
			kept := view.Path{Sums: &sums}
			if kept.MeasureGrowth() != grown.MeasureGrowth() || kept.Calibrate() != grown.Calibrate() {
				t.Fatal("a path with sums does not use them")
			}
		}
	}
}

func TestGrowthCountsCallsSinceTheCompaction(t *testing.T) {
	p := compactortest.PathOfCalls(3, 100) // an overhead of 1,000; each half has 50 tokens
	if d := cmp.Diff(view.Growth{Calls: 3, First: 1050, Read: 1050 + 1150 + 1250}, p.MeasureGrowth()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := p.MeasureGrowth().Below(1300); got != 250+150+50 {
		t.Errorf("below 1300: %d", got)
	}
	p.InForce = &view.InForce{Node: lineage.Node{Depth: 2}}
	if d := cmp.Diff(view.Growth{Calls: 1, First: 1250, Read: 1250}, p.MeasureGrowth()); d != "" {
		t.Errorf("since a compaction at depth 2 (-want +got):\n%s", d)
	}
}

func TestReportedCountsOnlyForItsContext(t *testing.T) {
	report := func(at ...uint64) view.Path {
		p := compactortest.PathOfCalls(4, 100)
		for i, n := range at {
			p.Halves[2*i+1].Reported = n
		}
		return p
	}
	changed, compacted, onMessages := report(0, 2000), report(0, 2000), report()
	changed.Changed = 2
	compacted.InForce = &view.InForce{Node: lineage.Node{Depth: 3}}
	onMessages.Halves[6].Reported = 9000
	for _, c := range []struct {
		what string
		path view.Path
		want uint64
	}{
		{"none", report(), 0},
		{"the second of four", report(0, 2000), 2000 + 250},
		{"the newest of two", report(0, 2000, 0, 3000), 3000 + 50},
		{"of a context that changed", changed, 0},
		{"from before a compaction", compacted, 0},
		{"on messages", onMessages, 0},
	} {
		if got := c.path.ReportedTokens(); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
	at := report(1500, 1650)
	if one := (tokens.Calibration{}).Observe(1050, 1500).Observe(1150, 1650); at.Calibrate() != one {
		t.Errorf("calibration %+v, want %+v", at.Calibrate(), one)
	}
	at.Changed = 1
	if one := (tokens.Calibration{}).Observe(1150, 1650); at.Calibrate() != one {
		t.Errorf("calibration after a change %+v, want %+v", at.Calibrate(), one)
	}
	at.View.When = "always"
	if at.Calibrate() != (tokens.Calibration{}) {
		t.Error("a view shows other content than is counted")
	}
}

func TestLoadCountsMessagesAndTurns(t *testing.T) {
	w := covered(t)
	w.Talk(t, "more", 2, 10)
	p := w.Path()
	p.Idle = time.Minute
	if d := cmp.Diff(view.Load{Tokens: 77, Turns: 2, Messages: 1 + 11, Idle: time.Minute}, p.MeasureLoad(77)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	p.View.When = "always"
	if got := p.MeasureLoad(77).Tokens; got != p.Tokens() {
		t.Errorf("with a view %d tokens, want all %d", got, p.Tokens())
	}
	if got := compactortest.PathOfCalls(3, 10).MeasureLoad(1).Turns; got != 3 {
		t.Errorf("%d turns without a compaction, want 3", got)
	}
}

// Elisions save the tokens of the parts, and stay in force until a cut is planned.
func TestElisionsSaveTokens(t *testing.T) {
	w := compactortest.NewSession()
	must(t, w.Turn(user("go"), says(words(200), "a")))
	must(t, w.Turn([]turns.Message{tool(result("a", words(500)))}, says("ok")))
	p := w.Path()
	at := view.PartAt{Half: 2}
	whole, part := p.Tokens(), view.ElidedTo(p.Part(at), string(view.Cleared), "[gone]")
	if part.Before != uint64(len(words(500))) || part.After != 6 {
		t.Errorf("%+v", part)
	}
	elisions, parts := p.Elisions(0, map[view.PartAt]turns.ElidedPart{at: part})
	if later, _ := p.Elisions(3, map[view.PartAt]turns.ElidedPart{at: part}); len(later) != 0 {
		t.Error("an elision before the cut stays")
	}
	saved := p.SavedBy(elisions, parts)
	if one := view.Saving(approx, &p.Halves[2], elisions[0], &part); one < 450 || saved[2] != one || len(saved) != 1 {
		t.Errorf("saves %v, alone %d", saved, one)
	}
	for _, bad := range []turns.Elision{{Message: 1}, {Part: 1}} {
		if n := view.Saving(approx, &p.Halves[2], bad, &part); n != 0 {
			t.Errorf("%+v, which is not there, saves %d", bad, n)
		}
	}
	if p.SavedBy(elisions, nil) != nil || len(p.SavedBy([]turns.Elision{{Turn: p.Halves[2].Ref, Message: 1}}, parts)) != 0 {
		t.Error("elisions that do not fit save something")
	}
	span := turns.Span{Provenance: turns.ByNexus, Elisions: elisions, Call: true}
	must(t, w.Commit(span, turns.CompactionBody{Elided: parts, Summary: "of parts"}))
	p = w.Path()
	if p.Tokens() != whole-saved[2] || !p.ElidedAt()[at] || len(p.ElidedAt()) != 1 || p.Saves(p.InForce.Span, &p.InForce.Body, approx) != saved[2] {
		t.Errorf("%d tokens of %d, %d were to be saved", p.Tokens(), whole, saved[2])
	}
	if again, same := p.Elisions(0, nil); cmp.Diff(elisions, again)+cmp.Diff(parts, same) != "" {
		t.Error("what was shortened before does not stay so")
	}
	lasting := p.Lasting()
	if lasting.Tokens() != whole || lasting.ElidedAt() != nil || lasting.InForce.Body.Summary != "of parts" {
		t.Errorf("of one call: %d tokens of %d after it", lasting.Tokens(), whole)
	}
	p.InForce.Span.Call = false
	if p.Lasting().Tokens() != p.Tokens() {
		t.Error("elisions that last went")
	}
	recounted := p
	recounted.Halves = append([]summary.HalfTurn(nil), p.Halves...)
	recounted.Halves[0].Tokens = 9999
	if got := recounted.Settled(approx, true).Halves[0].Tokens; got != tokens.Messages(approx, p.Halves[0].Messages) {
		t.Errorf("counted again: %d", got)
	}
}

func TestRecipeNamesTheCacheOnlyWhereItCounts(t *testing.T) {
	w := compactortest.NewSession()
	w.Talk(t, "some", 2, 10)
	pol := compactortest.Builtin("balanced")
	for want, p := range map[string]view.Path{
		"": {View: policy.Prune{When: "always"}, Cold: true}, "warm": {View: policy.Prune{When: "cache_cold"}}, "cold": {View: policy.Prune{When: "cache_cold"}, Cold: true},
	} {
		r := view.NewRecipe(p, pol.Digest(), 1)
		if r.Cache != want {
			t.Errorf("%+v: cache %q, want %q", p.View, r.Cache, want)
		}
		if back, err := r.Replay(view.Path{View: p.View}, pol); err != nil || back.Cold != (want == "cold") {
			t.Errorf("%q: replayed cold %v, %v", want, back.Cold, err)
		}
	}
	p := w.Path()
	r := view.NewRecipe(p, pol.Digest(), 1)
	if _, err := r.Replay(p, pol); err != nil {
		t.Error(err)
	}
	head, inForce, counter := p, p, p
	head.Head.Ref = turns.Ref{}
	inForce.InForce = &view.InForce{Node: lineage.Node{Ref: p.Head.Ref}}
	counter.Counter = compactortest.Builtin("spec-008").CounterOf()
	for what, other := range map[string]view.Path{"head": head, "compaction": inForce, "counter": counter} {
		if _, err := r.Replay(other, pol); err == nil || !strings.Contains(err.Error(), "is of "+what) {
			t.Errorf("another %s: %v", what, err)
		}
	}
	if _, err := r.Replay(p, compactortest.Builtin("gsv")); err == nil {
		t.Error("another policy")
	}
}

func TestMetaIsEmptyWithoutAnyField(t *testing.T) {
	if !(view.Meta{}).Empty() {
		t.Error("the zero Meta is not empty")
	}
	for _, m := range []view.Meta{{FirstRequest: "x"}, {Carried: "x"}, {Pins: []string{"x"}}, {Calibration: (tokens.Calibration{}).Observe(1000, 2000)}} {
		if m.Empty() {
			t.Errorf("%+v is empty", m)
		}
	}
}

// The ledger stores counts by approx-1; another counter counts again.
func TestReplacedIsCountedByThePathsCounter(t *testing.T) {
	f := &view.InForce{Node: lineage.Node{Replaced: 5}, Body: turns.CompactionBody{Replacement: user(words(100)), Nudge: user(words(50))}}
	other := compactortest.Builtin("gsv").CounterOf()
	for _, c := range []struct {
		path view.Path
		want uint64
	}{
		{view.Path{}, 0},
		{view.Path{InForce: f}, 5},
		{view.Path{InForce: f, Counter: other}, tokens.Messages(other, f.Body.Replacement) + tokens.Messages(other, f.Body.Nudge)},
		{view.Path{InForce: &view.InForce{Body: f.Body}}, tokens.Messages(approx, f.Body.Replacement) + tokens.Messages(approx, f.Body.Nudge)},
	} {
		if got := c.path.Replaced(); got != c.want {
			t.Errorf("%d tokens, want %d", got, c.want)
		}
	}
}

// Savings of a compaction that is no longer in force go when the path is settled.
func TestSettledForgetsOldSavings(t *testing.T) {
	w := compactortest.NewSession()
	w.Talk(t, "some", 2, 100)
	p := w.Path()
	whole := p.Tokens()
	p.Halves[1].Saved = 50
	if p.Tokens() != whole-50 || p.Settled(approx, false).Tokens() != whole {
		t.Errorf("%d tokens, want %d again", p.Settled(approx, false).Tokens(), whole)
	}
	p.Halves[0].Tokens, p.Halves[2].Tokens, p.Halves[2].Erased = 9999, 7, true
	if got := p.Settled(approx, true).Halves; got[0].Tokens != tokens.Messages(approx, got[0].Messages) || got[2].Tokens != 7 {
		t.Errorf("counted again: %d, and %d of an erased half", got[0].Tokens, got[2].Tokens)
	}
}

func TestElisionsOffThePathSaveNothing(t *testing.T) {
	w := compactortest.NewSession()
	w.Talk(t, "some", 2, 100)
	p := w.Path()
	p.Halves[2].Erased = true
	show := []turns.ElidedPart{{Show: "x"}}
	for what, e := range map[string]turns.Elision{
		"another turn": {Turn: turns.Ref{Session: w.ID, Turn: testID(999)}, Half: turns.MessagesHalf}, "erased": {Turn: p.Halves[2].Ref, Half: turns.MessagesHalf},
	} {
		if got := p.SavedBy([]turns.Elision{e}, show); len(got) != 0 {
			t.Errorf("%s: %v", what, got)
		}
	}
	if got := p.SavedBy([]turns.Elision{{Turn: p.Halves[0].Ref, Half: turns.MessagesHalf}}, show); got[0] < 90 {
		t.Errorf("on the path: %v", got)
	}
}

package view_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/lineage"
	"nexus/turns"
)

// A path with totals measures as one without, as it grows in the memory of one list or moves to
// another, with whatever else of it changes.
func TestTotalsChangeNoMeasure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := view.Path{Overhead: 500}
		var known *view.Totals
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"grow", "grow", "grow", "grow", "copy", "cut", "changed", "compacted", "prunes"}).Draw(t, "step") {
			case "grow":
				for range rapid.IntRange(1, 4).Draw(t, "halves") {
					p.Halves = append(p.Halves, drawHalf(t, p.Halves))
				}
			case "copy":
				p.Halves = append([]summary.HalfTurn(nil), p.Halves...)
			case "cut":
				p.Halves = p.Halves[rapid.IntRange(0, len(p.Halves)).Draw(t, "from"):]
			case "changed":
				p.Changed = uint64(rapid.IntRange(0, 20).Draw(t, "depth"))
			case "compacted":
				p.InForce = &view.InForce{Node: lineage.Node{Depth: uint64(rapid.IntRange(1, 20).Draw(t, "depth")), Replaced: 77},
					Body: turns.CompactionBody{Replacement: make([]turns.Message, 1), Meta: turns.Raw(`{"calibration":{"ratio_ppm":1200000,"samples":3}}`)}}
			case "prunes":
				p.View = policy.Prune{When: rapid.SampledFrom([]string{"", "always"}).Draw(t, "when")}
			}
			with := p.WithTotals(known)
			if rapid.Bool().Draw(t, "kept") {
				known = with.Totals
			}
			if d := cmp.Diff(measures(p), measures(with)); d != "" {
				t.Fatalf("%d halves (-without, +with totals):\n%s", len(p.Halves), d)
			}
			shorter := with
			shorter.Halves = with.Halves[:len(with.Halves)/2]
			bare := shorter
			bare.Totals = nil
			if d := cmp.Diff(measures(bare), measures(shorter)); d != "" {
				t.Fatalf("totals of another path count (-without, +with):\n%s", d)
			}
		}
	})
}

func drawHalf(t *rapid.T, after []summary.HalfTurn) summary.HalfTurn {
	depth := uint64(1)
	if n := len(after); n > 0 {
		depth = after[n-1].Depth + uint64(rapid.IntRange(0, 1).Draw(t, "deeper"))
	}
	h := summary.HalfTurn{Ref: turns.Ref{Turn: turns.ID{byte(depth)}}, Depth: depth, Half: rapid.SampledFrom([]turns.Half{turns.MessagesHalf, turns.ResponseHalf}).Draw(t, "half"),
		Messages: make([]turns.Message, rapid.IntRange(0, 3).Draw(t, "messages")), Tokens: uint64(rapid.IntRange(0, 900).Draw(t, "tokens")), Saved: uint64(rapid.IntRange(0, 1).Draw(t, "saved") * 100)}
	if rapid.Bool().Draw(t, "reported") {
		h.Reported = uint64(rapid.IntRange(1, 5000).Draw(t, "input"))
	}
	h.Erased = rapid.IntRange(0, 9).Draw(t, "erased") == 0
	return h
}

// measures are all that is measured of a path's halves.
func measures(p view.Path) []any {
	c := p.Calibrate()
	return []any{c.Ratio, c.Samples, p.MeasureGrowth(), p.Tokens(), p.MeasureLoad(1234), p.ReportedTokens()}
}

package compare

import (
	"fmt"
	"testing"

	"nexus/compactor"
	"nexus/compactor/extractive"
	"nexus/turns"
	"nexus/turns/tokens"
)

func extracts(window uint64) Options {
	return Options{
		Limits: turns.Limits{ContextWindow: window},
		Tiers:  []compactor.Tier{{Name: "extractive", Summarizer: extractive.New(extractive.Config{}), Local: true}},
	}
}

// Of all patience, that of 1 is the cheapest: a session is compacted neither
// before what it saves pays for the rewrite, nor so late that each call reads
// what a rewrite would have taken away. What a session costs is not known to the
// policy; it goes by what it sees.
func TestPatienceOneIsTheCheapest(t *testing.T) {
	tr := New(longSession(1200), 900)
	cost := func(set string) uint64 {
		pol, _ := compactor.Builtin("balanced")
		pol, err := pol.With(turns.Raw(set))
		if err != nil {
			t.Fatal(err)
		}
		var s Sum
		s.Add(mustReplay(t, tr, pol, extracts(400_000)))
		if pol.Cost.Patience == 1 {
			checkRewrites(t, s.Rewrites)
		}
		t.Logf("%s: %d compactions, a context has %d tokens in the mean, $%.2f", set, s.Compactions, s.MeanTokens(), float64(DefaultPrices.Cost(s.Usage))/1e6)
		return DefaultPrices.Cost(s.Usage)
	}
	with := func(patience float64) string {
		return fmt.Sprintf(`{"cost":{"patience":%v},"summary_max_tokens":12000}`, patience)
	}
	best := cost(with(1))
	for _, patience := range []float64{0.01, 0.2, 5, 25, 0} {
		if got := cost(with(patience)); got <= best {
			t.Errorf("a patience of %v costs %d micro-dollars, that of 1 %d", patience, got, best)
		}
	}
}

// checkRewrites holds what a policy expected against what came of it: in a
// session that grows as it did a rewrite is paid back before the next one.
func checkRewrites(t *testing.T, ws []Rewrite) {
	t.Helper()
	if len(ws) < 10 {
		t.Fatalf("%d rewrites", len(ws))
	}
	for i, w := range ws[:len(ws)-1] {
		if w.Calls == 0 || float64(w.Calls) < w.Payback(DefaultPrices) {
			t.Errorf("rewrite %d: %+v is paid back after %.1f calls", i, w, w.Payback(DefaultPrices))
		}
		if w.Rewritten > w.Expected.Rewrite*5/4 || w.Saved < w.Expected.Saves*3/4 {
			t.Errorf("rewrite %d: %+v is not what was expected", i, w)
		}
	}
}

// more is a provider's tokenizer: it counts more than the policy's counter.
type more struct {
	tokens.Approx
	percent uint64
}

func (m more) Name() string { return fmt.Sprint("more", m.percent) }

func (m more) Message(x *turns.Message) uint64 { return m.Approx.Message(x) * m.percent / 100 }

// A provider that counts 1.6 times as much refuses what the policy's counter takes
// for small enough. By what it reports the policy learns; once at most is too late.
func TestCalibratedToAProvider(t *testing.T) {
	tr := New(longSession(1500), 0)
	tr.counter = tr.by(more{percent: 160})
	overflows := func(set string) int {
		pol, _ := compactor.Builtin("balanced")
		pol, err := pol.With(turns.Raw(set))
		if err != nil {
			t.Fatal(err)
		}
		var s Sum
		s.Add(mustReplay(t, tr, pol, extracts(30_000)))
		t.Logf("%s: %d compactions, %d overflows, the largest context has %d tokens", set, s.Compactions, s.Overflows, s.MaxTokens)
		return s.Overflows
	}
	if n := overflows(`{"measure":""}`); n < 100 {
		t.Errorf("without calibration %d contexts overflow: the test shows nothing", n)
	}
	if n := overflows(`{}`); n > 0 {
		t.Errorf("with calibration %d contexts overflow", n)
	}
}

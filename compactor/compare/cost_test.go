package compare

import (
	"fmt"
	"testing"

	"nexus/compactor"
	"nexus/compactor/extractive"
	"nexus/compactor/policy"
	"nexus/turns"
	"nexus/turns/tokens"
)

func extracts(window uint64) Options {
	return Options{
		Limits: turns.Limits{ContextWindow: window},
		Tiers:  []compactor.Tier{{Name: "extractive", Summarizer: extractive.New(extractive.Config{}), Local: true}},
	}
}

// replayWith returns the totals of a transcript under balanced with settings.
func replayWith(t *testing.T, tr *Transcript, set string, window uint64) (s Sum) {
	t.Helper()
	pol, _ := policy.Builtin("balanced")
	pol, err := pol.With(turns.Raw(set))
	if err != nil {
		t.Fatal(err)
	}
	s.Add(mustReplay(t, tr, pol, extracts(window)))
	t.Logf("%s: %d compactions, %d overflows, a context has %d tokens in the mean and %d at most, $%.2f",
		set, s.Compactions, s.Overflows, s.MeanTokens(), s.MaxTokens, float64(s.Usage.Cost(DefaultPrice))/1e6)
	return s
}

// Of all patience, that of 1 is the cheapest: a session is compacted neither
// before what it saves pays for the rewrite, nor so late that each call reads
// what a rewrite would have removed. The policy does not know what a session costs;
// it decides by the context of each call.
func TestPatienceOneIsTheCheapest(t *testing.T) {
	tr := New(longSession(1200), 900)
	with := func(patience float64) Sum {
		return replayWith(t, tr, fmt.Sprintf(`{"cost":{"patience":%v},"summary_max_tokens":12000}`, patience), 400_000)
	}
	one := with(1)
	checkRewrites(t, one.Rewrites)
	best := one.Usage.Cost(DefaultPrice)
	for _, patience := range []float64{0.01, 0.2, 5, 25, 0} {
		if got := with(patience).Usage.Cost(DefaultPrice); got <= best {
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
		if w.Calls == 0 || float64(w.Calls) < w.Payback(DefaultPrice) {
			t.Errorf("rewrite %d: %+v is paid back after %.1f calls", i, w, w.Payback(DefaultPrice))
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
	if n := replayWith(t, tr, `{"measure":""}`, 30_000).Overflows; n < 100 {
		t.Errorf("without calibration %d contexts overflow: the test shows nothing", n)
	}
	if n := replayWith(t, tr, `{}`, 30_000).Overflows; n > 0 {
		t.Errorf("with calibration %d contexts overflow", n)
	}
}

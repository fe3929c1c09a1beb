package writer

import (
	"strconv"
	"testing"
	"time"
)

// At the bound of idle chains each new one drops few others, and none that has a writer.
func TestIdleChainsAreDroppedAFewAtATime(t *testing.T) {
	wr := new(Writer)
	held, release, err := wr.Hold(t.Context(), "held")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	before := 0
	for i := range MaxIdle + 20_000 {
		_, done, err := wr.Hold(t.Context(), strconv.Itoa(i))
		if err != nil {
			t.Fatal(err)
		}
		done()
		n := len(wr.chains)
		if n > MaxIdle || before-n > 2 {
			t.Fatalf("chain %d: %d are remembered after %d", i, n, before)
		}
		before = n
	}
	if before < MaxIdle-100 {
		t.Errorf("%d are remembered, want about %d", before, MaxIdle)
	}
	if wr.chains["held"] != held {
		t.Error("a chain with a writer was dropped")
	}
}

// BenchmarkHoldAtTheBoundOfIdleChains reports the longest hold of a new chain.
func BenchmarkHoldAtTheBoundOfIdleChains(b *testing.B) {
	wr := new(Writer)
	hold := func(i int) {
		_, done, err := wr.Hold(b.Context(), strconv.Itoa(i))
		if err != nil {
			b.Fatal(err)
		}
		done()
	}
	i := 0
	for ; i < MaxIdle-1; i++ {
		hold(i)
	}
	longest := time.Duration(0)
	for b.Loop() {
		began := time.Now()
		hold(i)
		longest = max(longest, time.Since(began))
		i++
	}
	b.ReportMetric(float64(longest.Microseconds()), "µs-longest")
}

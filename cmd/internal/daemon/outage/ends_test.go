package outage

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestEndsOfChainsCoverWhatWasAcknowledged: whatever is added, applied and taken back by
// projections that are opened again, a position that is known covers its chain.
func TestEndsOfChainsCoverWhatWasAcknowledged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var last, applied uint64 = 7, 7
		acked := make(map[string]uint64)
		c := NewEnds(func() uint64 { return applied }, last)
		check := func(subject string) {
			seq, ok := c.End(subject)
			switch {
			case ok && max(seq, applied) < acked[subject]:
				t.Fatalf("%s ends at %d for projections at %d, and %d was acknowledged", subject, seq, applied, acked[subject])
			case ok && seq > acked[subject]:
				t.Fatalf("%s ends at %d, and %d was the last acknowledged", subject, seq, acked[subject])
			case !ok && applied == last:
				t.Fatalf("the end of %s is not known where all is applied", subject)
			}
			seq, ok = c.All()
			switch {
			case ok && max(seq, applied) < last:
				t.Fatalf("all ends at %d for projections at %d, and %d was acknowledged", seq, applied, last)
			case ok && seq > last:
				t.Fatalf("all ends at %d, and %d was the last acknowledged", seq, last)
			case !ok && applied == last:
				t.Fatal("the end is not known where all is applied")
			}
			if len(c.ends) > maxEnds {
				t.Fatalf("%d ends are held", len(c.ends))
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				subject := fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "chain"))
				last++
				acked[subject] = last
				c.add(subject, last)
				check(subject)
			},
			"append to many chains": func(t *rapid.T) {
				for n := range rapid.IntRange(maxEnds/3, maxEnds).Draw(t, "chains") {
					last++
					subject := fmt.Sprint(n)
					acked[subject] = last
					c.add(subject, last)
				}
			},
			"apply":  func(t *rapid.T) { applied = rapid.Uint64Range(applied, last).Draw(t, "applied") },
			"all":    func(*rapid.T) { applied = last },
			"reopen": func(t *rapid.T) { applied = rapid.Uint64Range(0, applied).Draw(t, "applied") },
			"":       func(t *rapid.T) { check(fmt.Sprint(rapid.IntRange(0, maxEnds).Draw(t, "chain"))) },
		})
	})
}

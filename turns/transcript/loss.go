package transcript

import (
	"fmt"
	"slices"
	"strings"

	"nexus/turns"
	"nexus/turns/internal/values"
)

// MaxLosses is how many defects are reported one by one. Further ones are counted by
// kind, so that a broken file can't make the report grow without bound.
const MaxLosses = 1000

type lossKey struct{ what, reason string }

// LossReport gathers the loss report.
type LossReport struct {
	single []Loss
	counts map[lossKey]int
}

func (l *LossReport) Add(line int, what, reason, record string) {
	l.AddLoss(Loss{Line: line, Kind: what, Reason: reason, Record: record})
}

func (l *LossReport) AddLoss(x Loss) {
	if len(l.single) < MaxLosses {
		x.Record = strings.ToValidUTF8(values.Clipped(x.Record, 80), "")
		l.single = append(l.single, x)
		return
	}
	for range max(x.Count, 1) {
		l.Count(x.Kind, fmt.Sprintf("more defects, after the first %d", MaxLosses))
	}
}

// AddUsage adds usage that no turn can hold.
func (l *LossReport) AddUsage(line int, reason string, u *turns.Usage) {
	before := len(l.single)
	if l.Add(line, "skipped", reason, ""); len(l.single) > before {
		l.single[before].Usage = u
	}
}

// AddMany adds a defect that n parts of a line have.
func (l *LossReport) AddMany(n, line int, what, reason, record string) {
	before := len(l.single)
	if l.Add(line, what, reason, record); len(l.single) > before && n > 1 {
		l.single[before].Count = n
	}
}

// AddEnd adds that n things at the end of a transcript are skipped, however many
// defects there are already. It adds nothing for n = 0.
func (l *LossReport) AddEnd(n int, reason string) {
	if n > 0 {
		l.single = append(l.single, Loss{Kind: "skipped", Reason: reason, Count: n})
	}
}

// Unfinished adds that n turns at the end of a transcript may still grow.
func (l *LossReport) Unfinished(n int) {
	before := len(l.single)
	if l.AddEnd(n, "turns at the end that are not finished yet; --final takes them"); len(l.single) > before {
		l.single[before].Later = true
	}
}

func (l *LossReport) Count(what, reason string) {
	if l.counts == nil {
		l.counts = make(map[lossKey]int)
	}
	k := lossKey{what, reason}
	if _, ok := l.counts[k]; !ok && len(l.counts) >= MaxLosses {
		k.reason = "lines of other types"
	}
	l.counts[k]++
}

func (l *LossReport) report() []Loss {
	out := slices.Clone(l.single)
	n := len(out)
	for k, c := range l.counts {
		out = append(out, Loss{Kind: k.what, Reason: k.reason, Count: c})
	}
	slices.SortFunc(out[n:], func(a, b Loss) int {
		if c := strings.Compare(a.Kind, b.Kind); c != 0 {
			return c
		}
		return strings.Compare(a.Reason, b.Reason)
	})
	return out
}

package interchange

import (
	"fmt"
	"slices"
	"strings"
)

// maxCCLosses is how many defects are reported one by one. Beyond it they are
// counted by kind, so that a broken file can't grow the report without bound.
const maxCCLosses = 1000

type ccReason struct{ what, reason string }

// lossReport gathers the loss report.
type lossReport struct {
	single []Loss
	counts map[ccReason]int
}

func (l *lossReport) add(line int, what, reason, record string) {
	if len(l.single) < maxCCLosses {
		l.single = append(l.single, Loss{Line: line, Kind: what, Reason: reason, Record: strings.ToValidUTF8(ccClip(record, 80), "")})
		return
	}
	l.count(what, fmt.Sprintf("more defects, after the first %d", maxCCLosses))
}

// addMany adds a defect that n parts of a line have.
func (l *lossReport) addMany(n, line int, what, reason, record string) {
	before := len(l.single)
	if l.add(line, what, reason, record); len(l.single) > before && n > 1 {
		l.single[before].Count = n
	}
}

func (l *lossReport) count(what, reason string) {
	if l.counts == nil {
		l.counts = make(map[ccReason]int)
	}
	k := ccReason{what, reason}
	if _, ok := l.counts[k]; !ok && len(l.counts) >= maxCCLosses {
		k.reason = "lines of other types"
	}
	l.counts[k]++
}

func (l *lossReport) report() []Loss {
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

func ccClip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n]
}

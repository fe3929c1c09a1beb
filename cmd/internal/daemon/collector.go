package daemon

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// heapRoom is how many bytes of garbage the collector lets gather where the heap is small.
const heapRoom = 128 << 20

// maxGrowth is the most that the heap may grow over what is in use, in percent of it.
const maxGrowth = 400

// growth returns the GOGC for a heap with a number of bytes in use. Go's own 100 has a small
// heap collected often: one of 30 MiB every 400 appends. So garbage has heapRoom, and on a
// larger heap what Go gives it. The memory limit holds beside it.
//
// Invariant: a heap is at most max(live+heapRoom, 2*live) when a collection begins.
func growth(live uint64) int {
	return int(min(max(heapRoom*100/max(live, 1), 100), maxGrowth))
}

// limitOver returns the memory limit of a heap with a number of bytes in use: base, and half
// as much again as is in use where that is more. A limit near what is in use would have the
// collector run without end, on half of the processors: a ledger of a million sessions has more
// in use than base, and its garbage needs room as well.
func limitOver(base int64, live uint64) int64 {
	return max(base, int64(min(live, math.MaxInt64/2)/2*3))
}

// PaceCollector sets the GOGC after each collection by what is then in use, and the memory limit,
// which is limit bytes at least and none if that is 0, until the result is called. It is of
// the process, so one daemon in it does that.
func PaceCollector(limit int64) (stop func()) {
	var stopped atomic.Bool
	percent, set := debug.SetGCPercent(100), 100
	bound, bounded := debug.SetMemoryLimit(-1), limit
	if limit > 0 {
		debug.SetMemoryLimit(limit)
	}
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	pace := func() { // to set either stops the world for a moment
		metrics.Read(sample)
		live := sample[0].Value.Uint64()
		if want := growth(live); math.Abs(float64(want-set)) > 0.1*float64(set) {
			set = want
			debug.SetGCPercent(want)
		}
		if want := limitOver(limit, live); limit > 0 && math.Abs(float64(want-bounded)) > 0.05*float64(bounded) {
			bounded = want
			debug.SetMemoryLimit(want)
		}
	}
	afterCollection(func() bool {
		if stopped.Load() {
			return false
		}
		pace()
		return true
	})
	return func() {
		stopped.Store(true)
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(bound)
	}
}

// afterCollection calls f after each collection, in the runtime's goroutine, as long as it
// returns true.
func afterCollection(f func() bool) {
	type garbage struct{ _ [16]byte }
	runtime.AddCleanup(new(garbage), func(f func() bool) {
		if f() {
			afterCollection(f)
		}
	}, f)
}

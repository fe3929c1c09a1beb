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

// PaceCollector sets the GOGC after each collection by what is then in use, until the
// result is called. It is of the process, so one daemon in it does that.
func PaceCollector() (stop func()) {
	var stopped atomic.Bool
	before := debug.SetGCPercent(100)
	set := 100
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	pace := func() {
		metrics.Read(sample)
		want := growth(sample[0].Value.Uint64())
		if math.Abs(float64(want-set)) > 0.1*float64(set) { // it stops the world for a moment
			set = want
			debug.SetGCPercent(want)
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
		debug.SetGCPercent(before)
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

package daemon

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// Garbage has the room on a small heap, and never more than what is in use on a large one.
func TestCollectorGivesGarbageRoomOnASmallHeap(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 1: 400, 4 << 20: 400, 32 << 20: 400, 64 << 20: 200, 100 << 20: 128, 128 << 20: 100, 1 << 30: 100, math.MaxUint64: 100} {
		got := growth(live)
		if got != want {
			t.Errorf("growth(%d) = %d, want %d", live, got, want)
		}
		if goal := float64(live) * (1 + float64(got)/100); goal > max(float64(live)+heapRoom, 2*float64(live))+1 {
			t.Errorf("a heap with %d bytes in use grows to %.0f", live, goal)
		}
	}
}

// The GOGC follows the heap from collection to collection, and is as before at the end.
func TestCollectorFollowsTheHeap(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(77))
	percent := func() int {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return int(sample[0].Value.Uint64())
	}
	fits := func(p int) bool { // for what is in use, which tests before this one may hold
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		want := growth(sample[0].Value.Uint64())
		return p >= want*8/10 && p <= want*12/10
	}
	until := func(ok func(int) bool) {
		t.Helper()
		for range 1000 {
			if ok(percent()) {
				return
			}
			runtime.GC()
			runtime.Gosched()
		}
		t.Fatalf("GOGC stays %d", percent())
	}
	stop := PaceCollector(0)
	until(fits)
	held := make([]byte, 2*heapRoom)
	until(func(p int) bool { return p == 100 })
	runtime.KeepAlive(held)
	held = nil
	until(fits)
	stop()
	if p := percent(); p != 77 {
		t.Errorf("%d after the end", p)
	}
}

// What is in use may be more than the memory limit. The collector then still leaves garbage room,
// in place of a collection for each few megabytes of it.
func TestCollectorLeavesRoomOverALargeHeap(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	stop := PaceCollector(64 << 20)
	held := make([][]byte, 256) // 256 MiB
	for i := range held {
		held[i] = make([]byte, 1<<20)
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	first := m.NumGC
	for range 4096 { // 1 GiB of garbage
		garbage = make([]byte, 256<<10)
	}
	runtime.ReadMemStats(&m)
	if n := m.NumGC - first; n > 12 { // 3; with a limit that stays, 36
		t.Errorf("%d collections for 1 GiB of garbage beside 256 MiB in use", n)
	}
	runtime.KeepAlive(held)
	stop()
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("the limit is %d after the end, was %d", got, before)
	}
	for live, want := range map[uint64]int64{0: 1 << 20, 1 << 19: 1 << 20, 1 << 20: 3 << 19, 1 << 30: 3 << 29} {
		if got := limitOver(1<<20, live); got != want {
			t.Errorf("limitOver(%d) = %d, want %d", live, got, want)
		}
	}
}

var garbage []byte

package plot

import (
	"slices"
	"testing"
)

// The axis names the first and the last call, and none so near another that their
// names overlap.
func TestCallMarks(t *testing.T) {
	for calls, want := range map[int][]int{1: {1}, 2: {1, 2}, 7: {1, 2, 3, 4, 5, 6, 7}, 484: {1, 100, 200, 300, 400, 484}, 410: {1, 100, 200, 300, 410}} {
		every := int(max(1, NiceStep(float64(calls)/8)))
		if got := AxisMarks(calls, every); !slices.Equal(got, want) {
			t.Errorf("%d calls, a mark every %d: %v, want %v", calls, every, got, want)
		}
	}
}

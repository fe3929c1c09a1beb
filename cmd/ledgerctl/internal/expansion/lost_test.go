package expansion

import "testing"

func TestLimitsAreSharedFairly(t *testing.T) {
	got := shared([][]int{{1}, {1, 2, 3, 4}, nil, {1, 2, 3}}, 6)
	for i, want := range []int{1, 3, 0, 2} {
		if len(got[i]) != want {
			t.Errorf("list %d has %d, want %d", i, len(got[i]), want)
		}
	}
}

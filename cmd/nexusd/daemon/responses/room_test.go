package responses

import "testing"

// An agent takes half of the room at most, and leaves as much to the next.
func TestRoomIsSharedByAgent(t *testing.T) {
	r := newRoom(1024)
	take := func(owner string) (n int64) {
		for r.take(owner, 16) {
			n += 16
		}
		return n
	}
	for _, tc := range []struct {
		owner string
		want  int64
	}{{"a", 512}, {"b", 256}, {"c", 128}, {"a", 0}, {"d", 64}} {
		if got := take(tc.owner); got != tc.want {
			t.Errorf("%s takes %d, want %d", tc.owner, got, tc.want)
		}
	}
	for owner, n := range map[string]int64{"a": 512, "b": 256, "c": 128, "d": 64} {
		r.give(owner, n)
	}
	if r.free != 1024 || len(r.held) != 0 {
		t.Errorf("%d are free, %v held", r.free, r.held)
	}
}

package responses

import (
	"io"
	"strings"
	"testing"
)

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

// A body whose last byte was taken is read to its end, however little room others left since.
func TestABodyThatCameWholeIsNotRefusedAtItsEnd(t *testing.T) {
	r := newRoom(1024)
	body := &taking{r: strings.NewReader(strings.Repeat("x", 256)), room: r, owner: "a"}
	last := make([]byte, 256)
	if _, err := io.ReadFull(body, last); err != nil {
		t.Fatal(err)
	}
	for r.take("b", 1) {
	}
	for r.take("c", 1) {
	}
	if n, err := body.Read(last); n != 0 || err != io.EOF {
		t.Errorf("the end of the body: %d, %v", n, err)
	}
	body.done()
}

package natsapi

import (
	"slices"
	"strconv"
	"sync"
	"testing"
)

// What came on one subject runs one after the other in its order; subjects do
// not wait for each other.
func TestInOrder(t *testing.T) {
	var in intake
	var mu sync.Mutex
	var done sync.WaitGroup
	got := make(map[string][]int)
	blocked := make(chan struct{})
	done.Add(1)
	in.inOrder("blocked", func() { <-blocked; done.Done() })
	others := new(sync.WaitGroup)
	for i := range 1000 {
		for _, subject := range []string{"a", "b"} {
			others.Add(1)
			in.inOrder(subject, func() {
				defer others.Done()
				mu.Lock()
				defer mu.Unlock()
				got[subject] = append(got[subject], i)
			})
		}
	}
	others.Wait()
	close(blocked)
	done.Wait()
	for subject, is := range got {
		if len(is) != 1000 || !slices.IsSorted(is) {
			t.Errorf("%s: %d ran, in order: %v", subject, len(is), slices.IsSorted(is))
		}
	}
}

// An agent that sends more than its share is refused; the others are not.
func TestIntakeShares(t *testing.T) {
	var in intake
	for i := range maxOfAgent {
		if !in.enter("greedy", 10) {
			t.Fatalf("request %d of %d is refused", i, maxOfAgent)
		}
	}
	if in.enter("greedy", 10) {
		t.Error("one more than an agent's share is taken")
	}
	if !in.enter("other", 10) {
		t.Error("another agent is refused")
	}
	in.leave("greedy", 10)
	if !in.enter("greedy", 10) {
		t.Error("room that was given back is not taken")
	}
	if !in.enter("large", maxBytesOfAgent+1) {
		t.Error("a single large request is refused")
	}
	if in.enter("large", 1) {
		t.Error("more bytes than an agent's share are taken")
	}
	for range maxOfAgent {
		in.leave("greedy", 10)
	}
	in.leave("other", 10)
	in.leave("large", maxBytesOfAgent+1)
	if in.all != (load{}) || len(in.agents) != 0 {
		t.Errorf("after all have left: %+v, %d agents", in.all, len(in.agents))
	}
}

// Names are free: many agents with one request each have no more room than one.
func TestQueuedBytesAreBoundedAcrossAgents(t *testing.T) {
	const size = 8 << 20
	var in intake
	accepted := 0
	for i := range maxRequests {
		if in.enter("agent-"+strconv.Itoa(i), size) {
			accepted += size
		}
	}
	if accepted != maxBytes {
		t.Errorf("%d MiB are taken in, the bound is %d MiB", accepted>>20, maxBytes>>20)
	}
	if in.enter("one-more", 1) {
		t.Error("a byte over the bound is taken")
	}
	in.leave("agent-0", size)
	if !in.enter("one-more", size) {
		t.Error("room that was given back is not taken")
	}
}

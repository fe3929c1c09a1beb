package natsapi

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Tasks of one order run one after the other in their order, whatever their class;
// orders do not wait for each other.
func TestTasksOfOneOrderRunInOrder(t *testing.T) {
	in := newIntake()
	defer in.close()
	var mu sync.Mutex
	got := make(map[string][]int)
	blocked := make(chan struct{})
	var all, others sync.WaitGroup
	all.Add(1)
	if over, _ := in.enter(&task{agent: "a", order: "blocked", class: changes, run: func() { <-blocked; all.Done() }}); over != withinBounds {
		t.Fatal(over)
	}
	for i := range 100 {
		for _, order := range []string{"a", "b"} {
			others.Add(1)
			over, _ := in.enter(&task{agent: "a", order: order, class: []class{changes, large}[i%2], bytes: 1, run: func() {
				defer others.Done()
				mu.Lock()
				defer mu.Unlock()
				got[order] = append(got[order], i)
			}})
			if over != withinBounds {
				t.Fatalf("task %d: %s", i, over)
			}
		}
	}
	others.Wait()
	close(blocked)
	all.Wait()
	for order, is := range got {
		if len(is) != 100 || !slices.IsSorted(is) {
			t.Errorf("%s: %d ran, in order: %v", order, len(is), slices.IsSorted(is))
		}
	}
}

// What is over a bound is refused, and what is within all of them is not.
func TestIntakeBounds(t *testing.T) {
	type group struct {
		n, bytes          int
		agent, connection string // "*": each its own
	}
	for name, c := range map[string]struct {
		taken group
		next  task
		want  bound
	}{
		"an agent's share":                             {group{maxOfAgent, 10, "greedy", "*"}, task{agent: "greedy"}, boundAgent},
		"another agent":                                {group{maxOfAgent, 10, "greedy", "*"}, task{agent: "other"}, withinBounds},
		"an agent's bytes":                             {group{1, maxBytesOfAgent, "greedy", "*"}, task{agent: "greedy", bytes: 1}, boundAgent},
		"another agent's bytes":                        {group{1, maxBytesOfAgent, "greedy", "*"}, task{agent: "other", bytes: 1}, withinBounds},
		"a first request larger than a share":          {group{0, 0, "", ""}, task{agent: "a", bytes: maxBytesOfAgent + 1}, withinBounds},
		"a connection's share under many names":        {group{maxOfConnection, 10, "*", "one"}, task{agent: "a", connection: "one"}, boundConnection},
		"another connection":                           {group{maxOfConnection, 10, "*", "one"}, task{agent: "a", connection: "two"}, withinBounds},
		"a connection's bytes":                         {group{2, maxBytesOfConnection / 2, "*", "one"}, task{agent: "a", connection: "one", bytes: 1}, boundConnection},
		"all requests":                                 {group{maxRequests, 10, "*", "*"}, task{agent: "a", connection: "x"}, boundRequests},
		"bytes of many agents over many connections":   {group{12, 8 << 20, "*", "*"}, task{agent: "a", connection: "x", bytes: 1}, boundBytes},
		"bytes up to the bound":                        {group{11, 8 << 20, "*", "*"}, task{agent: "a", connection: "x", bytes: 8 << 20}, withinBounds},
		"no bytes where all bytes are taken":           {group{12, 8 << 20, "*", "*"}, task{agent: "a", connection: "x"}, withinBounds},
		"connections that are not known have no share": {group{maxOfConnection, 10, "*", ""}, task{agent: "a"}, withinBounds},
	} {
		t.Run(name, func(t *testing.T) {
			in := newIntake()
			defer in.close()
			end := make(chan struct{})
			var running sync.WaitGroup
			own := func(s string, i int) string {
				if s == "*" {
					return "own-" + strconv.Itoa(i)
				}
				return s
			}
			run := func() { <-end; running.Done() }
			for i := range c.taken.n {
				running.Add(1)
				if over, _ := in.enter(&task{agent: own(c.taken.agent, i), connection: own(c.taken.connection, i), bytes: c.taken.bytes, run: run}); over != withinBounds {
					t.Fatalf("request %d: %s", i, over)
				}
			}
			running.Add(1)
			c.next.run = run
			got, pause := in.enter(&c.next)
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if got != withinBounds {
				running.Done()
				if pause < minPause || pause > maxPause {
					t.Errorf("pause %v", pause)
				}
			}
			close(end)
			running.Wait()
		})
	}
}

// An intake that everything has left holds nothing, and takes everything again.
func TestIntakeForgetsWhatHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newIntake()
		defer in.close()
		for range 3 {
			for i := range maxOfAgent {
				if over, _ := in.enter(&task{agent: "a", connection: "c", order: strconv.Itoa(i % 7), class: class(i % int(classes)), bytes: 1000, run: func() {}}); over != withinBounds {
					t.Fatal(over)
				}
			}
			synctest.Wait()
			if in.all.requests != 0 || in.all.bytes != 0 || len(in.agents)+len(in.connections)+len(in.ordered) != 0 {
				t.Fatalf("%+v, %d agents, %d connections, %d orders", in.all, len(in.agents), len(in.connections), len(in.ordered))
			}
			for c, p := range in.places {
				if p.running != 0 || len(p.waiting) != 0 || len(p.turns) != 0 {
					t.Fatalf("class %d: %+v", c, p)
				}
			}
		}
	})
}

// A burst leaves a bounded number of goroutines that wait for the next request, and the
// end of the intake leaves none.
func TestWorkersThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newIntake()
		ran := atomic.Int32{}
		for i := range 3 * maxIdle {
			if over, _ := in.enter(&task{agent: strconv.Itoa(i % 4), class: class(i % int(classes)), bytes: 1, run: func() { time.Sleep(time.Second); ran.Add(1) }}); over != withinBounds {
				t.Fatal(over)
			}
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := in.idle.Load(); n < 1 || n > maxIdle || ran.Load() != 3*maxIdle {
			t.Errorf("%d goroutines wait after %d tasks, the bound is %d", n, ran.Load(), maxIdle)
		}
		in.close()
		synctest.Wait()
		if n := in.idle.Load(); n != 0 {
			t.Errorf("%d goroutines wait after the end", n)
		}
	})
}

// Agents take turns: one request of a neighbour waits for one request of a flooding
// agent, and not for all that wait.
func TestAgentsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []class{reads, changes, large} {
			in := newIntake()
			defer in.close()
			bytes := 1
			in.places[c].max = 1
			next := make(chan struct{})
			var got []string
			send := func(agent string, n int) {
				for range n {
					over, _ := in.enter(&task{agent: agent, class: c, bytes: bytes, run: func() { <-next; got = append(got, agent) }})
					if over != withinBounds {
						t.Fatal(over)
					}
				}
			}
			send("flooder", 200)
			synctest.Wait()
			send("neighbour", 2)
			send("third", 1)
			for len(got) < 203 {
				next <- struct{}{}
				synctest.Wait()
			}
			if want := []string{"flooder", "flooder", "neighbour", "third", "flooder", "neighbour", "flooder"}; !slices.Equal(got[:len(want)], want) {
				t.Errorf("class %d: the order is %v", c, got[:len(want)])
			}
		}
	})
}

// Large requests are worked on as far as their bytes allow; small ones do not wait
// for them.
func TestLargeRequestsInWorkAreBoundedByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newIntake()
		defer in.close()
		next, smalls := make(chan struct{}), new(atomic.Int32)
		for i := range 12 {
			over, _ := in.enter(&task{agent: strconv.Itoa(i), class: large, bytes: 6 << 20, run: func() { <-next }})
			if over != withinBounds {
				t.Fatal(over)
			}
		}
		in.enter(&task{agent: "small", class: reads, bytes: 100, run: func() { smalls.Add(1) }})
		for range 12 {
			synctest.Wait()
			if got := in.places[large].running; got > maxLargeBytes {
				t.Fatalf("%d bytes are in work", got)
			}
			next <- struct{}{}
		}
		synctest.Wait()
		if smalls.Load() != 1 {
			t.Error("the small request waits")
		}
	})
}

// A request that takes long, as one that waits for a model, keeps no other one from
// running.
func TestALongRequestGivesUpItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []class{reads, changes, large} {
			in := newIntake()
			defer in.close()
			in.places[c].max = 2
			end, ran := make(chan struct{}), new(atomic.Bool)
			for range 2 {
				in.enter(&task{agent: "a", class: c, bytes: 1, run: func() { <-end }})
			}
			in.enter(&task{agent: "a", class: c, bytes: 1, run: func() { ran.Store(true) }})
			synctest.Wait()
			if ran.Load() {
				t.Fatalf("class %d: it runs without a place", c)
			}
			<-time.After(lease[c])
			synctest.Wait()
			if !ran.Load() {
				t.Errorf("class %d: it waits for requests that take long", c)
			}
			close(end)
			synctest.Wait()
			if in.places[c].running != 0 {
				t.Errorf("class %d: %d are running at the end", c, in.places[c].running)
			}
		}
	})
}

// A change that waits for the disk keeps no other one from running, unless it is so large
// that its place bounds memory.
func TestAChangeThatWaitsForTheDiskGivesUpItsPlace(t *testing.T) {
	for _, tc := range []struct {
		class  class
		bytes  int
		leaves bool
	}{{reads, 1, true}, {changes, 1, true}, {changes, maxYield, true}, {changes, maxYield + 1, false}} {
		synctest.Test(t, func(t *testing.T) {
			in := newIntake()
			defer in.close()
			in.places[tc.class].max = 1
			end, wait, ran := make(chan struct{}), make(chan struct{}), new(atomic.Bool)
			first := &task{agent: "a", class: tc.class, bytes: tc.bytes}
			first.run = func() { <-wait; in.yield(first); in.yield(first); <-end }
			in.enter(first)
			in.enter(&task{agent: "a", class: tc.class, bytes: 1, run: func() { ran.Store(true) }})
			synctest.Wait()
			if ran.Load() {
				t.Fatalf("%+v: the next one runs without a place", tc)
			}
			close(wait)
			synctest.Wait()
			if ran.Load() != tc.leaves {
				t.Errorf("%+v: the next one runs: %v", tc, ran.Load())
			}
			close(end)
			synctest.Wait()
			if in.places[tc.class].running != 0 || !ran.Load() {
				t.Errorf("%+v: %d are running at the end", tc, in.places[tc.class].running)
			}
		})
	}
}

// Refused requests are asked to come back one after the other, at the rate at which
// requests are done.
func TestRefusedRequestsComeBackOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newIntake()
		defer in.close()
		end := make(chan struct{})
		defer func() { close(end); synctest.Wait() }()
		for i := range 12 {
			in.enter(&task{agent: strconv.Itoa(i), class: large, bytes: 8 << 20, run: func() { <-end }})
		}
		var got []time.Duration
		for i := range 4 {
			over, pause := in.enter(&task{agent: fmt.Sprint("late ", i), class: large, bytes: 8 << 20})
			if over != boundBytes {
				t.Fatal(over)
			}
			got = append(got, pause)
		}
		each := 250 * time.Millisecond // 8 MiB at the assumed rate
		if want := []time.Duration{minPause, minPause + each, minPause + 2*each, minPause + 3*each}; !slices.Equal(got, want) {
			t.Errorf("pauses %v, want %v", got, want)
		}
		for range 1000 {
			if _, pause := in.enter(&task{agent: "late", class: large, bytes: 8 << 20}); pause > maxPause {
				t.Fatalf("a pause of %v", pause)
			}
		}
	})
}

package search

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// An index that rests between batches goes on at once when a search waits for it.
func TestASearchEndsTheRestOfTheIndex(t *testing.T) {
	src := corpus(12)
	all := src.docs
	src.docs = src.docs[:6]
	n := 6
	src.before = func(uint64) error { // an event comes with each batch
		if n < len(all) {
			src.mu.Lock()
			n++
			src.docs = all[:n]
			src.mu.Unlock()
		}
		return nil
	}
	x := New(Config{Dir: t.TempDir(), Retry: time.Millisecond, BatchRecords: 1, Rest: 1 << 40}) // the longest rest behind each
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { x.Run(ctx, src); close(done) }()
	defer func() { cancel(); <-done }()
	waiting, end := context.WithTimeout(ctx, 60*time.Second)
	defer end()
	if err := x.WaitFor(waiting, 12); err != nil {
		t.Fatal(err)
	}
	_, last := src.Applied()
	if x.Position() < 12 || last != 12 {
		t.Errorf("the index is at %d of %d", x.Position(), last)
	}
}

// The first batch is a small one, since no rest was before it: what a daemon does first has
// the processors. Nothing comes meanwhile, so the next ones are whole.
func TestTheFirstBatchIsSmall(t *testing.T) {
	src := corpus(20)
	x := New(Config{Dir: t.TempDir(), Retry: time.Millisecond, BatchRecords: 2 * busyPart, Rest: 1})
	var at []uint64 // of the index, when each record is read
	src.before = func(uint64) error {
		at = append(at, x.Position())
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { x.Run(ctx, src); close(done) }()
	if err := x.WaitFor(t.Context(), 20); err != nil {
		t.Error(err)
	}
	cancel()
	<-done
	var begins []uint64 // of the batches
	for i, seq := range at {
		if i == 0 || seq != at[i-1] {
			begins = append(begins, seq)
		}
	}
	if want := []uint64{0, 2, 10, 18}; !slices.Equal(begins, want) {
		t.Errorf("batches begin behind %v, want %v", begins, want)
	}
}

// A search that finds that the index lacks much does not wait for it, and ends its rest. So does
// one that finds damage: the index is made again at once.
func TestASearchEndsARest(t *testing.T) {
	for name, said := range map[string]func(*Index){
		"much is missing": (*Index).Hurry,
		"damage":          func(x *Index) { signal(x.broken) },
		"an erased key":   (*Index).Erase,
	} {
		t.Run(name, func(t *testing.T) { endRest(t, said) })
	}
}

func endRest(t *testing.T, said func(*Index)) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		ctx, cancel := context.WithCancel(t.Context())
		x, began := New(Config{Dir: t.TempDir()}), time.Now()
		var others sync.WaitGroup
		others.Go(func() {
			for ctx.Err() == nil {
				src.add(turnOf("s", "news"))
				time.Sleep(100 * time.Millisecond)
			}
		})
		others.Go(func() {
			time.Sleep(3500 * time.Millisecond)
			said(x)
		})
		if busy := x.rest(ctx, src, time.Hour); busy || time.Since(began) != 3500*time.Millisecond {
			t.Errorf("it rests for %v, %v", time.Since(began), busy)
		}
		cancel()
		others.Wait()
	})
}

// The index rests while events come, and not much longer than they do.
func TestARestEndsWhenNoMoreEventsCome(t *testing.T) {
	for _, tc := range []struct {
		name        string
		events      time.Duration // one each 100 ms, for so long
		d           time.Duration
		least, most time.Duration
		busy        bool
	}{
		{"none come", 0, time.Hour, calm, calm, false},
		{"they stop", 20 * time.Second, time.Hour, 20 * time.Second, 20*time.Second + 2*calm, false},
		{"they go on", time.Hour, 5 * time.Second, 5 * time.Second, 5 * time.Second, true},
		{"they go on for long", time.Hour, time.Hour, maxRest, maxRest, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := newSource()
				ctx, cancel := context.WithCancel(t.Context())
				began := time.Now()
				var events sync.WaitGroup
				events.Go(func() {
					for time.Since(began) < tc.events && ctx.Err() == nil {
						src.add(turnOf("s", "news"))
						time.Sleep(100 * time.Millisecond)
					}
				})
				busy := New(Config{Dir: t.TempDir()}).rest(ctx, src, tc.d)
				if took := time.Since(began); took < tc.least || took > tc.most || busy != tc.busy {
					t.Errorf("it rests for %v, and events come: %v; want %v to %v, %v", took, busy, tc.least, tc.most, tc.busy)
				}
				cancel()
				events.Wait()
			})
		})
	}
}

// The index stays closed while a start has other things to do, and a search does not wait for
// that.
func TestDelayEndsWithASearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		x := New(Config{Dir: filepath.Join(dir, "search"), Delay: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		began := time.Now()
		go func() { x.Run(ctx, newSource([]Document{})); close(ended) }()
		synctest.Wait()
		if files, err := os.ReadDir(dir); len(files) > 0 || err != nil {
			t.Errorf("the index was opened at once: %v, %v", files, err)
		}
		if err := x.WaitFor(ctx, 1); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d >= time.Hour {
			t.Errorf("a search waited %v", d)
		}
		cancel()
		<-ended
	})
}

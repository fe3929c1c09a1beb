package run

import (
	"context"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"nexus/cmd/internal/provider"
	"nexus/cmd/internal/responses/stream"
	"nexus/cmd/internal/responses/wire"
	"nexus/turns"
)

// The responses of an agent use half of what is free. Where they grow over that, the largest
// goes; a share that would be the largest itself is refused. Another agent's stay.
func TestTheLargestShareOfAnAgentGoes(t *testing.T) {
	b := newBudget(1000)
	gone := make(map[string]bool)
	open := func(agent, name string) *share { return b.open(agent, func() { gone[name] = true }) }
	large, middle, small, other := open("a", "large"), open("a", "middle"), open("a", "small"), open("b", "other")
	for _, s := range []struct {
		*share
		n int64
	}{{large, 300}, {middle, 150}, {small, 20}, {other, 100}} {
		if err := s.take(s.n); err != nil {
			t.Fatal(err)
		}
	}
	if err := small.take(50); err != nil || !gone["large"] || len(gone) != 1 {
		t.Errorf("%v, gone are %v", err, gone)
	}
	if err := large.take(1); err != ErrMemory {
		t.Errorf("a share that has to go takes more: %v", err)
	}
	if used, ended := b.state(); used != 620 || ended != 1 {
		t.Errorf("%d bytes, %d ended", used, ended)
	}
	if err := middle.take(400); err != ErrMemory || !gone["middle"] || len(gone) != 2 {
		t.Errorf("%v, gone are %v", err, gone)
	}
	large.force(10) // its end
	large.keep(40)  // its events are read: to evict it would free nothing
	if err := other.take(300); err != nil {
		t.Error(err)
	}
	if used, _ := b.state(); used != 40+150+70+400 {
		t.Errorf("%d bytes", used)
	}
	for _, s := range []*share{large, middle, small, other, large} {
		s.close()
	}
	if err := large.take(1); err == nil {
		t.Error("a closed share takes more")
	}
	if used, ended := b.state(); used != 0 || ended != 2 || len(b.agents) != 0 {
		t.Errorf("%d bytes, %d ended, %v", used, ended, b.agents)
	}
}

// liveHeap are the bytes that the last collection left.
func liveHeap() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// endless is a model that never stops, and reports how much memory was live meanwhile.
func endless(peak *atomic.Uint64) modelFunc {
	text := strings.Repeat("endless ", 512)
	return func(_ context.Context, _ *provider.Request, emit func(provider.Event) error) (*provider.Answer, error) {
		if err := emit(provider.Event{Kind: provider.Begin, Type: turns.Text}); err != nil {
			return nil, err
		}
		for n := 0; ; n++ {
			if err := emit(provider.Event{Kind: provider.Delta, Type: turns.Text, Text: text}); err != nil {
				return nil, err
			}
			if live := liveHeap(); n%16 == 0 && live > peak.Load() {
				peak.Store(live)
			}
		}
	}
}

// 48 models that never stop, asked at once by one agent, take the memory that responses may
// have and no more: each ends failed in a typed error, and small responses of that agent and
// of another are answered meanwhile.
func TestModelsThatNeverStopShareTheMemory(t *testing.T) {
	const most, many = 32 << 20, 48
	d := alone(t, func(c *Config) { c.Streams, c.MaxAnswer = most, 1<<40 })
	runtime.GC()
	before := liveHeap()
	var peak atomic.Uint64
	var wg sync.WaitGroup
	for range many {
		f := d.ask("many", endless(&peak))
		if err := f.launch(); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			var last stream.Event
			if err := f.Follow(t.Context(), -1, func(e stream.Event) error { last = e; return nil }, nil); err != nil {
				t.Error(err)
			}
			res, err := f.Wait(t.Context())
			if e := wire.AsError(err); e.Code != "memory_limit_exceeded" || e.Status != 429 || res.Status != wire.Failed || last.Type != "response.failed" || !strings.Contains(string(last.Data), e.Code) {
				t.Errorf("%v: %v, the last event is %s", err, res.Status, last.Type)
			}
			f.Leave()
		})
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	for n := 0; ; n++ {
		for _, agent := range []string{"many", "few"} {
			f := d.ask(agent, says("hello"))
			if err := f.launch(); err != nil {
				t.Fatal(err)
			}
			if r, err := f.Wait(t.Context()); err != nil || r.Status != wire.Completed {
				t.Fatalf("a neighbour, of %s: %v", agent, err)
			}
			f.Leave()
		}
		select {
		case <-ended:
		default:
			continue
		}
		break
	}
	d.work.Wait()
	if used, out := d.memory.state(); used != 0 || out != many {
		t.Errorf("%d bytes are used when all is over, %d ended", used, out)
	}
	if grown := int64(peak.Load()) - int64(before); grown > 3*most {
		t.Errorf("%d MiB were live, of %d that responses may have", grown>>20, most>>20)
	}
}

// One answer is bounded by itself, and so is what its end takes.
func TestAnAnswerThatNeverStopsIsCutOff(t *testing.T) {
	d := alone(t, nil)
	runtime.GC()
	before := liveHeap()
	var peak atomic.Uint64
	f := d.ask("a", endless(&peak))
	if err := f.launch(); err != nil {
		t.Fatal(err)
	}
	res, err := f.Wait(t.Context())
	if e := wire.AsError(err); e.Code != "answer_too_large" || res.Status != wire.Failed {
		t.Errorf("%v %v", err, res)
	}
	runtime.GC()
	size := 0
	for _, e := range f.eventsNow() {
		size += len(e.Data)
	}
	if grown := max(int64(peak.Load()), int64(liveHeap())) - int64(before); grown > 32<<20 || size > 8<<20 {
		t.Errorf("%d MiB were live, %d MiB of events", grown>>20, size>>20)
	}
	f.Leave()
	if used, _ := d.memory.state(); used != 0 {
		t.Errorf("%d bytes are used when nobody follows", used)
	}
}

// A response whose client reads slowly keeps its events, and they count until it leaves.
func TestEventsCountUntilNobodyReadsThem(t *testing.T) {
	d := alone(t, nil)
	f := d.ask("a", says(strings.Repeat("x", 1<<20)))
	if err := f.launch(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.work.Wait()
	used, _ := d.memory.state()
	held := 0
	for _, e := range f.eventsNow() {
		held += len(e.Data) + int(e.SharedBytes()) + eventBytes
	}
	if used != int64(held) || held < 1<<20 || held > 4<<20 {
		t.Errorf("%d bytes are used, %d are held of an answer of 1 MiB", used, held)
	}
	f.Join()
	f.Leave()
	if again, _ := d.memory.state(); again != used {
		t.Errorf("%d bytes are used, %d before one of two left", again, used)
	}
	f.Leave()
	if used, _ := d.memory.state(); used != 0 {
		t.Errorf("%d bytes are used when nobody follows", used)
	}
}

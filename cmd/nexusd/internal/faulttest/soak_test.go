//go:build linux

package faulttest

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

var soak = flag.Duration("soak", 0, "how long TestSoak runs; 0: 3 s, without a verdict")

// soakWorkers work at once, each in a session of its own, for one of soakAgents agents.
const soakWorkers, soakAgents = 16, 4

// TestSoak measures the highest rate, then works at half of it: appends, contexts, forks and
// compactions. It compares the memory, the goroutines, the open files, the times and the bytes of
// a turn in the last quarter with those in the second.
//
// It can't see what grows with months or with millions of sessions, a leak that a restart hides,
// and what other load on the machine does to the times: those are printed, not judged. The caches
// are bounded at 32 MiB, so that they are full early. Bodies repeat, so a turn takes fewer bytes
// than a real one.
func TestSoak(t *testing.T) {
	length := *soak
	if length == 0 {
		length = 3 * time.Second
	}
	peakTime := min(20*time.Second, length/3)
	data := t.TempDir()
	d, err := StartNexusd(t.Context(), newLog(t), nexusdBinary(t), "--data", data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-level", "error",
		"--max-store", "20000000000", "--cache-bytes", "33554432")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Kill)
	w := make([]*soakWorker, soakWorkers)
	for i := range w {
		nc, err := client.Dial(d.URL, d.Agent)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		w[i] = &soakWorker{c: client.New(nc, "default", fmt.Sprint("agent-", i%soakAgents)).Within(time.Minute)}
	}
	var done atomic.Int64 // operations
	var times soakTimes
	run := func(length, each time.Duration) {
		ctx, cancel := context.WithTimeout(t.Context(), length)
		defer cancel()
		began := time.Now()
		var group sync.WaitGroup
		for i, w := range w {
			group.Go(func() {
				due := began.Add(each * time.Duration(i) / soakWorkers)
				for {
					// A time counts from when its operation was due, also if the one before was slow.
					if each == 0 {
						due = time.Now()
					}
					select {
					case <-ctx.Done():
						return
					case <-time.After(time.Until(due)):
					}
					if err := w.operate(t.Context()); err != nil {
						t.Error(err)
						return
					}
					done.Add(1)
					times.add(time.Since(due))
					due = due.Add(each)
				}
			})
		}
		group.Wait()
	}
	run(peakTime, 0)
	peak := float64(done.Load()) / peakTime.Seconds()
	t.Logf("highest rate: %.0f operations a second in %v; then half of it", peak, peakTime)
	if t.Failed() || peak == 0 {
		t.Fatal("nothing was done")
	}
	times.take()

	left := length - peakTime
	interval := min(time.Minute, left/12)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(left, time.Duration(2*soakWorkers/peak*float64(time.Second)))
	}()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var samples []soakSample
	before := done.Load()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-tick.C:
			s, err := sample(t.Context(), d, data)
			if err != nil {
				t.Errorf("sample: %v", err)
			}
			now := done.Load()
			s.operations, before = now-before, now
			s.p50, s.p99 = times.take()
			turns := int64(0)
			for _, w := range w {
				turns += w.turns.Load()
			}
			s.perTurn = float64(s.bytes) / float64(max(1, turns))
			samples = append(samples, s)
		}
	}
	t.Log("     at  operations  RSS MiB  goroutines  files   p50 ms   p99 ms  data MiB  bytes/turn")
	for i, s := range samples {
		t.Logf("%7v  %10d  %7.1f  %10.0f  %5.0f  %7.2f  %7.2f  %8.1f  %10.0f", (interval * time.Duration(i+1)).Round(time.Second/10), s.operations, s.rss/(1<<20), s.goroutines, s.files,
			s.p50.Seconds()*1000, s.p99.Seconds()*1000, float64(s.bytes)/(1<<20), s.perTurn)
	}
	var total soakWorker
	for _, w := range w {
		total.turns.Add(w.turns.Load())
		total.contexts, total.forks, total.sessions, total.compacted = total.contexts+w.contexts, total.forks+w.forks, total.sessions+w.sessions, total.compacted+w.compacted
	}
	t.Logf("%d turns, %d contexts, %d forks, %d sessions, %d compactions seen in contexts", total.turns.Load(), total.contexts, total.forks, total.sessions, total.compacted)
	if v, err := verifyAll(t.Context(), d); err != nil || !v.OK || int64(v.Turns) != total.turns.Load() {
		t.Errorf("verify: %+v, %v; want %d turns", v, err, total.turns.Load())
	}
	if *soak == 0 || len(samples) < 8 || t.Failed() {
		return
	}
	q := len(samples) / 4
	second, last := samples[q:2*q], samples[len(samples)-q:]
	for _, x := range []struct {
		name  string
		limit float64 // of the growth; 0: said, not judged
		of    func(soakSample) float64
	}{
		{"RSS", 0.15, func(s soakSample) float64 { return s.rss }},
		{"goroutines", 0.1, func(s soakSample) float64 { return s.goroutines }},
		{"open files", 0.1, func(s soakSample) float64 { return s.files }},
		{"bytes a turn", 0.1, func(s soakSample) float64 { return s.perTurn }},
		{"p50", 0, func(s soakSample) float64 { return float64(s.p50) }},
		{"p99", 0, func(s soakSample) float64 { return float64(s.p99) }},
	} {
		growth := median(last, x.of)/median(second, x.of) - 1
		verdict := "flat"
		if growth > max(x.limit, 0.1) {
			verdict = "not flat"
			if x.limit > 0 {
				t.Errorf("%s grew by %.1f %% from the second quarter to the last", x.name, 100*growth)
			}
		}
		t.Logf("%-12s %+.1f %% from the second quarter to the last: %s", x.name, 100*growth, verdict)
	}
}

func median(samples []soakSample, of func(soakSample) float64) float64 {
	var v []float64
	for _, s := range samples {
		v = append(v, of(s))
	}
	slices.Sort(v)
	return v[len(v)/2]
}

func verifyAll(ctx context.Context, d *Nexusd) (*api.Verified, error) {
	nc, err := client.Dial(d.URL, d.Operator)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	return client.New(nc, "default", api.Operator).Verify(ctx)
}

// soakWorker is one worker: its session, and what it did.
type soakWorker struct {
	c       *client.Client
	session turns.ID
	head    turns.ID
	n       int

	turns                                atomic.Int64
	contexts, forks, sessions, compacted int
}

// operate does the next operation: most are appends, each 10th is a context, each 250th a fork in
// which the worker goes on, each 1000th a new session.
func (w *soakWorker) operate(ctx context.Context) error {
	w.n++
	switch {
	case w.session.IsZero() || w.n%1000 == 0:
		s, err := w.c.Create(ctx, api.CreateSession{SessionSettings: api.SessionSettings{Limits: &turns.Limits{ContextWindow: 8000}}})
		if err != nil {
			return err
		}
		w.session, w.head = s.ID, turns.ID{}
		w.sessions++
	case w.n%250 == 0 && !w.head.IsZero():
		s, err := w.c.Fork(ctx, w.session, api.CreateFork{Turn: w.head})
		if err != nil {
			return err
		}
		w.session = s.ID
		w.forks++
	case w.n%10 == 0:
		got, err := w.c.Context(ctx, w.session, api.GetContext{Format: "openai"})
		if err != nil {
			return err
		}
		if got.Compacted != nil || got.Compaction.State == "preparing" {
			w.compacted++
		}
		w.contexts++
	default:
		id := api.NewID()
		m := turns.TextMessage(turns.Assistant, strings.Repeat("some words of an answer ", 12)+id.String())
		if _, err := w.c.Append(ctx, w.session, api.AppendTurn{ID: id, Messages: text(id, 200), Response: &m}); err != nil {
			return err
		}
		w.head = id
		w.turns.Add(1)
	}
	return nil
}

type soakTimes struct {
	mu  sync.Mutex
	all []time.Duration
}

func (s *soakTimes) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, d)
}

// take returns the median and the 99th percentile since the last take.
func (s *soakTimes) take() (p50, p99 time.Duration) {
	s.mu.Lock()
	all := s.all
	s.all = nil
	s.mu.Unlock()
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100]
}

type soakSample struct {
	operations             int64
	rss, goroutines, files float64
	p50, p99               time.Duration
	bytes                  int64
	perTurn                float64
}

// sample looks at the process from outside.
func sample(ctx context.Context, d *Nexusd, data string) (s soakSample, err error) {
	pid := d.Cmd.Process.Pid
	if s.rss, err = residentBytes(pid); err != nil {
		return s, err
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return s, err
	}
	s.files = float64(len(files))
	if s.goroutines, err = metric(ctx, d.HTTP, "nexus_goroutines"); err != nil {
		return s, err
	}
	err = filepath.WalkDir(data, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // a file that is gone meanwhile
		}
		if info, err := e.Info(); err == nil {
			s.bytes += info.Size()
		}
		return nil
	})
	return s, err
}

// residentBytes reads the second number of statm, which counts pages.
func residentBytes(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm: %q", b)
	}
	n, err := strconv.ParseFloat(fields[1], 64)
	return n * float64(os.Getpagesize()), err
}

// metric reads a figure without labels.
func metric(ctx context.Context, url, name string) (float64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer got.Body.Close()
	for lines := bufio.NewScanner(got.Body); lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(v, 64)
		}
	}
	return 0, fmt.Errorf("there is no metric %s", name)
}

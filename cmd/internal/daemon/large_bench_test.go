package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

var (
	largeSessions = flag.Int("large-sessions", 1000, "sessions of the ledger that BenchmarkLarge builds")
	largeTurns    = flag.Int("large-turns", 10, "turns of each of them")
	largeWriters  = flag.Int("large-writers", 128, "goroutines that fill it")
	largeFolder   = flag.String("large-folder", "", "folder in which BenchmarkLarge keeps its ledger for the next run")
	largeFirst    = flag.Int("large-first", 1000, "sessions at which BenchmarkLarge measures first, then at ten times as many, and so on")
	largeWait     = flag.Duration("large-wait", time.Hour, "how long BenchmarkLarge waits for the index of words")
	largeVerify   = flag.Int("large-verify", 100_000, "most sessions of which BenchmarkLarge verifies the whole ledger")
)

// BenchmarkLarge makes a ledger of many sessions, through the engine, and measures at each power
// of ten how what people and agents ask grows with it: over NATS, of a daemon that is a process
// of its own. It prints a line for each call: the median in ms, and the processor time of the
// daemon for one, background work included. With -large-folder a later run measures the same
// ledger, or makes it larger, and goes on where a run ended while it filled.
//
//	go test ./cmd/internal/daemon -run '^$' -bench Large -benchtime 1x -large-sessions 1000000 -timeout 6h -v
func BenchmarkLarge(b *testing.B) {
	dir := *largeFolder
	if dir == "" {
		dir = b.TempDir()
	}
	b.ReportMetric(0, "ns/op")
	for b.Loop() {
		for step := *largeFirst; ; step *= 10 {
			step = min(step, *largeSessions)
			largeGrow(b, dir, step)
			largeMeasure(b, dir, step)
			if step == *largeSessions {
				break
			}
		}
	}
}

// largeConfig serves a large ledger. Whoever connects on this machine is any agent.
func largeConfig(dir string) config.Config {
	return config.Config{Data: filepath.Join(dir, "data"), Listen: "127.0.0.1:0", HTTP: "off", Auth: "off", MaxStore: 64 << 30}
}

// largeGrow fills the ledger of a folder up to a number of sessions, which is a multiple of
// largeBlock, and waits until they can be searched.
func largeGrow(b *testing.B, dir string, to int) {
	if to%largeBlock != 0 {
		b.Fatalf("%d is no multiple of %d", to, largeBlock)
	}
	from := 0
	if text, err := os.ReadFile(filepath.Join(dir, "sessions")); err == nil {
		_, err = fmt.Sscan(string(text), &from)
		if err != nil {
			b.Fatal(err)
		}
	}
	if from >= to {
		return
	}
	d, err := Open(b.Context(), largeConfig(dir))
	if err != nil {
		b.Fatal(err)
	}
	began, at := time.Now(), time.Now()
	before, used := int64(0), processorTime(b)
	rate := func(events int64) {
		now := processorTime(b)
		if n := events - before; n > 0 {
			b.Logf("%d to %d sessions: %d events, %.0f a second, %v of processor time each, %d behind in the index", from, to, events,
				float64(n)/time.Since(at).Seconds(), ((now - used) / time.Duration(n)).Round(time.Microsecond), d.engine.Search.Behind())
		}
		before, used, at = events, now, time.Now()
	}
	events, err := largeFill(b.Context(), d.engine, from, to, *largeTurns, rate)
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("filled %d to %d sessions: %d events in %v, %.0f a second", from, to, events, time.Since(began).Round(time.Second), float64(events)/time.Since(began).Seconds())
	nc, err := d.Connect()
	if err != nil {
		b.Fatal(err)
	}
	hits, err := client.New(nc, "default", "_").Search(b.Context(), api.Search{Text: largeWords[0]})
	if err != nil {
		b.Fatal(err)
	}
	nc.Close()
	began, used = time.Now(), processorTime(b)
	behind := d.engine.Search.Behind()
	for last := time.Now(); d.engine.Search.Behind() > 0 && time.Since(began) < *largeWait; time.Sleep(50 * time.Millisecond) {
		if time.Since(last) > 20*time.Second {
			last = time.Now()
			b.Logf("%d behind in the index after %v", d.engine.Search.Behind(), time.Since(began).Round(time.Second))
		}
	}
	b.Logf("a search when filled says that it is %d behind; the index read %d events in %v, %v of processor time", hits.Behind, behind-d.engine.Search.Behind(), time.Since(began).Round(10*time.Millisecond), (processorTime(b) - used).Round(10*time.Millisecond))
	if err := d.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sessions"), fmt.Appendln(nil, to), 0o600); err != nil {
		b.Fatal(err)
	}
}

// largeRun is one step of a measurement.
type largeRun struct {
	b        *testing.B
	sessions int
	served   *largeServed
	c        *client.Client // of the operator
}

// agent is a client of the agent that has session i.
func (r *largeRun) agent(i int) *client.Client { return r.c.As(largeAgent(i)) }

// some is the nth of the sessions that are spread over the ledger, of a place of its block.
func (r *largeRun) some(n, place int) int {
	return n*7919*31%(r.sessions/largeBlock)*largeBlock + place
}

// measure prints what a call takes: the median of n.
func (r *largeRun) measure(name string, n int, f func(n int) error) {
	took := make([]float64, 0, n)
	used := r.served.ask(r.b).Processor
	for i := range n {
		began := time.Now()
		if err := f(i); err != nil {
			r.b.Errorf("%s: %v", name, err)
			break
		}
		took = append(took, float64(time.Since(began).Microseconds())/1000)
	}
	if len(took) == 0 {
		return
	}
	cpu := float64((r.served.ask(r.b).Processor - used).Microseconds()) / 1000 / float64(n)
	r.b.Logf("%8d sessions | %-40s | %10.2f ms | %10.2f ms of processor time", r.sessions, name, median(took), cpu)
	runtime.GC()
}

// largeMeasure measures a ledger of so many sessions. The daemon is stopped cleanly before, and
// killed once.
func largeMeasure(b *testing.B, dir string, sessions int) {
	began := time.Now()
	r := &largeRun{b: b, sessions: sessions, served: startLarge(b, dir)}
	first := func(what string) {
		r.c = r.served.connect(b)
		if _, err := r.c.Session(b.Context(), largeID(0)); err != nil {
			b.Fatal(err)
		}
		u := r.served.ask(b)
		b.Logf("%8d sessions | %-40s | %10.2f ms | %10.2f ms of processor time, %d MB of memory, %d MB of heap", sessions, what, time.Since(began).Seconds()*1000, float64(u.Processor.Microseconds())/1000, u.RSS>>20, u.Heap>>20)
	}
	first("first read after a clean stop")
	rested, u := r.rest()
	b.Logf("%8d sessions | %-40s | %v, %d MB of memory, %d MB of heap", sessions, "at rest after the start", rested.Round(time.Second), u.RSS>>20, u.Heap>>20)
	r.calls()
	u = r.served.ask(b)
	b.Logf("%8d sessions | %-40s | %d MB of memory, %d MB of heap", sessions, "after all calls", u.RSS>>20, u.Heap>>20)
	r.served.heap(b, filepath.Join(dir, fmt.Sprintf("heap-%d.pprof", sessions)))
	for i := range 2000 { // what a daemon has done when it is killed
		if _, err := r.agent(0).Append(b.Context(), largeID(0), api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, fmt.Sprint("before the end ", i))}}); err != nil {
			b.Fatal(err)
		}
	}
	r.served.end(b, true)
	for what, size := range largeSizes(b, filepath.Join(dir, "data")) {
		if size > 1e5 {
			b.Logf("%8d sessions | disk: %-34s | %8.1f MB", sessions, what, float64(size)/1e6)
		}
	}
	began = time.Now()
	r.served = startLarge(b, dir)
	first("first read after a kill")
	time.Sleep(20 * time.Second)
	u = r.served.ask(b)
	b.Logf("%8d sessions | %-40s | %d MB of memory, %d MB of heap", sessions, "20 s after a start", u.RSS>>20, u.Heap>>20)
	r.served.end(b, false)
}

// rest waits until the daemon has done what a start leaves for later: the index opens, and
// sessions that changed lately are looked at. It returns how long that took, 2 minutes at most.
func (r *largeRun) rest() (time.Duration, largeUsage) {
	began := time.Now()
	for u := r.served.ask(r.b); ; {
		time.Sleep(2 * time.Second)
		next := r.served.ask(r.b)
		if next.Processor-u.Processor < 100*time.Millisecond || time.Since(began) > 2*time.Minute {
			return time.Since(began), next
		}
		u = next
	}
}

// calls measures what people and agents ask.
func (r *largeRun) calls() {
	ctx := r.b.Context()
	const n = 25
	r.measure("session.get", n, func(i int) error {
		s := r.some(i+1, 1)
		_, err := r.agent(s).Session(ctx, largeID(s))
		return err
	})
	r.measure("context.get, cold", n, func(i int) error {
		s := r.some(i+1, 2)
		_, err := r.agent(s).Context(ctx, largeID(s), api.GetContext{})
		return err
	})
	r.measure("context.get, warm", 4*n, func(int) error {
		s := r.some(1, 2)
		_, err := r.agent(s).Context(ctx, largeID(s), api.GetContext{})
		return err
	})
	r.measure("session.create and turn.append", n, func(i int) error {
		s, err := r.agent(0).Create(ctx, api.CreateSession{})
		if err == nil {
			_, err = r.agent(0).Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "what is new?")}})
		}
		return err
	})
	r.measure("turn.append, cold", n, func(i int) error {
		s := r.some(i+1, 3)
		_, err := r.agent(s).Append(ctx, largeID(s), api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "and then?")}})
		return err
	})
	list := func(q api.ListSessions) func(int) error {
		return func(int) error {
			q.Limit = 50
			_, err := r.c.SessionPage(ctx, q)
			return err
		}
	}
	r.measure("session.list, 50 by id", n, list(api.ListSessions{}))
	r.measure("session.list, 50 that changed last", n, list(api.ListSessions{Order: "updated", About: api.About{About: true}}))
	r.measure("session.list, a page of a tag of one in 50", n, list(api.ListSessions{Tag: "common"}))
	r.measure("session.list, a page of a rare tag", n, list(api.ListSessions{Tag: "rare"}))
	r.measure("session.list, a page of a project", n, list(api.ListSessions{Project: largeProject(3)}))
	r.measure("session.resolve", n, func(i int) error {
		s := r.some(i+1, largeLabel)
		_, err := r.agent(s).Resolve(ctx, fmt.Sprint("label", s))
		return err
	})
	r.measure("lineage.tree of a session with a fork", n, func(i int) error {
		s := r.some(i+1, largeFork-1)
		t, err := r.agent(s).TreePage(ctx, largeID(s), api.GetTree{})
		if err == nil && len(t.Sessions) != 2 {
			err = fmt.Errorf("a tree of %d sessions", len(t.Sessions))
		}
		return err
	})
	r.measure("its sub-agents (ledgerctl tree, hide)", 1, func(i int) error {
		list, err := r.c.Within(time.Hour).Descendants(ctx, []turns.ID{largeID(r.some(i+1, 0))}, client.SubAgents)
		if err == nil && len(list) != 2 {
			err = fmt.Errorf("%d sub-agents", len(list))
		}
		return err
	})
	search := func(text func(i int) string, least int) func(int) error {
		return func(i int) error {
			hits, err := r.c.Search(ctx, api.Search{Text: text(i)})
			if err == nil && len(hits.Hits) < least {
				err = fmt.Errorf("%q: %d hits", text(i), len(hits.Hits))
			}
			return err
		}
	}
	r.measure("search.query, a word of one turn", n, search(func(i int) string {
		return largeUnique(i * (r.sessions * *largeTurns / 1000) / n)
	}, 1))
	r.measure("search.query, a common word", n, search(func(i int) string { return largeWords[i%5] }, 10))
	r.measure("search.query, two words", n, search(func(i int) string { return largeWords[20+i] + " " + largeWords[400+i] }, 0))
	r.measure("search.query, a phrase of three words", n, search(func(i int) string {
		message, _ := largeTexts(r.some(i+1, 5), 0, *largeTurns)
		return `"` + strings.Join(strings.Fields(message)[:3], " ") + `"`
	}, 1))
	r.measure("memory.list", n, func(i int) error {
		_, err := r.agent(0).MemoryPage(ctx, api.ListMemories{})
		return err
	})
	r.measure("memory.search", n, func(i int) error {
		_, err := r.agent(0).SearchMemories(ctx, api.SearchMemories{Text: largeWords[40+i]})
		return err
	})
	r.measure("audit.proof", n, func(i int) error {
		s := r.some(i+1, 6)
		got, err := r.agent(s).Session(ctx, largeID(s))
		if err == nil {
			_, err = r.c.Proof(ctx, largeID(s), api.GetProof{Turn: *got.Head})
		}
		return err
	})
	r.measure("audit.verify of a session", n, func(i int) error {
		s := r.some(i+1, 8)
		v, err := r.agent(s).Within(time.Hour).Verify(ctx, largeID(s))
		if err == nil && !v.OK {
			err = fmt.Errorf("%v", v.Problems)
		}
		return err
	})
	if r.sessions <= *largeVerify {
		r.measure("audit.verify of everything", 1, func(int) error {
			v, err := r.c.Within(time.Hour).Verify(ctx)
			if err == nil && !v.OK {
				err = fmt.Errorf("%v", v.Problems)
			}
			return err
		})
	}
}

// largeSizes returns the bytes of each folder of a data folder.
func largeSizes(b *testing.B, dir string) map[string]int64 {
	sizes := make(map[string]int64)
	if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		top, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
		sizes[top] += info.Size()
		return err
	}); err != nil {
		b.Fatal(err)
	}
	return sizes
}

// largeServed is a daemon that is a process of its own.
type largeServed struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	url string
}

// largeUsage is what the process used so far.
type largeUsage struct {
	Processor time.Duration
	RSS, Heap uint64 // bytes
}

// largeVariable has the folder for [TestLargeServed].
const largeVariable = "NEXUS_TEST_LARGE"

func startLarge(b *testing.B, dir string) *largeServed {
	s := &largeServed{cmd: exec.Command(os.Args[0], "-test.run=^TestLargeServed$", "-test.timeout=6h")}
	s.cmd.Env = append(os.Environ(), largeVariable+"="+dir)
	s.cmd.Stderr = os.Stderr
	in, err := s.cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	s.in, s.out = in, bufio.NewScanner(out)
	if err := s.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	if !s.out.Scan() {
		b.Fatal("the daemon did not start: ", s.out.Err())
	}
	s.url = s.out.Text()
	return s
}

func (s *largeServed) connect(b *testing.B) *client.Client {
	nc, err := client.Dial(s.url, "")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	return client.New(nc, "default", "_").Within(time.Minute)
}

// ask returns what the process used so far.
func (s *largeServed) ask(b *testing.B) (u largeUsage) {
	_, err := fmt.Fprintln(s.in, "usage")
	if err == nil && !s.out.Scan() {
		err = errors.Join(errors.New("the daemon ended"), s.out.Err())
	}
	if err == nil {
		err = json.Unmarshal(s.out.Bytes(), &u)
	}
	if err != nil {
		b.Fatal(err)
	}
	return u
}

// heap makes the process write a profile of its memory to a file.
func (s *largeServed) heap(b *testing.B, file string) {
	if _, err := fmt.Fprintln(s.in, "heap", file); err != nil {
		b.Fatal(err)
	}
}

// end ends the process, cleanly or by a kill.
func (s *largeServed) end(b *testing.B, kill bool) {
	if kill {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		return
	}
	began := time.Now()
	_ = s.in.Close()
	for s.out.Scan() {
	}
	if err := s.cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	b.Logf("stopped in %v", time.Since(began).Round(10*time.Millisecond))
}

// largeLimit is the memory limit of a nexusd with the default configuration.
const largeLimit = 424 << 20

// TestLargeServed is the daemon of [BenchmarkLarge], and no test.
func TestLargeServed(t *testing.T) {
	dir := os.Getenv(largeVariable)
	if dir == "" {
		t.Skip("only the benchmark starts it")
	}
	defer PaceCollector(largeLimit)()
	d, err := Open(t.Context(), largeConfig(dir))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(d.ClientURL())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if file, ok := strings.CutPrefix(lines.Text(), "heap "); ok {
			f, err := os.Create(file)
			if err == nil {
				err = errors.Join(pprof.WriteHeapProfile(f), f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			continue
		}
		var u largeUsage
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			t.Fatal(err)
		}
		u.Processor = time.Duration(r.Utime.Nano() + r.Stime.Nano())
		if text, err := os.ReadFile("/proc/self/statm"); err == nil { // Linux alone has it
			var pages, resident uint64
			_, _ = fmt.Sscan(string(text), &pages, &resident)
			u.RSS = resident * uint64(os.Getpagesize())
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		u.Heap = m.HeapAlloc
		text, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(string(text))
	}
	if err := d.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

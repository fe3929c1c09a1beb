package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// BenchmarkAppendCPU measures the processor time of the daemon for each acknowledged
// append, in µs: user and system time of this process. The clients are a process of
// their own (TestAppendClients), so their time does not count. Four agents with a
// connection each append turns of 2 KiB.
//
// Each runs with the search index and without; behind is how many events the index had not
// seen when the last append was acknowledged.
//
//	go test ./cmd/internal/daemon -run '^$' -bench AppendCPU/64/search=on -benchtime 20000x -cpuprofile cpu.out
func BenchmarkAppendCPU(b *testing.B) {
	type load struct {
		writers int
		search  string
	}
	for _, l := range []load{{1, "on"}, {1, "off"}, {64, "on"}, {64, "off"}, {512, "on"}} {
		writers := l.writers
		b.Run(fmt.Sprintf("%d/search=%s", writers, l.search), func(b *testing.B) {
			if os.Getenv("GOGC") == "" { // as nexusd does
				defer PaceCollector(0)()
			}
			dir := b.TempDir()
			d, err := Open(b.Context(), config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 8 << 30, Search: l.search})
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := d.Close(context.Background()); err != nil {
					b.Error(err)
				}
			}()
			clients := startAppendClients(b, appendLoad{URL: d.ClientURL(), Seed: filepath.Join(dir, "users", "agent.nk"), Writers: writers})
			clients.append(b, min(50*writers, 4000)) // warm
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			cpu, fsyncs := processorTime(b), d.Fsyncs()
			b.ResetTimer()
			p50, _ := clients.append(b, b.N)
			b.StopTimer()
			cpu = processorTime(b) - cpu
			behind := d.engine.Search.Behind()
			runtime.ReadMemStats(&after)
			n := float64(b.N)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(cpu.Microseconds())/n, "cpu-µs/append")
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/n, "allocs/append")
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/n, "B/append")
			b.ReportMetric(n/b.Elapsed().Seconds(), "appends/s")
			b.ReportMetric(float64(d.Fsyncs()-fsyncs)/n, "fsyncs/append")
			b.ReportMetric(float64(p50.Microseconds())/1e3, "p50-ms")
			b.ReportMetric(float64(behind), "behind")
		})
	}
}

// BenchmarkManySessions measures the processor time of the daemon for an append of 64 writers to many
// sessions in turn, against 64 sessions: the server reads the last record of a session that was not
// written for long from its block. It can't see a disk that is slow to read: the blocks are in the system's cache.
//
//	go test ./cmd/internal/daemon -run '^$' -bench ManySessions -benchtime 50000x -timeout 30m
func BenchmarkManySessions(b *testing.B) {
	const writers = 64 // a multiple of the clients, so that a session's client is its agent's
	for _, sessions := range []int{writers, 20_032, 50_048} {
		b.Run(fmt.Sprint(sessions), func(b *testing.B) {
			if os.Getenv("GOGC") == "" { // as nexusd does
				defer PaceCollector(0)()
			}
			dir := b.TempDir()
			d, err := Open(b.Context(), config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 8 << 30})
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := d.Close(context.Background()); err != nil {
					b.Error(err)
				}
			}()
			clients := startAppendClients(b, appendLoad{URL: d.ClientURL(), Seed: filepath.Join(dir, "users", "agent.nk"), Writers: writers, Sessions: sessions})
			clients.append(b, max(4000, sessions)) // each session once
			cpu := processorTime(b)
			b.ResetTimer()
			p50, p99 := clients.append(b, b.N)
			b.StopTimer()
			cpu = processorTime(b) - cpu
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(cpu.Microseconds())/float64(b.N), "cpu-µs/append")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
			b.ReportMetric(float64(p50.Microseconds())/1e3, "p50-ms")
			b.ReportMetric(float64(p99.Microseconds())/1e3, "p99-ms")
		})
	}
}

// processorTime returns the user and system time of this process.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// appendLoad is what the process of the clients does.
type appendLoad struct {
	URL, Seed string // of the daemon, and the file with the agents' key
	Writers   int
	Sessions  int // in turn, by all writers; 0: one of each writer
}

// loadVariable has the appendLoad for [TestAppendClients], as JSON.
const loadVariable = "NEXUS_TEST_APPEND_LOAD"

// appendClients is the process of the clients. For each line with a number it
// makes as many appends, and answers with a line: the median and the 99th of a hundred of their times in ns.
type appendClients struct {
	in  io.WriteCloser
	out *bufio.Scanner
}

func startAppendClients(b *testing.B, l appendLoad) *appendClients {
	text, err := json.Marshal(l)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestAppendClients$")
	cmd.Env = append(os.Environ(), loadVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	c := new(appendClients)
	if c.in, err = cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	b.Cleanup(func() {
		if err := c.in.Close(); err != nil {
			b.Error(err)
		}
		for c.out.Scan() {
		}
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	})
	return c
}

// append makes n appends, and returns the median and the 99th of a hundred of their times.
func (c *appendClients) append(b *testing.B, n int) (p50, p99 time.Duration) {
	if _, err := fmt.Fprintln(c.in, n); err != nil {
		b.Fatal(err)
	}
	if !c.out.Scan() {
		b.Fatal("the process of the clients ended: ", c.out.Err())
	}
	if _, err := fmt.Sscan(c.out.Text(), (*int64)(&p50), (*int64)(&p99)); err != nil {
		b.Fatal(c.out.Text())
	}
	return p50, p99
}

// TestAppendClients is the process of the clients of [BenchmarkAppendCPU], and no test.
func TestAppendClients(t *testing.T) {
	var l appendLoad
	if text := os.Getenv(loadVariable); text == "" {
		t.Skip("only the benchmark starts it")
	} else if err := json.Unmarshal([]byte(text), &l); err != nil {
		t.Fatal(err)
	}
	key, err := nats.NkeyOptionFromSeed(l.Seed)
	if err != nil {
		t.Fatal(err)
	}
	clients := make([]*client.Client, min(4, l.Writers))
	for i := range clients {
		nc, err := nats.Connect(l.URL, key)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		clients[i] = client.New(nc, "default", fmt.Sprint("agent", i))
	}
	sessions := make([]turns.ID, max(l.Writers, l.Sessions)) // of client i: those with index i modulo the clients
	var g errgroup.Group
	g.SetLimit(l.Writers)
	for i := range sessions {
		g.Go(func() error {
			s, err := clients[i%len(clients)].Create(t.Context(), api.CreateSession{})
			if err == nil {
				sessions[i] = s.ID
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	made := make([]int, l.Writers)
	run := func(n int) (p50, p99 time.Duration) {
		var left atomic.Int64
		left.Store(int64(n))
		took := make([][]time.Duration, l.Writers)
		var wg sync.WaitGroup
		for w := range l.Writers {
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					made[w]++
					answer := turns.TextMessage(turns.Assistant, turnText(w, -made[w], 1024))
					turn := api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, turnText(w, made[w], 1024))}, Response: &answer}
					id := sessions[(w+made[w]*l.Writers)%len(sessions)]
					began := time.Now()
					if _, err := clients[w%len(clients)].Append(t.Context(), id, turn); err != nil {
						t.Error(err)
						return
					}
					took[w] = append(took[w], time.Since(began))
				}
			})
		}
		wg.Wait()
		all := slices.Concat(took...)
		slices.Sort(all)
		return all[len(all)/2], all[len(all)*99/100]
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		p50, p99 := run(n)
		if t.Failed() {
			return
		}
		fmt.Println(p50.Nanoseconds(), p99.Nanoseconds())
	}
}

// turnText returns a text of n bytes whose words and numbers differ from turn to turn.
func turnText(writer, turn, n int) string {
	all := strings.Fields("the file test of returns error line to function with value in for path read write open close build run change name type string number index key slice loop check server client message")
	var b strings.Builder
	for x := uint64(writer)<<32 + uint64(turn); b.Len() < n; {
		x = x*6364136223846793005 + 1442695040888963407
		b.WriteString(all[(x>>33)%uint64(len(all))])
		b.WriteByte(' ')
		if x>>32&7 == 0 {
			b.WriteString(strconv.FormatUint(x>>40, 16))
			b.WriteByte(' ')
		}
	}
	return b.String()[:n]
}

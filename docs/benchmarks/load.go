package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// load is what each system does in a round of appends.
type load struct {
	clients int
	agents  int           // of the clients, each agent with a connection of its own
	bytes   int           // of text in a turn
	each    time.Duration // how long a system is measured
}

// turn is what a client appends: what was said, and the answer.
type turn struct{ question, answer string }

// turn returns turn i, from 1, of a client: always the same one.
func (l load) turn(client, i int) turn {
	return turn{words(uint64(client)<<32+uint64(i)*2, l.bytes/2), words(uint64(client)<<32+uint64(i)*2+1, l.bytes-l.bytes/2)}
}

// words is text of words and numbers that differ, as transcripts do.
func words(x uint64, n int) string {
	var b strings.Builder
	for b.Grow(n + 32); b.Len() < n; {
		x = x*6364136223846793005 + 1442695040888963407
		b.WriteString(vocabulary[(x>>33)%uint64(len(vocabulary))])
		b.WriteByte(' ')
		if x>>32&7 == 0 {
			b.WriteString(strconv.FormatUint(x>>40, 16))
			b.WriteByte(' ')
		}
	}
	return b.String()[:n]
}

var vocabulary = strings.Fields(`the file test of returns error line to and function with value in for that is list path
	read write open close build run fails passes change name type string number index first last key map slice loop check server client message
	turn session ledger summary context window token policy head fork branch commit append record block page cache`)

type textPart struct {
	Type    string `json:"type"`
	Content string `json:"content"`
}

type textMessage struct {
	Role  string     `json:"role"`
	Parts []textPart `json:"parts"`
}

type turnJSON struct {
	Messages []textMessage `json:"messages"`
	Response textMessage   `json:"response"`
}

// json is the turn as every peer stores it: the body of Nexus's own request.
func (t turn) json() []byte {
	b, err := json.Marshal(turnJSON{[]textMessage{{"user", []textPart{{"text", t.question}}}}, textMessage{"assistant", []textPart{{"text", t.answer}}}})
	if err != nil {
		panic(err) // strings always encode
	}
	return b
}

// system stores turns.
type system interface {
	// append stores turn i, from 1, of a client, and returns when it is durable. One
	// goroutine appends for each client, one turn after the other.
	append(ctx context.Context, client, i int, t turn) error
	// check reads everything back: turns 1 to stored[client] of each client with their
	// content, in their order, and nothing else.
	check(ctx context.Context, l load, stored []int) error
	// pids are the processes whose CPU time and fsyncs count.
	pids() []int
	// dirs are the folders whose bytes count.
	dirs() []string
	close() error
}

// bulk is a system that runs the load by itself, as it is no Go program.
type bulk interface {
	system
	// run goes on from stored, which it updates.
	run(ctx context.Context, l load, each time.Duration, stored []int) (took []time.Duration, err error)
}

// measured is one round of one system, or the median of several.
type measured struct {
	System   string  `json:"system"`
	Clients  int     `json:"clients"`
	Rate     float64 `json:"appends_per_second"`
	Relative float64 `json:"base_relative"` // the base's rate in this one's, median of the rounds; 0: no base
	Lowest   float64 `json:"base_relative_lowest"`
	Highest  float64 `json:"base_relative_highest"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	P999     float64 `json:"p999_ms"`
	CPU      float64 `json:"cpu_us_per_append"`
	Fsyncs   float64 `json:"fsyncs_per_append"` // below 0: not counted
	Disk     float64 `json:"disk_bytes_per_byte"`
	Appends  int     `json:"appends"` // of all rounds; all of them were read back
}

// measure runs one round of one system, and then reads back what it acknowledged.
func measure(ctx context.Context, l load, s system) (m measured, err error) {
	stored := make([]int, l.clients)
	if _, err := l.run(ctx, s, l.each/5, stored); err != nil { // connections, caches and files
		return m, err
	}
	warmed := total(stored)
	counter, err := countFsyncs(s.pids())
	if err != nil {
		return m, err
	}
	defer counter.close()
	cpu, err := cpuTime(s.pids())
	if err != nil {
		return m, err
	}
	disk, err := diskOf(s.dirs()...)
	if err != nil {
		return m, err
	}
	began := time.Now()
	took, err := l.run(ctx, s, l.each, stored)
	if err != nil {
		return m, err
	}
	elapsed := time.Since(began)
	after, err := cpuTime(s.pids())
	if err != nil {
		return m, err
	}
	fsyncs, err := counter.read()
	if err != nil {
		return m, err
	}
	grown, err := diskOf(s.dirs()...)
	if err != nil {
		return m, err
	}
	if len(took) == 0 || len(took) != total(stored)-warmed {
		return m, fmt.Errorf("%d appends were timed and %d acknowledged", len(took), total(stored)-warmed)
	}
	if err := s.check(ctx, l, stored); err != nil {
		return m, fmt.Errorf("what was acknowledged is not what is stored: %w", err)
	}
	slices.Sort(took)
	n := float64(len(took))
	return measured{
		Clients: l.clients, Rate: n / elapsed.Seconds(), P50: ms(at(took, 0.5)), P99: ms(at(took, 0.99)), P999: ms(at(took, 0.999)),
		CPU: float64(after-cpu) / 1e3 / n, Fsyncs: fsyncs / n, Disk: float64(grown-disk) / (n * float64(len(l.turn(0, 1).json()))), Appends: len(took),
	}, nil
}

// run lets each client append for a while. It returns how long each append took.
func (l load) run(ctx context.Context, s system, each time.Duration, stored []int) ([]time.Duration, error) {
	if b, ok := s.(bulk); ok {
		return b.run(ctx, l, each, stored)
	}
	end := time.Now().Add(each)
	all := make([][]time.Duration, l.clients)
	errs := make([]error, l.clients)
	var wg sync.WaitGroup
	for c := range l.clients {
		wg.Go(func() {
			for ctx.Err() == nil && time.Now().Before(end) {
				t := l.turn(c, stored[c]+1)
				began := time.Now()
				if errs[c] = s.append(ctx, c, stored[c]+1, t); errs[c] != nil {
					return
				}
				all[c] = append(all[c], time.Since(began))
				stored[c]++
			}
		})
	}
	wg.Wait()
	return slices.Concat(all...), errors.Join(append(distinct(errs), ctx.Err())...)
}

func total(ns []int) (n int) {
	for _, x := range ns {
		n += x
	}
	return n
}

// at is a quantile of durations that are sorted.
func at(ds []time.Duration, share float64) time.Duration {
	return ds[min(int(share*float64(len(ds))), len(ds)-1)]
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// median is the middle of values, the upper one of two.
func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return xs[len(xs)/2]
}

// medians is the median of each figure of one system. base is the rounds of the system
// that it is compared with, if there are any.
func medians(ms, base []measured) measured {
	of := func(get func(measured) float64) float64 {
		var xs []float64
		for _, m := range ms {
			xs = append(xs, get(m))
		}
		return median(xs)
	}
	out := measured{System: ms[0].System, Clients: ms[0].Clients,
		Rate: of(func(m measured) float64 { return m.Rate }), P50: of(func(m measured) float64 { return m.P50 }),
		P99: of(func(m measured) float64 { return m.P99 }), P999: of(func(m measured) float64 { return m.P999 }),
		CPU: of(func(m measured) float64 { return m.CPU }), Fsyncs: of(func(m measured) float64 { return m.Fsyncs }),
		Disk: of(func(m measured) float64 { return m.Disk })}
	var ratios []float64
	for i, m := range ms {
		out.Appends += m.Appends
		if i < len(base) {
			ratios = append(ratios, base[i].Rate/m.Rate)
		}
	}
	if len(ratios) > 0 {
		out.Relative, out.Lowest, out.Highest = median(ratios), slices.Min(ratios), slices.Max(ratios)
	}
	return out
}

// distinct returns the errors of errs without those that say the same as an earlier one:
// what stops one client stops hundreds.
func distinct(errs []error) (out []error) {
	seen := make(map[string]bool)
	for _, err := range errs {
		if err != nil && !seen[err.Error()] {
			seen[err.Error()] = true
			out = append(out, err)
		}
	}
	return out
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/turns"
)

// Load is what a benchmark does.
type Load struct {
	Writers   int           `json:"writers"`
	Agents    int           `json:"agents"`
	TurnBytes int           `json:"turn_bytes"`
	Rounds    int           `json:"rounds"`
	Each      time.Duration `json:"-"` // how long a system is measured in a round
	Seconds   float64       `json:"seconds"`
}

// system is what a benchmark measures.
type system interface {
	// append stores the next turn of a writer durably. Each writer has one goroutine.
	append(ctx context.Context, writer int) error
	// counted returns what the system has used up to now.
	counted() (counted, error)
	close() error
}

// counted is what a system has used since its start.
type counted struct {
	CPU    int64  `json:"cpu_us"` // microseconds of its process; 0: it has none of its own
	Fsyncs uint64 `json:"fsyncs"` // of what it stores
	Disk   int64  `json:"disk"`   // bytes of its files
}

// Measured is a round of one system, or the median of several.
type Measured struct {
	System   string  `json:"system"`
	Rate     float64 `json:"appends_per_second"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	P999     float64 `json:"p999_ms"`
	CPU      float64 `json:"cpu_us_per_append,omitzero"`
	Fsyncs   float64 `json:"fsyncs_per_append"`
	Disk     float64 `json:"disk_bytes_per_byte"`
	Appends  int     `json:"appends"`
	Relative float64 `json:"rate_relative_to_jetstream"`
}

// Run measures the systems in turns, so that a noisy machine is as noisy for all.
func Run(ctx context.Context, term *terminal.Terminal, l Load, dir string) error {
	tmp, err := os.MkdirTemp(dir, "nexus-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	open := map[string]func(ctx context.Context, l Load, dir string) (system, error){
		"nexus": openNexus, "jetstream": openJetStream, "pebble": openPebble,
	}
	names := []string{"nexus", "jetstream", "pebble"}
	rounds := make(map[string][]Measured)
	for n := range l.Rounds {
		for i := range names {
			name := names[(i+n)%len(names)] // each is first as often as the others
			term.Say("round %d of %d: %s", n+1, l.Rounds, name)
			m, err := l.measure(ctx, filepath.Join(tmp, fmt.Sprint(name, n)), open[name])
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			m.System = name
			rounds[name] = append(rounds[name], m)
		}
	}
	out := struct {
		Load
		Systems []Measured `json:"systems"`
	}{Load: l}
	var relative []float64
	for n := range l.Rounds {
		relative = append(relative, rounds["nexus"][n].Rate/rounds["jetstream"][n].Rate)
	}
	for _, name := range names {
		out.Systems = append(out.Systems, medians(rounds[name], rounds["jetstream"]))
	}
	if term.JSON {
		return term.Print(out)
	}
	benchTable(term, out.Systems, l)
	slices.Sort(relative)
	term.Tell("nexus stores %.2f× what bare JetStream does (median of %d rounds; %.2f to %.2f).", relative[len(relative)/2], len(relative), relative[0], relative[len(relative)-1])
	term.Tell("nexus: turns over NATS, sealed, chained and projected. jetstream: messages of the same size over NATS, with an fsync each (sync_interval: always). pebble: rows of the same size, in process, synced in groups.")
	return nil
}

func benchTable(term *terminal.Terminal, systems []Measured, l Load) {
	term.Tell("%s of %s, turns of %s bytes, %s of %v", prose.Plural(uint64(l.Writers), "writer"), prose.Plural(uint64(l.Agents), "agent"), prose.Grouped(uint64(l.TurnBytes)), prose.Plural(uint64(l.Rounds), "round"), l.Each)
	known := func(x float64, format string) string {
		if x == 0 {
			return "–"
		}
		return fmt.Sprintf(format, x)
	}
	var rows [][]string
	for _, m := range systems {
		rows = append(rows, []string{m.System, prose.Grouped(uint64(m.Rate)), fmt.Sprintf("%.2f", m.P50), fmt.Sprintf("%.2f", m.P99), fmt.Sprintf("%.2f", m.P999),
			known(m.CPU, "%.0f µs"), known(m.Fsyncs, "%.3f"), fmt.Sprintf("%.2f", m.Disk)})
	}
	cols := []terminal.Column{{Head: "system"}}
	for _, head := range []string{"appends/s", "p50 ms", "p99 ms", "p99.9 ms", "CPU each", "fsyncs each", "disk/byte"} {
		cols = append(cols, terminal.Column{Head: head, Right: true})
	}
	fmt.Fprint(term.Out, term.Table(cols, rows))
}

// medians returns the median of each figure.
func medians(ms, base []Measured) Measured {
	out := Measured{System: ms[0].System}
	median := func(get func(i int) float64) float64 {
		var xs []float64
		for i := range ms {
			xs = append(xs, get(i))
		}
		slices.Sort(xs)
		return xs[len(xs)/2]
	}
	out.Rate = median(func(i int) float64 { return ms[i].Rate })
	out.P50 = median(func(i int) float64 { return ms[i].P50 })
	out.P99 = median(func(i int) float64 { return ms[i].P99 })
	out.P999 = median(func(i int) float64 { return ms[i].P999 })
	out.CPU = median(func(i int) float64 { return ms[i].CPU })
	out.Fsyncs = median(func(i int) float64 { return ms[i].Fsyncs })
	out.Disk = median(func(i int) float64 { return ms[i].Disk })
	out.Relative = median(func(i int) float64 { return ms[i].Rate / base[i].Rate })
	for _, m := range ms {
		out.Appends += m.Appends
	}
	return out
}

// measure runs one round of one system, on a fresh folder.
func (l Load) measure(ctx context.Context, dir string, open func(context.Context, Load, string) (system, error)) (m Measured, err error) {
	s, err := open(ctx, l, dir)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, s.close(), os.RemoveAll(dir)) }()
	if _, err := l.run(ctx, s, l.Each/5); err != nil { // warm
		return m, err
	}
	before, err := s.counted()
	if err != nil {
		return m, err
	}
	began := time.Now()
	took, err := l.run(ctx, s, l.Each)
	if err != nil {
		return m, err
	}
	elapsed := time.Since(began)
	after, err := s.counted()
	if err != nil {
		return m, err
	}
	n := float64(len(took))
	if n == 0 {
		return m, errors.New("no append was answered in the time")
	}
	slices.Sort(took)
	at := func(share float64) float64 { return float64(took[min(int(share*n), len(took)-1)]) / 1e6 }
	return Measured{
		Rate: n / elapsed.Seconds(), P50: at(0.5), P99: at(0.99), P999: at(0.999), Appends: len(took),
		CPU: float64(after.CPU-before.CPU) / n, Fsyncs: float64(after.Fsyncs-before.Fsyncs) / n,
		Disk: float64(after.Disk-before.Disk) / (n * float64(l.TurnBytes)),
	}, nil
}

// run lets each writer append for a while, and returns how long each append took.
func (l Load) run(ctx context.Context, s system, each time.Duration) (took []time.Duration, err error) {
	end := time.Now().Add(each)
	all := make([][]time.Duration, l.Writers)
	errs := make([]error, l.Writers)
	var wg sync.WaitGroup
	for w := range l.Writers {
		wg.Go(func() {
			for ctx.Err() == nil && time.Now().Before(end) {
				began := time.Now()
				if errs[w] = s.append(ctx, w); errs[w] != nil {
					return
				}
				all[w] = append(all[w], time.Since(began))
			}
		})
	}
	wg.Wait()
	return slices.Concat(all...), errors.Join(append(errs, ctx.Err())...)
}

// text is what a turn says: words and numbers that differ, as transcripts do.
func (l Load) text(writer, turn int) string {
	var b strings.Builder
	for x := uint64(writer)<<32 + uint64(turn); b.Len() < l.TurnBytes; {
		x = x*6364136223846793005 + 1442695040888963407
		b.WriteString(benchWords[(x>>33)%uint64(len(benchWords))])
		b.WriteByte(' ')
		if x>>32&7 == 0 {
			b.WriteString(strconv.FormatUint(x>>40, 16))
			b.WriteByte(' ')
		}
	}
	return b.String()[:l.TurnBytes]
}

var benchWords = strings.Fields(`the file test of returns error line to and function with value in for that is list path
	read write open close build run fails passes change name type string number index first last key map slice loop check server client message
	turn session ledger summary context window token policy head fork branch commit append record block page cache`)

// question is a turn of the load.
func (l Load) question(writer, turn int) turns.Message {
	return turns.TextMessage(turns.User, l.text(writer, turn))
}

// diskOf returns the bytes of the files under dir.
func diskOf(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreGone(err)
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return ignoreGone(err)
	})
	return n, err
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

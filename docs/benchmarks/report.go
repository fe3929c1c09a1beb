package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// results is all that was measured in one run.
type results struct {
	Command, Note, Date, Machine string
	load                         load
	Throttled                    int // nested file systems; 0: the disk as it is
	Appends                      []measured
	Groups                       map[int]float64
	Requests, Lineage            []versus
	Agents                       []agentRow
	Transcripts                  []stored
	Imported                     string
	Import                       *imported
	Skipped, Failed              []string
}

// machine says where this was measured: processors, kernel, and what a fsync takes.
func machine(dir string) (string, error) {
	model := runtime.GOARCH
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				model = strings.TrimSpace(v)
				break
			}
		}
	}
	kernel := ""
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel, _, _ = strings.Cut(strings.TrimSpace(string(b)), "-")
	}
	busy := ""
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		busy, _, _ = strings.Cut(string(b), " ")
	}
	took, err := bareFsync(dir, 0.5)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d × %s, Linux %s, %s; a bare fsync of 4 KiB takes %.2f ms in the median; load before the run: %s", runtime.NumCPU(), model, kernel, runtime.Version(), ms(took), busy), nil
}

// pictures are the plots' files by what they show.
func (res *results) pictures() map[string]string {
	out := make(map[string]string)
	for _, clients := range res.counts() {
		out[fmt.Sprintf("appends-%d.svg", clients)] = res.plotAppends(clients)
	}
	if len(res.Lineage) > 0 {
		out["lineage.svg"] = res.plotLineage()
	}
	return out
}

// counts are the numbers of clients, in their order.
func (res *results) counts() (out []int) {
	for _, m := range res.Appends {
		if !slices.Contains(out, m.Clients) {
			out = append(out, m.Clients)
		}
	}
	return out
}

// markdown writes the tables. pictures is the folder of the plots as a link names it; "": there are none.
func (res *results) markdown(w io.Writer, pictures string) error {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("# Results\n")
	p("Written by `%s` on %s; [what each row means and can't see](README.md).\n", res.Command, res.Date)
	p("Machine: %s.\n", res.Machine)
	if res.Note != "" {
		p("**%s**\n", res.Note)
	}
	if res.Throttled > 0 {
		p("The disk is slow on purpose: %d nested file systems, in which nine of ten bare fsyncs take 2 ms or more.\n", res.Throttled)
	}
	p("SQLite's driver: %s.\n", sqliteName)
	for _, s := range res.Skipped {
		p("* Skipped: %s", s)
	}
	for _, s := range res.Failed {
		p("* **Failed**: %s", s)
	}
	if len(res.Skipped)+len(res.Failed) > 0 {
		p("")
	}
	if len(res.Appends) > 0 {
		p("## Durable appends\n")
		p("Turns of %s bytes of text, %d agents. Every turn was read back after its round. “Nexus ×” is how many times the appends of Nexus (for R3 of nexus-r3) are those of the row, "+
			"the median of the rounds, with the lowest and the highest. An em dash: not counted here.\n", grouped(int64(res.load.bytes)), res.load.agents)
		for _, clients := range res.counts() {
			p("### %d client%s\n", clients, map[bool]string{true: "s"}[clients != 1])
			if g, ok := res.Groups[clients]; ok {
				p("Appends that shared a fsync of nexusd: %.1f.\n", g)
			}
			p("| | appends/s | Nexus × | p50 ms | p99 ms | p99.9 ms | CPU µs each | fsyncs each | disk bytes per byte | appends |")
			p("|---|---|---|---|---|---|---|---|---|---|")
			for _, m := range res.Appends {
				if m.Clients != clients {
					continue
				}
				ratio, fsyncs := "—", "—"
				if m.Relative > 0 {
					ratio = fmt.Sprintf("%.2f (%.2f to %.2f)", m.Relative, m.Lowest, m.Highest)
				}
				if m.Fsyncs >= 0 {
					fsyncs = fmt.Sprintf("%.3f", m.Fsyncs)
				}
				p("| %s | %s | %s | %.2f | %.2f | %.2f | %.0f | %s | %.2f | %s |", m.System, grouped(int64(m.Rate)), ratio, m.P50, m.P99, m.P999, m.CPU, fsyncs, m.Disk, grouped(int64(m.Appends)))
			}
			p("")
			if pictures != "" {
				p("![Appends a second, clients at once: %d](%sappends-%d.svg)\n", clients, pictures, clients)
			}
		}
	}
	versusTable := func(title string, vs []versus) {
		if len(vs) == 0 {
			return
		}
		p("## %s\n", title)
		p("| | p50 ms | p99 ms | beside | p50 ms | p99 ms | ratio of p50 | samples | |")
		p("|---|---|---|---|---|---|---|---|---|")
		for _, v := range vs {
			p("| %s | %.3f | %.3f | %s | %.3f | %.3f | %.3g | %s | %s |", v.What, v.P50, v.P99, v.Than, v.Than50, v.Than99, v.P50/v.Than50, grouped(int64(v.Samples)), v.Cells)
		}
		p("")
	}
	res.agentTable(p)
	versusTable("Forks and contexts, over NATS", res.Requests)
	versusTable("Lineage, in process", res.Lineage)
	if len(res.Lineage) > 0 && pictures != "" {
		p("![Merge base and ancestor](%slineage.svg)\n", pictures)
	}
	if len(res.Transcripts) > 0 {
		p("## Disk of real transcripts\n")
		p("%s.\n", res.Imported)
		p("| | bytes | of the clean copy |")
		p("|---|---|---|")
		for _, s := range res.Transcripts {
			p("| %s | %s | %.2f |", s.What, grouped(s.Bytes), s.Of)
		}
		p("")
	}
	if i := res.Import; i != nil {
		p("## Import of copies of real transcripts\n")
		p("%s files, %s MB, %s turns stored in %.1f s: **%.1f MB/s**. Most memory of ledgerctl %d MB, of nexusd %d MB; %s fsyncs of the log. `ledgerctl verify` after it: %s\n",
			grouped(int64(i.Files)), grouped(i.Bytes/1e6), grouped(int64(i.Turns)), i.Took.Seconds(), float64(i.Bytes)/1e6/i.Took.Seconds(), i.Memory>>20, i.Server>>20, grouped(int64(i.Fsyncs)), i.Verified)
	}
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

// write writes results.md and the plots into a folder.
func (res *results) write(dir string) error {
	for name, text := range res.pictures() {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(dir, "results.md"))
	if err != nil {
		return err
	}
	return errors.Join(res.markdown(f, "./"), f.Close())
}

// grouped is a number with commas.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

package watch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"nexus/cmd/internal/transcripts/transcriptfile"
)

var (
	replayed = flag.Int("transcripts", 0, "replay so many copies of real transcripts and measure; 0: a few, unmeasured")
	rate     = flag.Int("rate", 400, "lines a second of all transcripts of -transcripts")
	idle     = flag.Duration("idle", time.Minute, "how long -transcripts measures an idle watch")
)

// realTranscripts returns the real transcripts next to the project that have at most size
// bytes, without forks of others, which come last in life too.
func realTranscripts(t *testing.T, size int) (names []string, texts []string) {
	t.Helper()
	data := filepath.Join("..", "..", "..", "..", "shared", "data")
	if _, err := os.Stat(data); err != nil {
		t.Skip("real transcripts are not next to the project (../shared/data)")
	}
	for _, pattern := range []string{"claude-code-*/*.jsonl", "codex-*/*.jsonl", "pi/*.jsonl"} {
		files, err := filepath.Glob(filepath.Join(data, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := transcriptfile.Detect(b[:min(len(b), headSize)]); err != nil || len(b) > size || bytes.Contains(b, []byte(`"forked_from_id":"`)) {
				continue
			}
			names, texts = append(names, name), append(texts, strings.TrimSuffix(string(b), "\n")+"\n")
		}
	}
	if len(names) == 0 {
		t.Fatal("no real transcript is small enough")
	}
	return names, texts
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// copied returns a transcript with other ids: those of copy n.
func copied(text string, n int) string {
	return uuids.ReplaceAllStringFunc(text, func(id string) string {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", id, n))
		return id[:24] + hex.EncodeToString(sum[:6])
	})
}

// homeOf returns where the agent of a real transcript would keep its copy n.
func homeOf(name string, n int) string {
	base := fmt.Sprintf("%d-%s", n, filepath.Base(name))
	switch dir := filepath.Base(filepath.Dir(name)); {
	case strings.HasPrefix(dir, "codex"):
		return filepath.Join(".codex", "sessions", "2026", fmt.Sprintf("%02d", n%12), "rollout-"+base)
	case dir == "pi":
		return filepath.Join(".pi", "agent", "sessions", fmt.Sprintf("--w%d--", n%20), base)
	}
	return filepath.Join(".claude", "projects", fmt.Sprintf("-w%d", n%20), base)
}

// Copies of real transcripts, replayed line by line while they are watched: each turn
// arrives under the id of an import, and a second run stores nothing. With -transcripts it
// is measured how long after its line a turn is there, and what an idle watch takes.
func TestRealTranscriptsArriveWhileTheyGrow(t *testing.T) {
	n, size := *replayed, 160<<10
	if n == 0 {
		n = 12
	}
	names, texts := realTranscripts(t, size)
	data, home := t.TempDir(), t.TempDir()
	url, _ := spawnDaemon(t, data, "127.0.0.1:0")
	l := &ledger{url: url, creds: filepath.Join(data, "users", "operator.nk")}
	r := watchHome(t, l, home, func(c *Config) {
		if *replayed > 0 {
			c.Rescan = 0 // the default
		}
	})
	type written struct {
		end int64
		at  time.Time
	}
	var mu sync.Mutex
	pending := make(map[string][]written)
	var paths []string
	var lines [][]string
	for i := range n {
		k := i % len(names)
		paths = append(paths, filepath.Join(home, homeOf(names[k], i)))
		lines = append(lines, strings.SplitAfter(strings.TrimSuffix(copied(texts[k], i), "\n"), "\n"))
	}
	var latencies []time.Duration
	began, late, lastLate := time.Now(), 0, time.Duration(0)
	look := func() (left int) {
		mu.Lock()
		defer mu.Unlock()
		for path, list := range pending {
			at := r.at(path).Offset
			for len(list) > 0 && list[0].end <= at {
				latencies = append(latencies, time.Since(list[0].at))
				if time.Since(list[0].at) > 2*time.Second {
					late, lastLate = late+1, max(lastLate, list[0].at.Sub(began))
				}
				list = list[1:]
			}
			if pending[path] = list; len(list) == 0 {
				delete(pending, path)
			}
			left += len(list)
		}
		return left
	}
	count := 0
	size64 := make([]int64, n)
	for round := 0; ; round++ {
		more := false
		for i, path := range paths {
			if round >= len(lines[i]) {
				continue
			}
			line := lines[i][round]
			if !strings.HasSuffix(line, "\n") {
				line += "\n"
			}
			more = true
			appendTo(t, path, line)
			size64[i] += int64(len(line))
			count++
			if *replayed == 0 {
				continue
			}
			mu.Lock()
			pending[path] = append(pending[path], written{size64[i], time.Now()})
			mu.Unlock()
			if count%20 == 0 {
				look()
				time.Sleep(time.Until(began.Add(time.Duration(count) * time.Second / time.Duration(*rate)))) // the writers' pace
			}
		}
		if !more {
			break
		}
	}
	for *replayed > 0 && look() > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	r.untilRead(paths...)
	if *replayed > 0 {
		slices.Sort(latencies)
		at := func(q float64) time.Duration { return latencies[int(q*float64(len(latencies)-1))] }
		t.Logf("%d transcripts, %d lines in %s: in the ledger after %s (median), %s (99 %%), %s (last)", n, count, time.Since(began).Round(time.Second), at(0.5).Round(time.Millisecond), at(0.99).Round(time.Millisecond), at(1).Round(time.Millisecond))
		if late > 0 {
			t.Errorf("%d lines were in the ledger after more than 2 s; the last of them was written after %s", late, lastLate.Round(time.Second))
		}
		for r.readings() > 0 { // until each file was compared with its hash once more
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * saveAfter)
		before := processorTime(t)
		time.Sleep(*idle)
		used := processorTime(t) - before
		t.Logf("idle for %s: %s of the processor, %.3f %% of a core", *idle, used.Round(time.Millisecond), 100*used.Seconds()/idle.Seconds())
		if used.Seconds() > 0.001*idle.Seconds() {
			t.Error("an idle watch takes more than 0.1 % of a core")
		}
	}
	r.stop()
	c, err := dialer(url, l.creds)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Conn().Close()
	checkStored(t, c, paths...)
	stored := total(r.w.state)
	if again := once(t, l, home); total(again) != stored {
		t.Errorf("a second run stored %d events", total(again)-stored)
	}
	t.Logf("%d events", stored)
}

// processorTime returns what this process has used, in its own code and the system's.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"nexus/cmd/internal/localserver"
	"nexus/cmd/nexusd/internal/faulttest"
)

var transcriptCopies = flag.Int("transcript-copies", 0, "how many copies of ../shared/data TestManyTranscripts imports, each with ids and days of its own; 40 are 1 GB")

// What a transcript calls its sessions, agents, messages, calls and responses, and when it was.
var (
	transcriptIDs  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{8,17}\b|\b(?:msg|resp|call|toolu|req|rs|fc|chatcmpl)_[A-Za-z0-9]{8,}`)
	transcriptDays = regexp.MustCompile(`\b20[0-9]{2}-[01][0-9]-[0-3][0-9]T`)
)

// TestManyTranscripts imports copies of real transcripts, dated over two years, into the ledger of an empty home, without a
// daemon; and asks, while that goes on, for a word and for the costs of a week. It prints how long each took.
//
// It can't see what real folders of that size have: sessions that are longer than those of the sample, and files that
// grow copies of each other.
func TestManyTranscripts(t *testing.T) {
	if *transcriptCopies == 0 {
		t.Skip("set -transcript-copies; docs/TESTING.md has the command and the last figures")
	}
	data, err := filepath.Abs("../../../shared/data")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(data); err != nil {
		t.Skipf("no transcripts: %v", err)
	}
	ledgerctl := faulttest.Build(t, "../ledgerctl")
	home := t.TempDir()
	files := filepath.Join(home, "transcripts")
	size := copyTranscripts(t, data, files, *transcriptCopies)
	environ := append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "NEXUS_") || strings.HasPrefix(v, "XDG_") || strings.HasPrefix(v, "HOME=")
	}), "HOME="+home)
	folder := "--data=" + filepath.Join(home, "ledger")
	run := func(args ...string) (string, error) {
		cmd := exec.Command(ledgerctl, append(args, folder)...)
		cmd.Env, cmd.Dir = environ, home
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			return out.String(), fmt.Errorf("%w: %.500s", err, errs.String())
		}
		return out.String(), nil
	}
	syscall.Sync() // else the disk writes the copies under the fsyncs of the import
	began := time.Now()
	imported := make(chan error, 1)
	var told string
	go func() {
		var err error
		told, err = run("import", "-q", files)
		imported <- err
	}()
	first := func(what string, ok func(out string) bool, args ...string) {
		for asked := 1; time.Since(began) < 10*time.Minute; asked++ {
			at := time.Now()
			out, err := run(args...)
			if err == nil && ok(out) {
				t.Logf("%6.1f s: %s, asked %d times, the last for %.1f s", time.Since(began).Seconds(), what, asked, time.Since(at).Seconds())
				return
			}
			time.Sleep(250 * time.Millisecond)
		}
		t.Errorf("%s: no answer", what)
	}
	first("ledgerctl search error has a hit", func(out string) bool { return len(strings.TrimSpace(out)) > 0 }, "search", "error", "-n", "1")
	first("ledgerctl cost --since 7d has a call", func(out string) bool { return strings.Contains(out, `"rows":[{`) }, "cost", "--since", "7d", "--json")
	err = <-imported
	took := time.Since(began)
	if err != nil {
		t.Errorf("import: %v", err)
	}
	memory := "unknown"
	if s, err := localserver.Find(filepath.Join(home, "ledger")); err == nil {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID)); err == nil {
			memory = strings.Join(strings.Fields(regexp.MustCompile(`VmHWM:.*`).FindString(string(b)))[1:], " ")
		}
	}
	t.Logf("%6.1f s: all %d MB of %d copies are imported (%.1f MB/s), %s of memory at most: %.300s",
		took.Seconds(), size>>20, *transcriptCopies, float64(size)/1e6/took.Seconds(), memory, told)
	if out, err := run("verify"); err != nil {
		t.Errorf("verify: %v: %s", err, out)
	}
}

// copyTranscripts writes n copies of the files below from, and returns their bytes. Each copy has ids of its own, and its days
// are so that the newest of copy k is k/n of two years ago.
func copyTranscripts(t *testing.T, from, to string, n int) (size int64) {
	t.Helper()
	const twoYears = 730
	err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "multi-agent-fixtures" { // made by hand: ids such as sys1, which all copies would share
			return fs.SkipDir
		}
		if err != nil || !d.Type().IsRegular() || !strings.HasSuffix(name, ".jsonl") && !strings.HasSuffix(name, ".json") {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var newest time.Time
		for _, day := range transcriptDays.FindAll(b, -1) {
			if at, err := time.Parse("2006-01-02T", string(day)); err == nil && at.After(newest) {
				newest = at
			}
		}
		place, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		for k := range n {
			age := time.Duration(k*twoYears/n) * 24 * time.Hour
			shift := time.Until(newest.Add(age)) - 24*time.Hour
			text := transcriptIDs.ReplaceAllFunc(b, func(id []byte) []byte { return anotherID(id, k) })
			text = transcriptDays.ReplaceAllFunc(text, func(day []byte) []byte {
				at, err := time.Parse("2006-01-02T", string(day))
				if err != nil {
					return day
				}
				return at.Add(shift).AppendFormat(nil, "2006-01-02T")
			})
			file := filepath.Join(to, fmt.Sprint("copy", k), transcriptIDs.ReplaceAllStringFunc(place, func(id string) string { return string(anotherID([]byte(id), k)) }))
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				return err
			}
			if err := os.WriteFile(file, text, 0o600); err != nil {
				return err
			}
			// As an agent's files are: written when their newest message was. What has no days is a day older.
			written := time.Now().Add(-age - 48*time.Hour)
			if !newest.IsZero() {
				written = newest.Add(shift)
			}
			if err := os.Chtimes(file, written, written); err != nil {
				return err
			}
			size += int64(len(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// anotherID is an id of the same form, which follows from id and k.
func anotherID(id []byte, k int) []byte {
	if len(bytes.Trim(id, "0123456789")) == 0 { // a number, or the day in the name of a model
		return id
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", k, id))
	digits := hex.EncodeToString(sum[:])
	out := bytes.Clone(id)
	from := max(0, bytes.LastIndexByte(out, '_')+1)
	if bytes.Count(out, []byte("-")) == 4 {
		from = 0
	}
	for i, j := from, 0; i < len(out) && j < len(digits); i++ {
		if out[i] != '-' {
			out[i] = digits[j]
			j++
		}
	}
	return out
}

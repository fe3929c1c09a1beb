package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// imported is an import of copies of real transcripts.
type imported struct {
	Files    int
	Bytes    int64
	Turns    int // that were stored
	Took     time.Duration
	Memory   int64   // the most that ledgerctl held, in bytes
	Server   int64   // the same of nexusd
	Fsyncs   float64 // of the log
	Verified string  // what "ledgerctl verify" said after it
}

// imports writes copies of the real transcripts with other ids until they have the bytes
// that were asked for, and imports them into an empty ledger.
func (r *run) imports(ctx context.Context, res *results) (err error) {
	if _, err := os.Stat(r.data); err != nil {
		return skipped("there are no transcripts at " + r.data + " (--data)")
	}
	bin, err := r.bin.build(ctx, ledgerctlCommand)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(r.dir, "imports-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d, err := r.startNexusd(ctx, filepath.Join(dir, "nexus"), "--listen", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	ledgerctl := func(args ...string) ([]byte, int64, error) {
		cmd := exec.CommandContext(ctx, bin, args...)
		cmd.Args = append(cmd.Args, "--server", d.url, "--creds", d.operator)
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir)
		var out bytes.Buffer
		var errs tail
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Start(); err != nil {
			return nil, 0, err
		}
		peak := watchMemory(cmd.Process.Pid)
		err := cmd.Wait()
		memory := peak()
		if err != nil {
			return nil, 0, fmt.Errorf("ledgerctl %s: %w: %s", args[0], err, &errs)
		}
		return out.Bytes(), memory, nil
	}
	r.say("import of %d MB of copies of the transcripts in %s", r.importMB, r.data)
	seeds, err := importable(r.data)
	if err != nil {
		return err
	}
	folder := filepath.Join(dir, "transcripts")
	got := imported{}
	if got.Files, got.Bytes, err = writeCopies(folder, seeds, int64(r.importMB)*1e6); err != nil {
		return err
	}
	began := time.Now()
	out, memory, err := ledgerctl("import", "--json", "--final", "--quiet", folder)
	got.Took, got.Memory = time.Since(began), memory
	if err != nil {
		return err
	}
	files := make(map[string]bool)
	for text := range strings.Lines(string(out)) {
		var line struct {
			File   string
			Turns  int
			Stored int
			Error  string
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			return err
		}
		if line.Error != "" {
			return fmt.Errorf("import of %s: %s", line.File, line.Error)
		}
		files[line.File] = true
		got.Turns += line.Stored
	}
	if len(files) != got.Files || got.Turns == 0 {
		return fmt.Errorf("%d of %d copies were imported, with %d turns", len(files), got.Files, got.Turns)
	}
	if got.Server, err = peakMemory(d.pid()); err != nil {
		return err
	}
	if got.Fsyncs, err = d.fsyncs(ctx); err != nil {
		return err
	}
	if out, _, err = ledgerctl("verify"); err != nil {
		return err
	}
	got.Verified = strings.TrimSpace(string(out))
	res.Import = &got
	return nil
}

// seed is a transcript that is copied.
type seed struct {
	name string
	text []byte
}

// importable returns the transcripts of a folder that "ledgerctl import" finds by itself, without
// forks of others, whose copies would need the copy that they are forked from.
func importable(folder string) (seeds []seed, err error) {
	for _, pattern := range []string{"*.jsonl", "claude-code-*/*.jsonl", "codex-*/*.jsonl", "pi/*.jsonl"} {
		names, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			if !bytes.Contains(b, []byte(`"forked_from_id":"`)) {
				seeds = append(seeds, seed{name, b})
			}
		}
	}
	if len(seeds) == 0 {
		return nil, fmt.Errorf("%w: no transcripts of claude-code, codex or pi in %s", fs.ErrNotExist, folder)
	}
	return seeds, nil
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// writeCopies writes whole rounds of copies into a folder, each with ids of its own, until they have
// the bytes that are asked for.
func writeCopies(folder string, seeds []seed, bytes int64) (files int, written int64, err error) {
	for n := 0; written < bytes; n++ {
		for i, s := range seeds {
			text := uuids.ReplaceAllFunc(s.text, func(id []byte) []byte {
				sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", id, n))
				return append(id[:24:24], hex.EncodeToString(sum[:6])...)
			})
			to := filepath.Join(folder, fmt.Sprint(n), filepath.Base(filepath.Dir(s.name)))
			if err := os.MkdirAll(to, 0o700); err != nil {
				return 0, 0, err
			}
			if err := os.WriteFile(filepath.Join(to, fmt.Sprintf("%d-%s", i, filepath.Base(s.name))), text, 0o600); err != nil {
				return 0, 0, err
			}
			files, written = files+1, written+int64(len(text))
			if written >= bytes {
				break
			}
		}
	}
	return files, written, nil
}

// watchMemory looks at the memory of a process until stop is called, which returns the most
// that it has held, in bytes. What the kernel says of a child that has ended counts what its
// parent held when it began.
func watchMemory(pid int) (stop func() (most int64)) {
	ended, most := make(chan struct{}), make(chan int64)
	go func() {
		var last int64
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			if n, err := peakMemory(pid); err == nil {
				last = n
			}
			select {
			case <-ended:
				most <- last
				return
			case <-tick.C:
			}
		}
	}()
	return func() int64 {
		close(ended)
		return <-most
	}
}

// peakMemory returns the most memory that a process has held, in bytes.
func peakMemory(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	var kib int64
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			_, err = fmt.Sscan(rest, &kib)
		}
	}
	if err == nil && kib == 0 {
		err = errors.New("the kernel does not say how much memory it held")
	}
	return kib << 10, err
}

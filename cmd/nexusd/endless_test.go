package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nexus/cmd/nexusd/internal/faulttest"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

var endlessTime = flag.Duration("endless", 0, "how long TestModelsThatNeverStop asks models that never stop; 0 skips it. docs/TESTING.md runs 10m")

// endlessMemory is what the test allows nexusd, in bytes: OPERATIONS, Sizing.
const endlessMemory = 2 << 30

// TestModelsThatNeverStop asks a model that streams for ever 48 times at once, again whenever
// an answer was cut off, and another that answers at once, while an agent appends over NATS.
// nexusd stays below 2 GiB (as root on Linux it is put into a control group of that size),
// each endless answer ends in a typed error, each neighbour gets its answer, and the spool
// stays below its bound.
// It can't see what a slower machine, or a model that sends one byte a second, would do.
func TestModelsThatNeverStop(t *testing.T) {
	if *endlessTime == 0 {
		t.Skip("-endless is 0")
	}
	const many, memory, spool = 48, 256 << 20, 512 << 20
	upstream := httptest.NewServer(http.HandlerFunc(answerForEver))
	defer upstream.Close()
	bin, data, config := faulttest.Build(t, "."), t.TempDir(), filepath.Join(t.TempDir(), "nexus.toml")
	row := fmt.Sprintf("[[provider]]\nname = \"p\"\nkind = \"openai-chat\"\nurl = \"%s/v1\"\nmodels = [\"endless\", \"short\"]\n", upstream.URL)
	if err := os.WriteFile(config, []byte(row), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{bin, "--config", config, "--data", data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-level", "error",
		"--responses-memory", strconv.Itoa(memory), "--spool-bytes", strconv.Itoa(spool)}
	if group := controlGroup(t, endlessMemory); group != "" {
		args = append([]string{"sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, group}, args...)
	} else {
		t.Log("no control group: the most memory is read from /proc")
	}
	d, err := faulttest.StartCommand(t.Context(), os.Stderr, exec.Command(args[0], args[1:]...))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Kill()

	end := time.Now().Add(*endlessTime)
	var cut, appends atomic.Int64
	var spooled int64
	var wg sync.WaitGroup
	for range many {
		wg.Go(func() {
			for time.Now().Before(end) && !t.Failed() {
				status, last, err := ask(t, d.HTTP, "endless")
				switch {
				case err != nil:
					t.Errorf("an endless answer: %v", err)
				case status == http.StatusTooManyRequests: // no memory is free
					time.Sleep(100 * time.Millisecond)
				case !strings.Contains(last, "memory_limit_exceeded") && !strings.Contains(last, "answer_too_large"):
					t.Errorf("an endless answer ended with status %d in %.300s", status, last)
				default:
					cut.Add(1)
				}
			}
		})
	}
	var answered []time.Duration
	wg.Go(func() {
		for time.Now().Before(end) && !t.Failed() {
			began := time.Now()
			if status, last, err := ask(t, d.HTTP, "short"); err != nil || !strings.Contains(last, "response.completed") {
				t.Errorf("a neighbour got %d %v %.300s", status, err, last)
			}
			answered = append(answered, time.Since(began))
			time.Sleep(200 * time.Millisecond)
		}
	})
	wg.Go(func() {
		nc, err := client.Dial(d.URL, d.Agent)
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		c := client.New(nc, "default", "other")
		session, err := c.Create(t.Context(), api.CreateSession{})
		if err != nil {
			t.Errorf("a session: %v", err)
			return
		}
		for ; time.Now().Before(end) && !t.Failed(); appends.Add(1) {
			if _, err := c.Append(t.Context(), session.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "a neighbour")}}); err != nil {
				t.Errorf("an append: %v", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	wg.Go(func() {
		for time.Now().Before(end) && !t.Failed() {
			spooled = max(spooled, folderBytes(t, filepath.Join(data, "spool")))
			time.Sleep(500 * time.Millisecond)
		}
	})
	wg.Wait()

	peak := statusBytes(t, d.Cmd.Process.Pid, "VmHWM")
	slices.Sort(answered)
	t.Logf("%v: %d endless answers cut off, %d appends; %d short answers, median %v, 99 %% %v; at most %d MiB of memory and %d MiB of spool",
		*endlessTime, cut.Load(), appends.Load(), len(answered), answered[len(answered)/2], answered[len(answered)*99/100], peak>>20, spooled>>20)
	if cut.Load() == 0 || appends.Load() == 0 {
		t.Error("nothing was cut off, or nothing appended")
	}
	if peak > endlessMemory {
		t.Errorf("%d bytes of memory", peak)
	}
	if spooled > spool {
		t.Errorf("%d bytes of spool, of %d", spooled, spool)
	}
}

// answerForEver is a model: endless streams pieces of 4 KiB until its client leaves.
func answerForEver(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	piece := func(delta, finish string) error {
		_, err := fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{%s},\"finish_reason\":%s}]}\n\n", delta, finish)
		return err
	}
	if !strings.Contains(string(body), `"endless"`) {
		_ = piece(`"role":"assistant","content":"hello"`, "null")
		_ = piece("", `"stop"`)
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
		return
	}
	text := strings.Repeat("endless ", 512)
	for piece(`"content":"`+text+`"`, "null") == nil {
	}
}

// ask streams a response and returns its status and its last event, or the body of an error.
func ask(t *testing.T, base, model string) (status int, last string, err error) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/responses", strings.NewReader(fmt.Sprintf(`{"model":%q,"input":"go on","stream":true}`, model)))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		b, err := io.ReadAll(a.Body)
		return a.StatusCode, string(b), err
	}
	_, err = readSSE(a.Body, func(e seenEvent) { last = e.Type + " " + e.data })
	return a.StatusCode, last, err
}

// controlGroup makes a control group that may use so much memory, and returns its folder, ""
// where that is not possible.
func controlGroup(t *testing.T, limit int64) string {
	t.Helper()
	for root, file := range map[string]string{"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"} {
		dir := filepath.Join(root, fmt.Sprintf("nexus-endless-%d", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		if os.WriteFile(filepath.Join(dir, file), []byte(strconv.FormatInt(limit, 10)), 0o644) == nil {
			return dir
		}
	}
	return ""
}

// statusBytes returns a row of a process's status that is a number of kB, in bytes.
func statusBytes(t *testing.T, pid int, row string) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatalf("nexusd is gone: %v", err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == row+":" {
			kb, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatalf("no row %s", row)
	return 0
}

// folderBytes adds up the files of a folder; one that goes meanwhile counts nothing.
func folderBytes(t *testing.T, dir string) (n int64) {
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		if info, err := e.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return n
}

package watch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/agents"
	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/transcript"
)

var everyKill = flag.Bool("kills", false, "kill the watch at each of its steps, not at some")

// The test binary is also the process that is killed: a watch, or a daemon.
func TestMain(m *testing.M) {
	switch os.Getenv("NEXUS_TEST_CHILD") {
	case "watch":
		childWatch()
	case "daemon":
		childDaemon()
	}
	flag.Parse()
	os.Exit(m.Run())
}

// childWatch runs a watch that kills its process at its NEXUS_TEST_KILL-th step.
func childWatch() {
	at, _ := strconv.ParseInt(os.Getenv("NEXUS_TEST_KILL"), 10, 64)
	var n atomic.Int64
	w, err := New(Config{
		Sources: DefaultSources(agents.Home{Dir: os.Getenv("NEXUS_TEST_HOME"), Getenv: func(string) string { return "" }}), State: os.Getenv("NEXUS_TEST_STATE"), Ledger: os.Getenv("NEXUS_TEST_URL"), Once: true, Workers: 2, saveEach: true,
		Connect: dialer(os.Getenv("NEXUS_TEST_URL"), os.Getenv("NEXUS_TEST_CREDS")),
		step: func(string) {
			if n.Add(1) == at {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		},
	})
	if err == nil {
		err = w.Run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// childDaemon runs a daemon until it is killed, and says when it serves.
func childDaemon() {
	d, err := daemon.Open(context.Background(), config.Config{Data: os.Getenv("NEXUS_TEST_DATA"), Listen: os.Getenv("NEXUS_TEST_LISTEN"), HTTP: "off"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(d.ClientURL())
	select {}
}

func dialer(url, creds string) func(context.Context) (*client.Client, error) {
	return func(context.Context) (*client.Client, error) {
		nc, err := client.Dial(url, creds, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
		if err != nil {
			return nil, err
		}
		return client.New(nc, "default", "main"), nil
	}
}

// ledger is a daemon in this process.
type ledger struct {
	url, creds string
	client     *client.Client
}

func openLedger(t *testing.T) *ledger {
	t.Helper()
	dir := t.TempDir()
	d, err := daemon.Open(t.Context(), config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off"})
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{url: d.ClientURL(), creds: filepath.Join(dir, "users", "operator.nk")}
	c, err := dialer(l.url, l.creds)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.client = c
	t.Cleanup(func() {
		c.Conn().Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = d.Close(ctx)
	})
	return l
}

// spawnDaemon starts a daemon as a process, and returns when it serves.
func spawnDaemon(t *testing.T, data, listen string) (url string, kill func()) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "NEXUS_TEST_CHILD=daemon", "NEXUS_TEST_DATA="+data, "NEXUS_TEST_LISTEN="+listen)
	out, err := c.StdoutPipe()
	c.Stderr = os.Stderr
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	dead := false
	kill = func() {
		if !dead {
			dead = true
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal("the daemon did not start:", err)
	}
	return strings.TrimSpace(line), kill
}

// running is a watch in this process.
type running struct {
	t     *testing.T
	w     *Watcher
	moved chan struct{} // takes a token after each commit
	stop  func()
}

func configOf(l *ledger, home string) Config {
	return Config{
		Sources: DefaultSources(agents.Home{Dir: home, Getenv: func(string) string { return "" }}), State: filepath.Join(home, "state"), Ledger: l.url, Rescan: 200 * time.Millisecond,
		Connect: dialer(l.url, l.creds), Log: func(string, ...any) {},
	}
}

func watchHome(t *testing.T, l *ledger, home string, change func(*Config)) *running {
	t.Helper()
	r := &running{t: t, moved: make(chan struct{}, 1)}
	cfg := configOf(l, home)
	cfg.step = func(name string) {
		select {
		case r.moved <- struct{}{}:
		default:
		}
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if r.w, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.w.Run(ctx) }()
	done := false
	r.stop = func() {
		if !done {
			done = true
			cancel()
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				t.Error("the watch ended with", err)
			}
		}
	}
	t.Cleanup(r.stop)
	return r
}

// until waits for a state of the watch.
func (r *running) until(what string, reached func() bool) {
	r.t.Helper()
	for !reached() {
		select {
		case <-r.moved:
		case <-r.t.Context().Done():
			r.t.Fatal("not reached:", what)
		}
	}
}

// at returns the state of a file.
func (r *running) at(path string) FileState {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if r.w.state == nil || r.w.state.Files[path] == nil {
		return FileState{}
	}
	return *r.w.state.Files[path]
}

// readings returns how many files are in memory.
func (r *running) readings() (n int) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	for _, f := range r.w.files {
		if r.w.isRunning(f) || f.live != nil {
			n++
		}
	}
	return n
}

func (r *running) events(what string) (n int) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if r.w.state == nil {
		return 0
	}
	for _, e := range r.w.state.Events {
		if e.What == what {
			n++
		}
	}
	return n
}

// untilRead waits until all whole lines of a file are in the ledger.
func (r *running) untilRead(paths ...string) {
	r.t.Helper()
	for _, path := range paths {
		r.until("all of "+path, func() bool { return r.isRead(path) })
	}
}

func (r *running) isRead(path string) bool {
	r.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	st := r.at(path)
	return st.Offset == int64(bytes.LastIndexByte(b, '\n')+1) && st.Size == int64(len(b)) && st.Failed == ""
}

// once brings in what is there, and returns the state.
func once(t *testing.T, l *ledger, home string) *State {
	t.Helper()
	cfg := configOf(l, home)
	cfg.Once = true
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for path, st := range w.state.Files {
		if st.Failed != "" {
			t.Errorf("%s: %s", path, st.Failed)
		}
	}
	return w.state
}

// checkStored compares the ledger with what an import of the files gives: each session has
// the turns, with their ids, and no others.
func checkStored(t *testing.T, c *client.Client, paths ...string) {
	t.Helper()
	want := make(map[turns.ID]int) // turns of sessions that are no forks
	forks := make(map[turns.ID]bool)
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		format, err := transcriptfile.Detect(b[:min(len(b), headSize)])
		if err != nil {
			t.Fatal(path, err)
		}
		n := 0 // turns
		for s, err := range format.Open(bytes.NewReader(b), transcript.Options{}).Steps() {
			if err != nil {
				t.Fatal(path, err)
			}
			switch {
			case s.Open != nil:
				_, err = c.Session(t.Context(), s.Open.ID)
			case s.Fork != nil:
				forks[s.Fork.ID] = true
				_, err = c.Session(t.Context(), s.Fork.ID)
			case s.Append != nil:
				n++
				want[s.Append.Session]++
				_, err = c.Turn(t.Context(), s.Append.Session, s.Append.ID)
			case s.Compaction != nil:
				want[s.Compaction.Session]++
				_, err = c.Turn(t.Context(), s.Compaction.Session, s.Compaction.ID)
			}
			if err != nil {
				t.Errorf("%s: step %d is not in the ledger: %v", path, n, err)
			}
		}
	}
	if len(want) == 0 {
		t.Error("the files have no turns")
	}
	for id, n := range want {
		if forks[id] {
			continue
		}
		got := 0
		for _, err := range c.Turns(t.Context(), id, api.ListTurns{}) {
			if err != nil {
				t.Fatal(err)
			}
			got++
		}
		if got != n {
			t.Errorf("session %s has %d turns, want %d", id, got, n)
		}
	}
}

// transcriptFile returns the lines of a session of some turns, and where its agent keeps it.
func transcriptFile(t *testing.T, agent string, n int, exchanges int) (path string, lines []string) {
	t.Helper()
	id := fmt.Sprintf("019d7d08-46c9-7f73-a%03d-%012d", len(agent), n)
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)+"\n") }
	at := func(i int) string {
		return time.Date(2026, 4, 11, 14, 0, i, 0, time.UTC).Format(time.RFC3339)
	}
	switch agent {
	case "claude":
		up := "null"
		for i := range exchanges {
			add(`{"type":"user","uuid":"u%d%s","parentUuid":%s,"sessionId":"%s","timestamp":"%s","message":{"role":"user","content":"question %d"}}`, i, id, up, id, at(4*i), i)
			add(`{"type":"assistant","uuid":"a%d%s","parentUuid":"u%d%s","sessionId":"%s","timestamp":"%s","message":{"id":"m%d","role":"assistant","model":"m","content":[{"type":"tool_use","id":"t%d","name":"ls","input":{"n":%d}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":9}}}`, i, id, i, id, id, at(4*i+1), i, i, i)
			add(`{"type":"user","uuid":"r%d%s","parentUuid":"a%d%s","sessionId":"%s","timestamp":"%s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":"x"}]}}`, i, id, i, id, id, at(4*i+2), i)
			add(`{"type":"assistant","uuid":"b%d%s","parentUuid":"r%d%s","sessionId":"%s","timestamp":"%s","message":{"id":"n%d","role":"assistant","model":"m","content":[{"type":"text","text":"answer %d"}],"stop_reason":"end_turn","usage":{"input_tokens":2,"output_tokens":1}}}`, i, id, i, id, id, at(4*i+3), i, i)
			up = fmt.Sprintf(`"b%d%s"`, i, id)
		}
		return filepath.Join(".claude", "projects", "-w", id+".jsonl"), lines
	case "codex":
		add(`{"timestamp":"%s","type":"session_meta","payload":{"id":"%s","timestamp":"%s"}}`, at(0), id, at(0))
		for i := range exchanges {
			add(`{"timestamp":"%s","type":"response_item","payload":{"type":"message","role":"user","content":"question %d"}}`, at(4*i), i)
			add(`{"timestamp":"%s","type":"response_item","payload":{"type":"function_call","name":"exec","arguments":"{\"n\":1}","call_id":"c%d"}}`, at(4*i+1), i)
			add(`{"timestamp":"%s","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":%d},"last_token_usage":{"input_tokens":100,"cached_input_tokens":80,"output_tokens":20}}}}`, at(4*i+1), 120*(i+1))
			add(`{"timestamp":"%s","type":"response_item","payload":{"type":"function_call_output","call_id":"c%d","output":"data"}}`, at(4*i+2), i)
			add(`{"timestamp":"%s","type":"response_item","payload":{"type":"message","role":"assistant","content":"answer %d"}}`, at(4*i+3), i)
			add(`{"timestamp":"%s","type":"event_msg","payload":{"type":"task_complete"}}`, at(4*i+3))
		}
		return filepath.Join(".codex", "sessions", "2026", "04", "11", "rollout-2026-04-11T14-00-00-"+id+".jsonl"), lines
	case "pi":
		add(`{"type":"session","version":3,"id":"%s","timestamp":"%s","cwd":"/w"}`, id, at(0))
		up := "null"
		for i := range exchanges {
			add(`{"type":"message","id":"q%d","parentId":%s,"timestamp":"%s","message":{"role":"user","content":"question %d"}}`, i, up, at(2*i), i)
			add(`{"type":"message","id":"p%d","parentId":"q%d","timestamp":"%s","message":{"role":"assistant","content":"answer %d"}}`, i, i, at(2*i+1), i)
			up = fmt.Sprintf(`"p%d"`, i)
		}
		return filepath.Join(".pi", "agent", "sessions", "--w--", id+".jsonl"), lines
	case "gemini":
		add(`{"sessionId":"%s","projectHash":"p","startTime":"%s","lastUpdated":"%s"}`, id, at(0), at(0))
		for i := range exchanges {
			add(`{"id":"q%d","timestamp":"%s","type":"user","content":"question %d"}`, i, at(3*i), i)
			add(`{"$set":{"lastUpdated":"%s"}}`, at(3*i))
			add(`{"id":"g%d","timestamp":"%s","type":"gemini","content":"answer %d"}`, i, at(3*i+1), i)
			add(`{"id":"g%d","timestamp":"%s","type":"gemini","content":"answer %d","model":"m","tokens":{"input":2,"output":1}}`, i, at(3*i+1), i)
		}
		add(`{"id":"end","timestamp":"%s","type":"info","content":"bye"}`, at(3*exchanges))
		return filepath.Join(".gemini", "tmp", "p", "chats", "session-"+id+".jsonl"), lines
	}
	t.Fatalf("transcriptFile (helpers_test.go) has no transcript of agent %q", agent)
	return "", nil
}

// write writes a file of a home, and its folders.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(f, text)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

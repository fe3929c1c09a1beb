package faulttest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"nexus/turns"
)

// readyTime is how long a process has to print its ready line. A start on busy processors takes
// some seconds; the bound only ends a start that would hang.
const readyTime = 2 * time.Minute

// programs are those that Build has built, by package. They are in a folder of their own that Main removes.
var programs struct {
	sync.Mutex
	dir   string
	paths map[string]string
}

// Main runs the tests of a package that calls Build, for its TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if programs.dir != "" {
		_ = os.RemoveAll(programs.dir)
	}
	os.Exit(code)
}

// Build builds the command of a package, once for all tests of a process, and returns the path of the program.
func Build(t testing.TB, pkg string) string {
	t.Helper()
	programs.Lock()
	defer programs.Unlock()
	if bin := programs.paths[pkg]; bin != "" {
		return bin
	}
	if programs.dir == "" {
		dir, err := os.MkdirTemp("", "faulttest")
		if err != nil {
			t.Fatal(err)
		}
		programs.dir, programs.paths = dir, make(map[string]string)
	}
	bin := filepath.Join(programs.dir, fmt.Sprint("command", len(programs.paths)))
	if out, err := exec.Command("go", "build", "-o", bin, pkg).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	programs.paths[pkg] = bin
	return bin
}

// Process is a program that runs. Its methods are not safe for concurrent use.
type Process struct {
	Cmd   *exec.Cmd
	ended bool
}

// Start starts a program. Its standard error goes to log.
func Start(log io.Writer, bin string, args ...string) (*Process, error) {
	cmd := exec.Command(bin, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &Process{Cmd: cmd}, nil
}

// Kill ends the process with SIGKILL, also one that is paused or that has ended by itself, and
// waits for its end.
func (p *Process) Kill() {
	if p.ended {
		return
	}
	p.ended = true
	_ = p.Cmd.Process.Kill() // it fails only if the process has ended
	_ = p.Cmd.Wait()         // its error says how the process ended: killed
}

// Pause stops the process with SIGSTOP: its connections stay open, and it does nothing. It
// returns when every thread has stopped: until then the process still works.
func (p *Process) Pause() error {
	if err := p.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for ; ; time.Sleep(time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Cmd.Process.Pid))
		if err != nil || len(threads) == 0 {
			return fmt.Errorf("pause process %d: it has no threads: %v", p.Cmd.Process.Pid, err)
		}
		if !slices.ContainsFunc(threads, isRunning) {
			return nil
		}
	}
}

// isRunning reports whether a thread has not stopped. stat is its file in /proc.
func isRunning(stat string) bool {
	b, err := os.ReadFile(stat)
	_, state, _ := strings.Cut(string(b), ") ") // behind the name
	return err == nil && !strings.HasPrefix(state, "T") && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// Resume lets a paused process go on.
func (p *Process) Resume() error { return p.Cmd.Process.Signal(syscall.SIGCONT) }

// Nexusd is a nexusd that has printed its ready line.
type Nexusd struct {
	Process
	URL, HTTP       string
	Operator, Agent string // files of credentials; "" on an external server
}

// StartNexusd starts nexusd and waits for its ready line. A process that ends before, or that
// takes longer than ctx, is an error.
func StartNexusd(ctx context.Context, log io.Writer, bin string, args ...string) (*Nexusd, error) {
	return StartCommand(ctx, log, exec.Command(bin, args...))
}

// StartCommand is StartNexusd of a command that is not started yet.
func StartCommand(ctx context.Context, log io.Writer, cmd *exec.Cmd) (*Nexusd, error) {
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	d := &Nexusd{Process: Process{Cmd: cmd}}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if !stop() && err == nil {
		err = ctx.Err()
	}
	var ready struct {
		Ready       bool   `json:"ready"`
		NATS        string `json:"nats_url"`
		HTTP        string `json:"http_url"`
		Data        string `json:"data"`
		Version     string `json:"version"`
		Key         string `json:"checkpoint_key"`
		Credentials struct {
			Operator string `json:"operator"`
			Agent    string `json:"agent"`
		} `json:"credentials"`
	}
	if err == nil {
		err = turns.DecodeJSON([]byte(strings.TrimSpace(line)), &ready)
	}
	if err == nil && !ready.Ready {
		err = errors.New("it is not ready")
	}
	if err != nil {
		d.Kill()
		return nil, fmt.Errorf("nexusd printed no ready line but %q: %w", line, err)
	}
	d.URL, d.HTTP, d.Operator, d.Agent = ready.NATS, ready.HTTP, ready.Credentials.Operator, ready.Credentials.Agent
	return d, nil
}

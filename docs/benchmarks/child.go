package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is a process of this program. It ends with it: the kernel kills it if this program dies.
type child struct {
	cmd *exec.Cmd
	log tail
}

// start starts a command. The end of what it writes to standard error is kept.
func start(cmd *exec.Cmd) (*child, error) {
	c := &child{cmd: cmd}
	cmd.Stderr = &c.log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid = true // an interrupt of this program's terminal is ours to handle
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// noSignal asks for nothing: the process ends by itself.
const noSignal = syscall.Signal(0)

// end asks the process to end with a signal, and waits. One that does not within a
// minute is killed, which is an error.
func (c *child) end(sig os.Signal) error {
	if err := c.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	late := time.AfterFunc(time.Minute, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	if err := c.cmd.Wait(); err != nil && sig != os.Kill {
		return fmt.Errorf("%s: %w: %s", filepath.Base(c.cmd.Path), err, &c.log)
	}
	return nil
}

// readyLine reads the first line of a process as JSON. A process that writes none within a minute is killed.
func readyLine(c *child, out io.Reader, v any) error {
	late := time.AfterFunc(time.Minute, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		err = json.Unmarshal([]byte(line), v)
	}
	if err != nil {
		return fmt.Errorf("%s did not say that it is ready: %w: %s", filepath.Base(c.cmd.Path), errors.Join(err, c.end(os.Kill)), &c.log)
	}
	return nil
}

// tail keeps the end of what is written to it. Safe for concurrent use.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b...)
	t.b = t.b[max(0, len(t.b)-4096):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}

// descendants returns a process and all that it started, and those that these did.
func descendants(pid int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := make(map[int][]int)
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state parent …"; the name may hold anything, even a ")".
		text := string(b)
		fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		id, err1 := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		parent, err2 := strconv.Atoi(fields[1])
		if err1 == nil && err2 == nil {
			children[parent] = append(children[parent], id)
		}
	}
	out := []int{pid}
	for i := 0; i < len(out); i++ {
		out = append(out, children[out[i]]...)
	}
	return out, nil
}

// binaries builds commands, each once.
type binaries struct {
	dir   string
	paths map[string]string
}

// build builds a command in Nexus's own module, with the versions that it names.
func (b *binaries) build(ctx context.Context, pkg string) (string, error) {
	return b.buildIn(ctx, ".", pkg, filepath.Base(filepath.Dir(pkg))+"-"+filepath.Base(pkg))
}

// adkFolder is the module of the peer adk, from the root of Nexus's.
const adkFolder = "docs/benchmarks/adk"

// buildADK builds the peer adk. Where its modules can't be had it is skipped; without install they have to be here.
func (b *binaries) buildADK(ctx context.Context, install bool) (string, error) {
	root, err := b.root(ctx)
	if err != nil {
		return "", err
	}
	list := exec.CommandContext(ctx, "go", "list", "-deps", ".")
	list.Dir = filepath.Join(root, adkFolder)
	if !install {
		list.Env = append(os.Environ(), "GOPROXY=off")
	}
	if out, err := list.CombinedOutput(); err != nil {
		return "", skipped(fmt.Sprintf("the modules of google/adk-go are not here: %v: %s", err, out[:min(len(out), 300)]))
	}
	return b.buildIn(ctx, adkFolder, ".", "adk")
}

// root is the folder of Nexus's module.
func (b *binaries) root(ctx context.Context) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "nexus").Output()
	if err != nil {
		return "", fmt.Errorf("where Nexus's module is (run this in its folder docs/benchmarks): %w", err)
	}
	return strings.TrimSpace(string(root)), nil
}

// buildIn builds a package in a folder of the checkout, once.
func (b *binaries) buildIn(ctx context.Context, folder, pkg, name string) (string, error) {
	if p := b.paths[name]; p != "" {
		return p, nil
	}
	p := filepath.Join(b.dir, name)
	root, err := b.root(ctx)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", p, pkg)
	cmd.Dir = filepath.Join(root, folder)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", name, err, out)
	}
	if b.paths == nil {
		b.paths = make(map[string]string)
	}
	b.paths[name] = p
	return p, nil
}

const (
	nexusdCommand     = "nexus/cmd/nexusd"
	ledgerctlCommand  = "nexus/cmd/ledgerctl"
	natsServerCommand = "github.com/nats-io/nats-server/v2"
)

// freePorts returns ports of the loopback interface that nobody listens on.
func freePorts(n int) (ports []int, err error) {
	var ls []net.Listener
	defer func() {
		for _, l := range ls {
			err = errors.Join(err, l.Close())
		}
	}()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		ls = append(ls, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"nexus/cmd/internal/localserver"
	"nexus/cmd/nexusd/internal/faulttest"
)

// A terminal that is closed stops the daemon as SIGTERM does: serving.json is removed, and the
// exit status is 0.
func TestSignalsStopTheDaemonCleanly(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			d := startProgram(t, "")
			d.send(t, signal)
			if err := d.cmd.Wait(); err != nil {
				t.Errorf("%v ended it with %v\n%s", signal, err, d.log.String())
			}
			if _, err := localserver.Find(d.data); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it left serving.json: %v", err)
			}
		})
	}
}

// With nohup the daemon outlives its terminal.
func TestSIGHUPIsIgnoredUnderNohup(t *testing.T) {
	d := startProgram(t, `trap "" HUP; `)
	d.send(t, syscall.SIGHUP)
	if ignored, known := ignoresSIGHUP(t, d.cmd.Process.Pid); known && !ignored {
		t.Error("it does not ignore SIGHUP")
	}
	if _, err := localserver.Find(d.data); err != nil {
		t.Errorf("it serves no more: %v", err)
	}
	d.send(t, syscall.SIGTERM)
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("SIGTERM ended it with %v\n%s", err, d.log.String())
	}
}

// program is nexusd as a process of its own, which serves.
type program struct {
	cmd  *exec.Cmd
	log  bytes.Buffer // complete when cmd has ended
	data string
}

// startProgram starts nexusd from a shell, behind some commands, and waits until it serves.
func startProgram(t *testing.T, before string) *program {
	t.Helper()
	d := &program{data: filepath.Join(t.TempDir(), "data")}
	d.cmd = exec.Command("sh", "-c", before+`exec "$0" "$@"`, faulttest.Build(t, "nexus/cmd/nexusd"),
		"--data", d.data, "--listen", "127.0.0.1:0", "--http", "off", "--max-store", "1000000000")
	d.cmd.Stderr = &d.log
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.cmd.Process.Kill() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("no ready line but %q: %v", line, err)
	}
	return d
}

func (d *program) send(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// ignoresSIGHUP reports whether a process ignores SIGHUP; known is false where the system has no
// /proc.
func ignoresSIGHUP(t *testing.T, pid int) (ignores, known bool) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return false, false
	}
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "SigIgn:")
	digits, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(strings.TrimSpace(digits), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return mask&(1<<(uint(syscall.SIGHUP)-1)) != 0, true
}

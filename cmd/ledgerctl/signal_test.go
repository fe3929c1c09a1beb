package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A command that is ended cleans up as at SIGINT, and its status names the signal.
func TestSignalsEndACommand(t *testing.T) {
	for signal, status := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		cmd := exec.Command("ledgerctl", "mcp", "--server", "nats://127.0.0.1:1")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`+"\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadBytes('\n'); err != nil { // it runs
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		err = cmd.Wait()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != status || !strings.Contains(said.String(), "interrupted") {
			t.Errorf("%s: %v, %q", signal, err, said.String())
		}
	}
	if s := interruptedStatus(context.Background()); s != 130 {
		t.Errorf("%d", s)
	}
}

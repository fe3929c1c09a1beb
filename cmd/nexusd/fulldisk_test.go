//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"

	"nexus/cmd/nexusd/internal/faulttest"
)

var fullDisk = flag.Bool("fulldisk", false, "run TestImportAndVerifyOnAFullDisk, which waits for the patience of the clients, some 2 minutes; it needs no root, but namespaces of users")

// TestImportAndVerifyOnAFullDisk imports more than the disk of nexusd holds, and verifies there.
// The disk is a tmpfs in a mount namespace of a user namespace. The import says how much is
// stored, the verification ends with the cause, and both with the status of what is unavailable.
func TestImportAndVerifyOnAFullDisk(t *testing.T) {
	if !*fullDisk {
		t.Skip("set -fulldisk; docs/TESTING.md has the command")
	}
	data := t.TempDir()
	inside := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	const mount = `mount -t tmpfs -o size=24m none "$1" && `
	probe := exec.Command("sh", "-c", mount+"true", "sh", data)
	probe.SysProcAttr = inside
	if out, err := probe.CombinedOutput(); err != nil {
		t.Skipf("no tmpfs in a namespace of users here: %v: %s", err, out)
	}
	nexusd, ledgerctl := faulttest.Build(t, "."), faulttest.Build(t, "../ledgerctl")
	daemon := exec.Command("sh", "-c", mount+`exec "$2" --data "$1" --listen 127.0.0.1:0 --http off`, "sh", data, nexusd)
	daemon.SysProcAttr, daemon.Stderr = inside, os.Stderr
	stdout, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var ready struct {
		URL         string            `json:"nats_url"`
		Credentials map[string]string `json:"credentials"`
	}
	if err := json.Unmarshal(line, &ready, json.RejectUnknownMembers(false)); err != nil {
		t.Fatal(err)
	}
	run := func(who string, args ...string) (status int, stdout, stderr string) {
		creds := filepath.Join(fmt.Sprintf("/proc/%d/root", daemon.Process.Pid), ready.Credentials[who])
		c := exec.Command(ledgerctl, append([]string{"--server", ready.URL, "--creds", creds}, args...)...)
		c.Env = append(os.Environ(), "HOME="+t.TempDir())
		var out, errs bytes.Buffer
		c.Stdout, c.Stderr = &out, &errs
		err := c.Run()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return c.ProcessState.ExitCode(), out.String(), errs.String()
	}
	source := t.TempDir()
	for i := range 40 {
		writeConversation(t, filepath.Join(source, fmt.Sprintf("%02d.jsonl", i)), i)
	}
	status, out, errs := run("agent", "import", source)
	const unavailable = 5
	if status != unavailable || !strings.Contains(errs, "no space left on device") || !strings.Contains(errs, "of 40 files") || !strings.Contains(errs, "are stored") {
		t.Errorf("import: status %d\n%s\n%s", status, out, errs)
	}
	status, out, errs = run("operator", "verify")
	if status != unavailable || !strings.Contains(errs, "the disk takes no writes") || strings.Contains(out+errs, "SOUND") {
		t.Errorf("verify: status %d\n%s\n%s", status, out, errs)
	}
}

// writeConversation writes a conversation of some 1 MB that compresses little.
func writeConversation(t *testing.T, name string, seed int) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var c struct {
		ID       string    `json:"id"`
		Messages []message `json:"messages"`
	}
	c.ID = fmt.Sprint("c", seed)
	for i := range 120 {
		text := make([]byte, 8000)
		for j := range text {
			text[j] = "abcdefghijklmnopqrstuvwxyz "[r.IntN(27)]
		}
		c.Messages = append(c.Messages, message{[]string{"user", "assistant"}[i%2], string(text)})
	}
	b, err := json.Marshal(c)
	if err == nil {
		err = os.WriteFile(name, append(b, '\n'), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"nexus/cmd/internal/localserver"
	"nexus/cmd/nexusd/internal/faulttest"
)

var localRounds = flag.Int("local-rounds", 8, "rounds of TestCommandsServeTheLedgerThemselves, two commands each; docs/TESTING.md runs 500")

// TestCommandsServeTheLedgerThemselves: two commands at once where no daemon runs, again and again; in most rounds one of
// them, or the process that serves them, is killed. A command that was not killed succeeds, and what it acknowledged is
// there once. Then nexusd takes over while a command works.
func TestCommandsServeTheLedgerThemselves(t *testing.T) {
	ledgerctl, nexusd := faulttest.Build(t, "../ledgerctl"), faulttest.Build(t, ".")
	home := t.TempDir()
	data := filepath.Join(home, ".local", "share", "nexus")
	environ := append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "NEXUS_") || strings.HasPrefix(v, "XDG_") || strings.HasPrefix(v, "HOME=")
	}), "HOME="+home)
	command := func(args ...string) (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.Command(ledgerctl, args...)
		cmd.Env, cmd.Dir = environ, home
		errs := new(bytes.Buffer)
		cmd.Stderr = errs
		return cmd, errs
	}
	// The default address belongs to whoever runs a daemon on this machine: --data asks the folder in any case.
	folder := "--data=" + data
	await := func(what string, is func(localserver.Serving, error) bool) {
		t.Helper()
		for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if s, err := localserver.Find(data); is(s, err) {
				return
			} else if time.Now().After(deadline) {
				t.Fatalf("%s: %+v, %v", what, s, err)
			}
		}
	}
	answers := func(s localserver.Serving, err error) bool { return err == nil && localserver.Answers(s.URL) }

	// A command that was interrupted while its child started reads nothing of what that says: the child serves who comes next.
	orphan, orphanErrs := command("serve", folder, "--idle=300ms")
	out, err := orphan.StdoutPipe()
	if err == nil {
		err = orphan.Start()
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	await("a child whose command has gone serves", answers)
	if err := orphan.Wait(); err != nil { // when it is idle
		t.Errorf("a child whose command has gone: %v: %s", err, orphanErrs)
	}

	random := rand.New(rand.NewPCG(1, 2))
	acknowledged := make(map[string]bool)
	var slowest time.Duration
	for round := range *localRounds {
		idle := []string{"--idle=0", "--idle=100ms", "--idle=60s"}[random.IntN(3)]
		kill := random.IntN(4) // 0: a command; 1, 2: the process that serves; 3: nobody
		after := time.Duration(random.IntN(400)) * time.Millisecond
		type result struct {
			text string
			err  error
			errs string
			took time.Duration
		}
		results := make(chan result, 2)
		var started sync.WaitGroup
		for n := range 2 {
			text := fmt.Sprintf("round %d of command %d", round, n)
			started.Add(1)
			go func() {
				cmd, errs := command("append", "new", "--user", text, folder, idle, "--json")
				began := time.Now()
				err := cmd.Start()
				started.Done()
				if err == nil && kill == 0 && n == 0 {
					time.Sleep(after)
					_ = cmd.Process.Kill()
				}
				if err == nil {
					err = cmd.Wait()
				}
				results <- result{text, err, errs.String(), time.Since(began)}
			}()
		}
		started.Wait()
		if kill == 1 || kill == 2 {
			time.Sleep(after)
			if s, err := localserver.Find(data); err == nil {
				_ = syscall.Kill(s.PID, syscall.SIGKILL)
			}
		}
		for range 2 {
			r := <-results
			killed := kill == 0 && strings.HasSuffix(r.text, "command 0")
			if r.err == nil {
				acknowledged[r.text] = true
			} else if !killed {
				t.Errorf("%s (%s, killed: %d after %v): %v: %s", r.text, idle, kill, after, r.err, r.errs)
			}
			slowest = max(slowest, r.took)
		}
	}
	t.Logf("%d rounds, %d acknowledged, the slowest command took %v", *localRounds, len(acknowledged), slowest)

	// nexusd takes over from the process that serves a command at work.
	busy, _ := command("mcp", folder) // it stays connected until its input ends
	if _, err := busy.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	await("a child serves", answers)
	daemon := exec.Command(nexusd, "--data", data, "--listen", "127.0.0.1:0", "--http", "off")
	daemon.Env = environ
	daemonErrs := new(bytes.Buffer)
	daemon.Stderr = daemonErrs
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	await("nexusd serves", func(s localserver.Serving, err error) bool { return err == nil && !s.Child })
	text := "after the take-over"
	cmd, errs := command("append", "new", "--user", text, folder)
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v: %s; nexusd: %s", text, err, errs, daemonErrs)
	}
	acknowledged[text] = true
	_ = busy.Process.Kill()
	_ = busy.Wait()
	_ = daemon.Process.Signal(syscall.SIGTERM)
	if err := daemon.Wait(); err != nil {
		t.Errorf("nexusd: %v: %s", err, daemonErrs)
	}
	if _, err := localserver.Find(data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nexusd left serving.json: %v", err)
	}

	cmd, errs = command("sessions", "-n", "0", "--json", folder)
	listed, err := cmd.Output()
	if err != nil {
		t.Fatalf("sessions: %v: %s", err, errs)
	}
	found := make(map[string]int)
	for line := range strings.Lines(string(listed)) {
		var s struct {
			Title string `json:"title"`
		}
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		found[s.Title]++
	}
	for text := range acknowledged {
		if found[text] != 1 {
			t.Errorf("%q is there %d times", text, found[text])
		}
	}
	cmd, errs = command("verify", folder, "--idle=0")
	if out, err := cmd.Output(); err != nil {
		t.Errorf("verify: %v\n%s%s", err, out, errs)
	}
}

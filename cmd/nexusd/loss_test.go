package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/nexusd/internal/faulttest"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/embed"
	"nexus/turns"
)

// The commands of OPERATIONS, "A session that lost an event", as they are written.
func TestALossIsHandledAsOperationsSays(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "OPERATIONS.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### A session that lost an event\n")
	section, _, _ = strings.Cut(section, "\n## ")
	commands := regexp.MustCompile("(?s)```sh norun\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(commands) != 2 {
		t.Fatalf("%d blocks of commands, want 2", len(commands))
	}

	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	for _, name := range []string{"nexusd", "ledgerctl"} {
		finish(t, exec.Command("go", "build", "-o", filepath.Join(bin, name), "../"+name))
	}
	data := filepath.Join(dir, ".local", "share", "nexus")
	session, ids := sixTurns(t, data)
	loseTurn(t, data, ids[3])

	env := append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "SESSION="+session.String(), "LAST_TURN="+ids[2].String(), "LATER_TURN="+ids[4].String(),
		"NEXUS_CREDS="+filepath.Join(data, "users", "operator.nk"), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME=")
	run := func(text, status string) string {
		cmd := exec.Command("sh", "-c", text)
		cmd.Dir, cmd.Env = dir, env
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.String(); got != status {
			t.Errorf("%s: %s, want %s\n%s", text, got, status, out)
		}
		return string(out)
	}
	if out := run(commands[0][1], "exit status 0"); !strings.Contains(out, "\nlost: NEXUS_LEDGER record ") {
		t.Errorf("the repair says:\n%s", out)
	}
	d, err := faulttest.StartNexusd(t.Context(), os.Stderr, filepath.Join(bin, "nexusd"), "--data", data, "--listen", "127.0.0.1:0", "--http", "off", "--log-level", "error")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Cmd.Process.Signal(os.Interrupt); _ = d.Cmd.Wait() })
	env = append(env, "NEXUS_URL="+d.URL, "NO_COLOR=1")
	for line := range strings.Lines(commands[1][1]) {
		switch verb := strings.Fields(line)[1]; verb {
		case "verify":
			run(line, "exit status 6")
		case "show":
			if out := run(line, "exit status 0"); !strings.Contains(out, "after loss") || !strings.Contains(out, "answer to five") {
				t.Errorf("%s:\n%s", line, out)
			}
		case "log":
			if out := run(line, "exit status 0"); !strings.Contains(out, "three") || strings.Contains(out, "five") {
				t.Errorf("%s:\n%s", line, out)
			}
		case "context":
			if out := run(line, "exit status 0"); !strings.Contains(out, "\n6 messages") {
				t.Errorf("%s:\n%s", line, out)
			}
		default:
			run(line, "exit status 0")
		}
	}
	want := fmt.Sprintf(`"lost":1,"lost_turns":[%q],"last_turn":%q`, ids[3], ids[2])
	if out := run("ledgerctl verify --report -", "exit status 6"); !strings.Contains(out, want) || !strings.Contains(out, `"ok":false,"exit":6`) {
		t.Errorf("the report has no %s:\n%s", want, out)
	}
	// A ledger with a loss is backed up and restored as it is.
	out := run("ledgerctl backup lost.backup --keys lost.keys && ledgerctl backup verify lost.backup && ledgerctl restore lost.backup --keys lost.keys --data lost", "exit status 0")
	if strings.Count(out, "1 event") < 1 || !strings.Contains(out, "restored: ") {
		t.Errorf("a backup with a loss:\n%s", out)
	}
	if out := run("ledgerctl log $SESSION", "exit status 6"); !strings.Contains(out, "hint: ledgerctl log SESSION/"+ids[2].String()) {
		t.Errorf("no hint:\n%s", out)
	}
}

// sixTurns makes a ledger with a session of six turns.
func sixTurns(t *testing.T, data string) (session turns.ID, ids []turns.ID) {
	t.Helper()
	d, err := daemon.Open(t.Context(), config.Config{Data: data, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := d.Connect()
	if err != nil {
		t.Fatal(err)
	}
	c := client.New(nc, "default", "main")
	s, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two", "three", "four", "five", "six"} {
		m := turns.TextMessage(turns.Assistant, "answer to "+text)
		a, err := c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, text)}, Response: &m})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, a.ID)
	}
	nc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), untilTheTestEnds(t))
	defer cancel()
	if err := d.Close(ctx); err != nil {
		t.Fatal(err)
	}
	return s.ID, ids
}

// loseTurn damages the record of a turn, and removes its other copy.
func loseTurn(t *testing.T, data string, turn turns.ID) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(data, "projections")); err != nil {
		t.Fatal(err)
	}
	dir := embed.StreamDir(data, jetstream.StreamName)
	for r, err := range blocks.Records(t.Context(), dir, 0) {
		if err != nil {
			t.Fatal(err)
		}
		e, err := turns.Decode(r.Payload)
		if err != nil {
			t.Fatal(err)
		}
		if e.ID != turn {
			continue
		}
		name := filepath.Join(dir, blocks.Path(r.Block))
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b[r.Offset+r.Bytes-20] ^= 1
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("no record of turn %s", turn)
}

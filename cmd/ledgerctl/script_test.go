package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nkeys"
	"github.com/rogpeppe/go-internal/testscript"

	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/ledgerctl/internal/quickstart"
	"nexus/turns"
)

func TestMain(m *testing.M) {
	if os.Getenv("TZ") == "" { // the views that tests compare
		time.Local = time.UTC
	}
	testscript.Main(m, map[string]func(){
		"nats": func() { os.Exit(natsCommand()) },
		"ledgerctl": func() {
			os.Exit(process())
		},
	})
}

// Each script runs the command against a daemon of its own.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			url, creds, stop, err := startDaemon(t, env.Getenv("WORK")+"/ledger")
			if err != nil {
				return err
			}
			env.Defer(stop)
			env.Setenv("TZ", "UTC")
			env.Setenv("NEXUS_URL", url)
			env.Setenv("SECRET2", "gh"+"p_"+strings.Repeat("Xy5wV1tS", 5))
			env.Setenv("SECRET3", "gh"+"p_"+strings.Repeat("Ab3dE7gZ", 5))
			env.Setenv("SECRET", "gh"+"p_"+strings.Repeat("Ab3dE7gH", 5)) // of no account; in parts, so that no scanner takes this file for a leak
			env.Setenv("NEXUS_CREDS", creds)
			stranger, err := nkeys.CreateUser()
			if err != nil {
				return err
			}
			seed, err := stranger.Seed()
			if err != nil {
				return err
			}
			if err := os.WriteFile(env.Getenv("WORK")+"/other.nk", seed, 0o600); err != nil { // of a user that no daemon knows
				return err
			}
			return os.WriteFile(env.Getenv("WORK")+"/shipped.jsonl", quickstart.Transcript, 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// otherledger: the commands go to another, empty ledger from here on.
			"otherledger": func(ts *testscript.TestScript, _ bool, _ []string) {
				url, creds, stop, err := startDaemon(t, ts.MkAbs("otherledger"))
				ts.Check(err)
				ts.Defer(stop)
				ts.Setenv("NEXUS_URL", url)
				ts.Setenv("NEXUS_CREDS", creds)
			},
			// daemonon DIR: the commands go to a daemon on that folder from here on.
			"daemonon": func(ts *testscript.TestScript, _ bool, args []string) {
				url, creds, stop, err := startDaemon(t, ts.MkAbs(args[0]))
				ts.Check(err)
				ts.Defer(stop)
				ts.Setenv("NEXUS_URL", url)
				ts.Setenv("NEXUS_CREDS", creds)
			},
			// status N COMMAND…: the command ends with the exit status N.
			"status": func(ts *testscript.TestScript, _ bool, args []string) {
				want := 0
				if n, err := strconv.Atoi(args[0]); err == nil {
					want = n
				}
				got, exit := 0, (*exec.ExitError)(nil)
				if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
					got = exit.ExitCode()
				} else if err != nil {
					ts.Fatalf("%v", err)
				}
				if got != want {
					ts.Fatalf("exit status %d, want %d", got, want)
				}
			},
			// samerecords A B: two exports differ at most in their first lines, which name the ledger.
			"samerecords": func(ts *testscript.TestScript, _ bool, args []string) {
				_, a, _ := strings.Cut(ts.ReadFile(args[0]), "\n")
				if _, b, _ := strings.Cut(ts.ReadFile(args[1]), "\n"); a != b || a == "" {
					ts.Fatalf("%s and %s differ", args[0], args[1])
				}
			},
			// jsonlines FILE: every line is one JSON object.
			"jsonlines": func(ts *testscript.TestScript, _ bool, args []string) {
				text := ts.ReadFile(args[0])
				if text == "" {
					ts.Fatalf("%s is empty", args[0])
				}
				for line := range splitLines(text) {
					var v map[string]turns.Raw
					if err := turns.DecodeJSON([]byte(line), &v); err != nil {
						ts.Fatalf("%s: %v", line, err)
					}
				}
			},
			// waitfor FILE: until the daemon has written it.
			"waitfor": func(ts *testscript.TestScript, _ bool, args []string) {
				for range 600 {
					if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
						return
					}
					time.Sleep(50 * time.Millisecond)
				}
				ts.Fatalf("%s was not written within 30 s", args[0])
			},
			// goeson FILE: Claude Code goes on with a transcript that we wrote.
			"goeson": func(ts *testscript.TestScript, _ bool, args []string) {
				lines := strings.Split(strings.TrimSpace(ts.ReadFile(args[0])), "\n")
				var last struct{ UUID, SessionID string }
				ts.Check(json.Unmarshal([]byte(lines[len(lines)-1]), &last, json.MatchCaseInsensitiveNames(true)))
				lines = append(lines, `{"type":"user","uuid":"more","version":"2.1.0","timestamp":"2026-11-21T12:00:00Z","parentUuid":"`+last.UUID+`","sessionId":"`+last.SessionID+`","message":{"role":"user","content":"and on"}}`)
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
			},
			// named FILE PATH: PATH takes the place of SESSION in a file.
			"named": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(ts.ReadFile(args[0]), "SESSION", args[1])), 0o600))
			},
			// tail NAME ID: the end of an id, as it is shown.
			"tail": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Setenv(args[0], args[1][18:])
			},
			// begin NAME ID: the beginning of the end of an id, as it is shown.
			"begin": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Setenv(args[0], args[1][18:22])
			},
			// field NAME=KEY: the text member KEY of the JSON on stdout.
			"field": func(ts *testscript.TestScript, _ bool, args []string) {
				var v map[string]turns.Raw
				if err := turns.DecodeJSON([]byte(ts.ReadFile("stdout")), &v); err != nil {
					ts.Fatalf("stdout: %v", err)
				}
				s, ok := v[args[1]].Text()
				if !ok {
					ts.Fatalf("no text %s", args[1])
				}
				ts.Setenv(args[0], s)
			},
		},
	})
}

// startDaemon runs a daemon on a folder until stop is called.
func startDaemon(t *testing.T, dir string) (url, creds string, stop func(), err error) {
	return startDaemonOf(t, config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", MaxStore: 1 << 30, Agent: []config.AgentRow{{Name: "owner", Main: true}}})
}

func startDaemonOf(t *testing.T, c config.Config) (url, creds string, stop func(), err error) {
	d, err := daemon.Open(context.Background(), c)
	if err != nil {
		return "", "", nil, err
	}
	return d.ClientURL(), d.Credentials().Operator, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Error(err)
		}
	}, nil
}

func splitLines(s string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for len(s) > 0 {
			i := 0
			for i < len(s) && s[i] != '\n' {
				i++
			}
			if i > 0 && !yield(s[:i]) {
				return
			}
			s = s[min(i+1, len(s)):]
		}
	}
}

package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/cmd/ledgerctl/internal/quickstart"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// firstCommands are what a stranger types first, with the exit status on an empty ledger
// and on one with a session. S is the session, T a turn of it, F a transcript, and D a
// folder of the command's own.words, a regular expression, is
// what he looks for in what is printed of a ledger with a session; "" where any words do.
var firstCommands = []struct {
	args       string
	empty, any int
	words      string
}{
	{"version", 0, 0, `ledgerctl`},
	{"--version", 0, 0, ``},
	{"help", 0, 0, `quickstart`},
	{"--help", 0, 0, `quickstart`},
	{"help search", 0, 0, `search TEXT`},
	{"help nothing", 2, 2, `nothing`},
	{"", 0, 0, ``},
	{"doctor", 0, 0, `ok`},
	{"verify", 0, 0, `verified: \d+ events`},
	{"verify --json", 0, 0, `"ok": ?true`},
	{"verify S", 4, 0, `verified`},
	{"sessions", 0, 0, `second-try|session`},
	{"sessions --json", 0, 0, ``},
	{"sessions --grep shelf", 0, 0, ``},
	{"sessions --since 2020-01-01", 0, 0, ``},
	{"sessions show S", 4, 0, ``},
	{"sessions show nope", 4, 4, `nope`},
	{"log S", 4, 0, ``},
	{"log S --json", 4, 0, `"id"`},
	{"log nope", 4, 4, `nope`},
	{"log ZZZZZZZZ", 4, 4, `ZZZZZZZZ`},
	{"log 01ARZ3NDEKTSV4RRFFQ69G5FAV", 4, 4, ``},
	{"log S@head", 4, 0, ``},
	{"tail S", 4, 0, ``},
	{"show T", 4, 0, ``},
	{"show S@1", 4, 0, ``},
	{"show S@head~3", 4, 0, ``},
	{"show S@999999", 4, 4, ``},
	{"show 7", 2, 2, `SESSION@7`},
	{"show S 1", 4, 0, ``},
	{"show S@1 1", 2, 2, `names a turn already`},
	{"show S --at 1", 4, 0, ``},
	{"show S 1 --at 2", 2, 2, `name two turns`},
	{"tree S", 4, 0, ``},
	{"graph S", 4, 0, ``},
	{"path S", 4, 0, ``},
	{"context S", 4, 0, ``},
	{"context S --at 1", 4, 0, `what the model was given|given`},
	{"context S --format anthropic", 4, 0, `"messages"`},
	{"context S --format word", 4, 2, `word`},
	{"context T", 4, 0, ``},
	{"search shelf", 0, 0, `shelf`},
	{"search nothinglikethis", 0, 0, `no|nothing`},
	{"search", 2, 2, `TEXT`},
	{"cost", 0, 0, `total|session`},
	{"cost S", 4, 0, ``},
	{"cost --by day", 0, 0, ``},
	{"cost --by week-day", 2, 2, `week-day`},
	{"diff S S", 4, 0, ``},
	{"merge-base S S", 4, 0, ``},
	{"rename S login", 4, 0, ``},
	{"shred S", 2, 2, `erase`},
	{"redact --file F --dry-run", 2, 2, `it may have 4 to 65536`},
	{"redact --file D/s.jsonl", 2, 2, `no such file`},
	{"hooks install claude-code --dry-run", 2, 2, `go run built`}, // and not that it has no hooks
	{"daemon help-me", 2, 2, `service has install`},
	{"channel log mail", 4, 4, `mail`},
	{"compact S --dry-run", 4, 0, ``},
	{"lost S", 4, 0, ``},
	{"expand T", 4, 0, ``},
	{"memory list", 0, 0, ``},
	{"events channels", 0, 0, ``},
	{"policies", 0, 0, `balanced`},
	{"policy show balanced", 0, 0, `keep_tokens`},
	{"policy show nope", 4, 4, `nope`},
	{"export S --format html -o D/page.html", 4, 0, ``},
	{"export S --format claude-code -o D/s.jsonl", 4, 0, ``},
	{"export S -o D/raw.jsonl", 4, 0, ``},
	{"import D/nothing.jsonl", 2, 2, `nothing.jsonl`},
	{"import", 2, 2, `FILE`},
	{"sesions", 2, 2, `sessions`},
	{"import F", 0, 0, `session`},
	{"import F", 0, 0, `nothing new`},
}

// What a stranger types first has the right words and the right exit status on an empty
// ledger, on an imported one, on one that agents write to meanwhile, and on a damaged one.
// "corrupt" is said of the damaged one alone.
func TestFirstCommandsOfAStranger(t *testing.T) {
	t.Run("empty", func(t *testing.T) { newFirstLedger(t).typeAll(t, nil) })
	t.Run("imported", func(t *testing.T) {
		l := newFirstLedger(t)
		l.bringIn(t)
		l.typeAll(t, nil)
	})
	t.Run("in use", func(t *testing.T) {
		l := newFirstLedger(t)
		l.bringIn(t)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer stop()
		for range 4 {
			c := l.client(t)
			wg.Go(func() {
				s, err := c.Create(ctx, api.CreateSession{})
				for n := 0; err == nil && n < 20000; n++ {
					answer := turns.TextMessage(turns.Assistant, "and that is on the shelf")
					_, err = c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "put it there")}, Response: &answer})
				}
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			})
		}
		l.typeAll(t, nil)
	})
	t.Run("damaged", func(t *testing.T) {
		l := newFirstLedger(t)
		l.bringIn(t)
		l.damage(t)
		l.stopsAppends(t)
		l.typeAll(t, map[string]int{"verify": 6, "verify --json": 6, "rename S login": 6}) // S itself has no damage
	})
}

// firstLedger is a daemon and a home of a stranger.
type firstLedger struct {
	data, url, creds string
	session, turn    string
	file             string
}

func newFirstLedger(t *testing.T) *firstLedger {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "")
	l := &firstLedger{data: filepath.Join(t.TempDir(), "ledger"), session: noSession, turn: noTurn, file: filepath.Join(t.TempDir(), "session.jsonl")}
	if err := os.WriteFile(l.file, quickstart.Transcript, 0o600); err != nil {
		t.Fatal(err)
	}
	url, creds, stop, err := startDaemon(t, l.data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	l.url, l.creds = url, creds
	return l
}

func (l *firstLedger) client(t *testing.T) *client.Client {
	t.Helper()
	option, err := nats.NkeyOptionFromSeed(l.creds)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(l.url, option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return client.New(nc, "default", "main")
}

// bringIn imports a transcript.
func (l *firstLedger) bringIn(t *testing.T) {
	t.Helper()
	if status, out := l.run(t, "import", l.file); status != 0 {
		t.Fatal(out)
	}
	c := l.client(t)
	for s, err := range c.Sessions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Head != nil && (l.isEmpty() || s.ForkedFrom == nil) {
			l.session, l.turn = s.ID.String(), s.Head.String()
		}
	}
	if l.isEmpty() {
		t.Fatal("nothing was imported")
	}
}

// isEmpty reports whether the ledger has no session.
func (l *firstLedger) isEmpty() bool { return l.session == noSession }

// noSession and noTurn are ids that no ledger has.
const noSession, noTurn = "01ARZ3NDEKTSV4RRFFQ69G5FAX", "01ARZ3NDEKTSV4RRFFQ69G5FAY"

// damage changes bytes in the middle of the log's file, under the running daemon.
func (l *firstLedger) damage(t *testing.T) {
	t.Helper()
	damaged := 0
	err := filepath.WalkDir(l.data, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "1.blk" || !strings.Contains(name, "NEXUS_LEDGER") {
			return err
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		st, err := f.Stat()
		if err == nil && st.Size() > 0 {
			damaged++
			_, err = f.WriteAt(bytes.Repeat([]byte{0x5a}, 16), st.Size()/2)
		}
		if closed := f.Close(); err == nil {
			err = closed
		}
		return err
	})
	if err != nil || damaged == 0 {
		t.Fatalf("%d files damaged: %v", damaged, err)
	}
}

// stopsAppends verifies until the daemon has read its files through and refuses appends: that goes on behind a verification.
func (l *firstLedger) stopsAppends(t *testing.T) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if status, _ := l.run(t, "verify"); status != 6 {
			t.Fatalf("verify of a damaged ledger ends with status %d", status)
		}
		switch status, out := l.run(t, "rename", l.session, "login"); {
		case status == 6:
			return
		case status != 0 || time.Now().After(until):
			t.Fatalf("rename in a damaged ledger ends with status %d:\n%s", status, out)
		}
	}
}

func (l *firstLedger) run(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	status := run(t.Context(), append([]string{"--server", l.url, "--creds", l.creds}, args...), strings.NewReader(""), &out, &out)
	return status, out.String()
}

// typeAll types all commands in their order. other has the statuses that are not those of
// the table.
func (l *firstLedger) typeAll(t *testing.T, other map[string]int) {
	empty := l.isEmpty()
	never := regexp.MustCompile(`panic:|goroutine \d|%!|<nil>|nats: |context deadline`)
	corrupt := regexp.MustCompile(`corrupt|CORRUPT|NOT SOUND|damaged`)
	dir := t.TempDir()
	for _, c := range firstCommands {
		var args []string
		for _, a := range strings.Fields(c.args) {
			switch {
			case a == "S" || strings.HasPrefix(a, "S@"):
				a = l.session + a[1:]
			case a == "T":
				a = l.turn
			case a == "F":
				a = l.file
			case strings.HasPrefix(a, "D/"):
				a = dir + a[1:]
			}
			args = append(args, a)
		}
		want := c.any
		if empty {
			want = c.empty
		}
		if n, ok := other[c.args]; ok {
			want = n
		}
		status, out := l.run(t, args...)
		if status != want {
			t.Errorf("ledgerctl %s ends with status %d, want %d:\n%s", c.args, status, want, out)
		}
		if s := never.FindString(out); s != "" {
			t.Errorf("ledgerctl %s says %q:\n%s", c.args, s, out)
		}
		if s := corrupt.FindString(out); s != "" && other == nil && !helps(args) {
			t.Errorf("ledgerctl %s says %q of a sound ledger:\n%s", c.args, s, out)
		}
		if status != 0 && !strings.Contains(out, "ledgerctl: ") && !strings.Contains(out, `"error"`) {
			t.Errorf("ledgerctl %s ends with status %d and no error:\n%s", c.args, status, out)
		}
		if !empty && status == c.any && c.words != "" && !regexp.MustCompile(c.words).MatchString(out) {
			t.Errorf("ledgerctl %s does not say %q:\n%s", c.args, c.words, out)
		}
	}
}

// helps reports whether a command prints the page of all verbs, which names exit statuses.
func helps(args []string) bool {
	return len(args) == 0 || strings.TrimLeft(args[0], "-") == "help"
}

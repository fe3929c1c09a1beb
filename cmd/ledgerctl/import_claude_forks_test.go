package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nexus/cmd/internal/cost"
	"nexus/cmd/internal/transcripts"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
)

var everyOrder = flag.Bool("every-order", false, "TestClaudeCodeForksInAnyOrder imports its files in all 720 orders, not in 14")

// The sessions of claudeForks.
const (
	forkedSession = "a61f138c-d78e-4a15-a8d2-16e14727e258"
	endFork       = "b7a61de1-7e35-4021-bd7b-0f2823809de5"
	middleFork    = "c8a61de1-7e35-4021-bd7b-0f2823809de6"
	secondFork    = "d9a61de1-7e35-4021-bd7b-0f2823809de7"
	earlyFork     = "eaa61de1-7e35-4021-bd7b-0f2823809de8"
	forkedAgent   = "a1111111"
)

// claudeForks writes a session of Claude Code, a fork at its end, one in the middle, two forks of the first fork (one where it has only copied lines), and the file of a sub-agent. It
// returns the files by what they are.
func claudeForks(t *testing.T, dir string) map[string]string {
	t.Helper()
	row := func(session, n, parent, text string, second int, from string) string {
		uuid := func(n string) string {
			return fmt.Sprintf("00000000-0000-4000-8000-%s", strings.Repeat("0", 12-len(n))+n)
		}
		up, rest := "null", ""
		if parent != "" {
			up = fmt.Sprintf("%q", uuid(parent))
		}
		if from != "" {
			rest = fmt.Sprintf(`,"forkedFrom":{"sessionId":%q,"messageUuid":%q}`, from, uuid(n))
		}
		content, typ := fmt.Sprintf(`{"role":"user","content":%q}`, text), "user"
		if len(n)%2 == 0 { // answers have ids of two digits
			typ = "assistant"
			content = fmt.Sprintf(`{"id":"msg_%s","role":"assistant","model":"claude-haiku-4-5","stop_reason":"end_turn","content":[{"type":"text","text":%q}],"usage":{"input_tokens":10,"output_tokens":1}}`, n, text)
		}
		return fmt.Sprintf(`{"parentUuid":%s,"isSidechain":false,"cwd":"/w","sessionId":%q,"version":"2.1.250","type":%q,"uuid":%q,"timestamp":"2026-03-01T10:00:%02d.000Z","message":%s%s}`+"\n",
			up, session, typ, uuid(n), second, content, rest)
	}
	first := func(session, from string) string {
		return row(session, "1", "", "one", 1, from) + row(session, "11", "1", "first", 2, from)
	}
	last := func(session, from string) string {
		return row(session, "3", "11", "other", 5, from) + row(session, "13", "3", "third", 6, from)
	}
	own := func(session, from string) string {
		return row(session, "4", "13", "fork", 11, from) + row(session, "14", "4", "fourth", 12, from)
	}
	agent := strings.ReplaceAll(row(forkedSession, "7", "", "look", 3, "")+row(forkedSession, "17", "7", "seen", 4, ""), `"isSidechain":false`, `"isSidechain":true,"agentId":"`+forkedAgent+`"`)
	names := map[string]string{
		"session": first(forkedSession, "") + last(forkedSession, ""),
		"grown":   first(forkedSession, "") + last(forkedSession, "") + row(forkedSession, "8", "13", "on", 41, "") + row(forkedSession, "18", "8", "eighth", 42, ""),
		"end":     first(endFork, forkedSession) + last(endFork, forkedSession) + own(endFork, ""),
		"middle":  first(middleFork, forkedSession) + row(middleFork, "5", "11", "mid", 21, "") + row(middleFork, "15", "5", "fifth", 22, ""),
		"second":  first(secondFork, endFork) + last(secondFork, endFork) + own(secondFork, endFork) + row(secondFork, "6", "14", "sec", 31, "") + row(secondFork, "16", "6", "sixth", 32, ""),
		"early":   first(earlyFork, endFork) + row(earlyFork, "9", "11", "early", 51, "") + row(earlyFork, "19", "9", "ninth", 52, ""),
		"agent":   agent,
	}
	for what, text := range names {
		names[what] = filepath.Join(dir, what+".jsonl")
		if err := os.WriteFile(names[what], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// Forks of Claude Code's sessions and what they are forked from are stored once, each call
// where it was made, whichever of them is read first, and so are sub-agents.
func TestClaudeCodeForksInAnyOrder(t *testing.T) {
	orders := [][]string{{"agent"}}
	for _, what := range []string{"grown", "end", "middle", "second", "early"} {
		var longer [][]string
		for _, order := range orders {
			for at := range len(order) + 1 {
				longer = append(longer, slices.Insert(slices.Clone(order), at, what))
			}
		}
		orders = longer
	}
	if !*everyOrder {
		rand.Shuffle(len(orders), func(i, j int) { orders[i], orders[j] = orders[j], orders[i] })
		orders = append(orders[:12], []string{"second", "end", "grown", "middle", "agent", "early"}, []string{"early", "end", "grown", "second", "agent", "middle"})
	}
	for _, order := range orders {
		for _, oneByOne := range []bool{false, true} {
			t.Run(fmt.Sprint(strings.Join(order, " "), " ", oneByOne), func(t *testing.T) {
				ctx := t.Context()
				e := newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard})
				c, stop, err := local.Start(ctx, e.Terminal, t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				defer stop()
				names := claudeForks(t, t.TempDir())
				var files []transcriptfile.File
				for _, what := range order {
					files = append(files, transcriptfile.File{Name: names[what]})
				}
				imports := [][]transcriptfile.File{files, files}
				if oneByOne {
					imports = nil
					for i := range files {
						imports = append(imports, files[i:i+1])
					}
					imports = append(imports, files)
				}
				for _, fs := range imports {
					im := transcripts.Importer{Client: c, Format: "auto", Final: true}
					for i, o := range im.Files(ctx, fs) {
						if o.Err != nil {
							t.Fatalf("%s: %v", fs[i].Name, o.Err)
						}
					}
				}
				stored := make(map[string]int) // by text: how many turns of their own sessions have it
				var paths []string
				for s, err := range c.Sessions(ctx) {
					if err != nil {
						t.Fatal(err)
					}
					path := ""
					for x, err := range c.Turns(ctx, s.ID, api.ListTurns{Full: true}) {
						if err != nil {
							t.Fatal(err)
						}
						text := x.Messages[0].Parts[0].Content
						if path += " " + text; x.Session == s.ID {
							stored[text]++
						}
					}
					paths = append(paths, strings.TrimSpace(path))
				}
				slices.Sort(paths)
				for text, n := range stored {
					if n != 1 && !oneByOne || n > 2 { // one by one, a copy that ends too early can bring a turn twice: decision 83
						t.Errorf("the turn %q stands %d times", text, n)
					}
				}
				for _, want := range []string{"look", "one mid", "one other fork sec", "one other fork", "one other on", "one early"} {
					if !slices.Contains(paths, want) {
						t.Errorf("no session has the path %q; there are %q", want, paths)
					}
				}
				n := 0
				_, calls := cost.Read(ctx, c, cost.Scope{})
				for _, err := range calls {
					if err != nil {
						t.Fatal(err)
					}
					n++
				}
				if n != 8 {
					t.Errorf("%d calls, want 8", n)
				}
			})
		}
	}
}

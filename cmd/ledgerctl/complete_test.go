package main

import (
	"bytes"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nexus/cmd/internal/agents"
	"nexus/cmd/internal/cost"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/cmd/ledgerctl/internal/completion"
	"nexus/cmd/ledgerctl/internal/export"
	"nexus/cmd/ledgerctl/internal/terminal"
)

// Each upper-case word of a Use line, and of the value of a flag, has a row that says how it is
// completed; a flag that takes a value has a word; each row is used.
func TestEveryArgumentHasAType(t *testing.T) {
	used := make(map[string]bool)
	check := func(where, types string) {
		for word := range strings.SplitSeq(strings.TrimSuffix(types, ",…"), "|") {
			_, ok := completion.Types[word]
			if used[word] = true; !ok && word != strings.ToLower(word) || word == "" {
				t.Errorf("%s: Types has no row %q", where, word)
			}
		}
	}
	root := commands(newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard}))
	completion.Each(root, func(c *cobra.Command) {
		_, use, _ := strings.Cut(c.Use, " ")
		for _, word := range regexp.MustCompile(`[A-Z][A-Z=|]*[A-Z]`).FindAllString(use, -1) {
			check(c.Use, word)
		}
		for n := range 3 {
			if types := completion.Argument(c, n); types != "" {
				check(c.CommandPath(), types)
			}
		}
		for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) {
				if f.NoOptDefVal == "" && !f.Hidden {
					check(c.CommandPath()+" --"+f.Name, completion.FlagValue(c, f.Name))
				}
			})
		}
	})
	for word := range completion.Types {
		if !used[word] {
			t.Errorf("Types has a row %s, which nothing takes", word)
		}
	}
}

func TestArgumentOfAUseLine(t *testing.T) {
	for _, tc := range []struct {
		use, args string
		want      []string
	}{
		{"version", "", []string{"", ""}},
		{"a [SESSION|TURN…]", "", []string{"SESSION|TURN", "SESSION|TURN"}},
		{"a SESSION TURN", "", []string{"SESSION", "TURN", ""}},
		{"a SESSION -- COMMAND…", "", []string{"SESSION", "COMMAND", "COMMAND"}},
		{"a FILE --data DIR", "", []string{"FILE", ""}},
		{"a SESSION | --all DIR", "", []string{"SESSION", ""}},
		{"a SESSION | --all DIR", "--all", []string{"DIR", ""}},
	} {
		c := &cobra.Command{Use: tc.use}
		c.Flags().Bool("all", false, "")
		if err := c.ParseFlags(strings.Fields(tc.args)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for n := range tc.want {
			got = append(got, completion.Argument(c, n))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s %s: %q, want %q", tc.use, tc.args, got, tc.want)
		}
	}
}

// The values that a help page lists are those that the program takes.
func TestListedValuesAreThoseOfTheProgram(t *testing.T) {
	root := commands(newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard}))
	for _, k := range cost.Keys() {
		if !strings.Contains(manual["cost"], string(k)) {
			t.Errorf("the page of cost does not name %s", k)
		}
	}
	for _, tc := range []struct {
		verb, flag string
		want       []string
	}{
		{"context", "format", export.ContextForms},
		{"import", "format", strings.Split(transcriptfile.FormatNames(), ", ")},
		{"continue", "in", agents.Resuming()},
	} {
		c, _, err := root.Find([]string{tc.verb})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Split(strings.TrimSuffix(completion.FlagValue(c, tc.flag), ",…"), "|"); !slices.Equal(got, tc.want) {
			t.Errorf("%s --%s takes %q, and its page lists %q", tc.verb, tc.flag, tc.want, got)
		}
	}
}

// completed returns what a shell is offered for the last of some words, and the directive.
func completed(t *testing.T, words ...string) (offered []string, directive string) {
	t.Helper()
	var out, errw bytes.Buffer
	if code := run(t.Context(), append([]string{"__complete"}, words...), strings.NewReader(""), &out, &errw); code != 0 {
		t.Fatalf("__complete %q ends with %d: %s", words, code, errw.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	last := len(lines) - 1
	return lines[:last], lines[last]
}

// Each row of Types offers what a ledger has, or leaves the word to the user or the shell.
func TestEachTypeCompletes(t *testing.T) {
	url, creds, stop, err := startDaemon(t, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	t.Setenv("NEXUS_URL", url)
	t.Setenv("NEXUS_CREDS", creds)
	do := func(stdin string, args ...string) string {
		t.Helper()
		var out, errw bytes.Buffer
		if code := run(t.Context(), args, strings.NewReader(stdin), &out, &errw); code != 0 {
			t.Fatalf("ledgerctl %q ends with %d: %s", args, code, errw.String())
		}
		return strings.TrimSpace(out.String())
	}
	const words = " about it, with some more words so that a summary is shorter than the turns that it covers, which a compaction asks for"
	do("", "session", "new", "--label", "play", "--model", "model-7", "--agent", "ci")
	for _, text := range []string{"one", "two", "three"} {
		do("", "append", "play", "--agent", "ci", "--user", text+strings.Repeat(words, 3), "--assistant", "yes"+strings.Repeat(words, 3))
	}
	do("", "compact", "play", "--agent", "ci", "--policy", `balanced{"keep_tokens":50}`)
	do(`{"type":"user","uuid":"u1","version":"2.1.0","cwd":"/srv/shop","gitBranch":"topic","timestamp":"2026-11-21T12:00:00Z","sessionId":"s1","message":{"role":"user","content":"hello"}}
{"type":"assistant","uuid":"a1","version":"2.1.0","cwd":"/srv/shop","gitBranch":"topic","timestamp":"2026-11-21T12:00:01Z","parentUuid":"u1","sessionId":"s1","message":{"id":"m1","role":"assistant","model":"m","stop_reason":"end_turn","content":[{"type":"text","text":"hi"}],"usage":{"input_tokens":3,"output_tokens":2}}}
`, "import", "--final", "-")
	do("", "event", "append", "mail", "--kind", "mail.received", "--body", `{"text":"Lunch?"}`)
	memory, _, _ := strings.Cut(do("", "memory", "save", "The project uses pnpm.", "--session", "play", "--json"), ",")
	memory = strings.Trim(strings.TrimPrefix(memory, `{"id":`), `"`)
	do(do("", "policy", "show", "balanced", "--json"), "policy", "put", "-", "--name", "ours")

	const none, files, folders, noSpace = ":4", ":0", ":16", ":6"
	tested := make(map[string]bool)
	for _, tc := range []struct {
		typed, words string // the last one is completed
		want         []string
		without      string // no value begins so
		directive    string
	}{
		{"SESSION", "export pl", []string{"play\tone"}, "", none},
		{"SESSION", "log pl", []string{"play\tone"}, "play@", none},
		{"SESSION", "compare pl", []string{"play\tone"}, "", files},
		{"SESSION", "search x --session ", []string{"play\tone"}, "", none},
		{"SESSION", "session show play ", nil, "", none},
		{"SESSION", "append n", []string{"new"}, "", none},
		{"DIR", "export --all ", nil, "play", folders},
		{"DIR", "search --cwd ", nil, "", folders},
		{"TURN", "show pl", []string{"play@\tone"}, "", noSpace},
		{"TURN", "show play@", []string{"play@head\t", "play@1\t“one"}, "", none},
		{"TURN", "diff play play@", []string{"play@1\t“one"}, "", none},
		{"TURN", "rewind play ", []string{"t1\t“one"}, "play", none},
		{"TURN", "tail play --after ", []string{"t1\t“one"}, "play", none},
		{"TURN", "memory save text --session play --source ", []string{"t1\t“one"}, "", none},
		{"TURN", "memory save text --source pl", []string{"play@\t"}, "", noSpace},
		{"COMPACTION", "lost play@", []string{"play@4\t"}, "play@1", none},
		{"COMPACTION", "expand play@", []string{"play@4\t", "play@1\t"}, "", none},
		{"AGENT", "log --agent ", []string{"ci", "main"}, "play", none},
		{"AGENT", "hook install --ledger-agent c", []string{"ci"}, "main", none},
		{"MODEL", "search --model model", []string{"model-7"}, "", none},
		{"BRANCH", "sessions --branch ", []string{"topic"}, "", none},
		{"SOURCE", "search --source ", []string{"claude-code"}, "", none},
		{"PROJECT", "sessions --project ", []string{"/"}, "", none},
		{"GROUP", "cost --by day,we", []string{"day,week"}, "", none},
		{"CHANNEL", "event list ", []string{"mail\t1 event"}, "play", none},
		{"EVENT", "event get mail ", []string{"0\tmail.received"}, "", none},
		{"EVENT", "event tail mail --after ", []string{"0\tmail.received"}, "", none},
		{"KIND", "event list mail --kind ", []string{"mail.received"}, "", none},
		{"MEMORY", "memory withdraw ", []string{memory + "\tThe project uses pnpm."}, "", none},
		{"MEMORY", "memory save text --supersedes " + strings.ToLower(memory[:8]), []string{memory}, "", none},
		{"POLICY", "policy show ", []string{"balanced\tthe default", "ours\tput by agent main"}, "play", none},
		{"POLICY", "fork play --policy ou", []string{"ours\t"}, "balanced", none},
		{"BUILTIN", "compare --policy ", []string{"balanced\tthe default"}, "ours", none},
		{"BUILTIN", "compare --policy balanced,wo", []string{"balanced,wolffish\t"}, "", none},
		{"VERB", "help ses", []string{"sessions\t"}, "", none},
		{"VERB", "help session sh", []string{"show\t"}, "", none},
		{"FORMAT", "export play --format html", []string{"html"}, "", none},
		{"FILE", "import ", nil, "", files},
		{"FILE", "log --creds ", nil, "", files},
		{"FILE", "backup verify ", nil, "", files},
		{"COMMAND", "bisect play -- ", nil, "", files},
		{"AGENT=DIR", "watch --from ", nil, "", files},
		{"NAME", "nats-context ", nil, "balanced", none},
		{"TEXT", "search ", nil, "", none},
		{"DIGEST", "policy show sha256:", nil, "", none},
		{"turn|memory|event", "search --kind turn,m", []string{"turn,memory"}, "", none},
		{"main|all|branch", "memory promote --visibility ", []string{"main", "all", "branch"}, "", none},
		{"nexusd|watch", "service install ", []string{"nexusd", "watch"}, "", none},
		{"claude|codex|pi", "hook install c", []string{"claude", "codex"}, "ci", none},
	} {
		args := strings.Split(tc.words, " ")
		got, directive := completed(t, args...)
		for _, w := range tc.want {
			if !slices.ContainsFunc(got, func(v string) bool { return strings.HasPrefix(v, w) }) {
				t.Errorf("%s: %q: %q is not offered, but %q", tc.typed, args, w, got)
			}
		}
		if len(tc.want) == 0 && len(got) > 0 || tc.without != "" && slices.ContainsFunc(got, func(v string) bool { return strings.HasPrefix(v, tc.without) }) {
			t.Errorf("%s: %q: %q are offered", tc.typed, args, got)
		}
		if directive != tc.directive {
			t.Errorf("%s: %q: the directive is %s, want %s", tc.typed, args, directive, tc.directive)
		}
		tested[tc.typed] = true
	}
	for word, values := range completion.Types {
		if values != nil && !tested[word] {
			t.Errorf("no test completes %s", word)
		}
	}
	do("", "session", "close", "play", "--agent", "ci")
	if got, _ := completed(t, "log", "pl"); len(got) > 0 {
		t.Errorf("a closed session is offered: %q", got)
	}
}

// A word that only the user knows is not completed with files.
func TestWordsOfTheUserAreNotCompleted(t *testing.T) {
	root := commands(newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard}))
	completion.Each(root, func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if values, ok := completion.Types[completion.FlagValue(c, f.Name)]; !ok || values != nil || f.NoOptDefVal != "" {
				return
			}
			args := append(strings.Fields(c.CommandPath())[1:], "--"+f.Name, "")
			if got, directive := completed(t, args...); len(got) > 0 || directive != ":4" {
				t.Errorf("%q: %q, %s", args, got, directive)
			}
		})
	})
}

// A server that is not there, or does not answer, delays no shell.
func TestCompletionWithoutAServerIsShort(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, server := range []string{"nats://127.0.0.1:1", "nats://" + silent.Addr().String()} {
		t.Setenv("NEXUS_URL", server)
		for _, words := range [][]string{{"log", ""}, {"expand", "x@"}, {"log", "--agent", ""}, {"policy", "show", "bal"}} {
			var got []string
			took := 2*completion.Patience + 1
			for try := 0; try < 3 && took > 2*completion.Patience; try++ { // the machine may pause, but not each time
				began := time.Now()
				got, _ = completed(t, words...)
				took = time.Since(began)
			}
			if took > 2*completion.Patience {
				t.Errorf("%s: %q takes %v", server, words, took)
			}
			if words[0] == "policy" && !slices.Contains(got, "balanced\t"+"the default: a long extract, a short tail, in the background") {
				t.Errorf("%s: %q offers %q", server, words, got)
			}
		}
	}
}

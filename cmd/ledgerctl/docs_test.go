package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/transcripts/sessionmeta"
	"nexus/cmd/ledgerctl/internal/quickstart"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

// Every command of README.md and docs/**/*.md runs as it is written.
//
// A fenced block holds commands, a line each, unless its language is one that no
// shell runs (text, json, toml, python, go, js). A block "sh norun" is not run: what needs another
// program, a model or a package registry. Of "go test" only the names are checked:
// packages, tests and flags; the tests run elsewhere, some of them for hours.
//
// Each file has a fresh folder, a home with one transcript of Claude Code, and a
// daemon; nexusd itself runs where the file starts it. "go build" and "go run" work
// in the repository and write to the folder. SESSION and TURN stand for the session
// with the most turns, which is one that the page imported if it did, and its head;
// MEMORY for the newest memory, EVENT for the newest event of the channel mail, IMPORT for
// the import that opened that session.
// "nats" is a stand-in that knows "req".
func TestCommandsOfTheDocumentation(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	files := []string{filepath.Join(root, "README.md")}
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(name) == ".md" {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		commands, err := commandsOf(string(b))
		name, _ := filepath.Rel(root, file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(commands) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			startsOne := slices.ContainsFunc(commands, func(c command) bool { return strings.HasPrefix(filepath.Base(strings.Fields(c.text)[0]), "nexusd") })
			d := newDocs(t, root, startsOne)
			for _, c := range commands {
				begun := time.Now()
				if err := d.run(c.text); err != nil {
					t.Fatalf("%s:%d: %s: %v", name, c.line, c.text, err)
				}
				d.outputs = append(d.outputs, printed{c.line, d.last})
				d.last = ""
				t.Logf("%s: %v", c.text, time.Since(begun).Round(time.Millisecond))
				ran++
			}
			if filepath.Base(name) == "TUTORIAL.md" {
				for _, fault := range unprinted(string(b), d.outputs) {
					t.Errorf("%s:%s", name, fault)
				}
			}
		})
	}
	if ran == 0 {
		t.Error("no file has a command")
	}
}

// printed is what the command of a line printed.
type printed struct {
	line int
	text string
}

// unprinted returns the lines of the text blocks of a page that the commands between a block
// and the one before it did not print. "…" stands for any characters, and spaces for any number
// of them. A block that no command printed anything for is a fault, too.
func unprinted(page string, outputs []printed) (faults []string) {
	spaces := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	var block bool
	n, seen := 0, 0
	var lines []string
	for line := range strings.Lines(page) {
		n++
		switch text := strings.TrimSpace(line); {
		case text == "```text":
			block = true
			lines = nil
			for ; seen < len(outputs) && outputs[seen].line < n; seen++ {
				for l := range strings.Lines(outputs[seen].text) {
					lines = append(lines, spaces(l))
				}
			}
		case strings.HasPrefix(text, "```"):
			block = false
		case block:
			is := regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(spaces(text)), "…", ".*") + "$")
			if !slices.ContainsFunc(lines, is.MatchString) {
				faults = append(faults, fmt.Sprintf("%d: no command before it prints %s", n, text))
			}
		}
	}
	return faults
}

func TestALineThatNobodyPrintedIsFound(t *testing.T) {
	page := "```sh\nx\n```\n```text\na  b\nc … e\nz\n```\n```sh\ny\n```\n```text\na b\n```\n"
	got := unprinted(page, []printed{{2, "a b\nc d e\n"}, {10, "nothing\n"}})
	want := []string{"7: no command before it prints z", "13: no command before it prints a b"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCommandsOfADocument(t *testing.T) {
	got, err := commandsOf("a\n```\none\n\n# no command\ntwo \\\n  three\n```\n```json\n{}\n```\n```sh norun\nfour\n```\n```sh\nfive\n```\n")
	want := []command{{3, "one"}, {6, "two   three"}, {16, "five"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if _, err := commandsOf("```ruby\nx\n```\n"); err == nil {
		t.Error("a language that nobody knows is neither run nor refused")
	}
}

func TestAGoTestCommandNamesWhatIsThere(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	d := &docs{t: t, root: root}
	for _, tc := range []struct {
		command string
		ok      bool
	}{
		{"./fork -run TestAt -v", true},
		{"./fork -run 'TestAt|SummaryIsReused'", true},
		{"./fork -run '^$'", true},
		{"./fork -run 'TestAt|NoSuch'", false},
		{"./fork -run Nothing", true},
		{"./fork -run TestNothing", false},
		{"./fork -bench Nothing", false},
		{"./fork -no-such-flag 1", false},
		{"-run TestAt", false},
		{"./no/such/package", false},
	} {
		if err := d.checkTest(strings.Fields(tc.command)); (err == nil) != tc.ok {
			t.Errorf("go test %s: %v", tc.command, err)
		}
	}
}

// command is one line of a fenced block, with its line number.
type command struct {
	line int
	text string
}

func commandsOf(text string) (out []command, err error) {
	fence, runs, goesOn := false, false, false
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		if info, ok := strings.CutPrefix(strings.TrimSpace(line), "```"); ok {
			fence, goesOn = !fence, false
			if fence {
				switch info {
				case "", "sh", "bash", "console":
					runs = true
				case "text", "json", "toml", "python", "go", "js", "sh norun":
					runs = false
				default:
					return out, fmt.Errorf("line %d: a block of %q: say sh, sh norun, text, json, toml, python, go or js", n, info)
				}
			}
			continue
		}
		text, more := strings.CutSuffix(line, `\`)
		switch {
		case !fence || !runs:
		case goesOn:
			out[len(out)-1].text += text
		case strings.TrimSpace(line) != "" && !strings.HasPrefix(strings.TrimSpace(line), "#"):
			out = append(out, command{n, text})
		}
		goesOn = more
	}
	return out, nil
}

// docs is the world that the commands of one file run in.
type docs struct {
	t    *testing.T
	root string // of the repository
	dir  string
	env  []string

	url, creds string // of the daemon that commands go to

	last    string    // what the command that ran last printed
	outputs []printed // of all commands of a page, in order
}

// newDocs starts a daemon, with its data in the folder of the commands unless they start
// one there.
func newDocs(t *testing.T, root string, startsOne bool) *docs {
	dir := t.TempDir()
	project := filepath.Join(dir, "home", ".claude", "projects", "shelf")
	if err := os.MkdirAll(project, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(project, "session.jsonl"), quickstart.Transcript, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "cmd"), filepath.Join(dir, "cmd")); err != nil { // pages name files of the checkout
		t.Fatal(err)
	}
	data := filepath.Join(dir, "home", ".local", "share", "nexus")
	if startsOne {
		data = t.TempDir()
	}
	url, creds, stop, err := startDaemonOf(t, config.Config{Data: data, Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return &docs{t: t, root: root, dir: dir, url: url, creds: creds,
		env: append(os.Environ(), "HOME="+filepath.Join(dir, "home"), "XDG_CONFIG_HOME="+filepath.Join(dir, "home", ".config"), "XDG_DATA_HOME=", "TZ=UTC", "NEXUS_LISTEN=127.0.0.1:0", "NEXUS_HTTP=127.0.0.1:0")}
}

var (
	sessionWord = regexp.MustCompile(`\bSESSION\b`)
	turnWord    = regexp.MustCompile(`\bTURN\b`)
	memoryWord  = regexp.MustCompile(`\bMEMORY\b( |$)`) // not MEMORY.md
	eventWord   = regexp.MustCompile(`\bEVENT\b`)
	importWord  = regexp.MustCompile(`\bIMPORT\b`)
	archiveWord = regexp.MustCompile(`~/\.local/share/nexus/files/\S+`)
)

func (d *docs) run(line string) error {
	if sessionWord.MatchString(line) || turnWord.MatchString(line) || importWord.MatchString(line) {
		s, err := d.longest()
		if err != nil {
			return err
		}
		line = importWord.ReplaceAllString(line, sessionmeta.ImportedBy(s).String())
		if line = sessionWord.ReplaceAllString(line, s.ID.String()); s.Head != nil {
			line = turnWord.ReplaceAllString(line, s.Head.String())
		}
	}
	if memoryWord.MatchString(line) || eventWord.MatchString(line) {
		memory, event, err := d.newest()
		if err != nil {
			return err
		}
		line = eventWord.ReplaceAllString(memoryWord.ReplaceAllString(line, memory+"$1"), event)
	}
	if name := archiveWord.FindString(line); name != "" {
		if err := d.written(name); err != nil {
			return err
		}
	}
	words := strings.Fields(strings.SplitN(line, " #", 2)[0])
	switch {
	case words[0] == "go" && len(words) > 1 && words[1] == "test":
		return d.checkTest(words[2:])
	case words[0] == "go":
		for i := range words {
			if words[i] == "-o" && i+1 < len(words) {
				words[i+1] = filepath.Join(d.dir, words[i+1]) // the folder stays a folder
			}
		}
		c := exec.Command("go", words[1:]...)
		c.Dir, c.Env = d.root, append(os.Environ(), "GOFLAGS='-ldflags=-w' -buildvcs=false") // half the time of a link
		return output(c)
	case filepath.Base(words[0]) == "nexusd":
		return d.daemon(words[0], slices.DeleteFunc(words[1:], func(w string) bool { return w == "&" }))
	}
	c := exec.Command("sh", "-c", line)
	c.Dir, c.Env = d.dir, append(d.env, "NEXUS_URL="+d.url, "NEXUS_CREDS="+d.creds)
	b, err := c.CombinedOutput()
	d.last = string(b)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, b)
	}
	return nil
}

// output runs c. The error holds what c printed.
func output(c *exec.Cmd) error {
	if b, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, b)
	}
	return nil
}

// newest returns the ids of the newest memory, and of the newest event of the channel
// mail; "" for what there is none of.
func (d *docs) newest() (memory, event string, err error) {
	nc, err := client.Dial(d.url, d.creds)
	if err != nil {
		return "", "", err
	}
	defer nc.Close()
	c := client.New(nc, "default", "main")
	for m, err := range c.Memories(d.t.Context(), api.ListMemories{}) {
		if err != nil {
			return "", "", err
		}
		memory = m.ID.String()
		break
	}
	for ev, err := range c.Events(d.t.Context(), api.ListEvents{Channel: "mail", Order: "desc"}) {
		if err != nil && !api.HasCode(err, api.NotFound) {
			return "", "", err
		}
		event = ev.ID.String()
		break
	}
	return memory, event, nil
}

// written waits until the daemon has written a file beside the ledger. What a file is called
// while it is being written begins with a dot, which no pattern of a shell finds.
func (d *docs) written(pattern string) error {
	for range 600 {
		names, err := filepath.Glob(filepath.Join(d.dir, "home", strings.TrimPrefix(pattern, "~/")))
		if err != nil || slices.ContainsFunc(names, func(name string) bool { return !strings.HasPrefix(filepath.Base(name), ".") }) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("%s was not written within 30 s", pattern)
}

// longest is the session with the most turns.
func (d *docs) longest() (out *api.Session, err error) {
	nc, err := client.Dial(d.url, d.creds)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	for s, err := range client.New(nc, "default", "main").ListSessions(d.t.Context(), api.ListSessions{Hidden: true}) {
		if err != nil {
			return nil, err
		}
		if out == nil || s.Turns > out.Turns {
			out = &s
		}
	}
	if out == nil {
		return nil, errors.New("there is no session that SESSION could stand for")
	}
	return out, nil
}

// daemon starts nexusd as it is written and waits until it says that it is ready;
// commands go to it from then on.
func (d *docs) daemon(name string, args []string) error {
	ctx, cancel := context.WithCancel(context.Background())
	if !strings.Contains(name, "/") {
		name = filepath.Join(d.dir, name)
	}
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env = d.dir, d.env
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 10 * time.Second
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		cancel()
		return err
	}
	d.t.Cleanup(func() { cancel(); _ = c.Wait() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("it ended before it was ready: %w", err)
	}
	var ready struct {
		URL         string `json:"nats_url"`
		Credentials struct {
			Operator string `json:"operator"`
		} `json:"credentials"`
	}
	if err := json.Unmarshal(line, &ready); err != nil {
		return err
	}
	d.url, d.creds = ready.URL, ready.Credentials.Operator
	return nil
}

// checkTest checks that what a go test command names is there.
func (d *docs) checkTest(args []string) error {
	var packages []string
	var sources strings.Builder
	for _, a := range args {
		if strings.HasPrefix(a, "./") {
			packages = append(packages, a)
		}
	}
	if len(packages) == 0 {
		return errors.New("no package")
	}
	list := exec.Command("go", append([]string{"list", "-f", "{{.Dir}}"}, packages...)...)
	list.Dir = d.root
	dirs, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list %v: %w", packages, err)
	}
	for dir := range strings.FieldsSeq(string(dirs)) {
		tests, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			return err
		}
		for _, name := range tests {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			sources.Write(b)
		}
	}
	// Each name that a pattern lists is of a test, or a part of one.
	names := func(kind, pattern string) error {
		for name := range strings.SplitSeq(pattern, "|") {
			if !strings.HasPrefix(name, kind) {
				name = kind + `\w*` + name
			}
			is, err := regexp.Compile("func " + name)
			if err != nil {
				return err
			}
			if !is.MatchString(sources.String()) {
				return fmt.Errorf("no %s is called %s", strings.ToLower(kind), name)
			}
		}
		return nil
	}
	for i, a := range args {
		flag, value, joined := strings.Cut(strings.TrimPrefix(a, "-"), "=")
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		value = strings.Trim(value, `'^$`)
		switch {
		case !strings.HasPrefix(a, "-"):
		case (flag == "run" || flag == "skip") && value != "":
			if err := names("Test", value); err != nil {
				return err
			}
		case flag == "bench" && value != ".":
			if err := names("Benchmark", value); err != nil {
				return err
			}
		case flag == "fuzz":
			if err := names("Fuzz", value); err != nil {
				return err
			}
		case slices.Contains([]string{"run", "bench", "v", "timeout", "fuzztime", "benchtime", "count", "race", "short", "benchmem", "p"}, flag), strings.HasPrefix(flag, "rapid."):
		case !strings.Contains(sources.String(), `"`+flag+`"`):
			return fmt.Errorf("no test has a flag -%s", flag)
		}
	}
	return nil
}

// natsCommand is the part of the nats command that the documentation uses.
func natsCommand() int {
	selected := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "nats", "context", "selected.json")
	var err error
	switch {
	case len(os.Args) == 9 && strings.Join(os.Args[1:3], " ") == "context save" && os.Args[4] == "--server" && os.Args[6] == "--nkey" && os.Args[8] == "--select":
		b := fmt.Appendf(nil, `{"url":%q,"nkey":%q}`, os.Args[5], os.Args[7])
		err = errors.Join(os.MkdirAll(filepath.Dir(selected), 0o700), os.WriteFile(selected, b, 0o600))
	case len(os.Args) == 4 && os.Args[1] == "req":
		var c client.NATSContext
		if c, err = client.FindNATSContext("selected"); err == nil {
			err = natsRequest(c, os.Args[2], os.Args[3])
		}
	default:
		err = errors.New("usage: nats req SUBJECT BODY | nats context save NAME --server URL --nkey FILE --select")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func natsRequest(c client.NATSContext, subject, body string) error {
	nc, err := client.Dial(c.URL, c.NKey)
	if err != nil {
		return err
	}
	defer nc.Close()
	m, err := nc.Request(subject, []byte(body), 10*time.Second)
	if err != nil {
		return err
	}
	fmt.Printf("%s\n", m.Data)
	if strings.HasPrefix(string(m.Data), `{"error":`) {
		return errors.New("the answer is an error")
	}
	return nil
}

// docs/GUIDE.md runs every example of the help about what lies beside the turns:
// TestCommandsOfTheDocumentation runs the guide.
func TestTheGuideRunsTheExamplesOfTheHelp(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "GUIDE.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands, err := commandsOf(string(b))
	if err != nil {
		t.Fatal(err)
	}
	plain := func(line string) string { return strings.TrimSpace(strings.SplitN(line, " #", 2)[0]) }
	checked, verbs := 0, make(map[string]bool)
	for _, page := range []string{"memory", "event", "archive", "search", "sessions"} {
		_, examples, _ := strings.Cut(manual[page], "\nExamples\n")
		for line := range strings.Lines(examples) {
			line = plain(line)
			if page == "sessions" && !strings.Contains(line, "reset") {
				continue // of sessions themselves
			}
			if !slices.ContainsFunc(commands, func(c command) bool { return plain(c.text) == line }) {
				t.Errorf("the guide does not run %s", line)
			}
			words := strings.Fields(line)
			verbs[strings.Join(words[1:min(3, len(words))], " ")] = true
			checked++
		}
	}
	for _, parent := range []string{"memory", "event", "archive"} {
		c, _, err := commandsTree().Find([]string{parent})
		if err != nil {
			t.Fatal(err)
		}
		for _, sub := range c.Commands() {
			if !verbs[parent+" "+sub.Name()] {
				t.Errorf("the help has no example of %s %s", parent, sub.Name())
			}
		}
	}
	if checked == 0 || !verbs["session reset"] {
		t.Errorf("%d examples, %v", checked, verbs)
	}
}

func commandsTree() *cobra.Command {
	return commands(newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard}))
}

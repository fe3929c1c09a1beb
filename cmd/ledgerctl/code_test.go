package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/transcripts"
	"nexus/cmd/internal/watch"
	"nexus/cmd/ledgerctl/internal/bisect"
	"nexus/cmd/ledgerctl/internal/codetree"
	"nexus/cmd/ledgerctl/internal/follow"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// replay is a transcript of Claude Code whose edits are done again, in a repository of its
// own, while its lines are written and read as watch --code reads them, one after the other.
type replay struct {
	t          *testing.T
	repo, home string
	transcript string
	session    string
	watch      *watch.Deliverer
	client     *client.Client
	seed       map[string]string
	results    []string                     // ids of calls, in the order of their results
	after      map[string]map[string]string // the folder with each result
	order      []string                     // turns, in the order of the transcript
	files      map[string]map[string]string // the folder when the agent went on from a turn
}

// recordedEdit is an edit as a transcript of Claude Code records it.
type recordedEdit struct {
	File    string  `json:"filePath"`
	Type    string  `json:"type"`
	Content string  `json:"content"`
	Before  *string `json:"originalFile"`
	Old     string  `json:"oldString"`
	New     string  `json:"newString"`
	All     bool    `json:"replaceAll"`
}

func newReplay(t *testing.T, seed map[string]string) *replay {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not there")
	}
	r := &replay{t: t, repo: filepath.Join(t.TempDir(), "repo"), home: t.TempDir(), seed: seed, after: make(map[string]map[string]string), files: make(map[string]map[string]string)}
	url, creds, stop, err := startDaemon(t, filepath.Join(r.home, "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	for name, value := range map[string]string{"HOME": r.home, "XDG_STATE_HOME": filepath.Join(r.home, "state"), "CLAUDE_CONFIG_DIR": filepath.Join(r.home, ".claude"), "NEXUS_URL": url, "NEXUS_CREDS": creds} {
		t.Setenv(name, value)
	}
	r.transcript = filepath.Join(r.home, ".claude", "projects", "p", "session.jsonl")
	if err := os.MkdirAll(filepath.Dir(r.transcript), 0o700); err != nil {
		t.Fatal(err)
	}
	nc, err := client.Dial(url, creds)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	r.client = client.New(nc, "default", "main")
	cfg := watch.Config{Sources: []watch.Source{{Agent: "claude", Root: filepath.Dir(r.transcript)}}, State: filepath.Join(r.home, "watch"), Connect: watch.Dialed(r.client), ClosedWithin: time.Hour, Log: func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); strings.Contains(text, "not recorded") {
			t.Error(text)
		}
	}}
	follow.RecordCode(&cfg, codetree.Limits{Time: time.Hour})
	if r.watch, err = watch.NewDeliverer(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for name, text := range seed {
		r.write(name, text)
	}
	if err := os.MkdirAll(r.repo, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=u", "-c", "user.email=u@x", "commit", "-q", "--allow-empty", "-m", "first"}} {
		if out, err := exec.Command("git", append([]string{"-C", r.repo}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git: %v: %s", err, out)
		}
	}
	return r
}

func (r *replay) write(name, text string) {
	p := filepath.Join(r.repo, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// ledgerctl runs a command.
func (r *replay) ledgerctl(stdin string, args ...string) (stdout, stderr string, exit int) {
	var out, errw bytes.Buffer
	exit = run(context.Background(), args, strings.NewReader(stdin), &out, &errw)
	return out.String(), errw.String(), exit
}

// line appends a line to the transcript, after the edit that its result is of. The files
// of the folder are those after the turn of the last response whose calls have results.
func (r *replay) line(text string) {
	r.t.Helper()
	f, err := os.OpenFile(r.transcript, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text + "\n")
		_ = f.Close()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.watch.Deliver(r.t.Context(), r.transcript); err != nil {
		r.t.Fatal(err)
	}
	var x struct {
		Message struct {
			Content turns.Raw `json:"content"`
		} `json:"message"`
	}
	var parts []struct {
		Of string `json:"tool_use_id"`
	}
	if json.Unmarshal([]byte(text), &x) == nil && json.Unmarshal(x.Message.Content, &parts) == nil {
		for _, p := range parts {
			if p.Of != "" {
				r.results = append(r.results, p.Of)
				r.after[p.Of] = folderOf(r.t, r.repo)
			}
		}
	}
}

// end reads the turns that the ledger has: after each, the folder was as it was with the
// last of the results of its calls.
func (r *replay) end() {
	r.t.Helper()
	im := transcripts.Importer{Client: r.client, Format: "auto", Final: true}
	rep, err := im.File(r.t.Context(), r.transcript)
	if err != nil || rep.KeptFirst > 0 {
		r.t.Fatalf("import: %+v, %v", rep, err)
	}
	session := rep.Sessions[len(rep.Sessions)-1]
	r.session = session.String()
	now := r.seed
	for t, err := range r.client.Turns(r.t.Context(), session, api.ListTurns{Full: true}) {
		if err != nil {
			r.t.Fatal(err)
		}
		last := -1
		if t.Response != nil {
			for _, id := range t.Response.Calls(nil) {
				last = max(last, slices.Index(r.results, id))
			}
		}
		if last >= 0 {
			now = r.after[r.results[last]]
		}
		r.order = append(r.order, t.ID.String())
		r.files[t.ID.String()] = now
	}
}

// folderOf returns the files of a folder but those of git.
func folderOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == ".git" {
			if err == nil && d.IsDir() {
				return filepath.SkipDir
			}
			return err
		}
		if d.IsDir() {
			return nil
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		all[filepath.ToSlash(rel)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// checkForks restores ten turns and compares their files with those that were there.
func (r *replay) checkForks() {
	r.t.Helper()
	n := len(r.order)
	different := make(map[string]bool)
	for i := range min(n, 10) {
		turn := r.order[i*(n-1)/max(1, min(n, 10)-1)]
		dir := filepath.Join(r.t.TempDir(), "fork")
		out, said, exit := r.ledgerctl("", "fork", turn, "--worktree", dir, "--json")
		if exit != 0 {
			r.t.Errorf("fork of turn %d of %d: %s", i, n, said)
			continue
		}
		got := folderOf(r.t, dir)
		if !reflect.DeepEqual(got, r.files[turn]) {
			r.t.Errorf("turn %s: the fork has %v, there were %v", turn, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(r.files[turn])))
		}
		different[fmt.Sprint(got)] = true
		var f struct {
			Session struct {
				Meta struct {
					Cwd string `json:"cwd"`
				} `json:"meta"`
			} `json:"session"`
		}
		if err := json.Unmarshal([]byte(out), &f); err != nil || f.Session.Meta.Cwd != dir {
			r.t.Errorf("%v: the fork works in %q, want %q", err, f.Session.Meta.Cwd, dir)
		}
	}
	if n < 10 || len(different) < 4 {
		r.t.Errorf("%d turns and %d different folders: too few to show something", n, len(different))
	}
}

// checkBisect finds where a line went from a file, and compares with the folders that were
// there.
func (r *replay) checkBisect(file, line string) {
	r.t.Helper()
	want, had := "", false
	for _, turn := range r.order {
		has := strings.Contains(r.files[turn][file], line)
		if had && !has {
			want = turn
		}
		had = has
	}
	out, said, exit := r.ledgerctl("", "bisect", r.session, "--json", "--", "grep", "-qF", "-e", line, file)
	if exit != 0 {
		r.t.Fatal(said)
	}
	var got bisect.Report
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		r.t.Fatal(err)
	}
	if want == "" || got.Bad == nil || got.Bad.ID.String() != want || len(got.Between) > 0 || !strings.Contains(got.Diff, filepath.Base(file)) {
		r.t.Errorf("bisect found %s, want turn %s", out, want)
	}
	if text, _, exit := r.ledgerctl("", "bisect", r.session, "--", "grep", "-qF", "-e", line, file); exit != 0 || !strings.Contains(text, "The command fails after turn @") || !strings.Contains(text, "Edit(") {
		r.t.Errorf("bisect says %q", text)
	}
}

// checkGuide runs the commands that the guide shows with their output, on this session.
func (r *replay) checkGuide() {
	r.t.Helper()
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "GUIDE.md"))
	if err != nil {
		r.t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(guide), "\n## The code of a turn\n")
	section, _, _ = strings.Cut(section, "\n### ")
	if _, said, exit := r.ledgerctl("", "sessions", "set", r.session, "--label", "support-42"); exit != 0 {
		r.t.Fatal(said)
	}
	r.t.Chdir(r.repo)
	ran := 0
	for line := range strings.Lines(section) {
		if words, ok := strings.CutPrefix(line, "$ ledgerctl "); ok {
			ran++
			if out, said, exit := r.ledgerctl("", strings.Fields(words)...); exit != 0 || out == "" {
				r.t.Errorf("the guide's %s: %s", line, said)
			}
		}
	}
	if ran != 2 {
		r.t.Errorf("the guide shows %d commands, want 2", ran)
	}
}

// An invented session, so that the way is walked where no real transcript is: eleven turns,
// one of which removes what its test looks for.
func TestBisectFindsTheTurnThatBrokeATestAndForksHaveTheFilesOfTheirTurns(t *testing.T) {
	const n, breaks = 11, 7
	r := newReplay(t, map[string]string{"main.txt": "guard\n"})
	at, parent := time.Now().UTC().Add(-time.Minute), "null"
	put := func(kind, id, message string) {
		r.line(fmt.Sprintf(`{"type":%q,"uuid":%q,"parentUuid":%s,"sessionId":"s-1","version":"2.1.0","cwd":%q,"timestamp":%q,"message":%s}`, kind, id, parent, r.repo, at.Format(time.RFC3339Nano), message))
		parent, at = `"`+id+`"`, at.Add(time.Second)
	}
	put("user", "u0", `{"role":"user","content":"go"}`)
	for i := range n {
		input, text := `{"file_path":"main.txt","old_string":"x","new_string":"y"}`, fmt.Sprintf("guard\n%d\n", i)
		if i >= breaks {
			text = fmt.Sprintf("%d\n", i)
		}
		put("assistant", fmt.Sprint("a", i), fmt.Sprintf(`{"id":"msg_%d","role":"assistant","model":"claude-sonnet-4-5","stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1},"content":[{"type":"tool_use","id":"toolu_%d","name":"Edit","input":%s}]}`, i, i, input))
		r.write("main.txt", text)
		r.write(fmt.Sprintf("new/%d.txt", i), "untracked")
		put("user", fmt.Sprint("r", i), fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":"done"}]}`, i))
	}
	put("assistant", "end", `{"id":"msg_end","role":"assistant","model":"claude-sonnet-4-5","stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1},"content":[{"type":"text","text":"done"}]}`)
	r.end()
	r.checkForks()
	r.checkBisect("main.txt", "guard")

	r.checkGuide()

	full := t.TempDir()
	r.write("mine", "m")
	if _, said, exit := r.ledgerctl("", "fork", r.order[3], "--worktree", r.repo); exit != 2 || !strings.Contains(said, "not empty") {
		t.Errorf("a folder with files: exit %d, %s", exit, said)
	}
	if got := folderOf(t, r.repo); got["mine"] != "m" || len(got) != n+2 {
		t.Errorf("the folder is %v", got)
	}
	// A second import of the transcript, without files, stores nothing.
	if out, said, exit := r.ledgerctl("", "import", r.transcript, "--json"); exit != 0 || !strings.Contains(out, `"stored":0`) || !strings.Contains(out, `"kept_first":0`) {
		t.Errorf("import again: %s%s", out, said)
	}
	for _, x := range []struct {
		command []string
		says    string
	}{
		{[]string{"true"}, "the command does not fail"},
		{[]string{"sh", "-c", "exit 125"}, "could be run on no tree"},
		{[]string{"sh", "-c", "exit 130"}, "exit status 130"},
		{[]string{filepath.Join(full, "none")}, "can't be run"},
	} {
		if _, said, exit := r.ledgerctl("", append([]string{"bisect", r.session, "--"}, x.command...)...); exit == 0 || !strings.Contains(said, x.says) {
			t.Errorf("bisect with %q: exit %d, %q", x.command, exit, said)
		}
	}
	if out, err := exec.Command("git", "-C", r.repo, "worktree", "list").Output(); err != nil || strings.Contains(string(out), "nexus-bisect") {
		t.Errorf("worktrees of bisect stayed: %s, %v", out, err)
	}
}

// A real session of Claude Code, line by line; its recorded edits are done in a repository
// that begins with the files as it found them.
func TestBisectFindsTheTurnOfARealSessionThatBrokeATest(t *testing.T) {
	source := filepath.Join("..", "..", "..", "shared", "data", "claude-code-entire-cli", "ba-59c426c910-0.jsonl")
	text, err := os.ReadFile(source)
	if err != nil {
		t.Skip("real transcripts are not beside the project (../shared/data)")
	}
	type record struct {
		Cwd    string    `json:"cwd"`
		Result turns.Raw `json:"toolUseResult"`
	}
	cwd, seed, edits := "", make(map[string]string), make(map[int]recordedEdit)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	rel := func(name string) string { return strings.TrimPrefix(strings.TrimPrefix(name, cwd), "/") }
	for i, line := range lines {
		var x record
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatal(err)
		}
		if cwd == "" {
			cwd = x.Cwd
		}
		var edit recordedEdit
		if json.Unmarshal(x.Result, &edit) != nil || edit.File == "" || edit.Old == "" && edit.Type != "create" {
			continue
		}
		edit.File = rel(edit.File)
		edits[i] = edit
		_, seen := seed[edit.File]
		if !seen && edit.Before != nil && edit.Type != "create" {
			seed[edit.File] = *edit.Before
		} else if edit.Type == "create" {
			seed[edit.File] = ""
		}
	}
	maps.DeleteFunc(seed, func(_, text string) bool { return text == "" })
	r := newReplay(t, seed)
	now := maps.Clone(seed)
	for i, line := range lines {
		if e, ok := edits[i]; ok {
			if e.Type == "create" {
				now[e.File] = e.Content
			} else {
				if !strings.Contains(now[e.File], e.Old) {
					t.Fatalf("line %d: the edit of %s does not apply", i+1, e.File)
				}
				k := 1
				if e.All {
					k = -1
				}
				now[e.File] = strings.Replace(now[e.File], e.Old, e.New, k)
			}
			r.write(e.File, now[e.File])
		}
		r.line(strings.ReplaceAll(line, cwd, r.repo))
	}
	r.end()
	t.Logf("%d lines, %d edits, %d turns", len(lines), len(edits), len(r.order))
	r.checkForks()
	// What its test looks for: each line of the first version that is gone at the end, and was
	// there until one edit.
	found := 0
	for name, text := range seed {
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if len(line) > 20 && !strings.Contains(now[name], line) && found < 3 {
				found++
				r.checkBisect(name, line)
				break
			}
		}
	}
	if found == 0 {
		t.Error("no edit removed a line")
	}
}

// The hook of Stop records at the end of an answer. It has a few seconds, so a machine that
// is too busy then calls it again, as the agent does after its next answer.
func TestTheHookOfAnAnswerRecordsTheFiles(t *testing.T) {
	r := newReplay(t, map[string]string{"a": "1"})
	text := fmt.Sprintf(`{"type":"user","uuid":"u","parentUuid":null,"sessionId":"s-2","version":"2.1.0","cwd":%q,"timestamp":"2026-01-01T00:00:00Z","message":{"role":"user","content":"go"}}
{"type":"assistant","uuid":"a","parentUuid":"u","sessionId":"s-2","version":"2.1.0","cwd":%q,"timestamp":"2026-01-01T00:00:01Z","message":{"id":"m","role":"assistant","model":"m","stop_reason":"end_turn","content":[{"type":"text","text":"done"}]}}
`, r.repo, r.repo)
	event, err := json.Marshal(map[string]string{"hook_event_name": "Stop", "transcript_path": r.transcript, "cwd": r.repo})
	if err != nil {
		t.Fatal(err)
	}
	refs := func() string {
		out, err := exec.Command("git", "-C", r.repo, "for-each-ref", "refs/nexus/").Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if err := os.WriteFile(r.transcript, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, said, exit := r.ledgerctl(string(event), "hook", "Stop"); exit != 0 || refs() != "" {
		t.Errorf("without --code: exit %d, %s, refs %q", exit, said, refs())
	}
	recorded := func() bool {
		out, said, exit := r.ledgerctl("", "events", "channels", "--json")
		if exit != 0 {
			t.Fatal(said)
		}
		return strings.Contains(out, `"code.`)
	}
	for !recorded() {
		if err := os.WriteFile(r.transcript, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, said, exit := r.ledgerctl(string(event), "hook", "--code", "Stop"); exit != 0 || out != "" {
			t.Fatalf("exit %d, %s%s", exit, out, said)
		}
	}
	r.end()
	dir := filepath.Join(t.TempDir(), "fork")
	if _, said, exit := r.ledgerctl("", "fork", r.session, "--worktree", dir); exit != 0 || folderOf(t, dir)["a"] != "1" {
		t.Errorf("fork: exit %d, %s, %v", exit, said, folderOf(t, dir))
	}
	if _, said, exit := r.ledgerctl("", "fork", r.session, "--repo", dir); exit != 2 {
		t.Errorf("--repo alone: exit %d, %s", exit, said)
	}
	if _, said, exit := r.ledgerctl("", "bisect", r.session, "true"); exit != 2 || !strings.Contains(said, "after --") {
		t.Errorf("bisect without --: exit %d, %s", exit, said)
	}
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"nexus/cmd/ledgerctl/internal/edits"
	"nexus/turns"
)

// imported is a transcript of an agent that works in a real folder, and is imported when it
// has ended: nobody recorded its files.
type imported struct {
	t          *testing.T
	repo       string
	transcript strings.Builder
	calls      int
	after      []map[string]string // the folder after each call
	session    string
	file       string // of the transcript
}

func newImported(t *testing.T) *imported {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not there")
	}
	home := t.TempDir()
	url, creds, stop, err := startDaemon(t, filepath.Join(home, "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	for name, value := range map[string]string{"HOME": home, "NEXUS_URL": url, "NEXUS_CREDS": creds} {
		t.Setenv(name, value)
	}
	x := &imported{t: t, repo: filepath.Join(t.TempDir(), "repo")}
	if err := os.MkdirAll(x.repo, 0o755); err != nil {
		t.Fatal(err)
	}
	x.git("init", "-q")
	return x
}

func (x *imported) git(args ...string) string {
	x.t.Helper()
	out, err := exec.Command("git", append([]string{"-C", x.repo, "-c", "user.name=u", "-c", "user.email=u@x"}, args...)...).CombinedOutput()
	if err != nil {
		x.t.Fatalf("git %s: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (x *imported) write(name, text string) {
	x.t.Helper()
	p := filepath.Join(x.repo, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		x.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		x.t.Fatal(err)
	}
}

func (x *imported) line(v any) {
	x.t.Helper()
	b, err := turns.EncodeJSON(v)
	if err != nil {
		x.t.Fatal(err)
	}
	fmt.Fprintf(&x.transcript, "%s\n", b)
}

type obj = map[string]any

// claude writes a line of Claude Code.
func (x *imported) claude(kind string, message obj) {
	n := strings.Count(x.transcript.String(), "\n")
	o := obj{"type": kind, "uuid": fmt.Sprint("u", n), "parentUuid": nil, "sessionId": "s-1", "version": "2.1.0", "cwd": x.repo, "timestamp": fmt.Sprintf("2026-11-01T10:%02d:%02dZ", n/60, n%60), "message": message}
	if n > 0 {
		o["parentUuid"] = fmt.Sprint("u", n-1)
	}
	x.line(o)
}

// call is a tool call with its result, after the agent has done it.
func (x *imported) call(name string, input obj, result string, do func()) {
	x.t.Helper()
	x.calls++
	id, files := fmt.Sprint("toolu_", x.calls), folderOf(x.t, x.repo)
	x.claude("assistant", obj{"id": fmt.Sprint("msg_", x.calls), "role": "assistant", "model": "claude-sonnet-4-5", "stop_reason": "tool_use", "usage": obj{"input_tokens": 1, "output_tokens": 1}, "content": []any{obj{"type": "tool_use", "id": id, "name": name, "input": input}}})
	if do != nil {
		do()
	}
	x.claude("user", obj{"role": "user", "content": []any{obj{"type": "tool_result", "tool_use_id": id, "content": result}}})
	if before, ok := files[filepath.Base(fmt.Sprint(input["file_path"]))]; ok && name == "Edit" { // the copy for the terminal
		text := strings.TrimSuffix(x.transcript.String(), "}\n")
		copied, err := turns.EncodeJSON(obj{"filePath": input["file_path"], "originalFile": before})
		if err != nil {
			x.t.Fatal(err)
		}
		x.transcript.Reset()
		fmt.Fprintf(&x.transcript, "%s,\"toolUseResult\":%s}\n", text, copied)
	}
	x.after = append(x.after, folderOf(x.t, x.repo))
}

func (x *imported) edit(name, old, new string) {
	p := filepath.Join(x.repo, name)
	x.call("Edit", obj{"file_path": p, "old_string": old, "new_string": new}, "The file "+p+" has been updated.", func() {
		b, err := os.ReadFile(p)
		if err != nil {
			x.t.Fatal(err)
		}
		x.write(name, strings.Replace(string(b), old, new, 1))
	})
}

func (x *imported) create(name, text string) {
	p := filepath.Join(x.repo, name)
	x.call("Write", obj{"file_path": p, "content": text}, "File created successfully at: "+p, func() { x.write(name, text) })
}

// end imports the transcript.
func (x *imported) end() {
	x.t.Helper()
	x.file = filepath.Join(x.t.TempDir(), "session.jsonl")
	if err := os.WriteFile(x.file, []byte(x.transcript.String()), 0o600); err != nil {
		x.t.Fatal(err)
	}
	out, said, exit := x.ledgerctl("import", x.file, "--final", "--json")
	var rep struct {
		Sessions []string `json:"sessions"`
	}
	if err := json.Unmarshal([]byte(strings.SplitN(out, "\n", 2)[0]), &rep); exit != 0 || err != nil || len(rep.Sessions) == 0 {
		x.t.Fatalf("import: %d, %v, %s%s", exit, err, out, said)
	}
	x.session = rep.Sessions[len(rep.Sessions)-1]
}

func (x *imported) ledgerctl(args ...string) (stdout, stderr string, exit int) {
	var out, errw bytes.Buffer
	exit = run(context.Background(), args, strings.NewReader(""), &out, &errw)
	return out.String(), errw.String(), exit
}

// code returns what is known after a turn.
func (x *imported) code(at int, args ...string) codeResult {
	x.t.Helper()
	out, said, exit := x.ledgerctl(append([]string{"code", fmt.Sprintf("%s@%d", x.session, at), "--json"}, args...)...)
	var r codeResult
	if err := json.Unmarshal([]byte(out), &r); exit != 0 || err != nil {
		x.t.Fatalf("code: %v, %s%s", err, out, said)
	}
	return r
}

// statuses returns the status of each file, as in "a exact".
func statuses(r codeResult) (out []string) {
	for _, f := range r.Files {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", f.Path, f.Status, f.Why)))
	}
	return out
}

// Turn n of the session is that of call n.
func TestAnImportedSessionForksWithTheFilesThatItsEditsGive(t *testing.T) {
	x := newImported(t)
	x.write("main.txt", "guard\none\n")
	x.write("other.txt", "o\n")
	if err := os.WriteFile(filepath.Join(x.repo, "run.sh"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	x.git("add", "-A")
	x.git("commit", "-qm", "first")
	base := x.git("rev-parse", "HEAD")
	x.claude("user", obj{"role": "user", "content": "go"})
	x.create("new/a.txt", "a\n")                                                                                                                       // 1
	x.edit("new/a.txt", "a", "b")                                                                                                                      // 2
	x.edit("main.txt", "one", "two")                                                                                                                   // 3: known from the commit
	x.call("Bash", obj{"command": "make"}, "", func() { x.write("other.txt", "hidden\n") })                                                            // 4
	x.edit("main.txt", "guard\n", "")                                                                                                                  // 5
	x.edit("run.sh", "sh", "bash")                                                                                                                     // 6
	x.call("Write", obj{"file_path": filepath.Join(x.repo, ".git", "hooks", "post-checkout"), "content": "x"}, "File created successfully at: x", nil) // 7
	x.call("Edit", obj{"file_path": filepath.Join(x.repo, "lost.txt"), "old_string": "x", "new_string": "y"}, "The file x has been updated.", nil)     // 8
	x.end()

	// What is known, without a commit and with it.
	if r := x.code(2); !reflect.DeepEqual(statuses(r), []string{"new/a.txt exact"}) || r.Base != "" || r.Others != "" {
		t.Errorf("%+v", r)
	}
	if r := x.code(3); !reflect.DeepEqual(statuses(r), []string{"main.txt unknown no_base", "new/a.txt exact"}) {
		t.Errorf("%v", statuses(r))
	}
	if r := x.code(3, "--base", "HEAD"); !reflect.DeepEqual(statuses(r), []string{"main.txt recorded base", "new/a.txt exact"}) || r.Base != base {
		t.Errorf("%+v", r)
	}
	if r := x.code(7, "--base", base); !reflect.DeepEqual(statuses(r), []string{"main.txt recorded base", "new/a.txt recorded command", "run.sh recorded base"}) || r.Others != edits.ReasonCommand || r.Since != 4 || r.RefusedN != 1 || r.Refused[0].Why != edits.ReasonGitFolder {
		t.Errorf("%+v", r)
	}
	if r := x.code(5, "--transcript", x.file); !reflect.DeepEqual(statuses(r), []string{"main.txt exact", "new/a.txt recorded command"}) {
		t.Errorf("with the transcript's file: %v", statuses(r))
	}
	if _, said, exit := x.ledgerctl("code", x.session, "--transcript", filepath.Join(x.repo, "none")); exit == 0 || !strings.Contains(said, "no such file") {
		t.Errorf("without the transcript's file: %s", said)
	}
	if out, said, exit := x.ledgerctl("code", x.session+"@6", "--base", base, "--show", "main.txt"); exit != 0 || out != "two\n" || !strings.Contains(said, "as last recorded") {
		t.Errorf("%q, %q", out, said)
	}
	if out, said, exit := x.ledgerctl("code", x.session+"@7", "--base", base); exit != 0 || !strings.Contains(out, "0 files exact, 3 as last recorded, 0 not known") || !strings.Contains(out, "from @4 on something may have changed them") || !strings.Contains(out, "inside a .git folder") {
		t.Errorf("%s%s", out, said)
	}

	// Forks: refused where files are not known, else with them.
	fork := func(at int, args ...string) (map[string]string, string, int) {
		dir := filepath.Join(t.TempDir(), "fork")
		out, said, exit := x.ledgerctl(append([]string{"fork", fmt.Sprintf("%s@%d", x.session, at), "--worktree", dir}, args...)...)
		if exit != 0 {
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("a refused fork left %s", dir)
			}
			return nil, out + said, exit
		}
		if mode, err := os.Stat(filepath.Join(dir, "run.sh")); err == nil && mode.Mode()&0o100 == 0 {
			t.Error("run.sh can't be run any more")
		}
		return folderOf(t, dir), out + said, exit
	}
	for _, c := range []struct {
		at   int
		args []string
		says string
	}{
		{2, nil, "no commit that it began with is known"},
		{8, []string{"--base", base}, "1 of the 4 that the session named, such as lost.txt"},
		{2, []string{"--base", "nonesuch"}, "does not have the commit"},
		{2, []string{"--base", "--upload-pack=x"}, "does not have the commit"},
	} {
		if _, said, exit := fork(c.at, c.args...); exit == 0 || !strings.Contains(said, c.says) {
			t.Errorf("fork of @%d with %s: exit %d, %s", c.at, c.args, exit, said)
		}
	}
	got, said, exit := fork(3, "--base", base)
	if exit != 0 || !reflect.DeepEqual(got, x.after[2]) || !strings.Contains(said, "1 file exact, 1 as last recorded, 0 not known") || !strings.Contains(said, "as last recorded: main.txt") {
		t.Errorf("@3: %v, want %v: %s", got, x.after[2], said)
	}
	got, said, exit = fork(6, "--base", base)
	want := folderOf(t, x.repo)
	want["other.txt"] = "o\n" // what the command did is not seen
	if exit != 0 || !reflect.DeepEqual(got, want) || !strings.Contains(said, "from @4 on something may have changed them") {
		t.Errorf("@6: %v, want %v: %s", got, want, said)
	}
	got, said, exit = fork(8, "--base", base, "--partial")
	if exit != 0 || !reflect.DeepEqual(got, want) || !strings.Contains(said, "not there: lost.txt (not known: it was edited") {
		t.Errorf("@8: %v, want %v: %s", got, want, said)
	}
	got, said, exit = fork(2, "--partial")
	if exit != 0 || !reflect.DeepEqual(got, map[string]string{"new/a.txt": "b\n"}) || !strings.Contains(said, "are not known") {
		t.Errorf("@2: %v: %s", got, said)
	}
	if st := x.git("status", "--porcelain", "--untracked-files=all"); !strings.Contains(st, "M main.txt") || x.git("rev-parse", "HEAD") != base {
		t.Errorf("the repository is changed: %s", st)
	}
	if _, err := os.Stat(filepath.Join(x.repo, ".git", "hooks", "post-checkout")); err == nil {
		t.Error("a hook was written")
	}

	// Bisect: turn 8 is not known and is skipped.
	out, said, exit := x.ledgerctl("bisect", x.session, "--base", base, "--json", "--", "grep", "-q", "guard", "main.txt")
	var b bisectResult
	if err := json.Unmarshal([]byte(out), &b); exit != 0 || err != nil || b.Bad.Depth != 5 || b.Good == nil || b.Good.Depth != 4 {
		t.Errorf("bisect: %s%s", out, said)
	}
	if _, said, exit := x.ledgerctl("bisect", x.session, "--", "true"); exit == 0 || !strings.Contains(said, "no turn of the session has known files") || !strings.Contains(said, "--base COMMIT") {
		t.Errorf("bisect without a commit: %s", said)
	}
	x.checkGuide(base)
}

// checkGuide runs the commands that the guide shows for imported sessions.
func (x *imported) checkGuide(base string) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "GUIDE.md"))
	if err != nil {
		x.t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(guide), "\n### The code of an imported session\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if _, said, exit := x.ledgerctl("sessions", "set", x.session, "--label", "shop-7"); exit != 0 {
		x.t.Fatal(said)
	}
	x.git("branch", "main-then", base)
	x.t.Chdir(x.repo)
	ran := 0
	for line := range strings.Lines(section) {
		if words, ok := strings.CutPrefix(line, "$ ledgerctl "); ok {
			ran++
			out, said, exit := x.ledgerctl(strings.Fields(words)...)
			if exit != 0 || out == "" {
				x.t.Errorf("the guide's %s: %s", line, said)
			}
		}
	}
	if ran != 2 {
		x.t.Errorf("the guide shows %d commands, want 2", ran)
	}
}

// Codex states the commit, and works in a folder below the top of the repository.
func TestAnImportedSessionOfCodexBeginsWithItsCommit(t *testing.T) {
	x := newImported(t)
	x.write("sub/a.txt", "one\ntwo\n")
	x.write("keep.txt", "k\n")
	if err := os.Symlink("/etc", filepath.Join(x.repo, "sub", "out")); err != nil {
		t.Fatal(err)
	}
	x.git("add", "-A")
	x.git("commit", "-qm", "first")
	base := x.git("rev-parse", "HEAD")
	x.write("keep.txt", "changed after\n")
	x.git("commit", "-qam", "second")
	n := 0
	put := func(kind string, payload obj) {
		x.line(obj{"timestamp": fmt.Sprintf("2026-11-01T10:00:%02dZ", n), "type": kind, "payload": payload})
		n++
	}
	put("session_meta", obj{"id": "0199a213-81c0-7800-8aa1-bbab2a035a53", "timestamp": "2026-11-01T10:00:00Z", "cwd": filepath.Join(x.repo, "sub"), "git": obj{"commit_hash": base, "branch": "main"}})
	put("response_item", obj{"type": "message", "role": "user", "content": []any{obj{"type": "input_text", "text": "go"}}})
	patch := func(id, body, result string) {
		put("response_item", obj{"type": "custom_tool_call", "call_id": id, "name": "apply_patch", "input": "*** Begin Patch\n" + body + "\n*** End Patch"})
		put("response_item", obj{"type": "custom_tool_call_output", "call_id": id, "output": result})
	}
	const done = "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\n"
	patch("c1", "*** Add File: new.txt\n+n", done)
	patch("c2", "*** Update File: a.txt\n@@\n-two\n+2", done)
	patch("c3", "*** Add File: out/passwd\n+root", done) // through a link of the commit
	patch("c4", "*** Delete File: a.txt\n*** Add File: ../../outside\n+x", done)
	x.end()
	if r := x.code(4); !reflect.DeepEqual(statuses(r), []string{"sub/a.txt exact", "sub/new.txt exact", "sub/out/passwd exact"}) || r.Base != base || r.Folder != x.repo || r.RefusedN != 1 {
		t.Errorf("%+v", r)
	}
	dir := filepath.Join(t.TempDir(), "fork")
	out, said, exit := x.ledgerctl("fork", x.session+"@3", "--worktree", dir)
	if exit != 0 || !slices.Contains(strings.Split(said, "\n"), "not there: sub/out/passwd (its folder is a link or a submodule in the commit)") {
		t.Errorf("exit %d: %s%s", exit, out, said)
	}
	if to, err := os.Readlink(filepath.Join(dir, "sub", "out")); err != nil || to != "/etc" {
		t.Errorf("the link is %q, %v", to, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "sub", "a.txt")); err != nil || string(b) != "one\n2\n" {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "keep.txt")); err != nil || string(b) != "k\n" {
		t.Errorf("%q, %v", b, err)
	}
}

package edits

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"nexus/turns"
)

// story is a path that is told call by call: each call is a turn, with its result in the
// next.
type story struct {
	path []Turn
	n    int
}

func newStory() *story {
	return &story{path: []Turn{{Depth: 1, Messages: []turns.Message{turns.TextMessage(turns.User, "go")}}}}
}

func (s *story) call(name, arguments, result string, failed bool) *story {
	s.n++
	id := fmt.Sprint("c", s.n)
	s.path[len(s.path)-1].Response = &turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: id, Name: name, Arguments: turns.Raw(arguments)}}}
	s.path = append(s.path, Turn{Depth: uint64(len(s.path) + 1), Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: id, Response: turns.RawText(result), IsError: failed}}}}})
	return s
}

func (s *story) says(text string) *story {
	t := &s.path[len(s.path)-1]
	t.Messages = append(t.Messages, turns.TextMessage(turns.User, text))
	return s
}

func (s *story) compaction() *story {
	last := s.path[len(s.path)-1]
	s.path = append(s.path[:len(s.path)-1], Turn{Depth: last.Depth, Compaction: true})
	last.Depth++
	s.path = append(s.path, last)
	return s
}

// end returns the state after the last turn.
func (s *story) end(o Options) (files []File, st State) {
	for x, err := range Walk(func(yield func(Turn, error) bool) {
		for _, t := range s.path {
			if !yield(t, nil) {
				return
			}
		}
	}, o) {
		if err != nil {
			panic(err)
		}
		files, st = x.Files(), *x
	}
	for i := range files {
		files[i].followed = false
	}
	return files, st
}

var claudeOptions = Options{Agent: "claude-code", Folder: "/p"}

const wroteA = `{"file_path":"/p/a","content":"one\ntwo\n"}`

func TestAFileIsKnownAsFarAsEachStepIsConfirmed(t *testing.T) {
	created, updated := "File created successfully at: /p/a", "The file /p/a has been updated."
	for _, x := range []struct {
		name string
		s    *story
		want []File
	}{
		{"a write", newStory().call("Write", wroteA, created, false), []File{{Path: "a", Status: Exact, Content: "one\ntwo\n", Since: 1}}},
		{"a compaction before the result", newStory().call("Write", wroteA, created, false).compaction(), []File{{Path: "a", Status: Exact, Content: "one\ntwo\n", Since: 1}}},
		{"an edit", newStory().call("Write", wroteA, created, false).call("Edit", `{"file_path":"/p/a","old_string":"two","new_string":"2"}`, updated, false), []File{{Path: "a", Status: Exact, Content: "one\n2\n", Since: 1}}},
		{"an edit that takes a line away", newStory().call("Write", wroteA, created, false).call("Edit", `{"file_path":"/p/a","old_string":"one","new_string":""}`, updated, false), []File{{Path: "a", Status: Exact, Content: "two\n", Since: 1}}},
		{"several edits", newStory().call("Write", wroteA, created, false).call("MultiEdit", `{"file_path":"/p/a","edits":[{"old_string":"one","new_string":"x"},{"old_string":"x","new_string":"y","replace_all":true}]}`, "Applied 2 edits to /p/a:", false), []File{{Path: "a", Status: Exact, Content: "y\ntwo\n", Since: 1}}},
		{"a command", newStory().call("Write", wroteA, created, false).call("Bash", `{"command":"make"}`, "", false), []File{{Path: "a", Status: Recorded, Content: "one\ntwo\n", Why: ReasonCommand, Since: 2}}},
		{"a command that reads", newStory().call("Write", wroteA, created, false).call("Bash", `{"command":"cat a | head -3"}`, "", false), []File{{Path: "a", Status: Exact, Content: "one\ntwo\n", Since: 1}}},
		{"a read after a command", newStory().call("Write", wroteA, created, false).call("Bash", `{"command":"make"}`, "", false).call("Read", `{"file_path":"/p/a"}`, "     1→one\n     2→2\n     3→", false), []File{{Path: "a", Status: Exact, Content: "one\n2\n", Since: 3}}},
		{"a read of a part, the same", newStory().call("Write", wroteA, created, false).call("Bash", `{"command":"make"}`, "", false).call("Read", `{"file_path":"/p/a","offset":2,"limit":1}`, "     2→two", false), []File{{Path: "a", Status: Recorded, Content: "one\ntwo\n", Why: ReasonCommand, Since: 2}}},
		{"a read of a part, another", newStory().call("Write", wroteA, created, false).call("Bash", `{"command":"make"}`, "", false).call("Read", `{"file_path":"/p/a","offset":2,"limit":1}`, "     2→2", false), []File{{Path: "a", Status: Unknown, Why: ReasonDiffers, Since: 3}}},
		{"an edit that does not fit", newStory().call("Write", wroteA, created, false).call("Bash", `{"command":"make"}`, "", false).call("Edit", `{"file_path":"/p/a","old_string":"2","new_string":"3"}`, updated, false), []File{{Path: "a", Status: Unknown, Why: ReasonNotApplied, Since: 3}}},
		{"an edit without a base", newStory().call("Edit", `{"file_path":"/p/a","old_string":"2","new_string":"3"}`, updated, false), []File{{Path: "a", Status: Unknown, Why: ReasonNoBase, Since: 1}}},
		{"an edit that failed", newStory().call("Write", wroteA, created, false).call("Edit", `{"file_path":"/p/a","old_string":"2","new_string":"3"}`, "EIO: i/o error", true), []File{{Path: "a", Status: Unknown, Why: ReasonFailed, Since: 2}}},
		{"an edit that was refused", newStory().call("Write", wroteA, created, false).call("Edit", `{"file_path":"/p/a","old_string":"2","new_string":"3"}`, "<tool_use_error>String to replace not found in file.</tool_use_error>", true), []File{{Path: "a", Status: Exact, Content: "one\ntwo\n", Since: 1}}},
		{"an edit of a file that another wrote", newStory().call("Write", wroteA, created, false).call("Edit", `{"file_path":"/p/a","old_string":"one","new_string":"3"}`, "<tool_use_error>File has been modified since read, either by the user or by a linter.</tool_use_error>", true), []File{{Path: "a", Status: Unknown, Why: ReasonDiffers, Since: 2}}},
		{"a user's message", newStory().call("Write", wroteA, created, false).says("more").call("TodoWrite", `{}`, "ok", false), []File{{Path: "a", Status: Recorded, Content: "one\ntwo\n", Why: ReasonUser, Since: 2}}},
		{"another agent", newStory().call("Write", wroteA, created, false).call("Task", `{}`, "done", false), []File{{Path: "a", Status: Recorded, Content: "one\ntwo\n", Why: ReasonAgent, Since: 2}}},
		{"a command beside", newStory().call("Bash", `{"command":"make watch","run_in_background":true}`, "Command running in background with ID: 1", false).call("Write", wroteA, created, false), []File{{Path: "a", Status: Recorded, Content: "one\ntwo\n", Why: ReasonRunning, Since: 2}}},
		{"a missing file", newStory().call("Read", `{"file_path":"/p/a"}`, "File does not exist.", true), []File{{Path: "a", Status: Exact, Deleted: true, Since: 1}}},
		{"other line ends", newStory().call("Write", `{"file_path":"/p/a","content":"one\r\n"}`, created, false), []File{{Path: "a", Status: Recorded, Content: "one\r\n", Why: ReasonEncoding, Since: 1}}},
		{"names that differ in case", newStory().call("Write", wroteA, created, false).call("Write", `{"file_path":"/p/A","content":"x"}`, created, false), []File{{Path: "A", Status: Recorded, Content: "x", Why: ReasonNames, Since: 2}, {Path: "a", Status: Recorded, Content: "one\ntwo\n", Why: ReasonNames, Since: 2}}},
		{"a file where a folder was", newStory().call("Write", `{"file_path":"/p/a/b","content":"x"}`, created, false).call("Write", wroteA, created, false), []File{{Path: "a", Status: Exact, Content: "one\ntwo\n", Since: 2}, {Path: "a/b", Status: Recorded, Deleted: true, Why: ReasonDiffers, Since: 2}}},
	} {
		if got, _ := x.s.end(claudeOptions); !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: %+v, want %+v", x.name, got, x.want)
		}
	}
}

func TestAnEditOfAFileOfTheCommitIsNotExact(t *testing.T) {
	o := claudeOptions
	o.Base = func(_ turns.ID, p string) ([]byte, bool) { return []byte("one\n"), p == "a" }
	edit := newStory().call("Edit", `{"file_path":"/p/a","old_string":"one","new_string":"1"}`, "The file /p/a has been updated.", false)
	got, _ := edit.end(o)
	if want := []File{{Path: "a", Status: Recorded, Content: "1\n", Why: ReasonBase, Since: 1}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	o.Base = func(_ turns.ID, p string) ([]byte, bool) { return []byte("one\r\n"), p == "a" }
	got, _ = edit.call("Read", `{"file_path":"/p/a"}`, "     1→1\n     2→", false).end(o)
	if want := []File{{Path: "a", Status: Recorded, Content: "1\n", Why: ReasonEncoding, Since: 2}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// The editor of a user who does not wait for the end of an answer is in no transcript. This
// is what the rebuild can't see.
func TestAWriterThatTheTranscriptDoesNotShowIsNotSeen(t *testing.T) {
	got, _ := newStory().call("Write", wroteA, "File created successfully at: /p/a", false). /* here it writes */ call("TodoWrite", `{}`, "ok", false).end(claudeOptions)
	if len(got) != 1 || got[0].Status != Exact {
		t.Errorf("%+v", got)
	}
}

func TestHostilePathsAreRefusedByType(t *testing.T) {
	for p, why := range map[string]Reason{
		"../x": ReasonOutside, "/etc/passwd": ReasonOutside, "/p/../etc/x": ReasonOutside, "/p": ReasonOutside, "a/../../p2/x": ReasonOutside, ".": ReasonOutside, "/pp/x": ReasonOutside, `C:\x`: ReasonOutside,
		".git/config": ReasonGitFolder, "/p/sub/.GIT/hooks/x": ReasonGitFolder, "a/git~1/x": ReasonGitFolder, ".git./x": ReasonGitFolder, ".g\u200cit/x": ReasonGitFolder, ".git": ReasonGitFolder,
		"": ReasonBadPath, "a\x00b": ReasonBadPath, "a\nb": ReasonBadPath, "\x1b[2J": ReasonBadPath, strings.Repeat("a/", 3000): ReasonBadPath, strings.Repeat("a", 300): ReasonBadPath, "a\xff": ReasonBadPath, "\ufffd": ReasonBadPath,
	} {
		if rel, got := inside("/p", "/p", p); got != why || rel != "" {
			t.Errorf("%q: %q, %q, want %s", p, rel, got, why)
		}
	}
	for p, want := range map[string]string{"a": "sub/a", "/p/a": "a", "../a": "a", "/p//x/./y/../z": "x/z", ".github/x": "sub/.github/x", ".gitignore": "sub/.gitignore"} {
		if rel, why := inside("/p", "/p/sub", p); why != "" || rel != want {
			t.Errorf("%q: %q, %q, want %q", p, rel, why, want)
		}
	}
	if rel, why := inside(`c:\p`, "", `C:\p\d\f`); rel != "d/f" || why != "" {
		t.Errorf("%q, %q", rel, why)
	}
	s := newStory()
	for i := range 300 {
		s.call("Write", fmt.Sprintf(`{"file_path":"/p/.git/hooks/%d","content":"x"}`, i), "File created successfully at: x", false)
	}
	files, st := s.end(claudeOptions)
	if len(files) != 0 || st.RefusedAll != 300 || len(st.Refused) != maxRefused || st.Refused[0] != (Refused{"/p/.git/hooks/0", ReasonGitFolder}) {
		t.Errorf("%v, %d refused, %d named", files, st.RefusedAll, len(st.Refused))
	}
}

func TestHostileTranscriptsAreBounded(t *testing.T) {
	limits := Limits{Files: 10, FileSize: 1 << 10, Bytes: 4 << 10, Work: 64 << 10}
	o := claudeOptions
	o.Limits = limits
	write := func(s *story, name, text string) { // as an agent does
		b, _ := turns.EncodeJSON(map[string]string{"file_path": "/p/" + name, "content": text})
		s.call("Write", string(b), "File created successfully at: x", false)
	}
	why := func(s *story, name string) (Status, Reason) {
		files, _ := s.end(o)
		for _, f := range files {
			if f.Path == name {
				return f.Status, f.Why
			}
		}
		return "", ""
	}
	s := newStory()
	write(s, "a", strings.Repeat("x", 1<<10+1))
	if st, w := why(s, "a"); st != Unknown || w != ReasonTooLarge {
		t.Errorf("a large file: %s %s", st, w)
	}
	s = newStory()
	for i := range 12 {
		write(s, fmt.Sprint("f", i), strings.Repeat("x", 1000))
	}
	if st, w := why(s, "f9"); st != Unknown || w != ReasonTooLarge {
		t.Errorf("much in all: %s %s", st, w)
	}
	if files, st := s.end(o); len(files) != 10 || st.Refused[0].Why != ReasonTooMany {
		t.Errorf("%d files, refused %v", len(files), st.Refused)
	}
	s = newStory()
	write(s, "a", "ab")
	for range 12 { // it doubles
		s.call("Edit", `{"file_path":"/p/a","old_string":"a","new_string":"aa","replace_all":true}`, "The file x has been updated.", false)
	}
	if st, w := why(s, "a"); st != Unknown || w != ReasonNotApplied && w != ReasonTooLarge {
		t.Errorf("a file that doubles: %s %s", st, w)
	}
	s = newStory()
	write(s, "a", strings.Repeat("x", 1000)+"y")
	for range 50 {
		s.call("Edit", `{"file_path":"/p/a","old_string":"y","new_string":"z"}`, "The file x has been updated.", false)
		s.call("Edit", `{"file_path":"/p/a","old_string":"z","new_string":"y"}`, "The file x has been updated.", false)
	}
	if st, w := why(s, "a"); st != Unknown || w != ReasonTooLarge {
		t.Errorf("many edits: %s %s", st, w)
	}
	for _, arguments := range []string{``, `null`, `[]`, `{"file_path":7}`, `{"file_path":"/p/a","old_string":[]}`, `{"file_path":"/p/a","file_path":"/p/b"}`, `{"file_path":"/p/a","edits":[],"content":1}`} {
		for _, agent := range []string{"claude-code", "codex", "pi", "gemini-cli", "none"} {
			for _, name := range []string{"Edit", "Write", "Read", "MultiEdit", "Bash", "Task", "NotebookEdit", "apply_patch", "exec_command", "write_stdin", "read", "write", "edit", "bash", "replace", "write_file", "read_file", "run_shell_command"} {
				files, _ := newStory().call(name, arguments, "Success. The file Successfully", false).end(Options{Agent: agent, Folder: "/p"})
				for _, f := range files {
					if f.Status != Unknown {
						t.Errorf("%s of %s with %s: %+v", name, agent, arguments, f)
					}
				}
			}
		}
	}
}

func TestAWalkEndsWithTheErrorOfItsPath(t *testing.T) {
	bad := errors.New("bad")
	var got error
	for _, err := range Walk(func(yield func(Turn, error) bool) { _ = yield(Turn{Depth: 1}, nil) && yield(Turn{}, bad) }, claudeOptions) {
		got = err
	}
	if !errors.Is(got, bad) {
		t.Errorf("%v", got)
	}
}

func TestPatchesApplyWhereTheirOutcomeIsCertain(t *testing.T) {
	const text = "a\nb\nc\nb\nd\n"
	for _, x := range []struct{ patch, want string }{
		{"@@\n-a\n+1", "1\nb\nc\nb\nd\n"},
		{"@@\n b\n-c\n+1\n b", "a\nb\n1\nb\nd\n"},
		{"@@\n-b\n+1", ""},                  // two places
		{"@@ c\n-d\n+1", "a\nb\nc\nb\n1\n"}, // after a line
		{"@@ d\n-a\n+1", ""},                // before it
		{"@@\n-d\n+1\n*** End of File", "a\nb\nc\nb\n1\n"},
		{"@@\n-a\n+1\n*** End of File", ""},
		{"@@\n-d\n+1\n@@\n-a\n+1", ""}, // out of order
		{"@@\n+1", ""},                 // nothing to find
		{"@@\n- a\n+1", ""},            // but for blanks
		{"@@\n-a\n+1\n@@\n-d\n+2", "1\nb\nc\nb\n2\n"},
		{"@@\n-a\n-b\n-c\n-b\n-d", ""}, // an empty file
	} {
		files, ok := parsePatch("*** Begin Patch\n*** Update File: f\n" + x.patch + "\n*** End Patch")
		if !ok || len(files) != 1 {
			t.Errorf("%q is not read", x.patch)
			continue
		}
		if got, ok := applyHunks(text, files[0].hunks); got != x.want || ok != (x.want != "") {
			t.Errorf("%q: %q, %v, want %q", x.patch, got, ok, x.want)
		}
	}
	for _, bad := range []string{"", "*** Begin Patch\n*** End Patch", "*** Begin Patch\nx\n*** End Patch", "*** Begin Patch\n*** Add File: a\nx\n*** End Patch", "*** Begin Patch\n*** Delete File: a\n+x\n*** End Patch", "*** Begin Patch\n*** Update File: a\n@@\n#\n*** End Patch", "*** Update File: a"} {
		if _, ok := parsePatch(bad); ok {
			t.Errorf("%q is read", bad)
		}
	}
}

func TestOnlyThePlainestCommandsAreTakenToOnlyRead(t *testing.T) {
	for _, line := range []string{"cat a", "ls -la d | head -3", "git status", "git -C /p log --oneline -5", "sed -n '1,20p' a", `rg -n "a b" src`, "cd x && cat y; pwd", "find . -name '*.go'", "cat a 2>/dev/null || true", "git diff --stat=3", "nl -ba a 2>&1 | head", "grep -rn 'a$b' ."} {
		if !onlyReads(line) {
			t.Errorf("%q is said to write", line)
		}
	}
	for _, line := range []string{"", "make", "cat a > b", "cat a >> b", "cat $(x)", "cat `x`", "x=1 cat a", "sed -i s/a/b/ c", "sed -n '1w b' a", "sed -n 1p -i a", "sed 's/a/b/w c' d", "find . -delete", "find . -exec rm {} +", "git checkout .", "git diff --output=x", "git log -o x", "git -c core.pager=x log", "sort -o a a", "sort -oa a", "sort --output=a b", "uniq a b", "rg --pre x y", "cat a & rm b", "cat a | tee b", "cat a | sh", "echo a; rm b", "cat() { rm b; }; cat a", "cat <(x)", "cat \"$(x)\"", "cat a \\\n; rm b", "alias cat=rm", "ls # ' \n rm b", "cat 'a", "git", "git stash", "tail a |& tee b", "cat ~/a", "cat a\rrm b", "exec rm b", "command rm b", "xargs rm", "awk 1", "cat a 2>b", "cat a 2>/dev/nullx", strings.Repeat("cat a;", 2000)} {
		if onlyReads(line) {
			t.Errorf("%q is said to only read", line)
		}
	}
}

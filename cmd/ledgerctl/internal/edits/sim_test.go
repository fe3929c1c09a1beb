package edits

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nexus/turns"
)

// sim is an agent that works in a folder, and the transcript that an import has of it. Much
// of what happens to the folder stands in no transcript.
type sim struct {
	t       *rapid.T
	agent   string
	folder  map[string]string
	commit  map[string]string // the base commit; the folder may differ from it
	beside  bool              // something runs that changes files at any time
	session turns.ID
	calls   int

	path    []Turn
	truth   []map[string]string // the folder after each turn
	results []turns.Message     // for the next turn
	late    []*lateCall

	originals map[string]string // nil: the transcript's file is not there
	before    string            // what an edit found
}

// lateCall is a call whose result comes in a later turn than it should. It runs at any time
// until then.
type lateCall struct {
	run    func() turns.Message
	result *turns.Message
}

func (l *lateCall) do() turns.Message {
	if l.result == nil {
		m := l.run()
		l.result = &m
	}
	return *l.result
}

const simFolder = "/home/u/p"

var simNames = []string{"a", "b.txt", "d/c", "d/e.go", "d/f/g", "n.md"}

func (s *sim) draw(n int, what string) int { return rapid.IntRange(0, n-1).Draw(s.t, what) }

func (s *sim) name() string { return simNames[s.draw(len(simNames), "name")] }

// text returns a few lines of few words, so that edits are ambiguous now and then.
func (s *sim) text() string {
	lines := rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y", "z", "", "x ", "}", "x\ty", " z"}), 0, 6).Draw(s.t, "lines")
	text := strings.Join(lines, "\n")
	if len(lines) > 0 && s.draw(4, "end") > 0 {
		text += "\n"
	}
	return text
}

// hidden changes the folder as a program does that the transcript does not show.
func (s *sim) hidden() {
	for range s.draw(3, "changes") {
		name := s.name()
		switch s.draw(4, "how") {
		case 0:
			delete(s.folder, name)
		case 1:
			s.folder[name] = s.text()
		default:
			if old, ok := s.folder[name]; ok {
				s.folder[name] = strings.Replace(old, "x", "hidden", 1)
			}
		}
	}
}

// did is a call with its result, before it has run.
type did struct {
	name string
	args map[string]any
	raw  turns.Raw // arguments that are no object
	run  func() (text string, failed bool)
}

func (d did) arguments() turns.Raw {
	if d.raw != nil {
		return d.raw
	}
	b, err := turns.EncodeJSON(d.args)
	if err != nil {
		panic(err)
	}
	return b
}

// numberedLines shows lines as Claude Code does.
func numberedLines(text string, from int) string {
	var b strings.Builder
	for i, l := range strings.Split(text, "\n") {
		fmt.Fprintf(&b, "%6d→%s\n", from+i, l)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (s *sim) shell(name, key string) did {
	switch s.draw(4, "command") {
	case 0: // it only reads
		file := s.name()
		return did{name: name, args: map[string]any{key: "cat " + file}, run: func() (string, bool) {
			text, ok := s.folder[file]
			if s.agent == "codex" {
				code := 0
				if !ok {
					code = 1
				}
				noise := ""
				if s.draw(4, "noise") == 0 {
					noise = "a line of the user's profile\n"
				}
				return fmt.Sprintf("Chunk ID: 1\nProcess exited with code %d\nOutput:\n%s%s", code, noise, text), false
			}
			return text, !ok
		}}
	case 1: // it leaves something that runs on
		return did{name: name, args: map[string]any{key: "make watch &"}, run: func() (string, bool) {
			s.beside = true
			return "", false
		}}
	}
	return did{name: name, args: map[string]any{key: "make"}, run: func() (string, bool) {
		s.hidden()
		return "Process exited with code 0\nOutput:\n", s.draw(2, "exit") == 0
	}}
}

// foreignTool is a tool that the rebuild knows nothing of.
func (s *sim) foreignTool() did {
	return did{name: "mcp__x", args: map[string]any{}, run: func() (string, bool) { s.hidden(); return "ok", false }}
}

// part returns a piece of a text that may be in it more than once.
func (s *sim) part(text string) string {
	lines := strings.SplitAfter(text, "\n")
	i := s.draw(len(lines), "line")
	j := i + 1 + s.draw(len(lines)-i, "more")
	part := strings.Join(lines[i:j], "")
	if s.draw(3, "trim") == 0 {
		part = strings.TrimSuffix(part, "\n")
	}
	return part
}

func (s *sim) claude() did {
	name := s.name()
	file := simFolder + "/" + name
	switch s.draw(10, "tool") {
	case 0, 1:
		text := s.text()
		return did{name: "Write", args: map[string]any{"file_path": file, "content": text}, run: func() (string, bool) {
			if s.draw(6, "rejected") == 0 {
				return "The user doesn't want to proceed with this tool use.", true
			}
			if s.draw(8, "disk full") == 0 {
				s.folder[name] = text[:len(text)/2]
				return "ENOSPC: no space left on device", true
			}
			s.folder[name] = text
			return "File created successfully at: " + file, false
		}}
	case 2, 3, 4:
		old, new, every := s.part(s.folder[name]), s.text(), s.draw(4, "all") == 0
		if s.draw(3, "empty") == 0 {
			new = ""
		}
		return did{name: "Edit", args: map[string]any{"file_path": file, "old_string": old, "new_string": new, "replace_all": every}, run: func() (string, bool) {
			text, ok := s.folder[name]
			if old == "" && !ok {
				s.folder[name] = new
				return "The file " + file + " has been updated.", false
			}
			if n := strings.Count(text, old); !ok || old == "" || n == 0 || n > 1 && !every {
				return "<tool_use_error>String to replace not found in file.</tool_use_error>", true
			}
			s.before = text
			with := new
			if !strings.HasSuffix(name, ".md") && s.draw(2, "strips") == 0 { // some versions
				with = trailingSpace.ReplaceAllString(new, "")
			}
			if with == "" && !strings.HasSuffix(old, "\n") && strings.Contains(text, old+"\n") {
				old += "\n"
			}
			if every {
				s.folder[name] = strings.ReplaceAll(text, old, with)
			} else {
				s.folder[name] = strings.Replace(text, old, with, 1)
			}
			return "The file " + file + " has been updated.", false
		}}
	case 5, 6:
		from, limit := 1, 0
		args := map[string]any{"file_path": file}
		if s.draw(3, "part") == 0 {
			from, limit = 1+s.draw(3, "offset"), 1+s.draw(3, "limit")
			args["offset"], args["limit"] = from, limit
		}
		return did{name: "Read", args: args, run: func() (string, bool) {
			text, ok := s.folder[name]
			if !ok {
				return "File does not exist.", true
			}
			if text == "" {
				return "<system-reminder>Warning: the file exists but the contents are empty.</system-reminder>", false
			}
			lines := strings.Split(text, "\n")
			if limit > 0 {
				lines = lines[min(from-1, len(lines)):min(from-1+limit, len(lines))]
			}
			if len(lines) == 0 {
				return "<system-reminder>Warning: the file is shorter.</system-reminder>", false
			}
			return numberedLines(strings.Join(lines, "\n"), from) + "\n\n<system-reminder>\nCareful.\n</system-reminder>\n", false
		}}
	case 7:
		return did{name: "Task", args: map[string]any{"prompt": "p"}, run: func() (string, bool) { s.hidden(); return "done", false }}
	case 8:
		return s.foreignTool()
	}
	return s.shell("Bash", "command")
}

func (s *sim) pi() did {
	name := s.name()
	switch s.draw(7, "tool") {
	case 0, 1:
		text := s.text()
		return did{name: "write", args: map[string]any{"path": name, "content": text}, run: func() (string, bool) {
			s.folder[name] = text
			return "Successfully wrote 1 bytes to " + name, false
		}}
	case 2, 3:
		old, new := s.part(s.folder[name]), s.text()
		return did{name: "edit", args: map[string]any{"path": name, "oldText": old, "newText": new}, run: func() (string, bool) {
			text, ok := s.folder[name]
			if !ok || old == "" || strings.Count(text, old) != 1 {
				return "Could not find the exact text in " + name, true
			}
			s.folder[name] = strings.Replace(text, old, new, 1)
			return "Successfully replaced text in " + name, false
		}}
	case 4:
		args := map[string]any{"path": name}
		cut := s.draw(3, "part") == 0
		if cut {
			args["limit"] = 1
		}
		return did{name: "read", args: args, run: func() (string, bool) {
			text, ok := s.folder[name]
			if !ok {
				return "ENOENT: no such file", true
			}
			if first, _, more := strings.Cut(text, "\n"); cut && more {
				return first + "\n\n[1 more lines in file. Use offset=2 to continue]", false
			}
			return text, false
		}}
	case 5:
		return s.foreignTool()
	}
	return s.shell("bash", "command")
}

func (s *sim) gemini() did {
	name := s.name()
	file := simFolder + "/" + name
	switch s.draw(6, "tool") {
	case 0, 1:
		text := s.text()
		return did{name: "write_file", args: map[string]any{"file_path": file, "content": text}, run: func() (string, bool) {
			s.folder[name] = text
			return "Successfully overwrote file: " + file, false
		}}
	case 2, 3:
		old, new := s.part(s.folder[name]), s.text()
		return did{name: "replace", args: map[string]any{"file_path": file, "old_string": old, "new_string": new}, run: func() (string, bool) {
			text, ok := s.folder[name]
			switch {
			case old == "" && !ok:
				s.folder[name] = new
				return "Created new file: " + file, false
			case !ok || old == "" || strings.Count(text, old) != 1:
				return "Failed to edit, could not find the string to replace.", true
			}
			s.folder[name] = strings.Replace(text, old, new, 1)
			return "Successfully modified file: " + file + " (1 replacements).", false
		}}
	case 4:
		return did{name: "read_file", args: map[string]any{"absolute_path": file}, run: func() (string, bool) {
			text, ok := s.folder[name]
			if !ok {
				return "File not found: " + file, true
			}
			return text, false
		}}
	}
	return s.shell("run_shell_command", "command")
}

// patched changes a text as apply_patch does: each change at the first place that fits, and
// if none does, at the first that fits but for blanks.
func patched(text string, old, new []string) (string, bool) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if text == "" {
		lines = nil
	}
	for _, same := range []func(a, b string) bool{
		func(a, b string) bool { return a == b },
		func(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) },
	} {
		for i := range len(lines) - len(old) + 1 {
			if slices.EqualFunc(lines[i:i+len(old)], old, same) {
				return strings.Join(slices.Replace(lines, i, i+len(old), new...), "\n") + "\n", true
			}
		}
	}
	return "", false
}

func (s *sim) codex() did {
	if s.draw(3, "tool") == 0 {
		return s.shell("exec_command", "cmd")
	}
	name, to := s.name(), s.name()
	var b strings.Builder
	b.WriteString("*** Begin Patch\n")
	var run func() bool
	switch s.draw(6, "patch") {
	case 0, 1:
		text := s.text()
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		fmt.Fprintf(&b, "*** Add File: %s\n", name)
		for l := range strings.Lines(text) {
			b.WriteString("+" + l)
		}
		run = func() bool { s.folder[name] = text; return true }
	case 2:
		fmt.Fprintf(&b, "*** Delete File: %s\n", name)
		run = func() bool {
			_, ok := s.folder[name]
			delete(s.folder, name)
			return ok
		}
	default:
		fmt.Fprintf(&b, "*** Update File: %s\n", name)
		if to != name && s.draw(3, "move") == 0 {
			fmt.Fprintf(&b, "*** Move to: %s\n", to)
		} else {
			to = name
		}
		old := strings.Split(strings.TrimSuffix(s.part(s.folder[name]), "\n"), "\n")
		if s.draw(3, "blanks") == 0 {
			old[0] = strings.TrimSpace(old[0])
		}
		new := strings.Split(s.text(), "\n")
		b.WriteString("@@\n")
		for _, l := range old {
			b.WriteString("-" + l + "\n")
		}
		for _, l := range new {
			b.WriteString("+" + l + "\n")
		}
		run = func() bool {
			text, ok := s.folder[name]
			if ok {
				text, ok = patched(text, old, new)
			}
			if ok {
				delete(s.folder, name)
				s.folder[to] = text
			}
			return ok
		}
	}
	b.WriteString("*** End Patch")
	return did{name: "apply_patch", raw: turns.RawText(b.String()), run: func() (string, bool) {
		if !run() {
			return "apply_patch verification failed: no such lines", false
		}
		return "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\nM x\n", false
	}}
}

func (s *sim) call() did {
	switch s.agent {
	case "claude-code":
		return s.claude()
	case "codex":
		return s.codex()
	case "pi":
		return s.pi()
	}
	return s.gemini()
}

func (s *sim) turn() {
	t := Turn{ID: turns.ID{byte(len(s.path))}, Session: s.session, Depth: uint64(len(s.path) + 1), Messages: s.results}
	s.results = nil
	if len(s.path) == 0 || s.draw(8, "user") == 0 {
		if len(s.path) > 0 {
			s.hidden() // the user's editor
		}
		t.Messages = append(t.Messages, turns.TextMessage(turns.User, "go on"))
	}
	if len(s.path) > 0 && s.draw(25, "fork") == 0 { // a rewind: the other branch has changed files
		s.session[1]++
		t.Session = s.session
		s.hidden()
	}
	response := turns.Message{Role: turns.Assistant}
	var calls []did
	for range s.draw(3, "calls") {
		calls = append(calls, s.call())
	}
	if len(calls) == 0 {
		calls = append(calls, s.call())
	}
	order := make([]int, len(calls))
	for i, d := range calls {
		order[i] = i
		response.Parts = append(response.Parts, turns.Part{Type: turns.ToolCall, ID: fmt.Sprint("c", s.calls+i), Name: d.name, Arguments: d.arguments()})
	}
	if !toolsOf(s.agent).inOrder() {
		order = rapid.Permutation(order).Draw(s.t, "order")
	}
	var ended *lateCall
	if len(s.late) > 0 { // of an earlier response
		switch s.draw(4, "late") {
		case 0:
			ended, s.late = s.late[0], s.late[1:]
		case 1:
			s.late[0].do()
		}
	}
	results := make([]*turns.Message, len(calls))
	for _, i := range order {
		id := response.Parts[i].ID
		run := func() turns.Message {
			text, failed := calls[i].run()
			if s.originals != nil && calls[i].name == "Edit" && !failed && calls[i].args["old_string"] != "" {
				s.originals[id] = s.before
			}
			return turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: id, Response: turns.RawText(text), IsError: failed}}}
		}
		switch s.draw(20, "result") {
		case 0: // it ran, or half of it, and nobody knows
			if s.draw(2, "ran") == 0 {
				run()
			}
		case 1: // it runs later
			s.late = append(s.late, &lateCall{run: run})
		default:
			m := run()
			results[i] = &m
		}
		if s.beside {
			s.hidden()
		}
	}
	for _, m := range results {
		if m != nil {
			s.results = append(s.results, *m)
		}
	}
	if ended != nil { // beside the calls
		s.results = append(s.results, ended.do())
	}
	s.calls += len(calls)
	t.Response = &response
	s.path, s.truth = append(s.path, t), append(s.truth, maps.Clone(s.folder))
	if s.draw(15, "compaction") == 0 {
		s.path = append(s.path, Turn{ID: turns.ID{byte(len(s.path))}, Session: s.session, Depth: uint64(len(s.path) + 1), Compaction: true})
		s.truth = append(s.truth, maps.Clone(s.folder))
	}
}

func (s *sim) walk() iter.Seq2[*State, error] {
	var base func(turns.ID, string) ([]byte, bool)
	if s.commit != nil {
		base = func(_ turns.ID, p string) ([]byte, bool) { text, ok := s.commit[p]; return []byte(text), ok }
	}
	path := append(slices.Clone(s.path), Turn{ID: turns.ID{255}, Session: s.session, Depth: uint64(len(s.path) + 1), Messages: s.results})
	return Walk(func(yield func(Turn, error) bool) {
		for _, t := range path {
			if !yield(t, nil) {
				return
			}
		}
	}, Options{Agent: s.agent, Folder: simFolder, Base: base, Originals: s.originals})
}

// simulated counts what simulations showed, over all of them.
type simulated struct{ exact, deleted, recorded, stale, unknown int }

func simulate(t *rapid.T, agent string, n *simulated) {
	s := &sim{t: t, agent: agent, folder: make(map[string]string)}
	for range s.draw(4, "files") {
		s.folder[s.name()] = s.text()
	}
	if s.draw(2, "commit") == 0 {
		s.commit = maps.Clone(s.folder)
		s.hidden()
	}
	if s.draw(2, "file") == 0 {
		s.originals = make(map[string]string)
	}
	for range 3 + s.draw(12, "turns") {
		s.turn()
	}
	i := 0
	for st, err := range s.walk() {
		if err != nil {
			t.Fatal(err)
		}
		if i == len(s.truth) {
			break // after the results
		}
		for _, f := range st.Files() {
			is, there := s.truth[i][f.Path]
			right := there == !f.Deleted && is == f.Content
			switch f.Status {
			case Exact:
				n.exact++
				if f.Deleted {
					n.deleted++
				}
				if !right {
					t.Fatalf("%s: after turn @%d %s is called exact since @%d, deleted %v, %q; it is there %v, %q", agent, st.Turn.Depth, f.Path, f.Since, f.Deleted, f.Content, there, is)
				}
				if f.Why != "" {
					t.Fatalf("exact because %s", f.Why)
				}
			case Recorded:
				n.recorded++
				if !right {
					n.stale++
				}
			default:
				n.unknown++
			}
			if f.Status != Exact && f.Why.Text() == "" {
				t.Fatalf("%s of %s has no words: %q", f.Status, f.Path, f.Why)
			}
		}
		i++
	}
}

// A simulated agent works in a folder that commands, tools, users, other agents and calls
// without results change behind the transcript's back. What is called exact is exact.
func TestWhatIsCalledExactIsInTheFolderOfASimulatedAgent(t *testing.T) {
	for _, agent := range []string{"claude-code", "codex", "pi", "gemini-cli"} {
		t.Run(agent, func(t *testing.T) {
			var n simulated
			for range 5 { // so that the counts below are far from their bounds
				rapid.Check(t, func(t *rapid.T) { simulate(t, agent, &n) })
			}
			t.Logf("%+v", n)
			if n.exact < 100 || n.recorded < 100 || n.stale < 20 || n.unknown < 20 {
				t.Errorf("too little to show something: %+v", n)
			}
		})
	}
}

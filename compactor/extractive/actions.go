package extractive

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"nexus/compactor/summary"
	"nexus/turns"
)

const (
	maxActions = 8_000 // actions kept at a time
	maxLabel   = 220   // bytes of an action's label
	maxOutcome = 240   // bytes of an action's outcome
)

// action is something that the agent did, in its last state: a file, a command, or
// another call. A later action with the same key replaces an earlier one.
type action struct {
	key     string
	label   string // "edited x.go", "$ go test ./..."
	outcome string // the last outcome; "" if unknown or not needed
	times   int    // calls; of a file that was written, the writes that did not fail, and the first
	writes  bool
	command bool
	failing bool   // the last outcome is an unresolved error
	was     string // the last error, resolved since
	depth   uint64
	order   int // ordinal of the half that mentions it last
	prior   float64
}

// actions holds what the agent did, by key, and the calls that wait for a response.
type actions struct {
	byKey map[string]*action
	open  map[string][]opened // by call id; a patch of several files is an action for each, the first file last
}

// opened is an action whose call waits for its response.
type opened struct {
	*action
	write bool // the call writes the file
}

func newActions() *actions {
	return &actions{byKey: make(map[string]*action), open: make(map[string][]opened)}
}

// call records a tool call. A patch is recorded for each file that it changes.
func (a *actions) call(p *turns.Part, args map[string]turns.Raw, order int, depth uint64) {
	heads := patchHeads(p)
	if len(heads) == 0 {
		a.record(describe(p, args), p.ID, order, depth)
	}
	for _, head := range slices.Backward(heads) {
		label := patched + head
		a.record(action{key: keyOf(label), label: label, writes: true}, p.ID, order, depth)
	}
}

func (a *actions) record(next action, id string, order int, depth uint64) {
	act := a.byKey[next.key]
	if act == nil {
		if len(a.byKey) >= maxActions {
			a.prune(order)
		}
		act = &next
		a.byKey[next.key] = act
	} else {
		if next.writes || !act.writes {
			act.label = next.label
		}
		if next.writes && !act.writes {
			act.times = 0 // it was only read
		}
		act.writes = act.writes || next.writes
		act.prior = 0
	}
	if next.writes || !act.writes {
		act.times++
	}
	act.order, act.depth = order, depth
	if len(a.open) < maxActions {
		a.open[id] = append(a.open[id], opened{act, next.writes})
	}
}

// patched begins the label of a file that was patched. The line that names the file in
// the patch follows, which the agent writes again.
const patched = "patched "

// patchFile matches the line of a patch that names a file.
var patchFile = regexp.MustCompile(`(?m)^\*\*\* (?:Update|Add|Delete) File: (.+)$`)

// patchHeads returns the lines of a patch in a call's arguments that name its files.
func patchHeads(p *turns.Part) (out []string) {
	if strings.Contains(string(p.Arguments), "*** Begin Patch") {
		for _, head := range patchFile.FindAllString(flat(p.Arguments), 40) {
			out = append(out, oneLine(head, maxLabel))
		}
	}
	return out
}

// response records how a call ended.
func (a *actions) response(p *turns.Part, text string, order int, depth uint64) {
	acts := a.open[p.ID]
	delete(a.open, p.ID)
	if len(acts) == 0 {
		if !p.IsError {
			return
		}
		act := &action{key: "!" + oneLine(text, 60), label: cmp.Or(p.Name, "a call"), times: 1}
		a.byKey[act.key] = act
		acts = []opened{{act, false}}
	}
	for _, act := range acts {
		failed, note := outcome(text, p.IsError, act.command, act.command && onlyReads(act.label))
		if failed && act.write && act.times > 1 {
			act.times--
		}
		switch {
		case failed:
			act.failing = true
		case act.failing:
			act.was, act.failing = act.outcome, false
		}
		act.outcome, act.order, act.depth = note, order, depth
	}
}

// prune drops the less valuable half.
func (a *actions) prune(now int) {
	all := a.ranked(now)
	for _, act := range all[len(all)/2:] {
		delete(a.byKey, act.key)
	}
}

// ranked returns the actions, most valuable first.
func (a *actions) ranked(now int) []*action {
	all := make([]*action, 0, len(a.byKey))
	for _, act := range a.byKey {
		all = append(all, act)
	}
	slices.SortFunc(all, func(x, y *action) int {
		return cmp.Or(cmp.Compare(y.worth(now), x.worth(now)), cmp.Compare(y.order, x.order), cmp.Compare(x.key, y.key))
	})
	return all
}

func (act *action) worth(now int) float64 {
	w := .4 + act.prior
	if act.writes {
		w += 1.6
	}
	if act.command {
		w += .5
		if act.outcome == "" && onlyReads(act.label) {
			w -= .5
		}
	}
	if act.failing {
		w += 1.2
	}
	if act.was != "" {
		w += .5
	}
	w += min(.8, .2*float64(act.times-1))
	return w + 1.4/(1+float64(now-act.order)/30)
}

// line returns an action as an item.
func (act *action) line() string {
	s := act.label
	if act.times > 1 {
		s += fmt.Sprintf(" ×%d", act.times)
	}
	if act.outcome != "" {
		s += " → " + act.outcome
	}
	if act.was != "" && !act.failing && act.was != act.outcome {
		s += " (before: " + act.was + ")"
	}
	return s
}

// recall restores an item of an earlier summary; rank 0 is the best.
func (a *actions) recall(item string, depth uint64, order int) {
	label, rest, _ := strings.Cut(item, " → ")
	label, _, _ = strings.Cut(label, " ×")
	act := &action{key: keyOf(label), label: label, outcome: rest, times: 1, depth: depth, order: order, prior: .4,
		command: strings.HasPrefix(label, "$ "), writes: strings.HasPrefix(label, "wrote ") || strings.HasPrefix(label, patched), failing: strings.HasPrefix(rest, "failed")}
	if len(a.byKey) < maxActions {
		a.byKey[act.key] = act
	}
}

// keyOf returns the key of a label. Labels of one file have one key, whether it was
// read or written.
func keyOf(label string) string {
	if head, ok := strings.CutPrefix(label, patched); ok {
		if m := patchFile.FindStringSubmatch(head); m != nil {
			return "file " + m[1]
		}
	}
	for _, verb := range [...]string{"wrote ", "read "} {
		if path, ok := strings.CutPrefix(label, verb); ok {
			return "file " + path
		}
	}
	return label
}

// describe says what a call does, from its arguments.
func describe(p *turns.Part, args map[string]turns.Raw) action {
	text := func(keys ...string) string {
		for _, k := range keys {
			if v, ok := args[k]; ok {
				if s, ok := v.Text(); ok && s != "" {
					return oneLine(s, maxLabel)
				}
				if v.Kind() == '[' {
					return oneLine(strings.Join(stringsOf(v), " "), maxLabel)
				}
			}
		}
		return ""
	}
	name := strings.ToLower(p.Name)
	if cmd := text("command", "cmd", "script"); cmd != "" {
		return action{key: "$ " + cmd, label: "$ " + cmd, command: true}
	}
	if path := text("file_path", "notebook_path", "path", "filename", "file", "target_file"); path != "" {
		if writesFiles(name) {
			return action{key: "file " + path, label: "wrote " + path, writes: true}
		}
		if !strings.Contains(name, "grep") && !strings.Contains(name, "glob") && !strings.Contains(name, "search") {
			return action{key: "file " + path, label: "read " + path}
		}
	}
	what := text("pattern", "query", "url", "subject", "description", "prompt", "skill", "input")
	if what == "" {
		what = oneLine(flat(p.Arguments), 140)
	}
	label := strings.TrimSpace(oneLine(p.Name, 60) + " " + oneLine(what, 140))
	return action{key: label, label: label}
}

func writesFiles(name string) bool {
	for _, verb := range [...]string{"write", "edit", "create", "patch", "replace", "update", "insert"} {
		if strings.Contains(name, verb) {
			return true
		}
	}
	return false
}

// outcome says how a call ended, from its output: what failed and the error that says the
// most if it failed, otherwise a line that looks like a test's result, or a short output.
// A command that only reads may print any text, which says nothing about how it ended.
func outcome(text string, isError, command, onlyReads bool) (failed bool, note string) {
	head, tail := ends(text, 16<<10, 16<<10)
	code := exitCode(head)
	failed = isError || code != "" && code != "0" && !(onlyReads && code == "1") // a search without a hit ends so
	head = summary.CommandOutput(head)
	var errLine, test, result string
	best := 0.0
	for _, part := range [...]string{head, tail} {
		for line := range strings.SplitSeq(part, "\n") {
			if mayHaveStamp(line) {
				line = logStamp.ReplaceAllString(line, "")
			}
			if worth := errorWorth(line); worth > best {
				errLine, best = oneLine(line, maxOutcome), worth
			}
			if test == "" && mayFailTest(line) && failedTest.MatchString(line) {
				test = oneLine(line, maxOutcome/2)
			}
			if command && readsAsResult(line) && (!onlyReads || strings.Contains(line, "changed")) {
				result = oneLine(line, 120)
			}
		}
	}
	if !failed && !onlyReads && command && (test != "" || failedResult(result)) {
		failed = true
	}
	if !failed && !command && len(text) <= maxOutcome && strings.Contains(strings.ToLower(text), "failed: ") {
		failed = true
	}
	if !failed {
		if result == "" && command {
			result = shortOutput(head)
		}
		return false, result
	}
	note = "failed"
	if code != "" && code != "0" {
		note += ", exit " + code
	}
	if errLine == "" {
		errLine = oneLine(head, maxOutcome)
	}
	if test != "" && !strings.Contains(errLine, test) && best > 1.5 {
		errLine = test + "; " + errLine
	}
	if errLine != "" {
		note += ": " + errLine
	}
	return true, note
}

var (
	// logStamp matches what a log of a job writes before each line: columns and a time.
	logStamp   = regexp.MustCompile(`^(?:.*\t)?\x{feff}?\d{4}-\d\d-\d\dT\d\d:\d\d:[\d.]+Z\s+`)
	failedTest = regexp.MustCompile(`^\s*(--- FAIL: |FAIL\s+\S.* > |FAILED \S+::|✗ |not ok \d)`)
	fileLine   = regexp.MustCompile(`[\w/-]\.[a-z]{1,5}(:|\()\d+`)
	// plainFailure matches lines that only say that something failed.
	plainFailure = regexp.MustCompile(`(?i)(^\s*(FAIL|FAILED|error|exit status \d+)[:.]?\s*$|^FAIL\t|task failed|exit code|exit status|make: \*\*\*|ELIFECYCLE|npm ERR|Tests?:?\s.*\d+ failed|Test (Files|Suites)|failed tests? \d)`)
)

// mayHaveStamp reports whether a line has what [logStamp] needs: a date, a T and an hour. Few lines
// do, and a look for the T is a hundredth of a match.
func mayHaveStamp(line string) bool {
	for at := 0; ; at++ {
		i := strings.IndexByte(line[at:], 'T')
		if i < 0 {
			return false
		}
		if at += i; at >= len("2006-01-02") && at+3 < len(line) && line[at-3] == '-' && line[at-6] == '-' && line[at+3] == ':' {
			return true
		}
	}
}

// mayFailTest reports whether a line begins as [failedTest] does.
func mayFailTest(line string) bool {
	line = strings.TrimLeft(line, " \t\n\f\r")
	return line != "" && strings.IndexByte("-Fn\xe2", line[0]) >= 0
}

// errorWorth says how much a line says about an error; 0 for a line that reports none.
func errorWorth(line string) (w float64) {
	if !readsAsError(line) || len(line) > 2_000 {
		return 0
	}
	if w = 1; plainFailure.MatchString(line) {
		return .3
	}
	if fileLine.MatchString(line) {
		w++
	}
	for _, c := range [...]string{"rror: ", "panic:", "undefined:", "expected", " got ", "want ", "Exception:", "fatal:", "failed: "} {
		if strings.Contains(line, c) {
			return w + 1
		}
	}
	return w
}

// failedResult reports whether the result of a test is a failure.
func failedResult(result string) bool {
	return strings.HasPrefix(strings.TrimSpace(result), "FAIL") || someFailed.MatchString(result)
}

var someFailed = regexp.MustCompile(`\b[1-9]\d* (tests? )?failed`)

// shortOutput returns an output of at most three lines; "" for a longer one.
func shortOutput(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > 160 || strings.Count(s, "\n") > 2 {
		return ""
	}
	return oneLine(strings.ReplaceAll(s, "\n", " | "), 160)
}

// onlyReads reports whether a command, as a label, prints files or the state of a
// repository, and runs nothing.
func onlyReads(label string) bool {
	label = strings.TrimPrefix(label, "$ ")
	for {
		before, rest, ok := strings.Cut(label, "&& ")
		if w, _, _ := strings.Cut(before, " "); !ok || w != "cd" && w != "pwd" && w != "echo" {
			break
		}
		label = rest
	}
	words := strings.Fields(label)
	if len(words) == 0 || strings.Contains(label, " test ") {
		return false
	}
	switch words[0] {
	case "sed", "nl", "cat", "head", "tail", "rg", "grep", "find", "ls", "wc", "awk", "tree":
		return true
	case "git":
		return len(words) > 1 && slices.Contains([]string{"diff", "show", "log", "blame", "status", "grep"}, words[1])
	}
	return false
}

// exitCode returns the number after "exit code" or "exited with code" near the start of s;
// "" for none.
func exitCode(s string) string {
	s = strings.ToLower(s[:min(len(s), 300)])
	at := exitMark.FindStringIndex(s)
	if at == nil {
		return ""
	}
	s = strings.TrimLeft(s[at[1]:], ": ")
	n := 0
	for n < len(s) && n < 4 && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return s[:n]
}

var exitMark = regexp.MustCompile(`exit(ed with)? code`)

func readsAsError(line string) bool {
	for _, w := range [...]string{"rror:", "ERROR", "panic:", "FAIL", "fatal", "Exception", "failed", "undefined:", "cannot ", "not found", "No such file", "denied", "Traceback", "expected", "limit reached", "refused", "timed out"} {
		if strings.Contains(line, w) {
			return lettersIn(line) > 3 && !strings.HasPrefix(strings.TrimSpace(line), "Exit code")
		}
	}
	return false
}

func readsAsResult(line string) bool {
	if len(line) > 300 || lettersIn(line) < 2 {
		return false
	}
	for _, w := range [...]string{" passed", " failed", "FAIL", "--- PASS", "tests pass", "Tests:", " passing", "files changed", "file changed", "BUILD "} {
		if strings.Contains(line, w) {
			return true
		}
	}
	return strings.HasPrefix(line, "ok  ") || strings.HasPrefix(line, "PASS")
}

// lastRun returns the command that ended last and whose output told how; nil for none.
func (a *actions) lastRun() (last *action) {
	for _, act := range a.byKey {
		if act.command && act.outcome != "" && act.order >= 0 && !onlyReads(act.label) &&
			(last == nil || act.order > last.order || act.order == last.order && act.key > last.key) {
			last = act
		}
	}
	return last
}

// writtenSince says which file that an entry names was written after half order; "" for
// none. The list itself does not say that the entry is done.
func (a *actions) writtenSince(entry string, order int) string {
	name := ""
	for key, act := range a.byKey {
		path, ok := strings.CutPrefix(key, "file ")
		if base := path[strings.LastIndexByte(path, '/')+1:]; ok && act.writes && !act.failing && act.order > order && len(base) > 3 && contains(entry, base) && (name == "" || path < name) {
			name = path
		}
	}
	if name == "" || strings.Contains(entry, writtenMark) {
		return ""
	}
	return writtenMark + name + ")"
}

const writtenMark = " (since then written: "

// waiting returns the calls without a response, oldest first.
func (a *actions) waiting() []*action {
	var out []*action
	for _, acts := range a.open {
		out = append(out, acts[len(acts)-1].action)
	}
	slices.SortFunc(out, func(x, y *action) int { return cmp.Or(cmp.Compare(x.order, y.order), cmp.Compare(x.key, y.key)) })
	return out[max(0, len(out)-4):]
}

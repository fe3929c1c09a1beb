package extractive

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"nexus/turns"
)

const (
	maxActions = 8_000 // actions kept at a time
	maxLabel   = 220   // bytes of an action's label
	maxOutcome = 200   // bytes of an action's outcome
)

// action is something that the agent did, in its last state: a file, a command, or
// another call. A later action with the same key replaces an earlier one.
type action struct {
	key     string
	label   string // "edited x.go", "$ go test ./..."
	outcome string // the last outcome; "" if unknown or not needed
	times   int
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
	open  map[string]*action // by call id
}

func newActions() *actions {
	return &actions{byKey: make(map[string]*action), open: make(map[string]*action)}
}

// call records a tool call.
func (a *actions) call(p *turns.Part, args map[string]turns.Raw, order int, depth uint64) {
	next := describe(p, args)
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
		act.writes = act.writes || next.writes
		act.prior = 0
	}
	act.times++
	act.order, act.depth = order, depth
	if len(a.open) < maxActions {
		a.open[p.ID] = act
	}
}

// response records how a call ended.
func (a *actions) response(p *turns.Part, text string, order int, depth uint64) {
	act := a.open[p.ID]
	delete(a.open, p.ID)
	if act == nil {
		if !p.IsError {
			return
		}
		key := "!" + oneLine(text, 60)
		act = &action{key: key, label: cmp.Or(p.Name, "a call"), times: 1}
		a.byKey[key] = act
	}
	failed, note := outcome(text, p.IsError, act.command)
	switch {
	case failed:
		act.failing = true
	case act.failing:
		act.was, act.failing = act.outcome, false
	}
	act.outcome, act.order, act.depth = note, order, depth
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
		command: strings.HasPrefix(label, "$ "), writes: strings.HasPrefix(label, "wrote "), failing: strings.HasPrefix(rest, "failed")}
	if len(a.byKey) < maxActions {
		a.byKey[act.key] = act
	}
}

// keyOf returns the key of a label. Labels of one file have one key, whether it was
// read or written.
func keyOf(label string) string {
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

// outcome says how a call ended, from its output: the first line that looks like an
// error if it failed, otherwise a line that looks like a test's result.
func outcome(text string, isError, command bool) (failed bool, note string) {
	head, tail := ends(text, 16<<10, 16<<10)
	code := exitCode(head)
	failed = isError || code != "" && code != "0"
	var errLine, result string
	for _, part := range [...]string{head, tail} {
		for line := range strings.SplitSeq(part, "\n") {
			if errLine == "" && readsAsError(line) {
				errLine = oneLine(line, maxOutcome)
			}
			if command && readsAsResult(line) {
				result = oneLine(line, 120)
			}
		}
	}
	if !failed {
		return false, result
	}
	note = "failed"
	if code != "" {
		note += ", exit " + code
	}
	if errLine == "" {
		errLine = oneLine(head, maxOutcome)
	}
	if errLine != "" {
		note += ": " + errLine
	}
	return true, note
}

// exitCode returns the number after "exit code" near the start of s; "" for none.
func exitCode(s string) string {
	s = strings.ToLower(s[:min(len(s), 300)])
	i := strings.Index(s, "exit code")
	if i < 0 {
		return ""
	}
	s = strings.TrimLeft(s[i+len("exit code"):], ": ")
	n := 0
	for n < len(s) && n < 4 && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return s[:n]
}

func readsAsError(line string) bool {
	for _, w := range [...]string{"rror:", "ERROR", "panic:", "FAIL", "fatal", "Exception", "failed", "undefined:", "cannot ", "not found", "No such file", "denied", "Traceback", "expected"} {
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

// waiting returns the calls without a response, oldest first.
func (a *actions) waiting() []*action {
	var out []*action
	for _, act := range a.open {
		out = append(out, act)
	}
	slices.SortFunc(out, func(x, y *action) int { return cmp.Or(cmp.Compare(x.order, y.order), cmp.Compare(x.key, y.key)) })
	return out[max(0, len(out)-4):]
}

package quote

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nexus/turns/tokens"
)

func fileOf(text string) *file {
	f := &file{}
	f.write(text, origin{order: 1, depth: 1})
	return f
}

func (f *file) texts() []string {
	out := make([]string, len(f.lines))
	for i := range f.lines {
		out[i] = f.lines[i].text
	}
	return out
}

func TestEditReplacesWhatItNames(t *testing.T) {
	for name, c := range map[string]struct {
		text, from, to string
		all            bool
		want           string
	}{
		"first hit":                        {"a b a\na", "a", "c", false, "c b a\na"},
		"each hit of a line":               {"a b a\na", "a", "c", true, "c b c\nc"},
		"hits that share a line":           {"a1\nb1\na1\nb2", "1\nb", "-", true, "a-1\na-2"},
		"a line becomes several":           {"a\nb", "a", "x\ny", false, "x\ny\nb"},
		"several lines become one":         {"a\nb\nc", "a\nb", "x", false, "x\nc"},
		"a line break that goes joins":     {"a\nb\nc", "a\n", "x", false, "xb\nc"},
		"a line break that goes, each":     {"a\na\nb", "a\n", "x", true, "xxb"},
		"a line break that stays":          {"a\nb\nc", "a\n", "x\n", false, "x\nb\nc"},
		"a line that goes":                 {"a\nb\nc", "b\n", "", false, "a\nc"},
		"a line that goes with its text":   {"a\nb\nc", "b", "", false, "a\nc"},
		"the last line's break":            {"a\nb", "b\n", "x", false, "a\nx"},
		"a line break that comes":          {"a\nb", "a", "x\n", false, "x\n\nb"},
		"what was replaced is not a place": {"aa\nb", "a", "aa", true, "aaaa\nb"},
	} {
		f := fileOf(c.text)
		f.edit(c.from, c.to, c.all, origin{order: 2, depth: 2, edited: true})
		if got := strings.Join(f.texts(), "\n"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// At a gap the line that an edit joins is not known, so none of it is quoted.
func TestEditThatJoinsAnUnknownLineLeavesAGap(t *testing.T) {
	f := &file{}
	f.read([]line{{text: "a", number: 1}, {text: "b", number: 2}, {text: "g", number: 7}})
	f.edit("b\n", "x\ny", false, origin{order: 2, edited: true})
	if got := f.texts(); !slices.Equal(got, []string{"a", "x", "g"}) || !f.lines[2].gap || f.lines[2].number != 7 {
		t.Errorf("%+v", f.lines)
	}
}

// Of a file that is known whole, the lines after an edit are those of the edited text.
func TestEditsAgreeWithStrings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ab\n]{0,40}`).Draw(t, "text")
		f := fileOf(text)
		text = strings.Join(f.texts(), "\n") + "\n"
		from := rapid.StringMatching(`[ab\n]{1,4}`).Draw(t, "from")
		to := rapid.StringMatching(`[abc\n]{0,4}`).Draw(t, "to")
		all := rapid.Bool().Draw(t, "all")
		if !strings.Contains(text, from) {
			return
		}
		n := 1
		if all {
			n = -1
		}
		want := splitLines(strings.Replace(text, from, to, n))
		f.edit(from, to, all, origin{order: 2, edited: true})
		got := f.texts()
		for i := range f.lines {
			if f.lines[i].number != i+1 || f.lines[i].gap {
				t.Fatalf("line %d: %+v", i+1, f.lines[i])
			}
		}
		if to == "" { // a line that becomes empty goes
			isEmpty := func(s string) bool { return s == "" }
			got, want = slices.DeleteFunc(got, isEmpty), slices.DeleteFunc(want, isEmpty)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q: %q → %q: %q, want %q", text, from, to, got, want)
		}
	})
}

// Twice the lines take about twice the work, whichever edit is done.
func TestReplacingAllIsLinear(t *testing.T) {
	allocated := func(n int) (bytes uint64, visited int) {
		f := fileOf(strings.Repeat("some words of a line\n", n))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f.edit("words", "text", true, origin{edited: true})
		runtime.ReadMemStats(&after)
		if len(f.lines) != n || f.lines[n-1].text != "some text of a line" {
			t.Fatalf("%d lines, the last %q", len(f.lines), f.lines[n-1].text)
		}
		return after.TotalAlloc - before.TotalAlloc, f.visited
	}
	b1, v1 := allocated(1000)
	b4, v4 := allocated(4000)
	if b4 > 6*b1 || v4 > 6*v1 {
		t.Errorf("4 times the lines: %d bytes allocated after %d, %d visited after %d", b4, b1, v4, v1)
	}
}

// What would take too long, or too much memory, makes a file unknown: no line that may be
// old is quoted.
func TestEditsBeyondABoundForgetTheFile(t *testing.T) {
	edits := func(n int) string {
		return `{"file_path":"a.go","edits":[` + strings.TrimSuffix(strings.Repeat(`{"old_string":"one","new_string":"one"},`, n), ",") + `]}`
	}
	quoted := func(do func(s *state)) []string {
		s := newState()
		h := &session{}
		h.tool("write", `{"path":"b.go","content":"kept"}`, "ok")
		h.tool("write", `{"path":"a.go","content":"one\ntwo"}`, "ok")
		for i := range h.halves {
			s.half(&h.halves[i], false)
		}
		do(s)
		return texts(s.choose(1000, tokens.Approx{}))
	}
	call := func(name, args string) func(s *state) {
		return func(s *state) {
			h := &session{}
			h.tool(name, args, "ok")
			for i := range h.halves {
				s.half(&h.halves[i], false)
			}
		}
	}
	known, forgotten := []string{"kept", "one\ntwo"}, []string{"kept"}
	for name, c := range map[string]struct {
		do   func(s *state)
		want []string
	}{
		"edits":          {call("edit", edits(maxEdits)), known},
		"too many edits": {call("edit", edits(maxEdits+1)), forgotten},
		"too much text":  {call("edit", `{"path":"a.go","edits":[`+strings.TrimSuffix(strings.Repeat(`{"replace_all":true,"oldText":"o","newText":"`+strings.Repeat("o", 100)+`"},`, 4), ",")+`]}`), forgotten},
		"too much work": {func(s *state) {
			s.visited = maxVisited + 1
			call("edit", edits(1))(s)
		}, forgotten},
		"a write after too much work": {func(s *state) {
			s.visited = maxVisited + 1
			call("write", `{"path":"a.go","content":"one\ntwo"}`)(s)
		}, known},
	} {
		if got := quoted(c.do); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The lines of a patch that adds a file are put together once.
func TestLongPatchIsReadInLinearTime(t *testing.T) {
	allocated := func(n int) uint64 {
		patch := patchBegin + "\n*** Add File: a\n" + strings.Repeat("+a line of the file\n", n)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		ops := patchOps(patch)
		runtime.ReadMemStats(&after)
		if len(ops) != 1 || strings.Count(*ops[0].write, "\n") != n {
			t.Fatalf("%d operations", len(ops))
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	if a, b := allocated(500), allocated(2000); b > 6*a {
		t.Errorf("4 times the lines: %d bytes allocated after %d", b, a)
	}
}

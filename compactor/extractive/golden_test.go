package extractive

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"nexus/compactor/summary"
	"nexus/turns"
	"nexus/turns/tokens"
)

// TestGoldenOutputs compares what each step of the summarizer returns for small
// fixed inputs with the files of testdata/golden: how it cuts and weighs
// sentences, finds facts, reads outcomes, ranks, chooses, and the whole summary.
// A change of a summary on purpose writes them again:
//
//	go test ./compactor/extractive -run TestGoldenOutputs -rewrite
//
// Read the difference before it is committed.
func TestGoldenOutputs(t *testing.T) {
	datadriven.Walk(t, "testdata/golden", func(t *testing.T, file string) {
		g := &golden{}
		datadriven.RunTest(t, file, g.run)
	})
}

// golden holds what the commands of one file share.
type golden struct {
	halves   []summary.HalfTurn
	previous string // the last summary that the file asked for
}

func (g *golden) run(t *testing.T, d *datadriven.TestData) string {
	lines := func(f func(string) string) string {
		var b strings.Builder
		for line := range strings.SplitSeq(d.Input, "\n") {
			b.WriteString(f(unescape(t, line)) + "\n")
		}
		return b.String()
	}
	number := func(name string, without int) int {
		if d.HasArg(name) {
			d.ScanArgs(t, name, &without)
		}
		return without
	}
	switch d.Cmd {
	case "weigh":
		return lines(func(s string) string {
			return fmt.Sprintf("user %+.2f agent %+.2f noise %.1f facts %d announces %-5v %s", askWeight(s), sayWeight(s), noise(s), factsIn(s), announces(strings.ToLower(s)), s)
		})
	case "facts":
		return lines(func(s string) string {
			var found []string
			scanFacts(s, func(w string) { found = append(found, w) })
			return strings.Join(found, " | ")
		})
	case "units":
		var b strings.Builder
		units(unescape(t, d.Input), func(s string) { fmt.Fprintf(&b, "%q\n", s) })
		return b.String()
	case "oneline":
		return lines(func(s string) string { return strconv.Quote(oneLine(s, number("bound", 20))) })
	case "flat":
		return lines(func(s string) string { return strconv.Quote(flat(turns.Raw(s))) })
	case "outcome":
		failed, note := outcome(unescape(t, d.Input), d.HasArg("error"), d.HasArg("command"), d.HasArg("reads"))
		return fmt.Sprintf("failed %v %q\n", failed, note)
	case "pointer":
		return lines(func(s string) string {
			text, depth := pointer(s)
			return fmt.Sprintf("%q %d", text, depth)
		})
	case "likeness":
		return matrix(strings.Split(d.Input, "\n"))
	case "history":
		g.halves, g.previous = nil, ""
		g.read(t, d.Input)
		return ""
	case "more":
		g.halves = nil
		g.read(t, d.Input)
		return ""
	case "state":
		return g.history("").dump(number("facts", 12))
	case "choose":
		h := g.history("")
		cost := func(s string) uint64 { return tokens.Approx{}.Text(s) + 2 }
		return "users\n" + showUnits(choose(h.userRequests, h.now, uint64(number("share", 60)), cost)) +
			"agents\n" + showUnits(choose(h.statements, h.now, uint64(number("share", 60)), cost))
	case "summary":
		focus := ""
		if d.HasArg("focus") {
			d.ScanArgs(t, "focus", &focus)
		}
		text := summarize(t, summary.Input{Previous: g.previous, Halves: g.halves, MaxTokens: uint64(number("budget", 400)), Focus: strings.ReplaceAll(focus, "_", " ")})
		checkShape(t, text)
		if d.HasArg("keep") {
			g.previous = text
		}
		return text + "\n"
	case "previous":
		g.previous = unescape(t, d.Input)
		return ""
	}
	t.Fatalf("%s: no such command %q", d.Pos, d.Cmd)
	return ""
}

// unescape undoes the escapes of a Go string, so that one line of a file can
// hold any text.
func unescape(t *testing.T, s string) string {
	t.Helper()
	if !strings.Contains(s, `\`) {
		return s
	}
	out, err := strconv.Unquote(`"` + strings.ReplaceAll(strings.ReplaceAll(s, `"`, `\"`), "\n", `\n`) + `"`)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return out
}

// read appends a half for each line: "DEPTH user TEXT", "DEPTH agent TEXT",
// "DEPTH call ID NAME ARGUMENTS", "DEPTH result ID TEXT", "DEPTH error ID TEXT",
// "DEPTH system TEXT", "DEPTH image". "xN " before it repeats it; "#" in it is
// then the number of the repetition.
func (g *golden) read(t *testing.T, input string) {
	t.Helper()
	if input == "" {
		return
	}
	for line := range strings.SplitSeq(input, "\n") {
		times := 1
		if rest, ok := strings.CutPrefix(line, "x"); ok {
			count, one, _ := strings.Cut(rest, " ")
			n, err := strconv.Atoi(count)
			if err != nil {
				t.Fatal(err)
			}
			times, line = n, one
		}
		for i := range times {
			g.readOne(t, strings.ReplaceAll(line, "#", strconv.Itoa(i)))
		}
	}
}

func (g *golden) readOne(t *testing.T, line string) {
	t.Helper()
	at, rest, _ := strings.Cut(line, " ")
	depth, err := strconv.ParseUint(at, 10, 64)
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	kind, rest, _ := strings.Cut(rest, " ")
	id, text, _ := strings.Cut(rest, " ")
	switch kind {
	case "user":
		g.halves = append(g.halves, asked(depth, unescape(t, rest)))
	case "agent":
		g.halves = append(g.halves, answered(depth, unescape(t, rest)))
	case "call":
		name, args, _ := strings.Cut(text, " ")
		m := turns.Message{Role: turns.Assistant, Parts: []turns.Part{call(id, name, args)}}
		g.halves = append(g.halves, summary.HalfTurn{Depth: depth, Half: turns.ResponseHalf, Messages: []turns.Message{m}})
	case "result", "error":
		g.halves = append(g.halves, result(depth, id, unescape(t, text), kind == "error"))
	case "system":
		m := turns.TextMessage(turns.System, unescape(t, rest))
		g.halves = append(g.halves, summary.HalfTurn{Depth: depth, Half: turns.MessagesHalf, Messages: []turns.Message{m}})
	case "image":
		m := turns.Message{Role: turns.User, Parts: []turns.Part{{Type: turns.Blob, Modality: "image"}}}
		g.halves = append(g.halves, summary.HalfTurn{Depth: depth, Half: turns.MessagesHalf, Messages: []turns.Message{m}})
	default:
		t.Fatalf("no such kind of half: %q", line)
	}
}

// history returns what the summarizer knows when it has read everything.
func (g *golden) history(focus string) *history {
	h := newHistory()
	h.recall(g.previous)
	for i := range g.halves {
		h.half(&g.halves[i])
	}
	h.look(focus)
	return h
}

// dump writes a history with the numbers by which it ranks.
func (h *history) dump(limit int) string {
	var b strings.Builder
	b.WriteString("users\n" + showUnits(h.userRequests) + "agents\n" + showUnits(h.statements) + "actions\n")
	for _, a := range h.acts.ranked(h.now) {
		fmt.Fprintf(&b, "  %.3f at %d %s", a.worth(h.now), a.order, point(a.line(), a.depth))
		for _, flag := range []struct {
			on   bool
			name string
		}{{a.writes, "writes"}, {a.command, "command"}, {a.failing, "failing"}} {
			if flag.on {
				b.WriteString(" " + flag.name)
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("facts\n")
	for i, f := range h.facts.ranked(nil) {
		if i < limit {
			fmt.Fprintf(&b, "  %.3f %s by %v in %d halves %d-%d active %d\n", f.score(h.facts.now), f.text, f.counts, f.halves, f.first, f.last, f.active)
		}
	}
	cost := func(s string) uint64 { return tokens.Approx{}.Text(s) }
	b.WriteString("remaining\n")
	for _, item := range h.remaining(200, cost) {
		b.WriteString("  " + item + "\n")
	}
	return b.String()
}

func showUnits(us []unit) string {
	var b strings.Builder
	for _, u := range us {
		fmt.Fprintf(&b, "  t%d %d.%d %+.2f", u.depth, u.order, u.place, u.worth)
		if u.lead {
			b.WriteString(" lead")
		}
		if u.task {
			b.WriteString(" task")
		}
		fmt.Fprintf(&b, " %s\n", u.text)
	}
	return b.String()
}

// matrix shows how alike texts are, and how central each is.
func matrix(texts []string) string {
	var b strings.Builder
	sim := likeness(vectors(texts))
	central := centrality(sim)
	for i := range texts {
		for j := range texts {
			fmt.Fprintf(&b, "%.3f ", sim[i][j])
		}
		fmt.Fprintf(&b, "central %.3f %s\n", central[i], texts[i])
	}
	return b.String()
}

// pool is n units with a worth that the place decides.
func pool(n int) (out []unit) {
	for i := range n {
		out = append(out, unit{text: fmt.Sprintf("unit number %d", i), order: i, worth: float64(i * 7919 % 1009), task: i < 3})
	}
	return out
}

func TestBoundKeepsTheTaskTheBestAndTheNewest(t *testing.T) {
	full := pool(maxPool)
	if got := bound(full); len(got) != maxPool {
		t.Fatalf("a full pool has %d units after it, not %d", len(got), maxPool)
	}
	all := pool(maxPool + 1)
	got := bound(all)
	fresh := maxPool / 4
	if len(got) != 2*fresh {
		t.Fatalf("%d units are kept, want %d", len(got), 2*fresh)
	}
	kept := make(map[int]bool)
	for i, u := range got {
		kept[u.order] = true
		if i > 0 && got[i-1].order >= u.order {
			t.Fatalf("unit %d comes after unit %d", u.order, got[i-1].order)
		}
	}
	least, lost := 2000.0, 0.0
	for i, u := range all {
		switch {
		case u.task || i >= len(all)-fresh:
			if !kept[i] {
				t.Errorf("unit %d is the task or new, and is dropped", i)
			}
		case kept[i]:
			least = min(least, u.worth)
		default:
			lost = max(lost, u.worth)
		}
	}
	if least < lost {
		t.Errorf("a unit of worth %v is kept, one of %v is dropped", least, lost)
	}
}

func TestCandidatesAreTheBestAndTheNewestOnce(t *testing.T) {
	if got := candidates(pool(maxCompared), maxCompared); len(got) != maxCompared {
		t.Fatalf("%d of %d candidates are left", len(got), maxCompared)
	}
	got := candidates(pool(400), 400)
	if len(got) != maxCompared {
		t.Fatalf("%d candidates, want %d", len(got), maxCompared)
	}
	if !slices.IsSortedFunc(got, inOrder) {
		t.Error("the candidates are not in the order of the history")
	}
	for i, u := range got[len(got)-maxCompared/4:] {
		if want := 400 - maxCompared/4 + i; u.order != want {
			t.Fatalf("the newest quarter holds unit %d where %d belongs", u.order, want)
		}
	}
	var old []float64
	for _, u := range pool(400)[:400-maxCompared/4] {
		old = append(old, u.worth+recency(u.order, 400))
	}
	slices.Sort(old)
	bar := old[len(old)-(maxCompared-maxCompared/4)]
	for _, u := range got[:len(got)-maxCompared/4] {
		if w := u.worth + recency(u.order, 400); w < bar {
			t.Errorf("unit %d of worth %v is a candidate, the last place is worth %v", u.order, w, bar)
		}
	}

	twice := []unit{{text: "the task", order: 1, task: true}, {text: "a", order: 2}, {text: "the task", order: 3}, {text: "a", order: 4}}
	want := "  t0 1.0 +0.00 task the task\n  t0 4.0 +0.00 a\n"
	if got := showUnits(candidates(twice, 4)); got != want {
		t.Errorf("of what comes twice:\n%swant:\n%s", got, want)
	}
}

func TestPruneDropsTheLesserHalf(t *testing.T) {
	a := newActions()
	for i := range maxActions {
		name := "read"
		if i%2 == 0 {
			name = "write"
		}
		p := call(fmt.Sprint(i), name, fmt.Sprintf(`{"path":"f%d"}`, i))
		a.call(&p, map[string]turns.Raw{"path": turns.RawText(fmt.Sprintf("f%d", i))}, 1, 1)
		if len(a.byKey) != i+1 {
			t.Fatalf("%d actions after %d calls", len(a.byKey), i+1)
		}
	}
	if len(a.open) != maxActions {
		t.Fatalf("%d calls are open", len(a.open))
	}
	p := call("last", "read", `{"path":"g"}`)
	a.call(&p, map[string]turns.Raw{"path": turns.RawText("g")}, 2, 1)
	if len(a.byKey) != maxActions/2+1 {
		t.Fatalf("%d actions after the bound, want %d", len(a.byKey), maxActions/2+1)
	}
	if len(a.open) != maxActions {
		t.Errorf("%d open calls, the bound is %d", len(a.open), maxActions)
	}
	for key, act := range a.byKey {
		if !act.writes && key != "file g" {
			t.Fatalf("%s was read only, and is kept before what was written", key)
		}
	}

	v := newInventory()
	v.next(1)
	for i := range maxFacts {
		v.add(fmt.Sprintf("fact_%d", i), fromResult)
	}
	v.add("fact_7", fromUser)
	v.next(2)
	if len(v.facts) != maxFacts {
		t.Fatalf("%d facts, %d may be held", len(v.facts), maxFacts)
	}
	v.add("one_more", fromUser)
	v.next(3)
	if len(v.facts) > maxFacts/2+1 || v.facts["fact_7"] == nil || v.facts["one_more"] == nil {
		t.Errorf("%d facts after the bound, a user's are kept: %v, %v", len(v.facts), v.facts["fact_7"] != nil, v.facts["one_more"] != nil)
	}
	for i := range 2*maxFacts + 10 {
		v.add(fmt.Sprintf("burst_%d", i), fromResult)
	}
	if len(v.facts) != 2*maxFacts+1 {
		t.Errorf("one half brought the facts to %d, the bound is %d", len(v.facts), 2*maxFacts+1)
	}
}

// The head and the tail of a long text are read, its middle is not.
func TestLongTextIsReadAtItsEnds(t *testing.T) {
	for _, c := range []struct{ n, head, tail, first, last int }{{10, 6, 4, 10, 0}, {11, 6, 4, 6, 4}, {0, 1, 1, 0, 0}} {
		first, last := ends(strings.Repeat("a", c.n), c.head, c.tail)
		if len(first) != c.first || len(last) != c.last {
			t.Errorf("ends of %d bytes: %d and %d, want %d and %d", c.n, len(first), len(last), c.first, c.last)
		}
	}
	long := "begin_1 is here.\n" + strings.Repeat("filler line of words\n", 20_000) + "final_2 is here."
	got := map[string]bool{}
	units(long, func(s string) { got[s] = true })
	if !got["begin_1 is here."] || !got["final_2 is here."] {
		t.Error("a sentence at an end of a long text is not read")
	}
}

// An item of PROGRESS that does not fit leaves its place to a smaller one, until
// less is left than any item needs.
func TestProgressFillsItsShare(t *testing.T) {
	h := newHistory()
	for i, path := range []string{strings.Repeat("long/", 30) + "a.go", "b.go", "c.go"} {
		h.now++
		p := call(fmt.Sprint(i), "Read", "{}")
		h.acts.call(&p, map[string]turns.Raw{"path": turns.RawText(path)}, h.now, uint64(i+1))
	}
	cost := func(s string) uint64 { return uint64(len(s)) }
	for _, c := range []struct {
		share uint64
		want  string
	}{
		{1000, "read " + strings.Repeat("long/", 30) + "a.go [t1]\nread b.go [t2]\nread c.go [t3]"},
		{24, "read b.go [t2]\nread c.go [t3]"}, {23, "read c.go [t3]"}, {12, "read c.go [t3]"}, {11, ""},
	} {
		if got := strings.Join(h.progress(c.share, cost), "\n"); got != c.want {
			t.Errorf("share %d: %q, want %q", c.share, got, c.want)
		}
	}
}

// A counter whose counts do not add up costs a draft its last items: of FACTS name
// by name, then whole items from the least section up.
func TestFitDropsTheLastItemsFirst(t *testing.T) {
	of := func() draft {
		return draft{task: {"do one thing", "do more"}, progress: {"wrote a.go and b.go"}, data: {"named by the agent: first_name, second_name, third_name"}}
	}
	s := New(Config{})
	for _, want := range []string{
		"TASK\n- do one thing\n- do more\nPROGRESS\n- wrote a.go and b.go\nFACTS\n- named by the agent: first_name, second_name, third_name",
		"TASK\n- do one thing\n- do more\nPROGRESS\n- wrote a.go and b.go\nFACTS\n- named by the agent: first_name, second_name",
		"TASK\n- do one thing\n- do more\nPROGRESS\n- wrote a.go and b.go\nFACTS\n- named by the agent: first_name",
		"TASK\n- do one thing\n- do more\nPROGRESS\n- wrote a.go and b.go",
		"TASK\n- do one thing\n- do more",
		"TASK\n- do one thing",
	} {
		if got := s.fit(of(), s.counter.Text(want)); got != want {
			t.Errorf("in %d tokens: %q, want %q", s.counter.Text(want), got, want)
		}
	}
	if got := s.fit(of(), 3); got != "" {
		t.Errorf("in 3 tokens: %q", got)
	}
}

func TestRememberedFactsHaveTheLengthOfFacts(t *testing.T) {
	v := newInventory()
	for _, n := range []int{minFactLen - 1, minFactLen, maxFactLen, maxFactLen + 1} {
		w := strings.Repeat("a", n)
		v.remember(w, 0, nil, nil)
		if got, want := v.facts[w] != nil, n >= minFactLen && n <= maxFactLen; got != want {
			t.Errorf("%d bytes: remembered is %v", n, got)
		}
	}
	best, worse := strings.Repeat("b", 9), strings.Repeat("c", 9)
	v.remember(best, 0, nil, nil)
	v.remember(worse, 60, nil, nil)
	v.remember(best, 60, nil, nil) // known: it keeps its rank
	if v.facts[best].prior != 2.2 || v.facts[worse].prior != 1.1 {
		t.Errorf("priors %v and %v, want 2.2 and 1.1", v.facts[best].prior, v.facts[worse].prior)
	}
}

// A count ends at its greatest value; it does not begin again.
func TestCountsOfFactsDoNotOverflow(t *testing.T) {
	v := newInventory()
	for i := range math.MaxUint16 + 2 {
		v.next(i + 1)
		v.add("a_fact", fromUser)
		v.add("a_fact", fromUser) // twice in one half counts once
		v.add("a_fact", fromCall)
	}
	want := fact{text: "a_fact", counts: [sources]uint16{fromUser: math.MaxUint16, fromCall: math.MaxUint16}, halves: math.MaxUint16 + 2, first: 1, last: math.MaxUint16 + 2, active: math.MaxUint16 + 2}
	got := *v.facts["a_fact"]
	if got.namedIn, got.namedBy = 0, 0; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A patch of several files that fails has changed none of them.
func TestAFailedPatchFailsForEachOfItsFiles(t *testing.T) {
	a := newActions()
	p := &turns.Part{Type: turns.ToolCall, ID: "c", Name: "apply_patch", Arguments: turns.Raw(`{"patch":"*** Begin Patch\n*** Update File: pkg/first.go\n+x\n*** Update File: pkg/second.go\n+y\n*** End Patch"}`)}
	a.call(p, nil, 1, 1)
	if got := a.waiting(); len(got) != 1 || !strings.Contains(got[0].label, "first.go") {
		t.Errorf("%d calls wait, want that of first.go", len(got))
	}
	a.response(&turns.Part{Type: turns.ToolCallResponse, ID: "c", IsError: true}, "error: the patch does not apply", 2, 1)
	for _, file := range []string{"first.go", "second.go"} {
		if got := a.writtenSince("mend "+file, 0); got != "" {
			t.Errorf("%s counts as written: %q", file, got)
		}
	}
}

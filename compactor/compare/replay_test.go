package compare

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"nexus/compactor"
	"nexus/compactor/extractive"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/tokens"
)

// sized is text of n tokens, a multiple of 10: 37 characters are 10. What is
// filled up holds no fact.
func sized(n int, text string) string {
	return text + strings.Repeat(" ", 37*n/10-len(text))
}

func user(text string) []turns.Message { return []turns.Message{turns.TextMessage(turns.User, text)} }

func says(text string) *turns.Message {
	m := turns.TextMessage(turns.Assistant, text)
	return &m
}

func calls(id, args string) *turns.Message {
	return &turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: id, Name: "run", Arguments: turns.Raw(args)}}}
}

func result(id, text string) []turns.Message {
	return []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: id, Response: turns.RawText(text)}}}}
}

// fixed is a summarizer that always writes the same.
type fixed string

func (f fixed) Summarize(context.Context, summary.Input) (summary.Output, error) {
	return summary.Output{Text: string(f)}, nil
}

// half returns a policy for a window of 1,000: due over 500 tokens, keeps up to 200.
func half(mode policy.Mode) policy.Policy {
	return policy.Policy{
		Name: "half", Version: 1, Mode: mode, TriggerRatio: 0.5, TargetRatio: 0.4, KeepTokens: 200, SummaryMaxRatio: 0.3,
		MaxStrikes: 1, ReplacementRole: turns.User, ContextWindow: 1000,
	}
}

func window(n uint64, summary string) Options {
	return Options{Limits: turns.Limits{ContextWindow: n}, Tiers: []compactor.Tier{{Name: "fixed", Summarizer: fixed(summary), Local: true}}}
}

func mustReplay(t *testing.T, tr *Transcript, pol policy.Policy, opt Options) *Replay {
	t.Helper()
	r, err := tr.Replay(t.Context(), pol, opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Each message is 10 tokens of text and 4 of framing. What the last call sent
// is read from the cache, the answer to it and the new message are written.
func TestCostOfAGrowingContext(t *testing.T) {
	ten := sized(10, "")
	tr := New([]Turn{{user(ten), says(ten)}, {user(ten), says(ten)}, {user(ten), nil}, {user(ten), says(ten)}}, 100)
	r := mustReplay(t, tr, half(policy.BeforeCall), window(1000, ""))
	want := []Call{
		{Turn: 0, Tokens: 114, Usage: Usage{Read: 0, Write: 114, Output: 14}},
		{Turn: 1, Tokens: 142, Usage: Usage{Read: 114, Write: 28, Output: 14}},
		{Turn: 3, Tokens: 184, Usage: Usage{Read: 142, Write: 42, Output: 14}}, // with the question that got no answer
	}
	if d := cmp.Diff(want, r.Calls, cmpopts.IgnoreFields(Call{}, "Counted")); d != "" {
		t.Error(d)
	}
	if tr.Turns() != 4 || tr.Calls() != 3 || tr.Tokens() != 100+7*14 {
		t.Errorf("%d turns, %d calls, %d tokens", tr.Turns(), tr.Calls(), tr.Tokens())
	}
	var s Sum
	s.Add(r)
	if got, want := s.Usage, (Usage{Read: 256, Write: 184, Output: 42}); got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
	// 256 × 0.30 + 184 × 3.75 + 42 × 15.00 = 76.8 + 690 + 630
	if got := s.Usage.Cost(DefaultPrice); got != 1396 {
		t.Errorf("%d micro-dollars, want 1396", got)
	}
	// (256 + 184) × 3.00 + 630
	if got := s.Usage.Uncached(DefaultPrice); got != 1950 {
		t.Errorf("%d micro-dollars without a cache, want 1950", got)
	}
	if got, want := s.MeanTokens(), uint64((114+142+184)/3); got != want || s.MaxTokens != 184 || s.Calls != 3 {
		t.Errorf("mean %d, max %d, %d calls", got, s.MaxTokens, s.Calls)
	}
}

const fixedSummary = "src/: a.go, c.go\nThe limit is 4096."

// story is due at its third call: 5 × 104 tokens.
func story() *Transcript {
	const asked = "Fix src/a.go and src/b.go; maxRetries is 4096.\nerror: the quota was exceeded"
	return New([]Turn{
		{user(sized(100, asked)), says(sized(100, "yes"))},
		{user(sized(100, "go on")), says(sized(100, "so"))},
		{user(sized(100, "now with keepAlive")), says(sized(100, "src/a.go src/b.go maxRetries 4096 brandNew\nerror: the quota was exceeded"))},
		{user(sized(100, "what of src/b.go")), calls("c1", `{"maxRetries":"src/a.go","note":"`+sized(100, "src/b.go keepAlive")+`"}`)},
	}, 0)
}

// At the third call src/b.go and maxRetries are not in the context, and what the user calls an
// error is none of a tool's; at the fourth the agent has written src/a.go again, src/b.go was just sent, and the
// name of an argument is not a word of the agent's.
func TestSurvival(t *testing.T) {
	r := mustReplay(t, story(), half(policy.BeforeCall), window(1000, fixedSummary))
	want := Survival{}
	want.Hidden[Paths] = Share{All: 3, Shown: 1, Summary: 1, Reachable: 1}
	want.Hidden[Identifiers] = Share{All: 1, Reachable: 1}
	want.Hidden[Numbers] = Share{All: 1, Summary: 1}
	if d := cmp.Diff(want.Hidden, r.Survival.Hidden); d != "" {
		t.Error(d)
	}
	if got, want := r.Survival.AllEarlier(), (Share{All: 6, Shown: 2, Summary: 2, Reachable: 2}); got != want { // keepAlive is in the kept part
		t.Errorf("earlier %+v, want %+v", got, want)
	}
	if got := r.Survival.Total(); got != (Share{All: 5, Shown: 1, Summary: 2, Reachable: 2}) || got.InContext() != 3 {
		t.Errorf("total %+v", got)
	}
}

// The rewrite at the third call writes the whole prompt to the cache again;
// new of it are the answer to the second call and the third message.
func TestCostOfACompaction(t *testing.T) {
	r := mustReplay(t, story(), half(policy.BeforeCall), window(1000, fixedSummary))
	replaced := r.Calls[2].Tokens - 104
	if replaced < 10 || replaced > 60 {
		t.Fatalf("the summary takes %d tokens", replaced)
	}
	answer := r.Calls[3].Usage.Output
	want := []Call{
		{Turn: 0, Tokens: 104, Usage: Usage{Write: 104, Output: 104}},
		{Turn: 1, Tokens: 312, Usage: Usage{Read: 104, Write: 208, Output: 104}},
		{Turn: 2, Tokens: replaced + 104, Compacted: true, Usage: Usage{Write: replaced + 104, Output: 104}}, // less than is new: nothing twice
		{Turn: 3, Tokens: replaced + 312, Usage: Usage{Read: replaced + 104, Write: 208, Output: answer}},
	}
	if d := cmp.Diff(want, r.Calls, cmpopts.IgnoreFields(Call{}, "Counted")); d != "" {
		t.Error(d)
	}
}

// A background compaction is prepared at the third call and in force at the fourth.
func TestBackground(t *testing.T) {
	r := mustReplay(t, story(), half(policy.Background), window(1000, fixedSummary))
	replaced := r.Calls[3].Tokens - 312
	want := []Call{
		{Turn: 0, Tokens: 104, Usage: Usage{Write: 104, Output: 104}},
		{Turn: 1, Tokens: 312, Usage: Usage{Read: 104, Write: 208, Output: 104}},
		{Turn: 2, Tokens: 520, Usage: Usage{Read: 312, Write: 208, Output: 104}},
		{Turn: 3, Tokens: replaced + 312, Compacted: true, Rewritten: replaced + 104, Usage: Usage{Write: replaced + 312, Output: r.Calls[3].Usage.Output}},
	}
	if d := cmp.Diff(want, r.Calls, cmpopts.IgnoreFields(Call{}, "Counted")); d != "" {
		t.Error(d)
	}
}

// Over the budget there is no time to prepare.
func TestBackgroundOverBudget(t *testing.T) {
	ts := story().turns
	ts[2].Messages = user(sized(700, ""))
	r := mustReplay(t, New(ts, 0), half(policy.Background), window(1000, fixedSummary))
	if c := r.Calls[2]; !c.Compacted || c.Over {
		t.Errorf("the third call: %+v", c)
	}
}

// A manual policy never compacts: 104, 312, 520, 728 tokens in a budget of 400.
func TestOverflows(t *testing.T) {
	r := mustReplay(t, story(), half(policy.Manual), window(400, fixedSummary))
	var s Sum
	s.Add(r)
	if s.Overflows != 2 || s.Compactions != 0 || s.MaxTokens != 728 {
		t.Errorf("%d overflows, %d compactions, at most %d tokens", s.Overflows, s.Compactions, s.MaxTokens)
	}
	if got := s.Survival.Total(); got != (Share{}) {
		t.Errorf("nothing was hidden, but %+v", got)
	}
	if got, want := s.Survival.AllEarlier(), (Share{All: 6, Shown: 6}); got != want {
		t.Errorf("earlier %+v, want %+v", got, want)
	}
}

// A question that is itself too large can't be covered: that is an overflow,
// not an error; one that is only due is neither.
func TestNothingToCompact(t *testing.T) {
	for size, over := range map[int]bool{600: false, 1000: true} { // over: nothing is covered, but it is shown by its ends
		r := mustReplay(t, New([]Turn{{user(sized(size, "")), says("a")}}, 0), half(policy.BeforeCall), window(1000, fixedSummary))
		if c := r.Calls[0]; c.Compacted || c.Over || c.Elided != over {
			t.Errorf("%d tokens: %+v", size, c)
		}
	}
	r := mustReplay(t, New([]Turn{{user("a"), says("b")}}, 1000), half(policy.BeforeCall), window(1000, fixedSummary))
	if !r.Calls[0].Over {
		t.Error("system and tools fill the window, and the call is taken to fit")
	}
}

func TestReplayEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	opt := window(1000, fixedSummary)
	opt.Each = func() {
		if n++; n == 2 {
			cancel()
		}
	}
	if _, err := story().Replay(ctx, half(policy.BeforeCall), opt); !errors.Is(err, context.Canceled) || n != 2 {
		t.Errorf("after %d calls: %v", n, err)
	}
}

// random returns a transcript of an agent in a small world, so that it comes back
// to things; some calls have no result, some turns no answer.
func random(rng *rand.Rand, n int) *Transcript {
	words := []string{"src/main.go", "src/util/list.go", "list.go", "src/util", "readAll", "max_size", "v1.2.3", "8080", "12345", "and", "so",
		"\nerror: no such table: users\n", "\nFAILED: exit status 2\n", "./docs/", "done."}
	text := func() string {
		var b strings.Builder
		for range 1 + rng.IntN(40) {
			b.WriteString(words[rng.IntN(len(words))] + " ")
		}
		return b.String() + strings.Repeat("x ", rng.IntN(100))
	}
	var ts []Turn
	open := ""
	for i := range n {
		var turn Turn
		if open != "" && rng.IntN(10) > 0 {
			turn.Messages = result(open, text())
		} else if rng.IntN(10) > 0 {
			turn.Messages = user(text())
		}
		open = ""
		switch rng.IntN(5) {
		case 0:
		case 1, 2:
			turn.Response = says(text())
		default:
			open = fmt.Sprintf("c%d", i)
			turn.Response = calls(open, `{"note":`+string(turns.RawText(text()))+`}`)
		}
		ts = append(ts, turn)
	}
	return New(ts, uint64(rng.IntN(200)))
}

// slowScore counts a call's facts with no index: it reads the whole history.
func slowScore(r *replay, turn int) (s Survival) {
	factsOf := func(ms []turns.Message) map[fact]bool {
		out := make(map[fact]bool)
		eachText(ms, func(text string) { eachFact(text, func(f fact) { out[f] = true }) })
		return out
	}
	sent := turn
	for sent > 0 && r.t.turns[sent-1].Response == nil {
		sent--
	}
	newly := make(map[fact]bool)
	for i := sent; i <= turn; i++ {
		for f := range factsOf(r.t.turns[i].Messages) {
			newly[f] = true
		}
	}
	before := r.path // without the response: as it was at the call
	before.Halves = before.Halves[:len(before.Halves)-1]
	cx, err := view.Render(before, r.counter)
	if err != nil {
		panic(err)
	}
	whole := make(map[int]bool)
	for _, s := range cx.Sources {
		if s.Status == view.Verbatim {
			whole[placeOf(s.Turn, s.Half)] = true
		}
	}
	shown := make(map[int]map[fact]bool) // by place
	replacement := ""
	for i, m := range cx.Messages {
		s := cx.Sources[cx.Origins[i]]
		switch at := placeOf(s.Turn, s.Half); s.Status {
		case view.InSummary:
			replacement += m.Parts[0].Content + "\n"
		case view.Synthetic:
		default:
			if shown[at] == nil {
				shown[at] = make(map[fact]bool)
			}
			for f := range factsOf([]turns.Message{m}) {
				shown[at][f] = true
			}
		}
	}
	written := make(map[fact]bool)
	eachWritten(r.t.turns[turn].Response, func(text string) { eachFact(text, func(f fact) { written[f] = true }) })
	for f := range written {
		earlier, hidden, inShown := false, false, false
		for at := range place(sent, turns.MessagesHalf) {
			if factsOf(r.t.messages(at))[f] {
				earlier = true
				hidden = hidden || !whole[at]
				inShown = inShown || shown[at][f]
			}
		}
		if !earlier || newly[f] {
			continue
		}
		one := Share{All: 1}
		switch {
		case inShown:
			one.Shown = 1
		case slowNames(replacement, f):
			one.Summary = 1
		default:
			one.Reachable = 1
		}
		s.Earlier[f.kind].add(one)
		if hidden {
			s.Hidden[f.kind].add(one)
		}
	}
	return s
}

func slowNames(text string, f fact) bool {
	if f.kind == Lines {
		return strings.Contains(text, f.text)
	}
	for line := range strings.SplitSeq(text, "\n") {
		var words []string
		eachWord(line, func(w string) { words = append(words, w) })
		if slices.Contains(words, f.text) {
			return true
		}
		for i, c := range f.text {
			if f.kind == Paths && c == '/' && slices.Contains(words, f.text[:i]) && slices.Contains(words, f.text[i+1:]) {
				return true
			}
		}
	}
	return false
}

// Replays of random transcripts count what reading everything counts, pay for
// every token of each context once, and are the same again.
func TestReplayAgainstSlowTwin(t *testing.T) {
	approx := tokens.Approx{}
	compactions, hidden := 0, 0
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		tr := random(rng, 60)
		for _, name := range policy.Names() {
			pol, _ := policy.Builtin(name)
			opt := Options{Limits: turns.Limits{ContextWindow: 1000 + rng.Uint64N(2000)},
				Tiers: []compactor.Tier{{Name: "extractive", Summarizer: extractive.New(extractive.Config{}), Local: true}}}
			r := tr.begin(pol, opt)
			var want Survival
			for i := range tr.turns {
				had := len(r.out.Calls)
				if err := r.turn(t.Context(), i); err != nil {
					t.Fatal(err)
				}
				if len(r.out.Calls) == had {
					continue
				}
				s := slowScore(r, i)
				want.add(&s)
				c := r.out.Calls[had]
				if sum := tr.overhead + tokens.Messages(approx, r.last); c.Tokens != sum || c.Usage.Prompt() != sum {
					t.Fatalf("seed %d, %s, turn %d: %d tokens, %d paid for, the context has %d", seed, name, i, c.Tokens, c.Usage.Prompt(), sum)
				}
				compactions += one(c.Compacted)
			}
			if d := cmp.Diff(want, r.out.Survival); d != "" {
				t.Fatalf("seed %d, %s: (-slow +fast)\n%s", seed, name, d)
			}
			total := want.Total()
			hidden += total.All
			if lost := total.All - total.InContext() - total.Reachable; lost != 0 {
				t.Errorf("seed %d, %s: %d facts are nowhere", seed, name, lost)
			}
			if d := cmp.Diff(r.out, mustReplay(t, tr, pol, opt)); d != "" {
				t.Errorf("seed %d, %s: a second replay differs:\n%s", seed, name, d)
			}
		}
	}
	if compactions < 50 || hidden < 500 {
		t.Errorf("only %d compactions and %d hidden facts", compactions, hidden)
	}
}

func BenchmarkReplay(b *testing.B) {
	tr := random(rand.New(rand.NewPCG(1, 1)), 3000)
	pol, _ := policy.Builtin("balanced")
	opt := Options{Limits: turns.Limits{ContextWindow: 200_000},
		Tiers: []compactor.Tier{{Name: "extractive", Summarizer: extractive.New(extractive.Config{}), Local: true}}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tr.Replay(b.Context(), pol, opt); err != nil {
			b.Fatal(err)
		}
	}
}

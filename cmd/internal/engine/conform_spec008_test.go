package engine_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nexus/cmd/internal/engine/reader"
	"nexus/compactor"
	"nexus/compactor/extractive"
	"nexus/compactor/plan"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/render/strict"
)

// The rows of SPEC-008 that are a session's, and the integration tests that it
// names. Those of planning and rendering are in package compactor.

// called appends a tool call by the agent, and answered its result.
func called(t *testing.T, e *Engine, s turns.ID, ask, id, args string) *api.Appended {
	t.Helper()
	m := turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: id, Name: "read", Arguments: turns.Raw(args)}}}
	return add(t, e, s, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, ask)}, Response: &m})
}

func returned(t *testing.T, e *Engine, s turns.ID, id, text, says string) *api.Appended {
	t.Helper()
	m := turns.TextMessage(turns.Assistant, says)
	return add(t, e, s, api.AppendTurn{Response: &m, Messages: []turns.Message{
		{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: id, Response: turns.RawText(text)}}}}})
}

// otel returns the context for the next call in our own form.
func otel(t *testing.T, e *Engine, c reader.Caller, s turns.ID) (*api.Context, []turns.Message) {
	t.Helper()
	cx := must(e.Contexts.Context(t.Context(), c, s, api.GetContext{}))(t)
	var ms []turns.Message
	if err := turns.DecodeJSON(canon(cx.Messages), &ms); err != nil {
		t.Fatal(err)
	}
	return cx, ms
}

// quarter returns the design's estimate of messages, of the whole payload: characters
// / 4, rounded up for each message.
func quarter(ms []turns.Message) (n uint64) {
	for _, m := range ms {
		chars := 0
		for _, p := range m.Parts {
			chars += len([]rune(p.Content + p.ID + p.Name + string(p.Arguments) + string(p.Response)))
		}
		n += uint64(chars+3) / 4
	}
	return n
}

// S8-1: before every call, the agent gets the estimate of its messages.
func TestEveryCallShowsItsEstimate(t *testing.T) {
	e := newWorld().Engine(t)
	s := opened(t, e, alice, "spec-008", `{}`, turns.Limits{})
	for i := range 6 {
		id := fmt.Sprint("c", i)
		called(t, e, s.ID, fmt.Sprintf("question %d 漢字😀", i), id, `{"path":"src/a.go"}`)
		a := returned(t, e, s.ID, id, long(500*i), "answer")
		if !a.Context.Estimated || a.Context.Tokens == 0 {
			t.Errorf("turn %d: %+v", i, a.Context)
		}
		cx, ms := otel(t, e, alice, s.ID)
		if cx.Tokens != quarter(ms) {
			t.Errorf("turn %d: %d tokens, a quarter of the characters is %d", i, cx.Tokens, quarter(ms))
		}
	}
}

// S8-2: a session adds up what its calls took, input and output.
func TestSessionTotalsItsUsage(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := opened(t, e, alice, "spec-008", `{}`, turns.Limits{})
	other := opened(t, e, alice, "spec-008", `{}`, turns.Limits{})
	for i := range uint64(5) {
		add(t, e, s.ID, counted(say("question", "answer"), 100+i, 10+i))
	}
	for name, d := range map[string]*Engine{"the same daemon": e, "a second daemon": w.Engine(t)} {
		if got, want := must(d.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t).Usage, (turns.Usage{InputTokens: 510, OutputTokens: 60}); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if got := must(e.Reader.Get(t.Context(), alice, other.ID, api.Read{}))(t); got.Usage != (turns.Usage{}) || got.Uncounted != (api.Uncounted{}) {
		t.Errorf("another session: %+v, %+v", got.Usage, got.Uncounted)
	}
	// A turn that tells no usage adds an estimate, apart: what its call had on the path before it.
	var input, output uint64
	for range 3 {
		a := add(t, e, other.ID, say(long(400), long(100)))
		must(e.Reader.Get(t.Context(), alice, other.ID, api.Read{MinPosition: api.Position(a.Position)}))(t)
		n := must(e.Reader.Projections.Node(turns.Ref{Session: other.ID, Turn: a.ID}))(t)
		input, output = input+n.Sum-n.Response, output+n.Response
	}
	if got := must(w.Engine(t).Reader.Get(t.Context(), alice, other.ID, api.Read{}))(t); got.Usage != (turns.Usage{}) || got.Uncounted != (api.Uncounted{Calls: 3, InputTokens: input, OutputTokens: output}) {
		t.Errorf("three turns without usage: %+v, %+v; want %d and %d", got.Usage, got.Uncounted, input, output)
	}
}

// S8-6: pruning is set for each agent's sessions, and can be changed; what is
// stored does not change with it.
func TestPruningIsSetPerAgent(t *testing.T) {
	e := newWorld().Engine(t)
	bob := reader.Caller{Tenant: "default", Agent: "bob"}
	full := long(6000)
	fill := func(c reader.Caller, s turns.ID) {
		for i := range 3 {
			id := fmt.Sprint("c", i)
			m := turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: id, Name: "read", Arguments: turns.Raw(`{}`)}}}
			for _, r := range []api.AppendTurn{
				{Messages: []turns.Message{turns.TextMessage(turns.User, "go on")}, Response: &m},
				{Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: id, Response: turns.RawText(full)}}}}, Response: say("", "so").Response},
			} {
				must(e.Sessions.Append(t.Context(), c, s, r, canon(r)))(t)
			}
		}
	}
	shown := func(c reader.Caller, s turns.ID) (out []string) {
		_, ms := otel(t, e, c, s)
		for _, m := range ms {
			for _, p := range m.Parts {
				if text, ok := p.Response.Text(); p.Type == turns.ToolCallResponse && ok {
					out = append(out, text)
				}
			}
		}
		return out
	}
	check := func(what string, got []string, want ...string) {
		t.Helper()
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	a, b := opened(t, e, alice, "spec-008", `{}`, turns.Limits{}), opened(t, e, bob, "spec-008", `{"prune":{"keep_last_assistants":1,"head_chars":10,"tail_chars":5,"clear_after_assistants":4}}`, turns.Limits{})
	fill(alice, a.ID)
	fill(bob, b.ID)
	trimmed := full[:1500] + "..." + full[len(full)-1500:]
	short := full[:10] + "..." + full[len(full)-5:]
	check("the seed's numbers", shown(alice, a.ID), trimmed, trimmed, full) // behind 5, 3 and 1
	check("numbers of its own", shown(bob, b.ID), "[Tool result cleared]", short, short)
	must(e.Sessions.Set(t.Context(), bob, b.ID, api.SetSession{SessionSettings: api.SessionSettings{Policy: &api.Policy{Name: "spec-008", Set: turns.Raw(`{"prune":{"when":""}}`)}}}, nil))(t)
	check("set to none", shown(bob, b.ID), full, full, full)
	check("the other's", shown(alice, a.ID), trimmed, trimmed, full)
	for i, turn := range must(e.History.ListTurns(t.Context(), alice, a.ID, api.ListTurns{Full: true}))(t).Turns {
		if i%2 == 1 {
			if text, _ := turn.Messages[0].Parts[0].Response.Text(); text != full {
				t.Errorf("turn %d: %d characters are stored", i, len(text))
			}
		}
	}
}

// longSession appends turns until the context of a call was compacted. The agent
// flushes its memory when the ledger asks for it.
func longSession(t *testing.T, e *Engine, s turns.ID) *api.Context {
	t.Helper()
	for i := range 200 {
		a := add(t, e, s, say(fmt.Sprintf("question %d %s", i, long(600)), fmt.Sprintf("answer %d %s", i, long(600))))
		if a.Flush.Due {
			begin(t, e, s, a.Flush.Cycle)
			endFlush(t, e, s, api.DoneFlush{Cycle: a.Flush.Cycle, Response: "SILENT"})
		}
		if cx := look(t, e, s); cx.Compacted != nil {
			return cx
		}
	}
	t.Fatal("never compacted")
	return nil
}

// Enough messages to exceed the threshold make a compaction, not before, and what
// is left is far below it.
func TestLongSessionTriggersCompaction(t *testing.T) {
	e := newWorld().Engine(t)
	s := opened(t, e, alice, "spec-008", `{}`, turns.Limits{ContextWindow: 16_000, MaxOutputTokens: 1000, SafetyMargin: 100})
	cx := longSession(t, e, s.ID)
	k := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: *cx.Compacted}))(t).Compaction
	last := uint64(320) // of a turn, about
	if k.TokensBefore <= 12_000 || k.TokensBefore > 12_000+last || k.Trigger.Kind != plan.TriggerThreshold || k.Policy != "spec-008" {
		t.Errorf("compacted at %d tokens by %s %s", k.TokensBefore, k.Policy, k.Trigger.Kind)
	}
	if k.TokensAfter > 5*last+1000+100 || cx.Tokens != k.TokensAfter {
		t.Errorf("%d tokens after, the context has %d", k.TokensAfter, cx.Tokens)
	}
	verified(t, e)
}

// S8-15: summary and recent messages are the context of this call and of all that
// follow, till the next compaction.
func TestSummaryStaysUntilTheNextCompaction(t *testing.T) {
	e := newWorld().Engine(t)
	s := opened(t, e, alice, "spec-008", `{}`, turns.Limits{ContextWindow: 16_000, MaxOutputTokens: 1000, SafetyMargin: 100})
	longSession(t, e, s.ID)
	_, first := otel(t, e, alice, s.ID)
	if len(first) != 1+2*5 || first[0].Role != turns.System || !strings.HasPrefix(first[0].Parts[0].Content, "[Session compacted. Summary of prior conversation:]\n\n") {
		t.Fatalf("%d messages, the first %+v", len(first), first[0])
	}
	for i := range 5 {
		add(t, e, s.ID, say(fmt.Sprint("more ", i), "yes"))
		cx, ms := otel(t, e, alice, s.ID)
		if cx.Compacted != nil || len(ms) != len(first)+2*(i+1) {
			t.Fatalf("%d messages, compacted %v", len(ms), cx.Compacted)
		}
		if d := cmp.Diff(first, ms[:len(first)]); d != "" {
			t.Fatalf("after %d turns (-then +now):\n%s", i+1, d)
		}
	}
}

// S8-16: the summary is on the ledger: a daemon that comes later has it, and the
// whole history behind it.
func TestLaterDaemonHasTheSummaryAndTheHistory(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := opened(t, e, alice, "spec-008", `{}`, turns.Limits{ContextWindow: 16_000, MaxOutputTokens: 1000, SafetyMargin: 100})
	cx := longSession(t, e, s.ID)
	later := w.Engine(t)
	later.Loader.Tiers = nil // it could not write the summary again
	if got := look(t, later, s.ID); got.Fingerprint != cx.Fingerprint || got.Compacted != nil {
		t.Errorf("another daemon's context is %s, want %s", got.Fingerprint, cx.Fingerprint)
	}
	list := must(later.History.ListCompactions(t.Context(), alice, s.ID, api.ListCompactions{}))(t).Turns
	if len(list) != 1 || list[0].ID != *cx.Compacted || list[0].Compaction.Summary == nil || *list[0].Compaction.Summary == "" {
		t.Fatalf("compactions: %+v", list)
	}
	behind := must(later.Covered.Expand(t.Context(), alice, s.ID, api.ExpandCompaction{ID: *cx.Compacted}))(t).Turns
	if uint64(len(behind)) != list[0].Compaction.Covered || len(behind) < 10 || !strings.HasPrefix(behind[0].Messages[0].Parts[0].Content, "question 0 ") {
		t.Errorf("%d turns behind it", len(behind))
	}
}

// S8-24, of its out-of-scope items the gauge: every append and every read says how
// full the context is.
func TestEveryAppendAndReadShowsTheGauge(t *testing.T) {
	e := newWorld().Engine(t)
	s := opened(t, e, alice, "spec-008", `{}`, turns.Limits{ContextWindow: 16_000})
	system := api.System{{Content: long(4000)}}
	must(e.Sessions.Set(t.Context(), alice, s.ID, api.SetSession{SessionSettings: api.SessionSettings{System: &system}}, nil))(t)
	last := 0.0
	for i := range 8 {
		a := add(t, e, s.ID, say(long(1000), long(1000)))
		g := must(e.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t)
		want := float64(g.Tokens+g.Overhead) / float64(g.Budget)
		if g.Budget != 16_000-4_000-320 || g.Overhead != 1000+4 || g.Pressure != want || a.Context.Pressure != want || a.Context.Budget != g.Budget || want <= last {
			t.Errorf("turn %d: session.get %v of %d + %d / %d, append %v", i, g.Pressure, g.Tokens, g.Overhead, g.Budget, a.Context.Pressure)
		}
		if n := uint64(i + 1); g.Tokens < 500*n || g.Tokens > 515*n { // 2,000 characters a turn, by the policy's counter
			t.Errorf("turn %d: %d tokens", i, g.Tokens)
		}
		last = want
	}
}

// S8-27: the estimate is of all that is sent: arguments of calls, system and
// tools, and the new message; usage and compactions are counted for each session.
func TestEstimateCoversEverythingThatIsSent(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	e.Loader.Tiers = []compactor.Tier{{Name: "paid", Local: true, Summarizer: paid{}}}
	s := opened(t, e, alice, "spec-008", `{}`, turns.Limits{ContextWindow: 16_000, MaxOutputTokens: 1000, SafetyMargin: 100})
	size := func() uint64 {
		t.Helper()
		cx := look(t, e, s.ID)
		return cx.Tokens + cx.Overhead
	}
	grows := func(what string, by uint64, do func()) {
		t.Helper()
		before := size()
		do()
		if got := size() - before; got != by {
			t.Errorf("%s: %d tokens more, want %d", what, got, by)
		}
	}
	add(t, e, s.ID, say("hello", "hello"))
	system := api.System{{Content: strings.Repeat("s", 4000)}}
	grows("a system part, and its framing", 1000+4, func() {
		must(e.Sessions.Set(t.Context(), alice, s.ID, api.SetSession{SessionSettings: api.SessionSettings{System: &system}}, nil))(t)
	})
	schema := turns.Raw(`{"type":"function","function":{"name":"read","description":"` + strings.Repeat("d", 4000) + `"}}`)
	before := size()
	must(e.Sessions.Set(t.Context(), alice, s.ID, api.SetSession{SessionSettings: api.SessionSettings{Tools: &[]turns.Raw{schema}}}, nil))(t)
	if got := size() - before; got < 1000 || got > 1100 {
		t.Errorf("a tool of 4,000 characters: %d tokens more", got)
	}
	grows("the new message", 100, func() { add(t, e, s.ID, say(strings.Repeat("n", 400), "")) })
	grows("a call and its empty result", (2+4+uint64(len(`{"p":""}`))+396+3)/4+1, func() {
		m := turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "c1", Name: "read", Arguments: turns.Raw(`{"p":"` + strings.Repeat("p", 396) + `"}`)}}}
		add(t, e, s.ID, api.AppendTurn{Messages: []turns.Message{}, Response: &m})
		returned(t, e, s.ID, "c1", "", "")
	})
	compacted := uint64(0)
	for i := range 100 {
		add(t, e, s.ID, counted(say(fmt.Sprintf("question %d %s", i, long(600)), long(600)), 1000, 10))
		if look(t, e, s.ID).Compacted != nil {
			compacted++
		}
	}
	got := must(e.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t)
	if want := (turns.Usage{InputTokens: 100*1000 + compacted*500, OutputTokens: 100*10 + compacted*50}); got.Usage != want || got.Compactions != compacted || compacted < 2 {
		t.Errorf("%d compactions and %+v, want %d and %+v", got.Compactions, got.Usage, compacted, want)
	}
}

// paid is a summarizer that says what it took.
type paid struct{}

func (paid) Summarize(_ context.Context, in summary.Input) (summary.Output, error) {
	return summary.Output{Text: fmt.Sprintf("%d halves were said", len(in.Halves)), Usage: &turns.Usage{InputTokens: 500, OutputTokens: 50}}, nil
}

// S8-28, its manual checks as one run: more than twenty turns with tools and no
// request that a provider would refuse; the summary is there to be read; after it
// the agent still has the key facts of the beginning. The flush is of other rows.
func TestLongToolSessionKeepsItsKeyFacts(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	e.Loader.Tiers = []compactor.Tier{{Name: "extractive", Summarizer: extractive.New(extractive.Config{}), Local: true}}
	s := opened(t, e, alice, "spec-008", `{}`, turns.Limits{ContextWindow: 24_000})
	compacted, pruned := 0, 0
	called(t, e, s.ID, "Migrate billing-service to Postgres 16. You must never drop the table invoices_2024.", "c0", `{"path":"/srv/billing/schema.sql"}`)
	returned(t, e, s.ID, "c0", "CREATE TABLE invoices_2024 (id BIGINT);", "I decided to use logical replication, with the slot mig_slot_7.")
	for i := 1; i < 40; i++ {
		id := fmt.Sprint("c", i)
		called(t, e, s.ID, fmt.Sprintf("Now step %d.", i), id, fmt.Sprintf(`{"path":"/srv/billing/step_%d.log"}`, i))
		returned(t, e, s.ID, id, fmt.Sprintf("step %d\n%s", i, long(5000)), fmt.Sprintf("Step %d is done.", i))
		for _, format := range []string{"anthropic", "openai"} {
			cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{Format: format}))(t)
			err := strict.OpenAI(canon(cx.Messages))
			if format == "anthropic" {
				err = strict.Anthropic(canon(cx.System), canon(cx.Messages))
			}
			if err != nil || cx.Tokens+cx.Overhead > cx.Budget {
				t.Fatalf("turn %d, %s: %d of %d tokens, %v", i, format, cx.Tokens, cx.Budget, err)
			}
			if cx.Compacted != nil {
				compacted++
			}
			for _, src := range cx.Sources {
				if src.Status == string(view.Trimmed) || src.Status == string(view.Cleared) {
					pruned++
				}
			}
		}
	}
	if compacted < 2 || pruned == 0 {
		t.Fatalf("%d compactions, %d pruned results", compacted, pruned)
	}
	list := must(e.History.ListCompactions(t.Context(), alice, s.ID, api.ListCompactions{}))(t).Turns
	cx := look(t, e, s.ID)
	for _, fact := range []string{"Migrate billing-service to Postgres 16", "never drop the table invoices_2024", "mig_slot_7"} {
		if !strings.Contains(*list[0].Compaction.Summary, fact) {
			t.Errorf("the newest summary does not say %q:\n%s", fact, *list[0].Compaction.Summary)
		}
		if b := string(canon(cx.System)) + string(canon(cx.Messages)); !strings.Contains(b, fact) {
			t.Errorf("the context does not say %q", fact)
		}
	}
	verified(t, e)
}

// S8-28, prune_when: always, or only where the prompt cache has gone. It is a view:
// nothing is written, and the next call after a cold one sees everything again.
func TestPruneWhenIsAView(t *testing.T) {
	for _, c := range []struct {
		set    string
		idle   time.Duration
		pruned bool
	}{
		{`{}`, 0, true},
		{`{"prune":{"when":"always"}}`, 0, true},
		{`{"prune":{"when":"cache_cold"}}`, 0, false},
		{`{"prune":{"when":"cache_cold"}}`, 299 * time.Second, false}, // five minutes, the default
		{`{"prune":{"when":"cache_cold"}}`, 300 * time.Second, true},
		{`{"prune":{"when":"cache_cold"},"idle_seconds":60}`, 59 * time.Second, false},
		{`{"prune":{"when":"cache_cold"},"idle_seconds":60}`, 60 * time.Second, true},
		{`{"prune":{"when":"cache_cold"},"idle_seconds":1099511627776}`, time.Hour, false},
		{`{"prune":{"when":""},"idle_seconds":60}`, time.Hour, false},
	} {
		w := newWorld()
		e := w.Engine(t)
		now := time.Now()
		e.Reader.Now = func() time.Time { return now }
		s := opened(t, e, alice, "spec-008", c.set, turns.Limits{})
		for i := range 6 {
			id := fmt.Sprint("c", i)
			called(t, e, s.ID, "go on", id, `{}`)
			returned(t, e, s.ID, id, long(6000), "so")
		}
		written := must(w.Log.State(t.Context()))(t).Last
		now = now.Add(c.idle)
		pruned := 0
		for _, src := range look(t, e, s.ID).Sources {
			if src.Status == string(view.Trimmed) || src.Status == string(view.Cleared) {
				pruned++
			}
		}
		if (pruned > 0) != c.pruned {
			t.Errorf("%s after %v: %d results are pruned", c.set, c.idle, pruned)
		}
		if last := must(w.Log.State(t.Context()))(t).Last; last != written {
			t.Errorf("%s: %d records were written", c.set, last-written)
		}
	}
}

// A real session of an agent, pruned and compacted at every call, is a request
// that both providers take, and fits.
func TestPrunedSessionStillProducesCoherentResponses(t *testing.T) {
	for _, file := range transcripts(t) {
		if filepath.Base(file) != "7f-01a5ec2f19-0.jsonl" {
			continue
		}
		e := newWorld().Engine(t)
		compacted, contexts, pruned := 0, 0, map[string]int{}
		sessions, _ := replay(t, e, file, 60_000, "spec-008", func(s turns.ID) {
			if contexts++; contexts%3 > 0 { // each is three renderings
				return
			}
			cx := validContext(t, e, s)
			if cx.Compacted != nil {
				compacted++
			}
			for _, src := range cx.Sources {
				pruned[src.Status]++
			}
		})
		if compacted == 0 || pruned[string(view.Trimmed)] == 0 || pruned[string(view.Cleared)] == 0 {
			t.Errorf("%d compactions, %v", compacted, pruned)
		}
		verified(t, e)
		t.Logf("%d sessions, %d turns, %d compactions, %v", len(sessions), contexts, compacted, pruned)
		return
	}
	t.Skip("the transcript 7f-01a5ec2f19-0.jsonl is not beside the project (../shared/data)")
}

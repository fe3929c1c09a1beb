package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/compactor"
	"nexus/compactor/summary"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/render/strict"
	"nexus/turns/tokens"
)

// Rows of the designs' promises that need a session: the rest of WOL, AUT and NEX
// is in compactor/conform_*_test.go.

// announced collects the notifications of an engine. Read it only when nothing is
// under way.
type announced struct{ all []api.Notification }

func (n *announced) of(what string) (out []api.Notification) {
	for _, x := range n.all {
		if x.Kind == what {
			out = append(out, x)
		}
	}
	return out
}

func listen(e *Engine) *announced {
	n := new(announced)
	e.Writer.Notify = func(_, _ string, x api.Notification) { n.all = append(n.all, x) }
	return n
}

func object(t *testing.T, raw turns.Raw) map[string]any {
	t.Helper()
	var m map[string]any
	if err := turns.DecodeJSON(raw, &m); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return m
}

// mailPage is text of n characters that begins with a name, and has no line break.
func mailPage(name string, n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%s, sentence %d. ", name, i)
	}
	return b.String()[:n]
}

// callsOf returns a response that calls a tool for each id.
func callsOf(tool string, ids ...string) *turns.Message {
	m := turns.Message{Role: turns.Assistant}
	for _, id := range ids {
		m.Parts = append(m.Parts, turns.Part{Type: turns.ToolCall, ID: id, Name: tool, Arguments: turns.Raw(`{"id":"` + id + `"}`)})
	}
	return &m
}

func resultOf(id, text string) turns.Message {
	return turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: id, Response: turns.RawText(text)}}}
}

// reads has the agent call a tool once for each size, and appends the results.
func reads(t *testing.T, e *Engine, s turns.ID, name string, sizes ...int) {
	t.Helper()
	var ids []string
	var results []turns.Message
	for i, n := range sizes {
		id := fmt.Sprintf("%s.%d", name, i)
		ids = append(ids, id)
		results = append(results, resultOf(id, mailPage("page "+id, n)))
	}
	add(t, e, s, api.AppendTurn{Response: callsOf("fetch_page", ids...)})
	add(t, e, s, api.AppendTurn{Messages: results})
}

// whole returns a context with all its pages joined, in the ledger's own form.
func whole(t *testing.T, e *Engine, s turns.ID) (first *api.Context, ms []turns.Message) {
	t.Helper()
	var piece string
	for after := ""; ; {
		cx := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{Page: api.Page{After: after}}))(t)
		if first == nil {
			first = cx
		}
		raws := slices.Clone(cx.Messages)
		if piece += cx.Partial; cx.PartialEnd {
			raws, piece = append(raws, turns.Raw(piece)), ""
		}
		for _, raw := range raws {
			var m turns.Message
			if err := turns.DecodeJSON(raw, &m); err != nil {
				t.Fatal(err)
			}
			ms = append(ms, m)
		}
		if after = cx.Next; after == "" {
			return first, ms
		}
	}
}

func shownText(p *turns.Part) string {
	if p.Type == turns.ToolCallResponse {
		s, _ := p.Response.Text()
		return s
	}
	return p.Content
}

// WOL-3: an overflow, by any provider's words, has the largest messages
// compacted below every threshold, and is answered with the context to retry with.
func TestOverflowOfAnyProviderCompactsTheLargestMessages(t *testing.T) {
	for _, tc := range []struct {
		provider string
		status   int
		text     string
	}{
		{"openai", 400, `{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","code":"context_length_exceeded"}}`},
		{"openai", 400, `{"error":{"message":"Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 402734 tokens."}}`},
		{"anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 200251 tokens > 200000 maximum"}}`},
		{"anthropic", 413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`},
		{"anthropic", 200, `{"type":"message","stop_reason":"model_context_window_exceeded"}`},
		{"gemini", 400, `{"error":{"code":400,"message":"The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)."}}`},
		{"bedrock", 400, `{"errorType":"ValidationException","errorMessage":"Input is too long for requested model."}`},
		{"deepseek", 400, `{'error': {'message': "This model's maximum context length is 131072 tokens. However, you requested 131134 tokens (123134 in the messages, 8000 in the completion)."}}`},
		{"xai", 400, `{"error":"This model's maximum prompt length is 131072 but the request contains 137812 tokens."}`},
		{"mistral", 400, `{"message":"Prompt contains 159202 tokens and 0 draft tokens, too large for model with 131072 maximum context length"}`},
		{"groq", 400, `{'error': {'message': 'Please reduce the length of the messages or completion.'}}`},
		{"cerebras", 400, ``},
		{"minimax", 400, `{"message":"invalid params, context window exceeds limit (2013)"}`},
		{"zhipu-zai", 400, `{"error":{"code":"1261","message":"Prompt exceeds max length"}}`},
		{"github-copilot", 400, `{"error":{"message":"prompt token count of 131491 exceeds the limit of 128000","code":"model_max_prompt_tokens_exceeded"}}`},
		{"proxy-zh", 400, `{"error":{"message":"上下文长度超出模型最大限制","code":"400"}}`},
		{"nginx", 413, `<html><head><title>413 Request Entity Too Large</title></head></html>`},
	} {
		e := newWorld().Engine(t)
		notes := listen(e)
		s := create(t, e, 1_000_000, "wolffish")
		add(t, e, s.ID, say("read them all", ""))
		reads(t, e, s.ID, "a", 12_000, 20_000, 700, 1_000, 1_000, 1_000)
		before := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
		if before.Compacted != nil {
			t.Fatal("compacted by itself")
		}
		cx, err := e.Contexts.Overflow(t.Context(), alice, s.ID, api.Overflow{Error: tc.text, Status: tc.status, Format: "openai"}, []byte("{}"))
		if err != nil {
			t.Errorf("%s: %v", tc.provider, err)
			continue
		}
		if err := strict.OpenAI(canon(cx.Messages)); err != nil {
			t.Errorf("%s: %v", tc.provider, err)
		}
		if cx.Compacted == nil || cx.Tokens > before.Tokens*3/4 || cx.Compaction.State == "due" {
			t.Errorf("%s: compacted %v, %d tokens after %d, state %s", tc.provider, cx.Compacted, cx.Tokens, before.Tokens, cx.Compaction.State)
		}
		k := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: *cx.Compacted}))(t).Compaction
		var sizes []uint64
		for _, x := range k.Elisions {
			sizes = append(sizes, x.Before)
		}
		if !slices.Equal(sizes, []uint64{12_000, 20_000}) && !slices.Equal(sizes, []uint64{12_000, 20_000, 700}) || k.Trigger.Kind != "overflow" {
			t.Errorf("%s: by %s, shortened are %v characters", tc.provider, k.Trigger.Kind, sizes)
		}
		if started := notes.of("compaction.started"); len(started) != 1 || object(t, started[0].Detail)["force"] != true {
			t.Errorf("%s: told %+v", tc.provider, started)
		}
	}
}

// WOL-8: targets stay, shortened: nothing is summarized through, an expansion is
// empty, and the elisions lead to the originals.
func TestElisionsKeepTheirTargets(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 40_000, "wolffish")
	add(t, e, s.ID, say("read them all", ""))
	reads(t, e, s.ID, "a", 9_000, 12_000, 6_000, 8_000, 5_000, 5_000, 5_000)
	cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
	if cx.Compacted == nil {
		t.Fatal("not compacted")
	}
	k := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: *cx.Compacted}))(t).Compaction
	if k.Through != nil || k.FirstKept != nil || k.Covered != 0 || k.Summary == nil || len(k.Elisions) < 2 || k.Scope != "call" {
		t.Errorf("%+v", k)
	}
	for _, levels := range []turns.Raw{nil, turns.Raw(`"all"`)} {
		if x := must(e.Covered.Expand(t.Context(), alice, s.ID, api.ExpandCompaction{ID: *cx.Compacted, Levels: levels}))(t); len(x.Turns) != 0 {
			t.Errorf("expanded by %s: %d turns", levels, len(x.Turns))
		}
	}
	for _, x := range k.Elisions {
		original := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: x.Turn}))(t)
		p := original.Messages[x.Message].Parts[x.Part]
		if text := shownText(&p); uint64(len(text)) != x.Before || strings.Contains(text, "TRUNCATED") {
			t.Errorf("the original of %+v is %.100q", x, text)
		}
	}
	verified(t, e)
}

// WOL-8, with a model: by mode background it writes the summary while calls go
// on; what came meanwhile follows the summary.
func TestBackgroundSummaryKeepsTurnsThatCameMeanwhile(t *testing.T) {
	e := newWorld().Engine(t)
	slow := slowSummarizer{make(chan struct{}, 10), make(chan struct{})}
	e.Loader.Tiers = append([]compactor.Tier{{Name: "llm", Summarizer: slow}}, e.Loader.Tiers...)
	applied := make(chan turns.ID, 10)
	e.Writer.Notify = func(_, _ string, n api.Notification) {
		if n.Kind == "compaction.applied" {
			applied <- n.Turn
		}
	}
	works(t, e)
	r := api.CreateSession{SessionSettings: api.SessionSettings{Limits: &turns.Limits{ContextWindow: 100_000},
		Policy: &api.Policy{Name: "wolffish", Set: turns.Raw(`{"mode":"background"}`)}}}
	s := must(e.Sessions.Create(t.Context(), alice, r, []byte("{}")))(t)
	add(t, e, s.ID, say("read them all", ""))
	reads(t, e, s.ID, "a", 9_600, 9_600, 9_600, 9_600, 9_600, 9_600, 9_600, 9_600, 9_600, 9_600, 9_600, 9_600)
	if cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t); cx.Compacted != nil || cx.Compaction.State != "preparing" {
		t.Errorf("compacted %v, state %s", cx.Compacted, cx.Compaction.State)
	}
	<-slow.began
	reads(t, e, s.ID, "meanwhile", 700)
	close(slow.release)
	k := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: <-applied}))(t).Compaction
	if k.Tier != "llm" || k.Covered != 0 || len(k.Elisions) != 8 || k.Scope != "call" {
		t.Errorf("by %s, %d turns covered, %d elisions, scope %s", k.Tier, k.Covered, len(k.Elisions), k.Scope)
	}
	_, ms := whole(t, e, s.ID)
	n := len(ms)
	if !strings.HasPrefix(ms[n-1].Parts[0].Content, "[Compaction Summary]") || !strings.HasPrefix(shownText(&ms[n-2].Parts[0]), "page meanwhile.0") {
		t.Errorf("at the end: %.60q, %.60q", shownText(&ms[n-2].Parts[0]), ms[n-1].Parts[0].Content)
	}
	verified(t, e)
}

// WOL-13: a session that names a model has that model's budget.
func TestSessionGetsTheBudgetOfItsModel(t *testing.T) {
	e := newWorld().Engine(t)
	e.Reader.Models = tokens.KnownModels()
	for name, want := range map[string]uint64{
		"DeepSeek V4 Pro": 967_232, "Claude Opus 4.6": 1_000_000, "Claude Sonnet 4.6": 1_000_000, "Grok 4.3": 934_464,
		"GPT-5": 334_464, "GPT-4.1": 967_232, "Kimi K2": 196_608, "Qwen 3.7 Max": 934_464,
		"anthropic/claude-haiku-4-5": 167_232, // by the model table
		"nobody's model":             200_000, // the policy's
	} {
		r := api.CreateSession{SessionSettings: api.SessionSettings{Model: &name, Policy: &api.Policy{Name: "wolffish"}}}
		s := must(e.Sessions.Create(t.Context(), alice, r, []byte(name)))(t)
		add(t, e, s.ID, say("hello", "hi"))
		cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
		if s.Budget != want || cx.Budget != want {
			t.Errorf("%s: the session's budget is %d, that of its context %d, want %d", name, s.Budget, cx.Budget, want)
		}
	}
}

// due returns a session that is compacted by its next call, under wolffish: one
// message of the user's, 12 of results, one of calls, and one that says something.
func due(t *testing.T, e *Engine) *api.Session {
	t.Helper()
	s := create(t, e, 100_000, "wolffish")
	add(t, e, s.ID, say("read them all", ""))
	reads(t, e, s.ID, "a", 9_600, 9_600, 9_600, 9_600, 9_600, 9_600, 9_600, 9_600, 9_600, 9_600, 9_600, 9_600)
	add(t, e, s.ID, api.AppendTurn{Response: say("", "so far").Response})
	return s
}

// WOL-14: a card for a compaction under way has its messages and targets; one
// for what was done has targets, tokens saved and time, and of each target the
// tool, both sizes, the reduction and the method.
func TestNotificationsDescribeACompaction(t *testing.T) {
	e := newWorld().Engine(t)
	notes := listen(e)
	s := due(t, e)
	cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
	started, applied := notes.of("compaction.started"), notes.of("compaction.applied")
	if len(started) != 1 || len(applied) != 1 || applied[0].Turn != *cx.Compacted {
		t.Fatalf("told %+v", notes.all)
	}
	const targets = 8.0 // (77,064 - 50,000 + 8,000 for the summary) / 4,800, rounded up
	if d := object(t, started[0].Detail); d["messages_count"] != 15.0 || d["targets_count"] != targets || d["force"] != false {
		t.Errorf("started: %v", d)
	}
	k := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: *cx.Compacted}))(t).Compaction
	d := object(t, applied[0].Detail)
	if d["targets_count"] != targets || d["tokens_saved"] != float64(k.TokensBefore-k.TokensAfter) || d["duration_ms"] == nil || k.TokensBefore <= k.TokensAfter {
		t.Errorf("applied: %v; %d tokens to %d", d, k.TokensBefore, k.TokensAfter)
	}
	if len(k.Elisions) != targets {
		t.Fatalf("%d targets, want %v", len(k.Elisions), targets)
	}
	for _, x := range k.Elisions {
		turn := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: x.Turn}))(t)
		called := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: *turn.Parent}))(t).Response
		id := turn.Messages[x.Message].Parts[x.Part].ID
		i := slices.IndexFunc(called.Parts, func(p turns.Part) bool { return p.ID == id })
		if i < 0 || called.Parts[i].Name != "fetch_page" {
			t.Errorf("%+v: the tool is not to be found", x)
		}
		if reduction := 100 - 100*x.After/x.Before; x.Before != 9_600 || reduction != 77 && reduction != 76 || x.Method != "trimmed" {
			t.Errorf("%+v: %d %% by %s", x, reduction, x.Method)
		}
	}
}

// WOL-15: compaction.started comes once targets are chosen, compaction.applied
// when it is there; nothing is announced if nothing is due. The decision's numbers
// are in the compaction; the token count and the budget are in every context.
func TestNotificationsFollowTheSteps(t *testing.T) {
	e := newWorld().Engine(t)
	notes := listen(e)
	quiet := create(t, e, 100_000, "wolffish")
	add(t, e, quiet.ID, say("hello", "hi"))
	must(e.Contexts.Context(t.Context(), alice, quiet.ID, api.GetContext{}))(t)
	if n := len(notes.of("compaction.started")) + len(notes.of("compaction.applied")); n != 0 {
		t.Errorf("%d notifications of a context that fits", n)
	}
	s := due(t, e)
	before := must(e.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t)
	cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
	var order []string
	for _, n := range notes.all {
		if strings.HasPrefix(n.Kind, "compaction.") {
			order = append(order, n.Kind)
		}
	}
	if !slices.Equal(order, []string{"compaction.started", "compaction.applied"}) {
		t.Errorf("told %v", order)
	}
	k := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: *cx.Compacted}))(t).Compaction
	d := object(t, k.Trigger.Detail)
	if k.Trigger.Kind != "threshold" || d["threshold"] != 75_000.0 || d["budget"] != 100_000.0 || d["tokens"].(float64) <= 75_000 || d["overhead"] != 0.0 {
		t.Errorf("the decision: %s %s", k.Trigger.Kind, k.Trigger.Detail)
	}
	if cx.Tokens != k.TokensAfter || cx.Budget != 100_000 || before.Budget != 100_000 {
		t.Errorf("the context has %d tokens of %d, the compaction says %d", cx.Tokens, cx.Budget, k.TokensAfter)
	}
}

// WOL-16: a pass is for the calls of one turn of the user's. What is stored
// stays whole, and the next text of the user starts from all of it.
func TestTruncationEndsWithTheUsersTurn(t *testing.T) {
	e := newWorld().Engine(t)
	s := due(t, e)
	truncated := func(compacts bool) (n int) {
		cx, ms := whole(t, e, s.ID)
		if (cx.Compacted != nil) != compacts {
			t.Errorf("compacted %v, want one %v", cx.Compacted, compacts)
		}
		for _, m := range ms {
			for i := range m.Parts {
				n += strings.Count(shownText(&m.Parts[i]), "[TRUNCATED")
			}
		}
		return n
	}
	if truncated(true) == 0 {
		t.Fatal("nothing is truncated")
	}
	reads(t, e, s.ID, "b", 600) // the same turn of the user's goes on
	if truncated(false) == 0 {
		t.Error("a tool's result ended what stands until the user speaks")
	}
	list := must(e.History.ListTurns(t.Context(), alice, s.ID, api.ListTurns{Full: true}))(t)
	n := 0
	for _, turn := range list.Turns {
		for _, m := range turn.Messages {
			for i := range m.Parts {
				if m.Parts[i].Type == turns.ToolCallResponse && len(shownText(&m.Parts[i])) == 9_600 {
					n++
				}
			}
		}
	}
	if n != 12 {
		t.Errorf("%d of 12 results are stored whole", n)
	}
	add(t, e, s.ID, say("and now the summary, please", ""))
	cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{At: *must(e.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t).Head, Budget: 200_000}))(t)
	text := string(canon(cx.Messages))
	if strings.Contains(text, "[TRUNCATED") || strings.Contains(text, "[Compaction") {
		t.Error("after the user spoke, the context is still shortened")
	}
	if cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t); cx.Compacted == nil {
		t.Error("it is due again, and was not compacted from scratch")
	}
	verified(t, e)
}

// WOL-18: explain gives the tokens of each named section of the system part, in
// the order that they have, and of the tools; together they are the overhead.
func TestExplainCountsTheSectionsOfTheSystemPart(t *testing.T) {
	e := newWorld().Engine(t)
	var sections api.System
	want := []api.PreamblePart{}
	for i, name := range []string{"identity", "device", "variables", "prefrontal", "tools", "skills", "memory", "runtime"} {
		text := strings.Repeat("x", 150*(i+1))
		sections = append(sections, turns.Section{Name: name, Content: text})
		want = append(want, api.PreamblePart{Type: "system", Name: name, Tokens: 4 + uint64(2*len(name)+2)/3 + uint64(100*(i+1))})
	}
	tools := []turns.Raw{turns.Raw(`{"name":"read"}`), turns.Raw(`{"name":"send"}`)}
	want = append(want, api.PreamblePart{Type: "tools", Tokens: 2 * (8 + 10)})
	r := api.CreateSession{SessionSettings: api.SessionSettings{System: &sections, Tools: &tools, Policy: &api.Policy{Name: "wolffish", Set: turns.Raw(`{"runtime":"off"}`)}}} // the session has its own
	s := must(e.Sessions.Create(t.Context(), alice, r, []byte("{}")))(t)
	add(t, e, s.ID, say("hello", "hi"))
	cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{Explain: true}))(t)
	if diff := cmp.Diff(want, cx.Preamble); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	sum := uint64(0)
	for _, p := range cx.Preamble {
		sum += p.Tokens
	}
	if sum != cx.Overhead {
		t.Errorf("the parts have %d tokens, the overhead %d", sum, cx.Overhead)
	}
	if cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t); cx.Preamble != nil {
		t.Errorf("unasked: %+v", cx.Preamble)
	}
}

// visible is a summarizer that notes when it was asked, and whether its input had
// text whole.
type visible struct {
	order *[]string
	text  string // that it must find whole
}

func (s visible) Summarize(_ context.Context, in summary.Input) (summary.Output, error) {
	what := "summarized what was shortened"
	for _, h := range in.Halves {
		for _, m := range h.Messages {
			for i := range m.Parts {
				if shownText(&m.Parts[i]) == s.text {
					what = "summarized the originals"
				}
			}
		}
	}
	*s.order = append(*s.order, what)
	return summary.Output{Text: "TASK: read"}, nil
}

// WOL-19: select, tell, summarize the originals, and only then show anything
// shortened; the summary comes last.
func TestSummaryIsMadeFromOriginalsBeforeElisionsShow(t *testing.T) {
	e := newWorld().Engine(t)
	var order []string
	e.Writer.Notify = func(_, _ string, n api.Notification) {
		if strings.HasPrefix(n.Kind, "compaction.") {
			order = append(order, n.Kind)
		}
	}
	e.Loader.Tiers = []compactor.Tier{{Name: "seen", Summarizer: visible{&order, mailPage("page a.0", 9_600)}, Local: true}}
	s := due(t, e)
	_, ms := whole(t, e, s.ID)
	want := []string{"compaction.started", "summarized the originals", "compaction.applied"}
	if !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
	if text := ms[len(ms)-1].Parts[0].Content; !strings.HasPrefix(text, "[Compaction Summary]\n\nTASK: read") {
		t.Errorf("at the end: %s", text)
	}
}

// AUT-2: without a limit a session is not compacted by size, and its context is
// given whole, whatever it has; a budget that is asked for holds.
func TestSessionWithoutLimitIsNotCompactedBySize(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 0, "autobyteus")
	for i := range 9 {
		add(t, e, s.ID, say(mailPage(fmt.Sprint("question ", i), 90_000), "yes"))
	}
	cx, ms := whole(t, e, s.ID)
	if cx.Compacted != nil || cx.Tokens < 200_000 || len(ms) != 18 || len(ms[0].Parts[0].Content) != 90_000 {
		t.Errorf("compacted %v, %d tokens, %d messages", cx.Compacted, cx.Tokens, len(ms))
	}
	if cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{Budget: 100_000}))(t); cx.Tokens > 100_000 {
		t.Errorf("%d tokens, asked for are 100000", cx.Tokens)
	}
	limited := create(t, e, 200_000, "autobyteus")
	for i := range 9 {
		add(t, e, limited.ID, say(mailPage(fmt.Sprint("question ", i), 90_000), "yes"))
	}
	if cx, _ := whole(t, e, limited.ID); cx.Compacted == nil || cx.Tokens > cx.Budget {
		t.Errorf("with a limit: compacted %v, %d tokens of %d", cx.Compacted, cx.Tokens, cx.Budget)
	}
}

// nexusSession is one of eight turns under nexus, compacted, and their ids.
func nexusSession(t *testing.T, e *Engine) (s *api.Session, ids []turns.ID, k *api.Turn) {
	t.Helper()
	r := api.CreateSession{SessionSettings: api.SessionSettings{Limits: &turns.Limits{ContextWindow: 8_000},
		Policy: &api.Policy{Name: "nexus", Set: turns.Raw(`{"keep_tokens":1105}`)}}} // two turns of 552
	s = must(e.Sessions.Create(t.Context(), alice, r, []byte("{}")))(t)
	for i := range 8 {
		ids = append(ids, add(t, e, s.ID, say(mailPage(fmt.Sprint("question ", i+1), 2_000), fmt.Sprint("answer ", i+1))).ID)
	}
	return s, ids, must(e.Compactions.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}")))(t).Compaction
}

// NEX-1: a compaction is a turn. It has the fields of the design's turn under the
// contract's names; a normal turn has them as null.
func TestCompactionTurnHasTheFieldsOfTheDesign(t *testing.T) {
	e := newWorld().Engine(t)
	s, ids, k := nexusSession(t, e)
	c := k.Compaction
	i := slices.Index(ids, *c.Through)
	if k.Type != "compaction" || *k.Parent != ids[7] || k.Depth != 9 || i < 0 || *c.FirstKept != ids[i+1] {
		t.Errorf("type %s below %s, through %s, first kept %s", k.Type, k.Parent, c.Through, c.FirstKept)
	}
	if c.Trigger.Kind != "manual" || c.Summary == nil || *c.Summary == "" || len(c.Replacement) != 1 || c.TokensBefore <= c.TokensAfter || c.TokensAfter == 0 {
		t.Errorf("%+v", c)
	}
	if want := tokens.Messages(tokens.Approx{}, c.Replacement); k.TokenCount != want || k.HasChildren || k.ToolCalls != 0 {
		t.Errorf("token_count %d, want %d; has_children %v, tool_call_count %d", k.TokenCount, want, k.HasChildren, k.ToolCalls)
	}
	r := say("look", "")
	r.Response = callsOf("fetch_page", "a", "b")
	next := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: add(t, e, s.ID, r).ID}))(t)
	if *next.Parent != k.ID || next.Type != "normal" || next.ToolCalls != 2 || next.TokenCount == 0 {
		t.Errorf("the next turn: %+v", next)
	}
	normal := object(t, canon(next))
	if v, there := normal["compaction"]; !there || v != nil {
		t.Errorf("compaction of a normal turn is %v", v)
	}
	if again := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: k.ID}))(t); !again.HasChildren {
		t.Error("has_children is false with a turn below")
	}
	names := object(t, canon(c))
	for _, name := range []string{"summary", "summarized_through", "first_kept", "tokens_before", "tokens_after"} {
		if names[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	// What only shortens takes nothing of the context itself: wolffish's too.
	w := due(t, e)
	cx := must(e.Contexts.Context(t.Context(), alice, w.ID, api.GetContext{}))(t)
	x := must(e.Reader.GetTurn(t.Context(), alice, w.ID, api.GetTurn{ID: *cx.Compacted}))(t)
	if want := tokens.Messages(tokens.Approx{}, x.Compaction.Nudge); x.TokenCount != want {
		t.Errorf("token_count of a compaction with elisions is %d, want that of its nudge, %d", x.TokenCount, want)
	}
}

// NEX-3: the summary is a system message; where a format has no such role it
// stands in system.
func TestSummaryIsASystemMessageInEveryFormat(t *testing.T) {
	e := newWorld().Engine(t)
	s, _, k := nexusSession(t, e)
	cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{Format: "openai"}))(t)
	if m := object(t, cx.Messages[0]); m["role"] != "system" || !strings.Contains(string(cx.Messages[0]), *k.Compaction.Summary) {
		t.Errorf("openai begins with %s", cx.Messages[0])
	}
	cx = must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{Format: "anthropic"}))(t)
	if !strings.Contains(string(cx.System), *k.Compaction.Summary) || strings.Contains(string(canon(cx.Messages)), *k.Compaction.Summary) {
		t.Errorf("anthropic has the summary in system %.200s", cx.System)
	}
	if err := strict.Anthropic(canon(cx.System), canon(cx.Messages)); err != nil {
		t.Error(err)
	}
}

// NEX-4: the full history is there across compactions, with them; a compaction
// is expanded to what it covered itself, behind the one that it includes, or to
// all; compactions are listed.
func TestExpandReturnsWhatACompactionCovers(t *testing.T) {
	e := newWorld().Engine(t)
	s, ids, first := nexusSession(t, e)
	for i := range 5 {
		ids = append(ids, add(t, e, s.ID, say(mailPage(fmt.Sprint("later ", i), 2_000), fmt.Sprint("answer ", i))).ID)
	}
	second := must(e.Compactions.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}")))(t).Compaction
	idsOf := func(l *api.TurnList) (out []turns.ID) {
		for _, x := range l.Turns {
			out = append(out, x.ID)
		}
		return out
	}
	same := func(what string, got, want []turns.ID) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	history := slices.Concat(ids[:8], []turns.ID{first.ID}, ids[8:], []turns.ID{second.ID})
	same("the history", idsOf(must(e.History.ListTurns(t.Context(), alice, s.ID, api.ListTurns{}))(t)), history)
	same("the compactions", idsOf(must(e.History.ListCompactions(t.Context(), alice, s.ID, api.ListCompactions{}))(t)), []turns.ID{second.ID, first.ID})
	cut := slices.Index(ids, *first.Compaction.FirstKept)
	last := slices.Index(ids, *second.Compaction.FirstKept)
	expand := func(id turns.ID, levels string) []turns.ID {
		return idsOf(&api.TurnList{Turns: must(e.Covered.Expand(t.Context(), alice, s.ID, api.ExpandCompaction{ID: id, Levels: turns.Raw(levels)}))(t).Turns})
	}
	same("the first, expanded", expand(first.ID, ""), ids[:cut])
	same("the second, expanded", expand(second.ID, ""), slices.Concat(ids[cut:8], []turns.ID{first.ID}, ids[8:last]))
	same("the second, all levels", expand(second.ID, `"all"`), ids[:last])
}

// NEX-6: a fork from any turn: with what the session showed there, with a summary, or in
// full. None shows anything of what came after its turn.
func TestForkShowsNothingAfterItsTurn(t *testing.T) {
	e := newWorld().Engine(t)
	s, ids, k := nexusSession(t, e)
	add(t, e, s.ID, say("what came last", "yes"))
	for at := range ids {
		for _, mode := range []string{"as_seen", "summary", "full"} {
			f := must(e.Forks.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: ids[at], Mode: mode}, []byte(fmt.Sprint(mode, at))))(t)
			_, ms := whole(t, e, f.ID)
			text := string(canon(ms))
			for later := at + 1; later < len(ids); later++ {
				if strings.Contains(text, fmt.Sprintf("question %d,", later+1)) || strings.Contains(text, fmt.Sprintf("[%d messages]", later+1)) {
					t.Errorf("%s at turn %d shows turn %d: the future", mode, at+1, later+1)
				}
			}
			if mode != "summary" && len(ms) != 2*(at+1) {
				t.Errorf("%s at turn %d: %d messages", mode, at+1, len(ms))
			}
			if strings.Contains(text, "what came last") {
				t.Errorf("%s at turn %d shows what came last", mode, at+1)
			}
		}
	}
	// Below the compaction: its summary, or the whole past again.
	_, ms := whole(t, e, must(e.Forks.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: k.ID, Mode: "as_seen"}, []byte("k1")))(t).ID)
	if !strings.Contains(string(canon(ms)), *k.Compaction.Summary) || len(ms) >= 16 {
		t.Errorf("as seen below the compaction: %d messages", len(ms))
	}
	_, ms = whole(t, e, must(e.Forks.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: ids[7], Mode: "summary"}, []byte("k2")))(t).ID)
	if !strings.Contains(string(canon(ms)), *k.Compaction.Summary) {
		t.Error("by summary at the last turn: another summary, or none")
	}
	_, ms = whole(t, e, must(e.Forks.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: k.ID, Mode: "full"}, []byte("k3")))(t).ID)
	if len(ms) != 16 {
		t.Errorf("in full below the compaction: %d messages of 16", len(ms))
	}
	verified(t, e)
}

// NEX-7: a provider's overflow, the threshold, and a request each compact.
func TestOverflowThresholdAndRequestEachCompact(t *testing.T) {
	e := newWorld().Engine(t)
	kinds := map[string]func(s turns.ID) *turns.ID{
		"overflow": func(s turns.ID) *turns.ID {
			return must(e.Contexts.Overflow(t.Context(), alice, s, api.Overflow{Error: "prompt is too long", Status: 400}, []byte("{}")))(t).Compacted
		},
		"threshold": func(s turns.ID) *turns.ID {
			for i := range 20 {
				if cx := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t); cx.Compacted != nil {
					return cx.Compacted
				}
				add(t, e, s, say(mailPage(fmt.Sprint("more ", i), 2_000), "yes"))
			}
			return nil
		},
		"manual": func(s turns.ID) *turns.ID {
			return &must(e.Compactions.Compact(t.Context(), alice, s, api.RunCompaction{}, []byte("{}")))(t).Compaction.ID
		},
	}
	for kind, do := range kinds {
		s := create(t, e, 8_000, "nexus")
		for i := range 8 {
			add(t, e, s.ID, say(mailPage(fmt.Sprint("question ", i), 2_000), "yes"))
		}
		id := do(s.ID)
		if id == nil {
			t.Errorf("%s: not compacted", kind)
			continue
		}
		if k := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: *id}))(t).Compaction; k.Trigger.Kind != kind {
			t.Errorf("compacted by %s, want %s", k.Trigger.Kind, kind)
		}
	}
}

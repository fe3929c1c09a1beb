package engine_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"nexus/cmd/internal/engine/reader"
	"nexus/compactor"
	"nexus/compactor/plan"
	"nexus/compactor/summary"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/render/strict"
)

// The rows of the GSV design that need a session.

// opened returns a session under a policy with settings of its own. Window 0 is the
// policy's.
func opened(t *testing.T, e *Engine, c reader.Caller, policy, set string, limits turns.Limits) *api.Session {
	t.Helper()
	label := fmt.Sprintf("s-%s", newID(t))
	r := api.CreateSession{SessionSettings: api.SessionSettings{Label: &label, Policy: &api.Policy{Name: policy, Set: turns.Raw(set)}}}
	if limits != (turns.Limits{}) {
		r.Limits = &limits
	}
	return must(e.Sessions.Create(t.Context(), c, r, canon(r)))(t)
}

// counted is r with what a provider says that its call took.
func counted(r api.AppendTurn, input, output uint64) api.AppendTurn {
	r.Usage = &turns.Usage{InputTokens: input, OutputTokens: output}
	return r
}

// look returns the context for the next call.
func look(t *testing.T, e *Engine, s turns.ID) *api.Context {
	t.Helper()
	cx := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{Format: "anthropic"}))(t)
	if err := strict.Anthropic(canon(cx.System), canon(cx.Messages)); err != nil {
		t.Fatal(err)
	}
	return cx
}

// GSV-2: the compaction comes in the request for the context that needs it,
// before the model is called, and not earlier.
func TestCompactionRunsBeforeTheCallThatNeedsIt(t *testing.T) {
	e := newWorld().Engine(t)
	s := opened(t, e, alice, "gsv", `{}`, turns.Limits{ContextWindow: 16_000, MaxOutputTokens: 1000, SafetyMargin: 100})
	const threshold = 12_000 // 16,000 less a quarter, which is less than 20,000
	compacted := 0
	for i := range 80 {
		add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(900)), long(400)))
		if n := must(e.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t).Compactions; n != uint64(compacted) {
			t.Fatalf("turn %d: an append compacted", i)
		}
		cx := look(t, e, s.ID)
		if cx.Tokens+cx.Overhead > threshold {
			t.Fatalf("turn %d: %d tokens", i, cx.Tokens)
		}
		if cx.Compacted != nil {
			compacted++
			k := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: *cx.Compacted}))(t)
			if k.Compaction.Trigger.Kind != plan.TriggerThreshold || k.Compaction.TokensBefore <= threshold || k.Compaction.Mode != "before_call" {
				t.Errorf("compaction of %d tokens by %s %s", k.Compaction.TokensBefore, k.Compaction.Trigger.Kind, k.Compaction.Trigger.Detail)
			}
		}
	}
	if compacted < 2 {
		t.Errorf("%d compactions", compacted)
	}
}

// failing is a summarizer that fails.
type failing struct{}

func (failing) Summarize(context.Context, summary.Input) (summary.Output, error) {
	return summary.Output{}, errors.New("no")
}

// GSV-6: the tier that made a summary is named in the ledger and in the
// notification. Under on_failure "fail" nothing takes a summary's place: the
// session goes on as long as its context fits, and who asks for a compaction is
// told that there is none.
func TestTierOfASummaryIsRecordedAndFailureIsReported(t *testing.T) {
	limits := turns.Limits{ContextWindow: 16_000, MaxOutputTokens: 1000, SafetyMargin: 100}
	for _, c := range []struct {
		tier summary.Summarizer
		want string
	}{{firstWords{}, "only"}, {failing{}, plan.NoticeTier}} {
		e := newWorld().Engine(t)
		e.Loader.Tiers = []compactor.Tier{{Name: "only", Summarizer: c.tier, Local: true}}
		var announced []string
		e.Writer.Notify = func(_, _ string, n api.Notification) {
			if strings.HasPrefix(n.Kind, "compaction.") {
				announced = append(announced, n.Kind+" "+string(n.Detail))
			}
		}
		s := opened(t, e, alice, "gsv", `{"keep_tokens":2000}`, limits)
		var k *turns.ID
		for i := 0; k == nil && i < 100; i++ {
			add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(900)), long(400)))
			k = look(t, e, s.ID).Compacted
		}
		if k == nil {
			t.Fatal("never compacted")
		}
		got := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: *k}))(t)
		if got.Compaction.Tier != c.want || len(announced) != 2 || !strings.Contains(announced[1], `"tier":"`+c.want+`"`) || !strings.HasPrefix(announced[1], "compaction.applied") {
			t.Errorf("by %s, want %s; told %v", got.Compaction.Tier, c.want, announced)
		}
		if n := got.Compaction.Summary; c.want == plan.NoticeTier && !strings.HasSuffix(*n, " messages that were compacted. Summary unavailable due to size limits.]") {
			t.Errorf("notice %q", *n)
		}
	}

	e := newWorld().Engine(t)
	e.Loader.Tiers = []compactor.Tier{{Name: "only", Summarizer: failing{}, Local: true}}
	applied := 0
	e.Writer.Notify = func(_, _ string, n api.Notification) {
		if n.Kind == "compaction.applied" {
			applied++
		}
	}
	s := opened(t, e, alice, "gsv", `{"keep_tokens":2000,"on_failure":"fail"}`, limits)
	state := ""
	for i := 0; state != "due"; i++ {
		if i == 100 {
			t.Fatal("never due")
		}
		add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(900)), long(400)))
		state = look(t, e, s.ID).Compaction.State
	}
	_, err := e.Compactions.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, nil)
	if code(err) != api.Unavailable || !strings.Contains(err.Error(), "no summary was made") {
		t.Errorf("compaction.run: %v, want unavailable", err)
	}
	add(t, e, s.ID, say(long(20_000), ""))
	if _, err := e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}); code(err) != api.Unprocessable {
		t.Errorf("a context over its budget: %v, want unprocessable", err)
	}
	if n := must(e.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t).Compactions; n != 0 || applied != 0 {
		t.Errorf("%d compactions, %d told", n, applied)
	}
	e.Loader.Tiers[0].Summarizer = firstWords{}
	if look(t, e, s.ID).Compacted == nil {
		t.Error("once there is a summary again, nothing is compacted")
	}
	verified(t, e)
}

// GSV-14: after a reset the first call uses the estimate, every later one
// what the provider reported: within one call the count is a real one.
func TestTriggerUsesTheReportedCountAfterTheFirstCall(t *testing.T) {
	e := newWorld().Engine(t)
	s := opened(t, e, alice, "gsv", `{}`, turns.Limits{})
	check := func(what string, s turns.ID, want string) {
		t.Helper()
		got := look(t, e, s).Compaction.State
		if got == "paused" { // due, and so short that nothing can be gained
			got = "due"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	add(t, e, s.ID, say("hello", ""))
	check("the first call", s.ID, "idle")
	add(t, e, s.ID, counted(api.AppendTurn{Messages: []turns.Message{}, Response: say("", "yes").Response}, 185_000, 5))
	check("185,000 reported", s.ID, "due")

	next := must(e.Sessions.Reset(t.Context(), alice, s.ID, api.ResetSession{ID: newID(t)}, []byte("{}")))(t)
	if next.Usage != (turns.Usage{}) || next.Tokens != 0 {
		t.Errorf("the counters go on: %+v, %d tokens", next.Usage, next.Tokens)
	}
	add(t, e, next.ID, say("hello", ""))
	check("the first call after a reset", next.ID, "idle")
	add(t, e, next.ID, counted(api.AppendTurn{Messages: []turns.Message{}, Response: say("", "yes").Response}, 179_900, 5))
	check("179,900 reported", next.ID, "idle")
	add(t, e, next.ID, say(long(1000), ""))
	check("with what was said since", next.ID, "due")
	add(t, e, next.ID, counted(api.AppendTurn{Messages: []turns.Message{}, Response: say("", "yes").Response}, 20_000, 5))
	check("20,000 reported", next.ID, "idle")
	add(t, e, next.ID, counted(say("more", "yes"), 185_000, 5))
	check("185,000 reported", next.ID, "due")
	system := api.System{{Content: "another system part"}}
	must(e.Sessions.Set(t.Context(), alice, next.ID, api.SetSession{SessionSettings: api.SessionSettings{System: &system}}, nil))(t)
	check("reported of another system part", next.ID, "idle")
}

// GSV-13: images are counted in a summary that the agent writes itself too, and
// no byte of theirs is given to it. There is room for the count however much it writes.
func TestAgentSummaryCountsImagesWithoutTheirBytes(t *testing.T) {
	picture := []byte(strings.Repeat("\x00picture", 200))
	encoded := base64.StdEncoding.EncodeToString(picture)
	for name, write := range map[string]func(limit uint64) string{
		"a short summary":           func(uint64) string { return "what was said" },
		"one with the block's tags": func(uint64) string { return "<summary>what was said</summary><memories>\n- a fact\n</memories>" },
		"one that counts itself":    func(uint64) string { return "what was said\n\n" + summary.ImagesNote(2) },
		"as long as it may be":      func(limit uint64) string { return strings.Repeat("word", int(limit)*37/40) },
	} {
		e := newWorld().Engine(t)
		s := create(t, e, 8000, "gsv")
		ask := say("look", "a picture")
		ask.Messages[0].Parts = append(ask.Messages[0].Parts, turns.Part{Type: turns.Blob, Modality: "image", MimeType: "image/png", Data: picture},
			turns.TextPart("data:image/png;base64,"+encoded))
		add(t, e, s.ID, ask)
		for range 12 {
			add(t, e, s.ID, say("go on "+long(2000), "yes"))
		}
		offer := must(e.Compactions.Take(t.Context(), alice, s.ID, api.TakeCompaction{}))(t)
		if strings.Contains(offer.Content, encoded[:60]) {
			t.Errorf("%s: bytes of an image were given", name)
		}
		r := api.SubmitCompaction{Plan: offer.Plan, Text: write(offer.MaxTokens)}
		made := must(e.Compactions.Submit(t.Context(), alice, s.ID, r, canon(r)))(t)
		if text := *made.Compaction.Summary; strings.Count(text, summary.ImagesNote(2)) != 1 || !strings.HasSuffix(text, summary.ImagesNote(2)) {
			t.Errorf("%s: the summary is %.300q", name, text)
		}
	}
}

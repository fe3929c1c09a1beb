package compactions_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/turns"
)

// A summary is sealed under the keys of every session that its writer saw text
// of, so that erasing one of them makes it unreadable: also of those that come
// after what it covers, where the agent says that it had them in view.
func TestSummaryIsSealedUnderEverySourceSession(t *testing.T) {
	for name, says := range map[string]bool{"what the plan shows": false, "more": true} {
		t.Run(name, func(t *testing.T) {
			e := enginetest.NewWorld().Engine(t)
			q := enginetest.Create(t, e, 8000, "nexus")
			var last turns.ID
			for i := range 8 {
				last = enginetest.Add(t, e, q.ID, enginetest.Say(fmt.Sprintf("question %d %s", i, enginetest.Text(2000)), "a")).ID
			}
			p := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, q.ID, api.CreateFork{Turn: last}, []byte("1")))(t)
			secret := enginetest.Add(t, e, p.ID, enginetest.Say("the secret "+enginetest.Text(300), "yes")).ID
			c := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, p.ID, api.CreateFork{Turn: secret}, []byte("2")))(t)
			enginetest.Add(t, e, c.ID, enginetest.Say("go on", "yes"))
			offer := enginetest.Must(e.Compactions.Take(t.Context(), enginetest.Alice, c.ID, api.TakeCompaction{}))(t)
			r := api.SubmitCompaction{Plan: offer.Plan, Text: "In short: the secret."}
			if says {
				r.SawThrough = secret
			}
			k := enginetest.Must(e.Compactions.Submit(t.Context(), enginetest.Alice, c.ID, r, enginetest.JSON(r)))(t)
			keys := eventKeys(t, e, turns.Ref{Session: c.ID, Turn: k.ID})
			for who, x := range map[string]struct {
				id   turns.ID
				want bool
			}{"the first session": {q.ID, true}, "the fork in between": {p.ID, says}, "the session itself": {c.ID, true}} {
				if slices.Contains(keys, x.id) != x.want {
					t.Errorf("sealed under the key of %s: %v, want %v", who, !x.want, x.want)
				}
			}
			enginetest.Verified(t, e)
		})
	}
}

// The ledger accepts an agent's summary however short it is, and shows the names that
// it lacks next to it.
func TestSubmitOfAShortHistory(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s := enginetest.Create(t, e, 0, "balanced")
	for i := range 120 {
		enginetest.Add(t, e, s.ID, enginetest.Say(fmt.Sprintf("change src/pkg%d/main.go, port %d %s", i, 8000+i, enginetest.Text(1500)), fmt.Sprintf("answer %d %s", i, enginetest.Text(400))))
	}
	offer := enginetest.Must(e.Compactions.Take(t.Context(), enginetest.Alice, s.ID, api.TakeCompaction{}))(t)
	r := api.SubmitCompaction{ID: enginetest.ID(t), Plan: offer.Plan, Text: "All ports were changed."}
	k := enginetest.Must(e.Compactions.Submit(t.Context(), enginetest.Alice, s.ID, r, enginetest.JSON(r)))(t).Compaction
	if k.Tier != "agent" || !strings.Contains(string(k.Survival), `"paths":{"total":`) {
		t.Errorf("by %s, survival %s", k.Tier, k.Survival)
	}
}

// The agent summarizes itself, on one daemon or two, while the session goes on.
func TestAgentSummarizesItself(t *testing.T) {
	w := enginetest.NewWorld()
	e, second := w.Engine(t), w.Engine(t)
	s := enginetest.Create(t, e, 0, "balanced")
	for i := range 20 {
		enginetest.Add(t, e, s.ID, enginetest.Say(fmt.Sprintf("question %d </summary> %s", i, enginetest.Text(2000)), fmt.Sprintf("answer %d %s", i, enginetest.Text(2000))))
	}
	offer := enginetest.Must(e.Compactions.Take(t.Context(), enginetest.Alice, s.ID, api.TakeCompaction{Focus: "the question"}))(t)
	if !strings.Contains(offer.Content, "question 0 &lt;/summary>") || !strings.Contains(offer.Prompt, "the question") || offer.Next != "" {
		t.Errorf("taken: prompt %q, content of %d bytes, next %q", offer.Prompt, len(offer.Content), offer.Next)
	}
	later := enginetest.Add(t, e, s.ID, enginetest.Say("meanwhile", "yes"))
	refused := api.SubmitCompaction{Plan: offer.Plan, Text: enginetest.Text(40 * int(offer.MaxTokens))}
	if _, err := second.Compactions.Submit(t.Context(), enginetest.Alice, s.ID, refused, nil); enginetest.Code(err) != api.Unprocessable {
		t.Errorf("a summary that is too long: %v, want unprocessable", err)
	}
	r := api.SubmitCompaction{ID: enginetest.ID(t), Plan: offer.Plan, Text: "TASK: questions were asked.", Usage: &turns.Usage{InputTokens: 9, OutputTokens: 3}, SawThrough: later.ID}
	k := enginetest.Must(second.Compactions.Submit(t.Context(), enginetest.Alice, s.ID, r, enginetest.JSON(r)))(t)
	if k.Compaction.Tier != "agent" || *k.Compaction.Summary != r.Text || k.Usage == nil || *k.Compaction.SawThrough != later.ID || *k.Parent != later.ID {
		t.Errorf("compaction by %s, saw through %v, after %v", k.Compaction.Tier, k.Compaction.SawThrough, k.Parent)
	}
	if again := enginetest.Must(e.Compactions.Submit(t.Context(), enginetest.Alice, s.ID, r, enginetest.JSON(r)))(t); again.ID != k.ID {
		t.Errorf("the same submit again: %s, want %s", again.ID, k.ID)
	}
	stale := api.SubmitCompaction{Plan: offer.Plan, Text: "again"}
	if _, err := e.Compactions.Submit(t.Context(), enginetest.Alice, s.ID, stale, enginetest.JSON(stale)); enginetest.Code(err) != api.Conflict {
		t.Errorf("another summary of the same plan: %v, want conflict", err)
	}
	if _, err := e.Compactions.Submit(t.Context(), enginetest.Alice, s.ID, api.SubmitCompaction{Plan: "e30", Text: "x"}, nil); enginetest.Code(err) != api.Malformed {
		t.Errorf("a forged plan: %v, want malformed", err)
	}
	cx := enginetest.Must(e.Contexts.Context(t.Context(), enginetest.Alice, s.ID, api.GetContext{}))(t)
	if !bytes.Contains(cx.Messages[0], []byte("questions were asked")) || !bytes.Contains(enginetest.JSON(cx.Messages), []byte("meanwhile")) {
		t.Errorf("context begins with %.200s", cx.Messages[0])
	}
	enginetest.Verified(t, e)
}

// A plan that an agent took is made again when it submits. Where the settings
// were changed meanwhile it is another, and the summary is of neither.
func TestSubmitUnderChangedSettingsIsConflict(t *testing.T) {
	keep := api.SessionSettings{Policy: &api.Policy{Name: "nexus", Set: turns.Raw(`{"keep_tokens":2000}`)}}
	for name, set := range map[string]api.SessionSettings{
		"policy": keep,
		"window": {Limits: &turns.Limits{ContextWindow: 12_000}},
		"system": {System: &api.System{{Content: enginetest.Text(9_000)}}},
	} {
		e := enginetest.NewWorld().Engine(t)
		s := enginetest.Create(t, e, 32_000, "nexus")
		for i := range 20 {
			enginetest.Add(t, e, s.ID, enginetest.Say(fmt.Sprintf("question %d %s", i, enginetest.Text(3000)), "answer"))
		}
		offer := enginetest.Must(e.Compactions.Take(t.Context(), enginetest.Alice, s.ID, api.TakeCompaction{}))(t)
		enginetest.Must(e.Sessions.Set(t.Context(), enginetest.Alice, s.ID, api.SetSession{SessionSettings: set}, nil))(t)
		r := api.SubmitCompaction{Plan: offer.Plan, Text: "In short: questions were asked."}
		if k, err := e.Compactions.Submit(t.Context(), enginetest.Alice, s.ID, r, enginetest.JSON(r)); enginetest.Code(err) != api.Conflict {
			t.Errorf("%s: %+v, %v; want conflict", name, k, err)
		}
		if v := enginetest.Must(e.Reader.Get(t.Context(), enginetest.Alice, s.ID, api.Read{}))(t); v.Compactions != 0 {
			t.Errorf("%s: %d compactions", name, v.Compactions)
		}
		r.Plan = enginetest.Must(e.Compactions.Take(t.Context(), enginetest.Alice, s.ID, api.TakeCompaction{}))(t).Plan
		enginetest.Must(e.Compactions.Submit(t.Context(), enginetest.Alice, s.ID, r, enginetest.JSON(r)))(t)
		enginetest.Verified(t, e)
	}
}

// eventKeys returns the content keys that an event is sealed under.
func eventKeys(t *testing.T, e *engine.Engine, ref turns.Ref) []turns.ID {
	t.Helper()
	_, ev, err := e.Reader.TurnEvent(ref)
	if err != nil {
		t.Fatal(err)
	}
	return ev.Keys
}

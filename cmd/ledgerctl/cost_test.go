package main

import (
	"maps"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/cost"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Models are asked for more than answers: a flush and a summary by the agent's own model,
// memories at a reset by the daemon. Each has its kind, with the usage that is recorded;
// what nobody recorded is a call without usage, and an answer of /v1 that did not arrive is
// counted beside the calls.
func TestCallsThatAreNoAnswersHaveTheirKind(t *testing.T) {
	c, ctx := testLedger(t), t.Context()
	done := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	model := "gpt-5"
	create := func() *api.Session {
		r := api.CreateSession{}
		r.Policy, r.Model, r.Limits = &api.Policy{Name: "spec-008"}, &model, &turns.Limits{ContextWindow: 16_000, MaxOutputTokens: 1_000, SafetyMargin: 200}
		s, err := c.Create(ctx, r)
		done(err)
		return s
	}
	s := create()
	response := turns.TextMessage(turns.Assistant, strings.Repeat("some words ", 300))
	for last := new(api.Appended); !last.Flush.Due; {
		var err error
		last, err = c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "go on")}, Response: &response, Usage: &turns.Usage{InputTokens: 100, OutputTokens: 1}})
		done(err)
	}
	_, err := c.BeginFlush(ctx, s.ID, api.BeginFlush{Cycle: 1})
	done(err)
	_, err = c.DoneFlush(ctx, s.ID, api.DoneFlush{Cycle: 1, Saved: 1, Usage: &turns.Usage{InputTokens: 4_000_000, OutputTokens: 7}})
	done(err)
	taken, err := c.Take(ctx, s.ID, api.TakeCompaction{})
	done(err)
	_, err = c.Submit(ctx, s.ID, api.SubmitCompaction{Plan: taken.Plan, Text: "They went on and on; nothing is open.", Usage: &turns.Usage{InputTokens: 2_000_000, OutputTokens: 5}})
	done(err)

	// The door /v1: a request whose answer came at the third try, and one that got none.
	q, err := c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "and?")}, Meta: turns.Raw(`{"responses":{"v":1,"digest":"d"}}`)})
	done(err)
	short := turns.TextMessage(turns.Assistant, "yes")
	_, err = c.Append(ctx, s.ID, api.AppendTurn{Parent: q.ID, Messages: []turns.Message{}, Response: &short, Usage: &turns.Usage{InputTokens: 10, OutputTokens: 1}, Meta: turns.Raw(`{"responses":{"v":1,"lost":2}}`)})
	done(err)
	_, err = c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "and now?")}, Meta: turns.Raw(`{"responses":{"v":1,"digest":"e"}}`)})
	done(err)

	// A try that failed, one whose daemon ended, one that was done; and the try of a session
	// that is another agent's, which is not this one's to tell.
	note := func(kind, body string) {
		_, err := c.AppendEvent(ctx, api.AppendEvent{Channel: "memory-extraction", Kind: kind, Body: turns.Raw(body)})
		done(err)
	}
	id := `"session":"` + s.ID.String() + `"`
	note("extraction.begun", `{`+id+`,"try":1}`)
	note("extraction.failed", `{`+id+`,"try":1,"asked":true,"code":"unavailable","usage":{"input_tokens":1000000,"output_tokens":0},"cost_micros":40000}`)
	note("extraction.begun", `{`+id+`,"try":2}`)
	note("extraction.begun", `{`+id+`,"try":3}`)
	note("extraction.done", `{`+id+`,"memories":1,"asked":true,"model":"gpt-5-mini","usage":{"input_tokens":1000000,"output_tokens":0}}`)
	note("extraction.begun", `{"session":"`+fixedID("0THER").String()+`","try":1}`)
	note("extraction.noise", `[]`)

	for name, tc := range map[string]struct {
		scope   cost.Scope
		missing uint64
		lost    uint64
	}{
		"all":             {cost.Scope{Now: time.Now().Add(2 * time.Hour)}, 3, 1},
		"of the session":  {cost.Scope{Now: time.Now().Add(2 * time.Hour), Sessions: []turns.ID{s.ID}}, 3, 1},
		"while it may be": {cost.Scope{}, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			sum := cost.NewSum(cost.Options{By: []cost.Key{cost.ByKind}, Models: tokens.KnownModels()})
			_, calls := cost.Read(ctx, c.As(api.Operator), tc.scope)
			for call, err := range calls {
				if err != nil {
					t.Fatal(err)
				}
				sum.Add(call)
			}
			type amount struct{ calls, input, unknown, missing, recorded uint64 }
			got := make(map[cost.Kind]amount)
			for _, r := range sum.Rows() {
				_, recorded, _ := r.Micros()
				got[r.Kind] = amount{r.Calls, r.Tokens.Input, r.WithoutUsage, r.Missing, recorded}
			}
			answers := got[cost.Answer]
			want := map[cost.Kind]amount{
				cost.Answer:     {answers.calls, 100*(answers.calls-1) + 10, 0, tc.missing, 0},
				cost.Compaction: {calls: 1, input: 2_000_000},
				cost.Flush:      {calls: 1, input: 4_000_000},
				cost.Extraction: {calls: 3, input: 2_000_000, unknown: tc.lost, recorded: 40000},
			}
			if answers.calls < 2 || !maps.Equal(got, want) {
				t.Errorf("%+v\nwant %+v", got, want)
			}
			if flush := sum.OfKind(cost.Flush); flush.Picos() != 5_000_070_000_000 { // by the model of the session
				t.Errorf("the flush cost %d", flush.Picos())
			}
		})
	}
}

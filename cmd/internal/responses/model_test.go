package responses_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/provider"
	"nexus/turns"
)

// The turn of an answer has the model that answered, as the provider names it, and beside it
// the one that the client asked for and the provider's id of the answer. So has the response,
// also when it is made again of its turn.
func TestTheModelThatAnsweredIsStored(t *testing.T) {
	r := newRig(t)
	upstream := "qwen3-8b"
	find := r.config.Provider
	r.config.Provider = func(model string) (provider.Client, string, error) {
		if model == "small" {
			return r.model, upstream, nil
		}
		return find(model)
	}
	r.crash() // the next server has it
	for _, tc := range []struct{ name, asked, named, model, requested string }{
		{"a snapshot", "m", "m-2026-01-02", "m-2026-01-02", "m"},
		{"a name of the configuration", "small", "qwen3-8b", "qwen3-8b", "small"},
		{"the same", "m", "m", "m", ""},
		{"a provider that names none", "small", "", "qwen3-8b", "small"},
		{"a name that no turn can have", "small", "a\u0000b", "qwen3-8b", "small"},
		{"a name that is too long", "small", strings.Repeat("x", turns.MaxName+1), "qwen3-8b", "small"},
	} {
		r.model.answers = func(a *provider.Answer) { a.Model, a.ID = tc.named, "chatcmpl-7" }
		events := r.eventsOf(`{"model":"` + tc.asked + `","input":"hello","stream":true}`)
		final, _ := last(events)
		if got := final["model"]; got != tc.model {
			t.Errorf("%s: the response has the model %v, want %s", tc.name, got, tc.model)
		}
		if first := events[0]["response"].(map[string]any); first["model"] != tc.asked {
			t.Errorf("%s: response.created has the model %v, want %s", tc.name, first["model"], tc.asked)
		}
		if again := r.ok("GET", "/v1/responses/"+final["id"].(string), ""); again["model"] != tc.model {
			t.Errorf("%s: again, it has the model %v", tc.name, again["model"])
		}
		at := final["nexus"].(map[string]any)
		answer := must(r.ledger.Turn(t.Context(), must(turns.ParseID(at["session"].(string)))(t), must(turns.ParseID(at["turn"].(string)))(t)))(t)
		var meta struct {
			Message   string `json:"message_id"`
			Requested string `json:"requested_model"`
			Responses struct {
				ID string `json:"id"`
			} `json:"responses"`
		}
		if err := json.Unmarshal(answer.Meta, &meta); err != nil {
			t.Fatal(err)
		}
		if answer.Model != tc.model || meta.Requested != tc.requested || meta.Message != "chatcmpl-7" || meta.Responses.ID != final["id"] {
			t.Errorf("%s: the turn has the model %s, and %+v", tc.name, answer.Model, meta)
		}
		if s := must(r.ledger.Session(t.Context(), answer.Session))(t); s.Model != tc.asked {
			t.Errorf("%s: the session has the model %s, want %s", tc.name, s.Model, tc.asked)
		}
	}
}

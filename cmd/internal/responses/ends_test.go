package responses_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// The ends of other paths are known across turns of others, and no more of them than a turn
// remembers are read or written.
func TestEndsOfPathsAreKnownAcrossTurnsOfOthers(t *testing.T) {
	r := newRig(t)
	a, b := newKeeper(r, "X-Nexus-Session", "desk", "X-Nexus-Input", "whole"), newKeeper(r, "X-Nexus-Session", "desk", "X-Nexus-Input", "whole")
	a.send(message("user", "first"))
	b.send(message("user", "second"))
	desk := r.desk()
	must(r.ledger.Append(t.Context(), desk.ID, api.AppendTurn{Messages: []turns.Message{{Role: turns.User, Parts: []turns.Part{turns.TextPart("by hand")}}}}))(t)
	if n := a.news(a.send(message("user", "first goes on"))); n != 1 {
		t.Errorf("%d parts were stored of 1", n)
	}
	must(r.ledger.Record(t.Context(), desk.ID, api.RecordCompaction{Parent: *r.desk().Head, Summary: "what was said", FirstKept: *r.desk().Head}))(t)
	if n := a.news(a.send(message("user", "after a compaction"))); n != 1 {
		t.Errorf("%d parts were stored of 1", n)
	}
	if n := b.news(b.send(message("user", "second goes on"))); n != 1 {
		t.Errorf("%d parts were stored of 1", n)
	}
}

// A turn whose meta imitates the server's shows nobody what is not theirs, and costs no more
// than one of the server's.
func TestForgedEndsAreHarmless(t *testing.T) {
	r := newRig(t)
	other := r.ledger.For("default", "other")
	foreign := must(other.Create(t.Context(), api.CreateSession{}))(t)
	secret := must(other.Append(t.Context(), foreign.ID, api.AppendTurn{Messages: []turns.Message{{Role: turns.User, Parts: []turns.Part{turns.TextPart("secret")}}}, Response: &turns.Message{Role: turns.Assistant, Parts: []turns.Part{turns.TextPart("of another")}, FinishReason: "stop"}}))(t)
	k := newKeeper(r, "X-Nexus-Session", "desk", "X-Nexus-Input", "whole")
	k.send(message("user", "one"))
	var tips []string
	for range 10_000 {
		tips = append(tips, `"`+secret.ID.String()+`"`)
	}
	forge := func(meta string) {
		t.Helper()
		must(r.ledger.Append(t.Context(), r.desk().ID, api.AppendTurn{Messages: []turns.Message{{Role: turns.User, Parts: []turns.Part{turns.TextPart("forged")}}}, Meta: turns.Raw(meta)}))(t)
	}
	forge(`{"responses":{"v":1,"status":"completed","tips":[` + strings.Join(tips, ",") + `]}}`)
	out := newKeeper(r, "X-Nexus-Session", "desk", "X-Nexus-Input", "new").send(message("user", "secret"), message("assistant", "of another"), message("user", "and?"))
	at := out["nexus"].(map[string]any)
	answer := must(r.ledger.Turn(t.Context(), r.desk().ID, must(turns.ParseID(at["turn"].(string)))(t)))(t)
	if n := strings.Count(string(answer.Meta), secret.ID.String()); n > 8 {
		t.Errorf("the answer remembers %d ends", n)
	}
	newKeeper(r, k.headers...).send(message("user", "secret"), message("assistant", "of another"), message("user", "and?"))
	if got := r.model.texts(-1); len(got) != 3 {
		t.Errorf("the model read %q", got)
	}
	for _, meta := range []string{
		`{"responses":{"v":1,"echo":{},"left":"` + secret.ID.String() + `"}}`,
		`{"responses":{"v":1,"echo":{"id":"x","store":false,"output":null,"tools":null},"items":[{"t":"x","n":-1}],"left":"` + secret.ID.String() + `","cut_tools":true}}`,
		`{"responses":{"v":1,"echo":{"status":"failed","store":true},"left":"` + secret.ID.String() + `","cut_instructions":true}}`,
		`{"responses":{"v":1,"echo":{"status":"failed"},"forked_from":{"session":"` + foreign.ID.String() + `","turn":"` + secret.ID.String() + `"}}}`,
		`{"responses":{"v":99,"status":"completed","tips":["` + secret.ID.String() + `"],"left":"00000000000000000000000000"}}`,
	} {
		forge(meta)
		status, out := r.call("POST", "/v1/responses", `{"model":"m","store":false,"input":"whole"}`, k.headers...)
		if status >= 500 {
			t.Errorf("%s: %d %v", meta, status, out)
		}
		if status == http.StatusConflict { // it looks like another daemon's
			must(r.ledger.Move(t.Context(), r.desk().ID, api.MoveSession{To: nil}))(t)
		}
	}
	r.refused(http.StatusNotFound, "session_not_found", "POST", "/v1/responses", `{"model":"m","store":false,"input":"whole"}`, "X-Nexus-Session", foreign.ID.String())
}

// Parts of all kinds, large ones too, are known again: each request follows the head.
func TestAHistoryOfManyKindsIsStoredOnce(t *testing.T) {
	r := newRig(t)
	k := newKeeper(r, "X-Nexus-Session", "desk", "X-Nexus-Input", "whole")
	k.send(message("user", "call: f"))
	long := strings.Repeat("<a> &é\\u2028 ", 40_000)
	steps := [][]any{
		{map[string]any{"type": "function_call_output", "call_id": "call_1", "output": []any{map[string]any{"type": "input_text", "text": long}, map[string]any{"a": 1.0, "b": "2"}}}},
		{map[string]any{"type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": "x"}, map[string]any{"type": "input_image", "image_url": "data:image/png;base64," + strings.Repeat("AAAA", 400_000)}, map[string]any{"type": "input_file", "file_id": "f1"}, map[string]any{"type": "input_image", "image_url": "https://x/y.png"}}}},
		{message("user", ""), message("user", "q")},
		{map[string]any{"type": "reasoning", "summary": []any{}}, message("user", "r")},
		{map[string]any{"type": "function_call", "call_id": "c1", "name": "f", "arguments": `{ "b":1, "a":"` + strings.Repeat("é<", 100_000) + `"}`}, map[string]any{"type": "function_call", "call_id": "c2", "name": "f", "arguments": "no json"}, map[string]any{"type": "function_call_output", "call_id": "c2", "output": "two"},
			map[string]any{"type": "function_call_output", "call_id": "c1", "output": "one"}},
		{map[string]any{"type": "message", "role": "assistant", "content": []any{map[string]any{"type": "refusal", "refusal": "no"}}}, message("user", "s")},
	}
	for i, items := range steps {
		turnsBefore := r.desk().Turns
		head := *r.desk().Head
		out := k.send(items...)
		answer := must(turns.ParseID(out["nexus"].(map[string]any)["turn"].(string)))(t)
		a := must(r.ledger.Turn(t.Context(), r.desk().ID, answer))(t)
		q := must(r.ledger.Turn(t.Context(), r.desk().ID, *a.Parent))(t)
		if q.Parent == nil || *q.Parent != head || r.desk().Turns != turnsBefore+2 {
			t.Errorf("step %d does not follow the head; it stored %d parts", i, k.news(out))
		}
	}
}

// With truncation: auto a compaction stays in force under a history that is sent again: it
// would be made with each request otherwise. Else the model reads what the client sent.
func TestACompactionStaysInForceUnderAHistory(t *testing.T) {
	for name, member := range map[string]string{"auto": `,"store":false,"truncation":"auto"`, "disabled": `,"store":false`} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			k := newKeeper(r, "X-Nexus-Session", "desk", "X-Nexus-Input", "whole")
			k.member = member
			for i := range 3 {
				k.send(message("user", fmt.Sprint("question ", i)))
			}
			must(r.ledger.Record(t.Context(), r.desk().ID, api.RecordCompaction{Parent: *r.desk().Head, Summary: "what was said", FirstKept: *r.desk().Head}))(t)
			for range 2 {
				if n := k.news(k.send(message("user", "and?"))); n != 1 {
					t.Errorf("%d parts were stored of 1", n)
				}
				whole := slices.Equal(r.model.texts(-1), k.texts()[:len(k.texts())-1])
				if whole != (name == "disabled") {
					t.Errorf("the model read %q", r.model.texts(-1))
				}
			}
		})
	}
}

package responses_test

import (
	"bufio"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"nexus/turns"
)

const managed = `"context_management":[{"type":"compaction","compact_threshold":2000}]`

// about is a text of n questions' length, which the model repeats.
func about(i int) string {
	return fmt.Sprintf("exactly: page %d. ", i) + strings.Repeat("It is long, and it says little that is new. ", 40)
}

// front is the compaction item of a response, and the items of the model.
func front(t testing.TB, response map[string]any) (item map[string]any, rest []any) {
	t.Helper()
	for i, it := range response["output"].([]any) {
		if m := it.(map[string]any); m["type"] != "compaction" {
			rest = append(rest, it)
		} else if i != 0 {
			t.Fatalf("item %d is a compaction", i)
		} else if item = m; !strings.HasPrefix(m["id"].(string), "cmp_") || m["encrypted_content"] == "" || len(m) != 3 {
			t.Fatalf("%v", m)
		}
	}
	return item, rest
}

// stream is the events of a request, one JSON a line.
func (r *rig) stream(method, path, body string, headers ...string) (events []string) {
	r.t.Helper()
	res := r.send(method, path, body, headers...)
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "[DONE]" {
			events = append(events, data)
		}
	}
	if err := lines.Err(); err != nil {
		r.t.Fatal(err)
	}
	return events
}

// sizeOf is about how much the model was given at its n-th call.
func (s *scripted) sizeOf(n int) int { return len(strings.Join(s.texts(n), "")) }

// A chain is compacted when it crosses the threshold, and not again until it crosses it anew.
// Until then the model sees what it sees without the member.
func TestContextManagementCompactsAChain(t *testing.T) {
	r := newRig(t)
	var managedID, plainID string
	next := func(id, member string, i int) map[string]any {
		q := fmt.Sprintf(`{"model":"m","instructions":"Be brief.","input":%q,%s`, about(i), member)
		if id != "" {
			q += fmt.Sprintf(`,"previous_response_id":%q`, id)
		}
		return r.ok("POST", "/v1/responses", q+"}")
	}
	var crossed []int
	for i := range 14 {
		a := next(managedID, managed, i)
		seen, size := r.model.texts(-1), r.model.sizeOf(-1)
		managedID = a["id"].(string)
		item, rest := front(t, a)
		if len(rest) != 1 || a["nexus"].(map[string]any)["forked_from"] != nil || !strings.HasPrefix(textIn(a), fmt.Sprintf("page %d.", i)) {
			t.Fatalf("request %d: %v", i, a)
		}
		if got := r.ok("GET", "/v1/responses/"+managedID, ""); !reflect.DeepEqual(got, a) {
			t.Fatalf("request %d: %v\nGET: %v", i, a, got)
		}
		if item != nil {
			crossed = append(crossed, i)
			if a["nexus"].(map[string]any)["compaction"] == nil || size > 8000 {
				t.Errorf("request %d: %d bytes, %v", i, size, a["nexus"])
			}
		}
		if len(crossed) == 0 {
			plainID = next(plainID, `"metadata":{}`, i)["id"].(string)
			if want := r.model.texts(-1); !slices.Equal(seen, want) {
				t.Fatalf("request %d: the model got %q, without the member %q", i, seen, want)
			}
		}
		if last := seen[len(seen)-1]; last != "user: "+about(i) {
			t.Fatalf("request %d: the newest message is %.100q", i, last)
		}
	}
	if len(crossed) < 2 || crossed[0] == 0 {
		t.Fatalf("requests %v were compacted", crossed)
	}
	for i := 1; i < len(crossed); i++ {
		if crossed[i] == crossed[i-1]+1 {
			t.Errorf("requests %v were compacted, two of them after each other", crossed)
		}
	}
	if size := r.model.sizeOf(-1); size > 12000 {
		t.Errorf("the model got %d bytes in the end", size)
	}
}

// managedChain is the request that crosses the threshold of a chain: its body and the response before.
func (r *rig) managedChain(input string) (body string) {
	r.t.Helper()
	id := r.ok("POST", "/v1/responses", `{"model":"m","input":"hello"}`)["id"].(string)
	for i := range 6 {
		id = r.ok("POST", "/v1/responses", fmt.Sprintf(`{"model":"m","input":%q,"previous_response_id":%q}`, about(i), id))["id"].(string)
	}
	return fmt.Sprintf(`{"model":"m","input":%q,"previous_response_id":%q,%s`, input, id, managed)
}

// The item is streamed before the items of the model, as they are, and the stream is made
// again, also from its middle.
func TestCompactionItemIsStreamed(t *testing.T) {
	r := newRig(t)
	events := r.stream("POST", "/v1/responses", r.managedChain("exactly: two words")+`,"stream":true}`)
	var kinds []string
	var response map[string]any
	for _, e := range events {
		var w map[string]any
		if err := json.Unmarshal([]byte(e), &w); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, strings.TrimPrefix(fmt.Sprint(w["type"], " ", w["output_index"]), "response."))
		if len(kinds) == 3 || len(kinds) == 4 {
			if item := w["item"].(map[string]any); item["type"] != "compaction" || item["encrypted_content"] == "" {
				t.Errorf("%s", e)
			}
		}
		response, _ = w["response"].(map[string]any)
	}
	want := "created <nil>, in_progress <nil>, output_item.added 0, output_item.done 0, output_item.added 1, content_part.added 1, output_text.delta 1, output_text.delta 1, " +
		"output_text.done 1, content_part.done 1, output_item.done 1, completed <nil>"
	if got := strings.Join(kinds, ", "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	path := "/v1/responses/" + response["id"].(string)
	for after := -1; after < len(events); after++ {
		query := "?stream=true"
		if after >= 0 {
			query += fmt.Sprint("&starting_after=", after)
		}
		if got := r.stream("GET", path+query, ""); !slices.Equal(got, events[min(after+1, len(events)):]) {
			t.Fatalf("after %d: %q\nwant %q", after, got, events)
		}
	}
	item, _ := front(t, response)
	if got, _ := front(t, r.ok("GET", path, "")); !reflect.DeepEqual(got, item) {
		t.Errorf("%v, streamed %v", got, item)
	}
}

// A client that keeps its own list may drop what stands before the item, or send it: the model
// sees the same.
func TestClientListGoesOnFromItsCompactionItem(t *testing.T) {
	r := newRig(t)
	list := append([]any{map[string]any{"role": "developer", "content": "Say please."}}, items(30)...)
	ask := func(input []any) map[string]any {
		return r.ok("POST", "/v1/responses", encode(t, map[string]any{"model": "m", "input": input, "context_management": []any{map[string]any{"type": "compaction", "compact_threshold": 3000}}}))
	}
	a := ask(list)
	item, _ := front(t, a)
	if item == nil || r.model.sizeOf(-1) > 14000 {
		t.Fatalf("%d bytes, %v", r.model.sizeOf(-1), a)
	}
	if got := r.model.texts(-1); got[len(got)-1] != "user: and now?" {
		t.Errorf("the newest message is %q", got[len(got)-1])
	}
	var ids []string
	// The response's input is what the client sent, in its order.
	data := r.ok("GET", "/v1/responses/"+a["id"].(string)+"/input_items?order=asc&limit=100", "")["data"].([]any)
	for i, it := range data {
		m := it.(map[string]any)
		text := m["content"].([]any)[0].(map[string]any)["text"]
		if want := list[i].(map[string]any); text != want["content"] || m["role"] != want["role"] {
			t.Errorf("input item %d is %.200v, want %.200v", i, m, want)
		}
		ids = append(ids, m["id"].(string))
	}
	if len(data) != len(list) || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != len(ids) {
		t.Errorf("%d input items of %d, ids %q", len(data), len(list), ids)
	}
	ref := r.ok("POST", "/v1/responses", encode(t, map[string]any{"model": "m", "input": []any{map[string]any{"type": "item_reference", "id": ids[1]}}}))
	if got := r.model.texts(-1); ref["status"] != "completed" || len(got) != 1 || got[0] != "user: question 0" {
		t.Errorf("a reference to the first input item: %q", got)
	}
	conv := r.ok("GET", "/v1/conversations/conv_"+a["nexus"].(map[string]any)["session"].(string)+"/items?order=asc&limit=100", "")["data"].([]any)
	if len(conv) != len(list)+2 || !reflect.DeepEqual(conv[:len(data)], data) || !reflect.DeepEqual(conv[len(data):], a["output"]) {
		t.Errorf("the conversation has %d items, the list %d and the output 2: %.500v", len(conv), len(list), conv[len(conv)-2:])
	}
	output := a["output"].([]any)
	go1 := ask(append(slices.Clone(output), map[string]any{"role": "user", "content": "go on"}))
	dropped := r.model.texts(-1)
	if again, _ := front(t, go1); again != nil || !slices.Contains(dropped, "user: and now?") {
		t.Errorf("%v, the model got %q", again, dropped)
	}
	ask(append(append(slices.Clone(list), output...), map[string]any{"role": "user", "content": "go on"}))
	if got := r.model.texts(-1); got[0] != "system: Say please." || !slices.Equal(got[1:], dropped) {
		t.Errorf("with all that is before the item the model got %q\nwithout %q", got, dropped)
	}
	// A reference to the item is the item.
	ask([]any{map[string]any{"type": "item_reference", "id": item["id"]}, output[1], map[string]any{"role": "user", "content": "go on"}})
	if got := r.model.texts(-1); !slices.Equal(got, dropped) {
		t.Errorf("by a reference the model got %q\nwant %q", got, dropped)
	}
	// And with the chain.
	r.ok("POST", "/v1/responses", encode(t, map[string]any{"model": "m", "previous_response_id": a["id"], "input": "go on"}))
	if got := r.model.texts(-1); !slices.Equal(got, dropped) {
		t.Errorf("the chain goes on with %q\nwant %q", got, dropped)
	}
}

// An input of the request itself is not shortened, and where nothing can be compacted the
// request is served as it is.
func TestNewInputIsNeverCompacted(t *testing.T) {
	r := newRig(t)
	long := strings.Repeat("Each word of it counts. ", 1000)
	a := r.ok("POST", "/v1/responses", encode(t, map[string]any{"model": "m", "input": long, "context_management": []any{map[string]any{"type": "compaction", "compact_threshold": 1000}}}))
	if item, _ := front(t, a); item != nil || r.model.texts(-1)[0] != "user: "+long {
		t.Errorf("%v", item)
	}
	q := r.managedChain(long)
	a = r.ok("POST", "/v1/responses", q+"}")
	got := r.model.texts(-1)
	if item, _ := front(t, a); item == nil || got[len(got)-1] != "user: "+long {
		t.Errorf("%v; the model got %.100q last", item, got[len(got)-1])
	}
}

func TestContextManagementIsChecked(t *testing.T) {
	r := newRig(t)
	for member, want := range map[string][2]string{
		`{}`:                    {"invalid_type", "context_management"},
		`"compaction"`:          {"invalid_type", "context_management"},
		`[1]`:                   {"invalid_type", "context_management[0]"},
		`["compaction"]`:        {"invalid_type", "context_management[0]"},
		`[{}]`:                  {"missing_required_parameter", "context_management[0].type"},
		`[{"type":null}]`:       {"missing_required_parameter", "context_management[0].type"},
		`[{"type":1}]`:          {"invalid_type", "context_management[0].type"},
		`[{"type":"clearing"}]`: {"invalid_value", "context_management[0].type"},
		`[{"type":"compaction","compact_threshold":999}]`:    {"invalid_value", "context_management[0].compact_threshold"},
		`[{"type":"compaction","compact_threshold":0}]`:      {"invalid_value", "context_management[0].compact_threshold"},
		`[{"type":"compaction","compact_threshold":-5000}]`:  {"invalid_value", "context_management[0].compact_threshold"},
		`[{"type":"compaction","compact_threshold":1000.5}]`: {"invalid_value", "context_management[0].compact_threshold"},
		`[{"type":"compaction","compact_threshold":"5000"}]`: {"invalid_type", "context_management[0].compact_threshold"},
		`[{"type":"compaction","compact_threshold":1e999}]`:  {"invalid_type", "context_management[0].compact_threshold"},
		`[{"type":"compaction"},{"type":"compaction"}]`:      {"invalid_value", "context_management"},
		`[{"type":"compaction","compact_threshold":[5000]}]`: {"invalid_type", "context_management[0].compact_threshold"},
	} {
		for _, store := range []string{"true", "false"} {
			status, out := r.call("POST", "/v1/responses", `{"model":"m","input":"x","store":`+store+`,"context_management":`+member+`}`)
			e, _ := out["error"].(map[string]any)
			if status != http.StatusBadRequest || e["code"] != want[0] || e["param"] != want[1] || e["type"] != "invalid_request_error" {
				t.Errorf("%s: %d %v, want %v", member, status, out, want)
			}
		}
	}
	if n := r.model.calls(); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
	for _, member := range []string{`null`, `[]`, `[{"type":"compaction"}]`, `[{"type":"compaction","compact_threshold":null}]`, `[{"type":"compaction","compact_threshold":1000}]`, `[{"type":"compaction","compact_threshold":1e300,"more":1}]`} {
		if a := r.ok("POST", "/v1/responses", `{"model":"m","input":"x","context_management":`+member+`}`); len(a["output"].([]any)) != 1 {
			t.Errorf("%s: %v", member, a)
		}
	}
}

// What is not stored is not compacted, unless a session records it.
func TestUnstoredResponsesAreNotCompacted(t *testing.T) {
	r := newRig(t)
	q := encode(t, map[string]any{"model": "m", "store": false, "input": items(30), "context_management": []any{map[string]any{"type": "compaction", "compact_threshold": 2000}}})
	if item, _ := front(t, r.ok("POST", "/v1/responses", q)); item != nil || len(r.model.texts(-1)) != 61 {
		t.Errorf("%v, and the model got %d messages", item, len(r.model.texts(-1)))
	}
	for range r.ledger.Sessions(t.Context()) {
		t.Error("a session is stored")
	}
	a := r.ok("POST", "/v1/responses", q, "X-Nexus-Session", "desk")
	if item, _ := front(t, a); item == nil || r.model.sizeOf(-1) > 12000 {
		t.Errorf("%d bytes, %v", r.model.sizeOf(-1), a)
	}
}

// A response that failed or was cancelled behind its compaction leaves the session as it was:
// the next one follows what was before, in the same session.
func TestFailedResponseLeavesNoCompactionInForce(t *testing.T) {
	r := newRig(t)
	q := r.managedChain("fail")
	if status, out := r.call("POST", "/v1/responses", q+"}"); status != http.StatusInternalServerError && status != http.StatusBadGateway {
		t.Fatalf("%d %v", status, out)
	}
	a := r.ok("POST", "/v1/responses", strings.Replace(q, `"fail"`, `"wait, exactly: late"`, 1)+`,"background":true}`)
	id := a["id"].(string)
	if n := a["nexus"].(map[string]any); n["forked_from"] != nil {
		t.Errorf("%v", n)
	}
	cancelled := r.ok("POST", "/v1/responses/"+id+"/cancel", "")
	item, rest := front(t, cancelled)
	if cancelled["status"] != "cancelled" || item == nil || len(rest) != 0 {
		t.Errorf("%v", cancelled)
	}
	if got := r.ok("GET", "/v1/responses/"+id, ""); !reflect.DeepEqual(got, cancelled) {
		t.Errorf("%v, cancelled as %v", got, cancelled)
	}
	b := r.ok("POST", "/v1/responses", strings.Replace(q, `"fail"`, `"exactly: done"`, 1)+`}`)
	if n := b["nexus"].(map[string]any); n["forked_from"] != nil || n["session"] != a["nexus"].(map[string]any)["session"] {
		t.Errorf("%v", n)
	}
	item, rest = front(t, b)
	if item == nil || len(rest) != 1 {
		t.Fatalf("%v", b)
	}
	// The item outlives its response, as its turn does; what names the response does not.
	r.ok("DELETE", "/v1/responses/"+b["id"].(string), "")
	r.refused(http.StatusBadRequest, "item_not_found", "POST", "/v1/responses", encode(t, map[string]any{"model": "m", "input": []any{map[string]any{"type": "item_reference", "id": item["id"]}}}))
	r.ok("POST", "/v1/responses", encode(t, map[string]any{"model": "m", "input": []any{item, map[string]any{"role": "user", "content": "and?"}}}))
	if got := r.model.texts(-1); !slices.Contains(got, "user: exactly: done") {
		t.Errorf("the model got %q", got)
	}
}

// A conversation whose request is compacted stays locked until its answer.
func TestCompactedConversationIsLocked(t *testing.T) {
	r := newRig(t)
	conv := r.ok("POST", "/v1/conversations", `{}`)["id"].(string)
	ask := func(input, more string) string {
		return fmt.Sprintf(`{"model":"m","input":%q,"conversation":%q,%s%s}`, input, conv, managed, more)
	}
	for i := range 6 {
		r.ok("POST", "/v1/responses", fmt.Sprintf(`{"model":"m","input":%q,"conversation":%q}`, about(i), conv))
	}
	waiting := r.ok("POST", "/v1/responses", ask("wait, exactly: late", `,"background":true`))
	r.refused(http.StatusConflict, "conversation_locked", "POST", "/v1/responses", ask("hello", ""))
	close(r.model.hold)
	path := "/v1/responses/" + waiting["id"].(string)
	r.stream("GET", path+"?stream=true", "")
	a := r.ok("GET", path, "")
	if item, _ := front(t, a); item == nil || a["status"] != "completed" {
		t.Fatalf("%v", a)
	}
	data := r.ok("GET", "/v1/conversations/"+conv+"/items?limit=3", "")["data"].([]any)
	slices.Reverse(data)
	if !reflect.DeepEqual(data[1:], a["output"]) {
		t.Errorf("the conversation ends in %v, the response is %v", data, a["output"])
	}
	r.ok("POST", "/v1/responses", ask("hello", ""))
	if status, _ := r.call("POST", "/v1/responses", ask("fail "+about(1), "")); status == http.StatusOK {
		t.Error("no failure")
	}
	r.ok("POST", "/v1/responses", ask("hello again", ""))
	session, err := turns.ParseID(strings.TrimPrefix(conv, "conv_"))
	if err != nil {
		t.Fatal(err)
	}
	if s, err := r.ledger.Session(t.Context(), session); err != nil || s.Head == nil {
		t.Errorf("%+v, %v", s, err)
	}
}

package responses_test

import (
	"net/http"
	"strings"
	"testing"

	"nexus/cmd/internal/web"
	"nexus/ledger/api/client"
)

func ids(list map[string]any) (out []string) {
	for _, it := range list["data"].([]any) {
		out = append(out, it.(map[string]any)["id"].(string))
	}
	return out
}

// contents are the texts of a list of items.
func contents(list map[string]any) string {
	var out []string
	for _, it := range list["data"].([]any) {
		m := it.(map[string]any)
		text := ""
		content, _ := m["content"].([]any)
		for _, c := range content {
			s, _ := c.(map[string]any)["text"].(string)
			text += s
		}
		out = append(out, m["type"].(string)+" "+text)
	}
	return strings.Join(out, "|")
}

// A conversation from its creation to its end: items that the client adds and those of
// responses stand in one order, and the model gets them all.
func TestConversation(t *testing.T) {
	r := newRig(t)
	c := r.ok("POST", "/v1/conversations", `{"metadata":{"topic":"slate"},"items":[{"role":"user","content":"The word is slate."},{"role":"assistant","content":"Noted."}]}`)
	id := c["id"].(string)
	if c["object"] != "conversation" || !strings.HasPrefix(id, "conv_") || c["created_at"] == nil || c["metadata"].(map[string]any)["topic"] != "slate" {
		t.Fatalf("%v", c)
	}
	first := r.ok("POST", "/v1/responses", `{"model":"m","input":"and?","conversation":"`+id+`"}`)
	if textIn(first) != "3 messages" || first["conversation"].(map[string]any)["id"] != id {
		t.Fatalf("%v", first)
	}
	added := r.ok("POST", "/v1/conversations/"+id+"/items", `{"items":[{"role":"user","content":"one more"}]}`)
	if contents(added) != "message one more" || added["has_more"] != false {
		t.Errorf("%v", added)
	}
	second := r.ok("POST", "/v1/responses", `{"model":"m","input":"exactly: end","conversation":{"id":"`+id+`"}}`)
	if got := strings.Join(r.model.texts(-1), "|"); !strings.HasSuffix(got, "assistant: 3 messages|user: one more|user: exactly: end") {
		t.Errorf("the model got %q", got)
	}
	all := r.ok("GET", "/v1/conversations/"+id+"/items?order=asc&limit=100", "")
	want := "message The word is slate.|message Noted.|message and?|message 3 messages|message one more|message exactly: end|message end"
	if contents(all) != want || all["has_more"] != false {
		t.Errorf("items %s, want %s", contents(all), want)
	}
	// The items of a response have the same ids as in the response.
	if got, want := ids(all)[6], second["output"].([]any)[0].(map[string]any)["id"]; got != want {
		t.Errorf("item %s, in the response %v", got, want)
	}
	// Pages, newest first.
	var paged []string
	for after := ""; ; {
		page := r.ok("GET", "/v1/conversations/"+id+"/items?limit=3&after="+after, "")
		paged = append(paged, ids(page)...)
		if after, _ = page["last_id"].(string); page["has_more"] == false {
			break
		}
	}
	for i, one := range ids(all) {
		if len(paged) != 7 || paged[6-i] != one {
			t.Fatalf("pages %q, all %q", paged, ids(all))
		}
		if it := r.ok("GET", "/v1/conversations/"+id+"/items/"+one, ""); it["id"] != one {
			t.Errorf("%v", it)
		}
	}
	// A deleted item is not shown.
	r.ok("DELETE", "/v1/conversations/"+id+"/items/"+paged[2], "")
	r.refused(http.StatusNotFound, "item_not_found", "GET", "/v1/conversations/"+id+"/items/"+paged[2], "")
	if got := contents(r.ok("GET", "/v1/conversations/"+id+"/items?order=asc", "")); strings.Contains(got, "one more") {
		t.Errorf("items %s", got)
	}
	if got := r.ok("POST", "/v1/conversations/"+id, `{"metadata":{"topic":"other"}}`); got["metadata"].(map[string]any)["topic"] != "other" {
		t.Errorf("%v", got)
	}
	if got := r.ok("GET", "/v1/conversations/"+id, ""); got["metadata"].(map[string]any)["topic"] != "other" || got["created_at"] != c["created_at"] {
		t.Errorf("%v", got)
	}
	if got := r.ok("DELETE", "/v1/conversations/"+id, ""); got["deleted"] != true || got["object"] != "conversation.deleted" {
		t.Errorf("%v", got)
	}
	for _, path := range []string{"", "/items"} {
		r.refused(http.StatusNotFound, "conversation_not_found", "GET", "/v1/conversations/"+id+path, "")
	}
	r.refused(http.StatusNotFound, "conversation_not_found", "DELETE", "/v1/conversations/"+id, "")
}

func TestConversationsThatAreRefused(t *testing.T) {
	r := newRig(t)
	id := r.ok("POST", "/v1/conversations", "")["id"].(string)
	if got := r.ok("GET", "/v1/conversations/"+id+"/items", ""); len(got["data"].([]any)) != 0 || got["first_id"] != nil {
		t.Errorf("%v", got)
	}
	for _, other := range []string{"conv_01ARZ3NDEKTSV4RRFFQ69G5FAV", "conv_x", "resp_1", strings.Repeat("x", 500)} {
		r.refused(http.StatusNotFound, "conversation_not_found", "GET", "/v1/conversations/"+other, "")
	}
	foreign := r.refused(http.StatusNotFound, "conversation_not_found", "GET", "/v1/conversations/"+id, "", "X-Agent", "other")
	if unknown := r.refused(http.StatusNotFound, "conversation_not_found", "GET", "/v1/conversations/conv_01ARZ3NDEKTSV4RRFFQ69G5FAV", ""); foreign != unknown {
		t.Errorf("another agent's: %q, unknown: %q", foreign, unknown)
	}
	r.refused(http.StatusNotFound, "conversation_not_found", "POST", "/v1/responses", `{"model":"m","input":"x","conversation":"`+id+`"}`, "X-Agent", "other")
	r.refused(http.StatusBadRequest, "mutually_exclusive_parameters", "POST", "/v1/responses", `{"model":"m","input":"x","conversation":"`+id+`","previous_response_id":"resp_1"}`)
	items := "/v1/conversations/" + id + "/items"
	for body, code := range map[string]string{`{"items":[]}`: "missing_required_parameter", `{"items":[` + strings.Repeat(`{"role":"user","content":"x"},`, 20) + `{"role":"user","content":"x"}]}`: "invalid_value",
		`{"items":[5]}`: "invalid_type", `{"items":5}`: "invalid_type", `{"items":[{"type":"function_call_output","call_id":"c","output":"x"}]}`: "invalid_value"} {
		r.refused(http.StatusBadRequest, code, "POST", items, body)
	}
	for query, code := range map[string]string{"?limit=0": "invalid_value", "?limit=x": "invalid_value", "?order=up": "invalid_value", "?after=msg_x": "invalid_value"} {
		r.refused(http.StatusBadRequest, code, "GET", items+query, "")
	}
	r.refused(http.StatusNotFound, "item_not_found", "DELETE", items+"/msg_x", "")
	r.refused(http.StatusBadRequest, "missing_required_parameter", "POST", "/v1/conversations/"+id, `{}`)
	r.refused(http.StatusBadRequest, "invalid_value", "POST", "/v1/conversations", `{"metadata":{"a":1}}`)
	r.refused(http.StatusForbidden, "insufficient_permissions", "POST", "/v1/conversations", `{}`, "X-Agent", "reader")
}

// A request to a conversation with store: false goes on with it, and its turns are recorded
// there; the response can't be retrieved. Before, the model saw nothing of the conversation.
func TestUnstoredRequestGoesOnWithItsConversation(t *testing.T) {
	r := newRig(t)
	id, _ := r.ok("POST", "/v1/conversations", `{"items":[{"role":"user","content":"the first"}]}`)["id"].(string)
	body := `{"model":"m","store":false,"input":"the second","conversation":"` + id + `"}`
	response, _ := r.ok("POST", "/v1/responses", body)["id"].(string)
	if got := strings.Join(r.model.texts(-1), "; "); got != "user: the first; user: the second" {
		t.Errorf("the model saw %s", got)
	}
	r.refused(http.StatusNotFound, "response_not_found", "GET", "/v1/responses/"+response, "")
	items, _ := r.ok("GET", "/v1/conversations/"+id+"/items", "")["data"].([]any)
	if len(items) != 3 {
		t.Errorf("%d items", len(items))
	}
}

// A list of items asks the ledger for what was deleted of its conversation once, however many
// items there are.
func TestAListOfItemsAsksTheLedgerAFewTimes(t *testing.T) {
	r := newRig(t)
	nc := must(r.daemon.Connect())(t)
	defer nc.Close()
	own := client.New(nc, "default", "main")
	r.config.Client = func(web.Caller) *client.Client { return own }
	r.crash() // the next server asks through a connection of its own
	id := r.ok("POST", "/v1/conversations", "")["id"].(string)
	items := `{"items":[` + strings.Repeat(`{"role":"user","content":"x"},`, 19) + `{"role":"user","content":"x"}]}`
	for range 5 {
		r.ok("POST", "/v1/conversations/"+id+"/items", items)
	}
	all := r.ok("GET", "/v1/conversations/"+id+"/items?limit=100", "")["data"].([]any)
	r.ok("DELETE", "/v1/conversations/"+id+"/items/"+all[7].(map[string]any)["id"].(string), "")
	before := nc.Stats().OutMsgs
	if got := r.ok("GET", "/v1/conversations/"+id+"/items?limit=100", "")["data"].([]any); len(got) != 99 {
		t.Errorf("%d items", len(got))
	}
	if n := nc.Stats().OutMsgs - before; n > 10 {
		t.Errorf("%d requests to the ledger for a page of 99 items", n)
	}
}

package daemon

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/zstd"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/provider"
	"nexus/ledger/api"
	"nexus/turns"
)

// A chain goes on in one session, an older id is forked, and each branch sees its own past.
func TestAResponseFollowsTheOneItNames(t *testing.T) {
	s := new(scripted)
	d, client := startWith(t, responsesConfig(t.TempDir(), s))
	url := d.HTTPURL() + "/v1/responses"
	a := mustAsk(t, "POST", url, request("one", `"instructions":"be terse"`))
	if outputOf(a) != "answer 1 to one, é and on" || a["status"] != "completed" || a.at("usage.total_tokens") != 10.0 || a.at("usage.output_tokens_details.reasoning_tokens") != 1.0 {
		t.Fatalf("%v", a)
	}
	if len(s.last().System) != 1 || s.last().System[0] != "be terse" || s.last().Model != "upstream-m1" {
		t.Errorf("asked %+v", s.last())
	}
	b := mustAsk(t, "POST", url, request("two", previous(a.id())))
	if len(s.last().Messages) != 3 || len(s.last().System) != 0 || b.at("nexus.session") != a.at("nexus.session") || b.at("nexus.forked_from") != nil {
		t.Errorf("asked %+v: %v", s.last(), b)
	}
	c := mustAsk(t, "POST", url, request("other", previous(a.id())))
	if c.at("nexus.session") == a.at("nexus.session") || c.at("nexus.forked_from.turn") != a.at("nexus.turn") || len(s.last().Messages) != 3 || lastText(s.last()) != "other" {
		t.Errorf("%v", c)
	}
	e := mustAsk(t, "POST", url, request("three", previous(c.id())))
	if len(s.last().Messages) != 5 || e.at("nexus.session") != c.at("nexus.session") {
		t.Errorf("%v", e)
	}
	for _, o := range []object{a, b, c, e} {
		sameJSON(t, "GET", mustAsk(t, "GET", url+"/"+o.id(), ""), o)
	}
	id := turns.MustParseID(a.at("nexus.session").(string))
	var kinds []string
	for x, err := range client.Turns(t.Context(), id, api.ListTurns{Full: true}) {
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, fmt.Sprint(len(x.Messages), x.Response != nil))
	}
	if got := strings.Join(kinds, " "); got != "1 false 0 true 1 false 0 true" {
		t.Error(got)
	}
}

// Of two that continue one response at the same time, one goes on and the other forks.
func TestConcurrentContinuationsBothHaveTheirPlace(t *testing.T) {
	d, _ := startWith(t, responsesConfig(t.TempDir(), new(scripted)))
	url := d.HTTPURL() + "/v1/responses"
	a := mustAsk(t, "POST", url, request("one"))
	out := make([]object, 4)
	var running sync.WaitGroup
	for i := range out {
		running.Go(func() { _, out[i] = ask(t, "POST", url, request(fmt.Sprint("branch ", i), previous(a.id()))) })
	}
	running.Wait()
	forks, sessions := 0, make(map[any]bool)
	for _, o := range out {
		if o["status"] != "completed" {
			t.Fatalf("%v", o)
		}
		if o.at("nexus.forked_from") != nil {
			forks++
		}
		sessions[o.at("nexus.session")] = true
	}
	if forks != len(out)-1 || len(sessions) != len(out) {
		t.Errorf("%d forks, %d sessions", forks, len(sessions))
	}
}

// A key names one response for ever, on any daemon over the ledger.
func TestAKeyNamesOneResponseAcrossRestarts(t *testing.T) {
	dir, s := t.TempDir(), new(scripted)
	var first object
	var stream []object
	open := func() (*Daemon, string) {
		d, err := Open(t.Context(), responsesConfig(dir, s))
		if err != nil {
			t.Fatal(err)
		}
		return d, d.HTTPURL() + "/v1/responses"
	}
	d, url := open()
	first = mustAsk(t, "POST", url, request("one"), "Idempotency-Key", "k")
	stream = streamed(t, "POST", url, request("one", `"stream":true`), "Idempotency-Key", "k")
	closeDaemon(t, d)
	d, url = open()
	defer closeDaemon(t, d)
	sameJSON(t, "a retry", mustAsk(t, "POST", url, request("one"), "Idempotency-Key", "k"), first)
	sameJSON(t, "a streamed retry", streamed(t, "POST", url, request("one", `"stream":true`), "Idempotency-Key", "k"), stream)
	sameJSON(t, "its last event", stream[len(stream)-1]["response"], first)
	code, o := ask(t, "POST", url, request("two"), "Idempotency-Key", "k")
	if code != 409 || o.at("error.code") != "idempotency_key_reused" || o.at("error.type") != "invalid_request_error" {
		t.Errorf("%d %v", code, o)
	}
	if a := send(t, "POST", url, request("two"), "Idempotency-Key", "k"); a.Header.Get("X-Should-Retry") != "false" {
		t.Error("a client library would send it again")
	} else {
		a.Body.Close()
	}
	if s.count() != 1 {
		t.Errorf("the model was asked %d times", s.count())
	}
	other := mustAsk(t, "POST", url, request("one"), "Idempotency-Key", "k2")
	if other.id() == first.id() {
		t.Error("two keys have one response")
	}
}

// A retry while the answer comes joins it.
func TestARetryJoinsTheAnswerUnderWay(t *testing.T) {
	s := &scripted{step: make(chan bool), begun: make(chan bool, 2)}
	d, _ := startWith(t, responsesConfig(t.TempDir(), s))
	url := d.HTTPURL() + "/v1/responses"
	a := send(t, "POST", url, request("one", `"stream":true`), "Idempotency-Key", "k")
	defer a.Body.Close()
	<-s.begun
	b := send(t, "POST", url, request("one", `"stream":true`), "Idempotency-Key", "k")
	defer b.Body.Close()
	close(s.step)
	one, _ := events(t, a.Body, 1<<20)
	two, _ := events(t, b.Body, 1<<20)
	sameJSON(t, "the second", two, one)
	if s.count() != 1 {
		t.Errorf("the model was asked %d times", s.count())
	}
}

// A response goes on when its client goes away, and its stream is the same for who comes later.
func TestAStoredResponseOutlivesItsClient(t *testing.T) {
	s := &scripted{step: make(chan bool), begun: make(chan bool, 1)}
	d, _ := startWith(t, responsesConfig(t.TempDir(), s))
	url := d.HTTPURL() + "/v1/responses"
	a := send(t, "POST", url, request("one", `"stream":true`))
	head, _ := events(t, a.Body, 5)
	<-s.begun
	a.Body.Close()
	id := object(head[0]["response"].(map[string]any)).id()
	rest := send(t, "GET", url+"/"+id+"?stream=true&starting_after=4", "")
	defer rest.Body.Close()
	close(s.step)
	tail, done := events(t, rest.Body, 1<<20)
	if !done {
		t.Fatal("no end")
	}
	all := streamed(t, "GET", url+"/"+id+"?stream=true", "")
	sameJSON(t, "the stream in two pieces", append(head, tail...), all)
	if all[len(all)-1]["type"] != "response.completed" {
		t.Errorf("%v", all[len(all)-1])
	}
}

// What a daemon leaves that ends in the middle of an answer: the events that were seen, then
// a failure that says so. A retry by key asks again, and says so too.
func TestAnAnswerThatIsLostSaysSo(t *testing.T) {
	dir := t.TempDir()
	s := &scripted{step: make(chan bool), begun: make(chan bool, 1)}
	d, err := Open(t.Context(), responsesConfig(dir, s))
	if err != nil {
		t.Fatal(err)
	}
	a := send(t, "POST", d.HTTPURL()+"/v1/responses", request("one", `"stream":true`), "Idempotency-Key", "k")
	<-s.begun
	head, _ := events(t, a.Body, 6)
	a.Body.Close()
	closeDaemon(t, d)
	s.mu.Lock()
	s.step = nil
	s.mu.Unlock()
	d, _ = startWith(t, responsesConfig(dir, s))
	url := d.HTTPURL() + "/v1/responses"
	id := object(head[0]["response"].(map[string]any)).id()
	all := streamed(t, "GET", url+"/"+id+"?stream=true", "")
	sameJSON(t, "what was seen", all[:len(head)], head)
	last := all[len(all)-1]
	if last["type"] != "response.failed" || last["response"].(map[string]any)["error"].(map[string]any)["code"] != "answer_lost" || all[len(all)-2]["type"] != "error" {
		t.Errorf("%v", last)
	}
	o := mustAsk(t, "GET", url+"/"+id, "")
	if o["status"] != "failed" || o.at("output.0.status") != "incomplete" || o.at("output.0.content.0.text") != "answer 1 to " && o.at("output.0.content.0.text") != "answer 1 to one, " {
		t.Errorf("%v", o)
	}
	code, p := ask(t, "POST", url, request("two", previous(id)))
	if code != 400 || p.at("error.code") != "previous_response_not_found" {
		t.Errorf("%d %v", code, p)
	}
	again := mustAsk(t, "POST", url, request("one"), "Idempotency-Key", "k")
	if again.id() != id || again["status"] != "completed" || again.at("nexus.lost_answers") != 1.0 || s.count() != 2 {
		t.Errorf("asked %d times: %v", s.count(), again)
	}
	sameJSON(t, "GET", mustAsk(t, "GET", url+"/"+id, ""), again)
}

// A provider's refusal is the response's; the next request follows what was before.
func TestAProvidersFailureLeavesTheConversationAsItWas(t *testing.T) {
	s := new(scripted)
	d, _ := startWith(t, responsesConfig(t.TempDir(), s))
	url := d.HTTPURL() + "/v1/responses"
	a := mustAsk(t, "POST", url, request("one"))
	s.fail = &provider.Error{Status: 429, Code: "rate_limit_exceeded", Message: "slow down"}
	code, o := ask(t, "POST", url, request("two", previous(a.id())), "Idempotency-Key", "k")
	if code != 429 || o.at("error.code") != "rate_limit_exceeded" {
		t.Errorf("%d %v", code, o)
	}
	ev := streamed(t, "POST", url, request("three", previous(a.id()), `"stream":true`))
	if n := len(ev); ev[n-2]["type"] != "error" || ev[n-1]["type"] != "response.failed" || ev[n-2]["code"] != "rate_limit_exceeded" || object(ev[n-2]).at("error.code") != "rate_limit_exceeded" {
		t.Errorf("%v", ev)
	}
	s.fail = nil
	b := mustAsk(t, "POST", url, request("two", previous(a.id())), "Idempotency-Key", "k")
	if b.at("nexus.forked_from") != nil || b.at("nexus.lost_answers") != nil || len(s.last().Messages) != 3 {
		t.Errorf("%v", b)
	}
}

// Calls, their outputs and calls that are not allowed.
func TestCallsAndTheirOutputs(t *testing.T) {
	s := &scripted{call: &turns.Part{Type: turns.ToolCall, ID: "c1", Name: "weather", Arguments: turns.Raw(`{"city":"Oslo"}`)}}
	d, _ := startWith(t, responsesConfig(t.TempDir(), s))
	url := d.HTTPURL() + "/v1/responses"
	tools := `"tools":[{"type":"function","name":"weather","parameters":{"type":"object"}},{"type":"function","name":"time"}]`
	a := mustAsk(t, "POST", url, request("one", tools))
	if a.at("output.0.type") != "function_call" || a.at("output.0.call_id") != "c1" || a.at("output.0.arguments") != `{"city":"Oslo"}` || a.at("tools.0.strict") != nil || len(s.last().Tools) != 2 {
		t.Fatalf("%v", a)
	}
	none := mustAsk(t, "POST", url, request("one", tools, `"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"time"}]}`))
	if len(none["output"].([]any)) != 0 {
		t.Errorf("a call outside of allowed_tools: %v", none["output"])
	}
	s.call = nil
	b := mustAsk(t, "POST", url, fmt.Sprintf(`{"model":"m1","input":[{"type":"function_call_output","call_id":"c1","output":"rain"}],%s,%s}`, previous(a.id()), tools))
	if !strings.Contains(outputOf(b), `"rain"`) || s.last().Messages[2].Parts[0].ID != "c1" {
		t.Errorf("%v", b)
	}
	for _, store := range []string{"true", "false"} {
		code, o := ask(t, "POST", url, `{"model":"m1","input":[{"type":"function_call_output","call_id":"nope","output":"rain"}],"store":`+store+`}`)
		if code != 400 || o.at("error.type") != "invalid_request_error" {
			t.Errorf("an output of an unknown call, store %s: %d %v", store, code, o)
		}
	}
}

// Items keep what they are: kinds, ids, phase, in their order.
func TestInputItemsAreListed(t *testing.T) {
	s := new(scripted)
	d, _ := startWith(t, responsesConfig(t.TempDir(), s))
	url := d.HTTPURL() + "/v1/responses"
	a := mustAsk(t, "POST", url, `{"model":"m1","input":[
	{"role":"developer","content":"d"},
	{"type":"message","role":"user","id":"msg_mine","content":[{"type":"input_text","text":"see"},{"type":"input_image","image_url":"data:image/png;base64,AAEC"}]},
	{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"gAAA"},
	{"type":"message","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"I look","annotations":[]}]},
	{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\": 1}"},
	{"type":"function_call","call_id":"c2","name":"f","arguments":"{}"},
	{"type":"function_call_output","call_id":"c1","output":"1"},
	{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"2"}]},
	{"role":"user","content":"so?"}]}`)
	list := mustAsk(t, "GET", url+"/"+a.id()+"/input_items?order=asc", "")
	var kinds []string
	for _, it := range list["data"].([]any) {
		o := object(it.(map[string]any))
		kinds = append(kinds, fmt.Sprint(o["type"], " ", o["role"]))
		if o.id() == "" {
			t.Errorf("no id: %v", o)
		}
	}
	want := "message developer, message user, reasoning <nil>, message assistant, function_call <nil>, function_call <nil>, function_call_output <nil>, function_call_output <nil>, message user"
	if got := strings.Join(kinds, ", "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for path, want := range map[string]any{"data.1.id": "msg_mine", "data.1.content.1.image_url": "data:image/png;base64,AAEC", "data.2.encrypted_content": "gAAA", "data.3.phase": "commentary",
		"data.4.arguments": `{"a":1}`, "data.7.output.0.text": "2", "has_more": false} {
		if got := list.at(path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	page := mustAsk(t, "GET", url+"/"+a.id()+"/input_items?limit=2", "")
	if page["has_more"] != true || page.at("data.0.content.0.text") != "so?" {
		t.Errorf("%v", page)
	}
	next := mustAsk(t, "GET", url+"/"+a.id()+"/input_items?limit=2&after="+page["last_id"].(string), "")
	if next.at("data.0.call_id") != "c1" || next.at("data.0.type") != "function_call_output" {
		t.Errorf("%v", next)
	}
	ref := list.at("data.1.content.0.text")
	got := mustAsk(t, "POST", url, fmt.Sprintf(`{"model":"m1","input":[{"type":"item_reference","id":%q}],%s}`, a.at("output.0.id"), previous(a.id())))
	if got["status"] != "completed" || ref != "see" {
		t.Errorf("%v", got)
	}
	if code, o := ask(t, "POST", url, `{"model":"m1","input":[{"type":"item_reference","id":"msg_nope"}]}`); code != 400 || o.at("error.code") != "item_not_found" {
		t.Errorf("%d %v", code, o)
	}
}

// A background response is queued, polled, and cancelled, twice without harm.
func TestBackgroundResponsesArePolledAndCancelled(t *testing.T) {
	s := &scripted{step: make(chan bool), begun: make(chan bool, 1)}
	dir := t.TempDir()
	d, err := Open(t.Context(), responsesConfig(dir, s))
	if err != nil {
		t.Fatal(err)
	}
	url := d.HTTPURL() + "/v1/responses"
	a := mustAsk(t, "POST", url, request("one", `"background":true`))
	if a["status"] != "queued" && a["status"] != "in_progress" {
		t.Errorf("%v", a)
	}
	<-s.begun
	if o := mustAsk(t, "GET", url+"/"+a.id(), ""); o["status"] != "in_progress" {
		t.Errorf("%v", o)
	}
	if code, o := ask(t, "POST", url, request("two", previous(a.id()))); code != 400 || o.at("error.code") != "previous_response_in_progress" {
		t.Errorf("%d %v", code, o)
	}
	first := mustAsk(t, "POST", url+"/"+a.id()+"/cancel", "")
	if first["status"] != "cancelled" {
		t.Errorf("%v", first)
	}
	sameJSON(t, "the second time", mustAsk(t, "POST", url+"/"+a.id()+"/cancel", ""), first)
	closeDaemon(t, d)
	s.step, s.begun = nil, nil
	d, _ = startWith(t, responsesConfig(dir, s))
	url = d.HTTPURL() + "/v1/responses"
	sameJSON(t, "after a restart", mustAsk(t, "GET", url+"/"+a.id(), ""), first)
	b := mustAsk(t, "POST", url, request("plain"))
	if code, _ := ask(t, "POST", url+"/"+b.id()+"/cancel", ""); code != 400 {
		t.Errorf("a response in the foreground: %d", code)
	}
}

// A deleted response is gone from this door, also after a restart; its turn stays.
func TestADeletedResponseIsHidden(t *testing.T) {
	dir, s := t.TempDir(), new(scripted)
	d, err := Open(t.Context(), responsesConfig(dir, s))
	if err != nil {
		t.Fatal(err)
	}
	url := d.HTTPURL() + "/v1/responses"
	a := mustAsk(t, "POST", url, request("one"))
	if o := mustAsk(t, "DELETE", url+"/"+a.id(), ""); o["deleted"] != true {
		t.Errorf("%v", o)
	}
	closeDaemon(t, d)
	d, client := startWith(t, responsesConfig(dir, s))
	url = d.HTTPURL() + "/v1/responses"
	for _, tc := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"GET", "/input_items"}, {"POST", "/cancel"}} {
		if code, o := ask(t, tc[0], url+"/"+a.id()+tc[1], ""); code != 404 {
			t.Errorf("%v: %d %v", tc, code, o)
		}
	}
	if code, o := ask(t, "POST", url, request("two", previous(a.id()))); code != 400 || o.at("error.code") != "previous_response_not_found" {
		t.Errorf("%d %v", code, o)
	}
	session, turn := turns.MustParseID(a.at("nexus.session").(string)), turns.MustParseID(a.at("nexus.turn").(string))
	if _, err := client.Turn(t.Context(), session, turn); err != nil {
		t.Errorf("its turn: %v", err)
	}
}

// An id of another agent is answered as one that never was.
func TestIdsOfOtherAgentsAreNotFound(t *testing.T) {
	mine, m := token(t, "m", "main", "write")
	other, o := token(t, "o", "other", "write")
	reader, r := token(t, "r", "main", "read")
	d, _ := startWith(t, responsesConfig(t.TempDir(), new(scripted), m, o, r))
	url := d.HTTPURL() + "/v1/responses"
	as := func(secret string) []string { return []string{"Authorization", "Bearer " + secret} }
	a := mustAsk(t, "POST", url, request("one"), as(mine)...)
	never := "resp_" + api.NewID().String() + api.NewID().String()
	for _, tc := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"GET", "/input_items"}, {"POST", "/cancel"}, {"GET", "?stream=true"}} {
		code, x := ask(t, tc[0], url+"/"+a.id()+tc[1], "", as(other)...)
		code2, y := ask(t, tc[0], url+"/"+never+tc[1], "", as(other)...)
		xs, _ := json.Marshal(x, json.Deterministic(true))
		ys, _ := json.Marshal(y, json.Deterministic(true))
		if code != 404 || code2 != 404 || strings.ReplaceAll(string(xs), a.id(), never) != string(ys) {
			t.Errorf("%v: %d %s, %d %s", tc, code, xs, code2, ys)
		}
	}
	for _, id := range []string{a.id(), never, "resp_x", ""} {
		code, x := ask(t, "POST", url, request("two", previous(id)), as(other)...)
		if code != 400 || x.at("error.code") != "previous_response_not_found" || x.at("error.param") != "previous_response_id" {
			t.Errorf("%q: %d %v", id, code, x)
		}
	}
	for _, tc := range []struct {
		method, path string
		header       []string
		want         int
	}{{"GET", "/" + a.id(), as(reader), 200}, {"POST", "", as(reader), 403}, {"DELETE", "/" + a.id(), as(reader), 403}, {"GET", "/" + a.id(), nil, 401}} {
		if code, x := ask(t, tc.method, url+tc.path, "", tc.header...); code != tc.want {
			t.Errorf("%s %s: %d %v", tc.method, tc.path, code, x)
		}
	}
}

// store: false leaves nothing that can be retrieved; with a session it is recorded there.
func TestAnUnstoredResponseIsNotRetrievable(t *testing.T) {
	d, client := startWith(t, responsesConfig(t.TempDir(), new(scripted)))
	url := d.HTTPURL() + "/v1/responses"
	a := mustAsk(t, "POST", url, request("one", `"store":false`))
	if code, _ := ask(t, "GET", url+"/"+a.id(), ""); code != 404 {
		t.Errorf("%d", code)
	}
	for range client.Sessions(t.Context()) {
		t.Error("a session is stored")
	}
	b := mustAsk(t, "POST", url, request("one", `"store":false`), "x-nexus-session", "my chat")
	if code, _ := ask(t, "GET", url+"/"+b.id(), ""); code != 404 {
		t.Errorf("%d", code)
	}
	s, err := client.Resolve(t.Context(), "my chat")
	if err != nil || s.Turns != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	c := mustAsk(t, "POST", url, request("two"), "x-nexus-session", s.ID.String())
	if c.at("nexus.depth") != 4.0 {
		t.Errorf("%v", c)
	}
}

// What is wrong or too much is refused with a type, and the next request is served.
func TestHostileRequestsForResponsesAreRefused(t *testing.T) {
	s := new(scripted)
	c := responsesConfig(t.TempDir(), s)
	c.Model = []config.ModelRow{{Name: "msmall", ContextWindow: 2000, OutputReserve: 100}}
	d, _ := startWith(t, c)
	url := d.HTTPURL() + "/v1/responses"
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := string(z.EncodeAll([]byte(request(strings.Repeat("a", 64<<20))), nil))
	small := string(z.EncodeAll([]byte(request("one")), nil))
	for name, tc := range map[string]struct {
		body   string
		header []string
		code   int
		want   string
	}{
		"no JSON":             {"{", nil, 400, "invalid_json"},
		"a list":              {"[]", nil, 400, "invalid_type"},
		"a member twice":      {`{"model":"m1","model":"m2","input":"x"}`, nil, 400, "invalid_json"},
		"no model":            {`{"input":"x"}`, nil, 400, "missing_required_parameter"},
		"an unknown model":    {`{"model":"gpt","input":"x"}`, nil, 404, "model_not_found"},
		"a model's type":      {`{"model":1,"input":"x"}`, nil, 400, "invalid_type"},
		"deep input":          {`{"model":"m1","input":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, nil, 400, ""},
		"temperature":         {request("x", `"temperature":3`), nil, 400, "invalid_value"},
		"metadata":            {request("x", `"metadata":{"a":1}`), nil, 400, "invalid_value"},
		"a hosted item":       {`{"model":"m1","input":[{"type":"web_search_call"}]}`, nil, 400, "unsupported_item"},
		"unstored, queued":    {request("x", `"background":true,"store":false`), nil, 400, "invalid_value"},
		"another form":        {request("x"), []string{"Content-Type", "text/plain"}, 415, "unsupported_media_type"},
		"another encoding":    {request("x"), []string{"Content-Encoding", "br"}, 415, "unsupported_encoding"},
		"a zstd bomb":         {bomb, []string{"Content-Encoding", "zstd"}, 413, "request_too_large"},
		"broken zstd":         {small[:len(small)-3], []string{"Content-Encoding", "zstd"}, 400, "invalid_body"},
		"over the window":     {`{"model":"msmall","input":"` + strings.Repeat("word ", 5000) + `"}`, nil, 400, "context_length_exceeded"},
		"a forged compaction": {`{"model":"m1","input":[{"type":"compaction","encrypted_content":"x"}]}`, nil, 400, ""},
	} {
		code, o := ask(t, "POST", url, tc.body, tc.header...)
		if got := o.at("error.code"); code != tc.code || tc.want != "" && got != tc.want {
			t.Errorf("%s: %d %v", name, code, o)
		}
	}
	if s.count() != 0 {
		t.Errorf("the model was asked %d times", s.count())
	}
	if o := mustAsk(t, "POST", url, small, "Content-Encoding", "zstd"); o["status"] != "completed" {
		t.Errorf("%v", o)
	}
	if code, o := ask(t, "GET", d.HTTPURL()+"/v1/models", ""); code != 200 || o.at("data.0.id") != "m" {
		t.Errorf("%v", o)
	}
}

// With truncation: disabled nothing is dropped, however full the context is; with auto the
// session's policy compacts, and nobody waits.
func TestOnlyTruncationAutoDrops(t *testing.T) {
	s := &scripted{quiet: true}
	c := responsesConfig(t.TempDir(), s)
	c.Model = []config.ModelRow{{Name: "msmall", ContextWindow: 4000, OutputReserve: 100}}
	d, _ := startWith(t, c)
	url := d.HTTPURL() + "/v1/responses"
	ask1 := func(prev, mode string) (int, object) {
		more := ""
		if prev != "" {
			more = "," + previous(prev)
		}
		return ask(t, "POST", url, fmt.Sprintf(`{"model":"msmall","input":%q,"truncation":%q%s}`, strings.Repeat("some words to fill it ", 60), mode, more))
	}
	id, n := "", 0
	for {
		code, o := ask1(id, "disabled")
		if code != 200 {
			if o.at("error.code") != "context_length_exceeded" {
				t.Fatalf("%d %v", code, o)
			}
			break
		}
		if id, n = o.id(), n+1; len(s.last().Messages) != 2*n-1 {
			t.Fatalf("call %d had %d messages", n, len(s.last().Messages))
		}
		if n > 50 {
			t.Fatal("a window of 4000 tokens never fills")
		}
	}
	for range 4 {
		code, o := ask1(id, "auto")
		if code != 200 {
			t.Fatalf("auto: %d %v", code, o)
		}
		id = o.id()
	}
	if len(s.last().Messages) >= 2*(n+4)-1 {
		t.Errorf("%d messages after %d calls: nothing was compacted", len(s.last().Messages), n+4)
	}
}

// A threshold below the model's window compacts what would not fit, under truncation:
// disabled too; nothing else is dropped: below the threshold the model gets everything, and
// without room the request is refused, and leaves no trace in the chain.
func TestContextManagementDropsNothingElse(t *testing.T) {
	s := &scripted{quiet: true}
	c := responsesConfig(t.TempDir(), s)
	c.Model = []config.ModelRow{{Name: "msmall", ContextWindow: 4000, OutputReserve: 100}}
	d, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	url := d.HTTPURL() + "/v1/responses"
	say := func(prev, text, member string) (int, object) {
		more := ""
		if prev != "" {
			more = "," + previous(prev)
		}
		return ask(t, "POST", url, fmt.Sprintf(`{"model":"msmall","input":%q%s%s}`, text, member, more))
	}
	long := strings.Repeat("some words to fill it ", 60)
	const never, whenFull, late = `,"context_management":[{"type":"compaction","compact_threshold":50000}]`, `,"context_management":[{"type":"compaction"}]`, `,"context_management":[{"type":"compaction","compact_threshold":3000}]`
	id, n := "", 0
	for { // a threshold over the window compacts nothing, and the window is one
		code, o := say(id, long, never)
		if code != 200 {
			if o.at("error.code") != "context_length_exceeded" {
				t.Fatalf("%d %v", code, o)
			}
			break
		}
		if id, n = o.id(), n+1; len(s.last().Messages) != 2*n-1 || len(o["output"].([]any)) != 1 {
			t.Fatalf("call %d had %d messages: %v", n, len(s.last().Messages), o["output"])
		}
	}
	if code, o := say(id, strings.Repeat(long, 30), late); code != 400 || o.at("error.code") != "context_length_exceeded" {
		t.Errorf("an input over the window: %d %v", code, o)
	}
	for _, member := range []string{late, whenFull} {
		code, o := say(id, long, member)
		if code != 200 || o.at("output.0.type") != "compaction" || len(s.last().Messages) >= 2*n+1 || o.at("nexus.forked_from") != nil && member == late {
			t.Errorf("%s: %d, %d messages, %v", member, code, len(s.last().Messages), o)
		}
		stream := send(t, "GET", url+"/"+o.id()+"?stream=true", "")
		before, err := io.ReadAll(stream.Body)
		stream.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		closeDaemon(t, d)
		if d, err = Open(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		url = d.HTTPURL() + "/v1/responses"
		sameJSON(t, "after a restart", mustAsk(t, "GET", url+"/"+o.id(), ""), o)
		stream = send(t, "GET", url+"/"+o.id()+"?stream=true", "")
		if after, err := io.ReadAll(stream.Body); err != nil || string(after) != string(before) {
			t.Errorf("after a restart the stream is %s, %v\nbefore %s", after, err, before)
		}
		stream.Body.Close()
		// The item opens on the daemon that comes after.
		code, next := ask(t, "POST", url, fmt.Sprintf(`{"model":"msmall","input":[{"type":"compaction","encrypted_content":%q},{"role":"user","content":"and?"}]}`, o.at("output.0.encrypted_content")))
		if code != 200 || len(s.last().Messages) < 2 {
			t.Errorf("%d %v", code, next)
		}
	}
	closeDaemon(t, d)
}

// An agent's responses under way are bounded; one more is told when to come again, and
// another agent is served.
func TestResponsesUnderWayAreBounded(t *testing.T) {
	mine, m := token(t, "m", "main", "write")
	other, o := token(t, "o", "other", "write")
	s := &scripted{step: make(chan bool)}
	d, _ := startWith(t, responsesConfig(t.TempDir(), s, m, o))
	url := d.HTTPURL() + "/v1/responses"
	refused := false
	for n := range 100 {
		a := send(t, "POST", url, request("one", `"background":true`), "Authorization", "Bearer "+mine)
		a.Body.Close()
		if refused = a.StatusCode == http.StatusTooManyRequests; refused {
			if n != 64 || a.Header.Get("Retry-After") == "" {
				t.Errorf("request %d is refused: %v", n, a.Header)
			}
			break
		}
	}
	if !refused {
		t.Error("nothing is refused")
	}
	if o := mustAsk(t, "POST", url, request("one", `"background":true`), "Authorization", "Bearer "+other); o.id() == "" {
		t.Errorf("%v", o)
	}
}

// Without a provider the door says what the configuration lacks.
func TestWithoutAProviderThereIsNoModel(t *testing.T) {
	c := responsesConfig(t.TempDir(), nil)
	c.Provider = nil
	d, _ := startWith(t, c)
	if code, o := ask(t, "POST", d.HTTPURL()+"/v1/responses", request("one")); code != 404 || o.at("error.code") != "model_not_found" || !strings.Contains(o.at("error.message").(string), "[[provider]]") {
		t.Errorf("%d %v", code, o)
	}
}

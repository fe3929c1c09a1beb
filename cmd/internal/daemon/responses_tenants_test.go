package daemon

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
)

// tenantToken is token of a tenant.
func tenantToken(t *testing.T, name, tenant, agent string) (string, config.TokenRow) {
	t.Helper()
	secret, row, err := config.NewToken(name, tenant, agent, "write")
	if err != nil {
		t.Fatal(err)
	}
	return secret, row
}

// refusal is what a client sees of a reply, without the names that the request had.
func refusal(t *testing.T, method, url, body string, names []string, header ...string) string {
	t.Helper()
	a, b := readAnswer(t, method, url, body, header...)
	text := string(b)
	for _, n := range names {
		text = strings.ReplaceAll(text, n, "NAME")
	}
	var kept []string
	for k, v := range a.Header {
		if k != "Date" && k != "Content-Length" {
			kept = append(kept, fmt.Sprint(k, v))
		}
	}
	slices.Sort(kept)
	return fmt.Sprint(a.Status, kept, text)
}

// In every place that an id may stand, one of another tenant or agent is answered as one that
// never was: the status, the headers and the words are the same.
func TestForeignIdsLookLikeNoneInEveryPlace(t *testing.T) {
	mine, m := tenantToken(t, "m", "one", "main")
	strangers, rows := make(map[string]string), []config.TokenRow{m}
	for name, who := range map[string][2]string{"another-agent": {"one", "other"}, "another-tenant": {"two", "main"}} {
		secret, row := tenantToken(t, name, who[0], who[1])
		strangers[name], rows = secret, append(rows, row)
	}
	model := new(scripted)
	d, _ := startWith(t, responsesConfig(t.TempDir(), model, rows...))
	v1 := d.HTTPURL() + "/v1"
	as := func(secret string, more ...string) []string {
		return append([]string{"Authorization", "Bearer " + secret}, more...)
	}
	// What is mine: a response, a background one, a conversation with an item, a compaction.
	a := mustAsk(t, "POST", v1+"/responses", request("one"), as(mine)...)
	item, _ := a.at("output.0.id").(string)
	input, _ := mustAsk(t, "GET", v1+"/responses/"+a.id()+"/input_items", "", as(mine)...).at("data.0.id").(string)
	session, _ := a.at("nexus.session").(string)
	b := mustAsk(t, "POST", v1+"/responses", request("two", `"background":true`), as(mine)...)
	conversation := mustAsk(t, "POST", v1+"/conversations", `{"items":[{"role":"user","content":"hello"}]}`, as(mine)...).id()
	added, _ := mustAsk(t, "GET", v1+"/conversations/"+conversation+"/items", "", as(mine)...).at("data.0.id").(string)
	sealed := ""
	compacted := mustAsk(t, "POST", v1+"/responses/compact", fmt.Sprintf(`{"model":"m","previous_response_id":%q}`, a.id()), as(mine)...)
	for _, o := range compacted["output"].([]any) {
		if s, ok := o.(map[string]any)["encrypted_content"].(string); ok {
			sealed = s
		}
	}
	if item == "" || input == "" || session == "" || added == "" || sealed == "" {
		t.Fatalf("%q %q %q %q %q", item, input, session, added, sealed)
	}
	mustAsk(t, "POST", v1+"/responses", request("three"), as(mine, "X-Nexus-Session", "a-label")...)
	asked := model.count()

	id := func() string { return api.NewID().String() }
	never := strings.NewReplacer(item, item[:4]+id()+id()+"o0", input, input[:4]+id()+id()+"i0", added, added[:4]+id()+id()+"i0", a.id(), "resp_"+id()+id(), b.id(), "resp_"+id()+id(),
		conversation, "conv_"+id(), sealed, strings.Repeat("A", len(sealed)), session, id())
	type place struct{ method, path, body, session string }
	var places []place
	for _, r := range []string{a.id(), b.id()} {
		places = append(places, place{"GET", "/responses/" + r, "", ""}, place{"GET", "/responses/" + r + "?stream=true", "", ""}, place{"GET", "/responses/" + r + "?stream=true&starting_after=1", "", ""},
			place{"DELETE", "/responses/" + r, "", ""}, place{"POST", "/responses/" + r + "/cancel", "", ""}, place{"GET", "/responses/" + r + "/input_items", "", ""})
	}
	bodies := []string{
		request("x", previous(a.id())), request("x", previous(a.id()), `"store":false`), request("x", previous(b.id())), request("x", previous(a.id()), `"stream":true`), request("x", previous(a.id()), `"background":true`),
		request("x", fmt.Sprintf(`"conversation":%q`, conversation)), request("x", fmt.Sprintf(`"conversation":{"id":%q}`, conversation)), request("x", fmt.Sprintf(`"conversation":%q,"store":false`, conversation)),
	}
	for _, of := range []string{item, input, added} {
		bodies = append(bodies, fmt.Sprintf(`{"model":"m","input":[{"type":"item_reference","id":%q}]}`, of), fmt.Sprintf(`{"model":"m","store":false,"input":[{"id":%q}]}`, of))
	}
	bodies = append(bodies, fmt.Sprintf(`{"model":"m","input":[{"type":"compaction","encrypted_content":%q}]}`, sealed))
	for _, body := range bodies {
		for _, path := range []string{"/responses", "/responses/compact", "/responses/input_tokens"} {
			if path == "/responses/compact" && strings.Contains(body, `"conversation"`) {
				continue // it has no such member
			}
			places = append(places, place{"POST", path, body, ""})
		}
	}
	places = append(places, place{"POST", "/responses", request("x"), session}, place{"POST", "/responses", request("x", `"store":false`), session},
		place{"GET", "/conversations/" + conversation, "", ""}, place{"POST", "/conversations/" + conversation, `{"metadata":{}}`, ""}, place{"DELETE", "/conversations/" + conversation, "", ""},
		place{"GET", "/conversations/" + conversation + "/items", "", ""}, place{"POST", "/conversations/" + conversation + "/items", `{"items":[{"role":"user","content":"x"}]}`, ""},
		place{"GET", "/conversations/" + conversation + "/items/" + added, "", ""}, place{"DELETE", "/conversations/" + conversation + "/items/" + added, "", ""})
	for _, body := range []string{fmt.Sprintf(`{"items":[{"type":"item_reference","id":%q}]}`, item), fmt.Sprintf(`{"items":[{"type":"compaction","encrypted_content":%q}]}`, sealed)} {
		places = append(places, place{"POST", "/conversations", body, ""})
	}
	for who, secret := range strangers {
		own := mustAsk(t, "POST", v1+"/conversations", `{}`, as(secret)...).id()
		places := append(slices.Clone(places), place{"GET", "/conversations/" + own + "/items/" + added, "", ""}, place{"GET", "/conversations/" + own + "/items?after=" + added, "", ""},
			place{"DELETE", "/conversations/" + own + "/items/" + item, "", ""}, place{"POST", "/conversations/" + own + "/items", fmt.Sprintf(`{"items":[{"type":"item_reference","id":%q}]}`, added), ""})
		for _, p := range places {
			names := []string{a.id(), b.id(), item, input, added, conversation, session, sealed}
			for _, n := range slices.Clone(names) {
				names = append(names, never.Replace(n))
			}
			header := as(secret)
			other := slices.Clone(header)
			if p.session != "" {
				header, other = as(secret, "X-Nexus-Session", p.session), as(secret, "X-Nexus-Session", never.Replace(p.session))
			}
			got := refusal(t, p.method, v1+p.path, p.body, names, header...)
			want := refusal(t, p.method, v1+never.Replace(p.path), never.Replace(p.body), names, other...)
			if got != want || !strings.HasPrefix(got, "4") {
				t.Errorf("%s: %s %.100s %.200s\n got %.500s\nwant %.500s", who, p.method, p.path, p.body, got, want)
			}
		}
		// The same over a WebSocket.
		ws := dialSocket(t, v1, secret)
		for _, body := range bodies {
			create := func(body string) string {
				text := socketTurn(t, ws, `{"type":"response.create",`+body[1:])
				return strings.NewReplacer(a.id(), "NAME", b.id(), "NAME", item, "NAME", input, "NAME", added, "NAME", conversation, "NAME", sealed, "NAME").Replace(text)
			}
			got, want := create(body), create(never.Replace(body))
			for _, n := range []string{a.id(), b.id(), item, input, added, conversation, sealed} {
				want = strings.ReplaceAll(want, never.Replace(n), "NAME")
			}
			if got != want || !strings.Contains(got, `"error"`) {
				t.Errorf("%s: over a WebSocket %.200s\n got %.500s\nwant %.500s", who, body, got, want)
			}
		}
		if n := model.count(); n != asked {
			t.Errorf("%s: the model was asked %d times", who, n-asked)
		}
		// A label of another is free: it names a session of the caller's own.
		x := mustAsk(t, "POST", v1+"/responses", request("x"), as(secret, "X-Nexus-Session", "a-label")...)
		if len(model.last().Messages) != 1 || x.at("nexus.session") == session {
			t.Errorf("%s: %d messages under the label of another", who, len(model.last().Messages))
		}
		// A key of another is free, too.
		mustAsk(t, "POST", v1+"/responses", request("x"), as(mine, "Idempotency-Key", who)...)
		mustAsk(t, "POST", v1+"/responses", request("y"), as(secret, "Idempotency-Key", who)...)
		asked = model.count()
	}
	mustAsk(t, "GET", v1+"/responses/"+a.id(), "", as(mine)...)
}

// dialSocket opens a WebSocket of the token's agent.
func dialSocket(t *testing.T, v1, secret string) *websocket.Conn {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), v1+"/responses", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + secret}}})
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	t.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

// socketTurn sends a message and returns the last event of its turn.
func socketTurn(t *testing.T, ws *websocket.Conn, message string) string {
	t.Helper()
	if err := ws.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
		t.Fatal(err)
	}
	for {
		_, b, err := ws.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var e struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(b, &e); err != nil {
			t.Fatal(err)
		}
		switch e.Type {
		case "error", "response.completed", "response.failed", "response.incomplete":
			return string(b)
		}
	}
}

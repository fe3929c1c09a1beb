package daemon

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/turns"
)

// The daemon answers every request with a typed error or a reply, and never with
// an internal error. No reply holds anything of another agent, and the ledger
// verifies afterwards.
func TestHostileRequestsGetTypedErrors(t *testing.T) {
	logs := new(lockedBuffer)
	_, c := startWith(t, config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30, Logger: slog.New(slog.NewTextHandler(logs, nil))})
	ctx := t.Context()
	label := "secret-label"
	other := c.As("other")
	s, err := other.Create(ctx, api.CreateSession{SessionSettings: api.SessionSettings{Label: &label, System: &api.System{{Content: "secret-system"}}}})
	if err != nil {
		t.Fatal(err)
	}
	m := turns.TextMessage(turns.Assistant, "secret-answer")
	theirs, err := other.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "secret-question")}, Response: &m})
	if err != nil {
		t.Fatal(err)
	}
	own, err := c.Create(ctx, api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	mine, err := c.Append(ctx, own.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "q")}, Response: &m})
	if err != nil {
		t.Fatal(err)
	}

	bodies := hostileBodies(s.ID, theirs.ID, own.ID, mine.ID)
	sessions := []string{own.ID.String(), s.ID.String(), strings.ToLower(own.ID.String()), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "00000000000000000000000000", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "x"}
	slowest, slow := time.Duration(0), ""
	for _, verb := range allVerbs(t, c.Conn()) {
		for _, sess := range sessions {
			subject := "nexus.v1.default.main." + verb.name
			if verb.session {
				subject += "." + sess
			}
			for _, b := range bodies {
				began := time.Now()
				r, err := c.Conn().Request(subject, b, untilTheTestEnds(t))
				if err != nil {
					t.Fatalf("%s %.200s: %v", subject, b, err)
				}
				if d := time.Since(began); d > slowest {
					slowest, slow = d, fmt.Sprintf("%s %.100s", subject, b)
				}
				for _, secret := range []string{"secret-answer", "secret-question", "secret-system", "secret-label"} {
					if bytes.Contains(r.Data, []byte(secret)) && (secret != "secret-answer" || (verb.session && sess == s.ID.String())) {
						t.Errorf("%s %.200s gave %s away: %.300s", subject, b, secret, r.Data)
					}
				}
				code := r.Header.Get("Nats-Service-Error-Code")
				// An export that was altered is corrupt, and so is nothing else here.
				if code == string(api.Internal) || (code == string(api.Corrupt) && verb.name != "session.import") {
					t.Errorf("%s %.200s: %s", subject, b, r.Data)
				}
				var e struct {
					Error *api.Error `json:"error"`
				}
				if code != "" && (turns.DecodeJSON(r.Data, &e) != nil || e.Error == nil || string(e.Error.Code) != code || e.Error.Message == "") {
					t.Errorf("%s %.200s: error without a body: %.300s", subject, b, r.Data)
				}
			}
			if !verb.session {
				break
			}
		}
	}
	t.Logf("slowest: %v, %s", slowest, slow)
	got, err := other.Session(ctx, s.ID)
	if err != nil || got.Head == nil || *got.Head != theirs.ID || got.Depth != 1 || got.State != "open" || got.Label != label {
		t.Errorf("the other agent's session: %+v, %v", got, err)
	}
	if v, err := c.As(api.Operator).Verify(ctx); err != nil || !v.OK {
		t.Errorf("verify: %+v, %v", v, err)
	}
	for _, secret := range []string{"secret-", "panic"} {
		if strings.Contains(logs.String(), secret) {
			t.Errorf("the log holds %q:\n%s", secret, logs.String())
		}
	}
}

// lockedBuffer is a log that is written and read at once.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type verbName struct {
	name    string
	session bool
}

// allVerbs asks the service for its endpoints.
func allVerbs(t *testing.T, nc *nats.Conn) (out []verbName) {
	t.Helper()
	m, err := nc.Request("$SRV.INFO.nexus", nil, untilTheTestEnds(t))
	if err != nil {
		t.Fatal(err)
	}
	var info struct {
		Endpoints []struct {
			Subject  string            `json:"subject"`
			Metadata map[string]string `json:"metadata"`
		} `json:"endpoints"`
	}
	if err := json.Unmarshal(m.Data, &info); err != nil {
		t.Fatal(err)
	}
	for _, e := range info.Endpoints {
		out = append(out, verbName{e.Metadata["verb"], strings.Count(e.Subject, "*") == 3})
	}
	if !slices.ContainsFunc(out, func(v verbName) bool { return v.name == "turn.append" && v.session }) {
		t.Fatalf("endpoints: %+v", out)
	}
	return out
}

func hostileBodies(theirs, theirTurn, own, ownTurn turns.ID) (out [][]byte) {
	for _, s := range []string{
		``, ` `, `{`, `{}`, `[]`, `null`, `1`, `"x"`, `{"id":null}`, `{"id":""}`, `{"id":"x"}`, `{"id":1}`, "{\"\xff\":1}", `{"a":1,"a":2}`, `{"\ud800":1}`,
		`{"id":"7ZZZZZZZZZZZZZZZZZZZZZZZZZ"}`, `{"id":"00000000000000000000000000"}`, `{"limit":-1}`, `{"limit":99999999999999999999}`, `{"limit":1e400}`,
		`{"limit":0.5}`, `{"after":"~~~~"}`, `{"after":"1~2~3"}`, `{"after":"0.0.-1"}`, `{"after":"9999999999.0.0"}`, `{"after":"` + ownTurn.String() + `~1~99999999~3"}`,
		`{"after":"1~` + theirs.String() + `~` + theirTurn.String() + `"}`, `{"after":"` + theirTurn.String() + `"}`, `{"after":"` + theirs.String() + `"}`,
		`{"min_position":"pzzzzzzzzzzzz"}`, `{"min_position":"x"}`, `{"min_position":"p1","stale_ok":true}`,
		`{"id":"` + theirTurn.String() + `"}`, `{"id":"` + ownTurn.String() + `"}`, `{"id":"` + own.String() + `"}`, `{"id":"` + theirs.String() + `"}`,
		`{"at":"` + theirTurn.String() + `"}`, `{"to":"` + theirTurn.String() + `"}`, `{"to":null,"if_head":"` + theirTurn.String() + `"}`, `{"turn":"` + theirTurn.String() + `"}`,
		`{"parent":"` + theirTurn.String() + `","messages":[{"role":"user","parts":[{"type":"text","content":"x"}]}]}`,
		`{"spawned_by":{"session":"` + theirs.String() + `","turn":"` + theirTurn.String() + `"}}`,
		`{"other":{"session":"` + theirs.String() + `"}}`, `{"session":"` + theirs.String() + `","data":"aGk="}`, `{"session":"` + theirs.String() + `","digest":"sha256:` + strings.Repeat("00", 32) + `"}`,
		`{"session":"` + own.String() + `","pieces":["sha256:` + strings.Repeat("00", 32) + `"]}`, `{"sessions":["` + theirs.String() + `"]}`,
		`{"label":""}`, `{"label":"\u0000"}`, `{"label":"` + strings.Repeat("é", 4000) + `"}`,
		`{"budget":1}`, `{"budget":18446744073709551615}`, `{"budget":18446744073709551616}`, `{"budget":-1}`, `{"policy":{"name":"nexus","set":{"target_ratio":1e308}}}`,
		`{"policy":{"name":"balanced","set":{"trigger_ratio":-1,"keep_tokens":18446744073709551615}}}`, `{"limits":{"context_window":18446744073709551615,"max_output_tokens":18446744073709551615}}`,
		`{"limits":{"context_window":1}}`, `{"error":"context_length_exceeded"}`, `{"error":"","status":400}`, `{"error":"x","status":-1}`,
		`{"first_kept":"` + theirTurn.String() + `","summary":"s"}`, `{"summary":"` + strings.Repeat("s", 5000) + `","cleared":[{"turn":"` + theirTurn.String() + `","call":"c"}]}`,
		`{"replacement":[{"role":"tool","parts":[{"type":"tool_call_response","id":"x","response":"y"}]}]}`,
		`{"messages":[],"response":null}`, `{"messages":[{"role":"tool","parts":[{"type":"tool_call_response","id":"nope","response":"y"}]}]}`,
		`{"messages":[{"role":"user","parts":[{"type":"text","ref":{"digest":"sha256:` + strings.Repeat("11", 32) + `","size":9}}]}]}`,
		`{"messages":[{"role":"assistant","parts":[{"type":"tool_call","id":"c","name":"n","arguments":{}},{"type":"tool_call","id":"c","name":"n","arguments":{}}]}]}`,
		`{"messages":[{"role":"user","parts":[]}],"time":"9999-12-31T23:59:59Z"}`, `{"messages":[{"role":"user","parts":[]}],"time":"0000-01-01T00:00:00Z"}`,
		`{"messages":[{"role":"user","parts":[]}],"usage":{"input_tokens":18446744073709551615,"output_tokens":18446744073709551615}}`,
		`{"records":[{}]}`, `{"records":[{"key":{"id":"` + theirs.String() + `","key":"` + strings.Repeat("A", 43) + `="}}]}`, `{"records":[{"event":{"payload":"","hash":"sha256:` + strings.Repeat("00", 32) + `"}}]}`,
		`{"records":[{"blob":{"root":"` + theirs.String() + `","digest":"sha256:` + strings.Repeat("22", 32) + `","sealed":"AAAA"}}]}`, `{"records":[{"nexus_export":{"version":9}}]}`,
		`{"system":[{"name":"` + strings.Repeat("n", 3000) + `","content":""}]}`, `{"tools":[1]}`, `{"meta":[]}`, `{"kind":"main"}`, `{"levels":"all","id":"` + ownTurn.String() + `"}`,
	} {
		out = append(out, []byte(s))
	}
	deep := strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)
	parts := strings.TrimSuffix(strings.Repeat(`{"type":"text","content":"x"},`, 100_000), ",")
	messages := strings.TrimSuffix(strings.Repeat(`{"role":"user","parts":[]},`, 100_000), ",")
	return append(out, []byte(`{"meta":`+deep+`}`), []byte(`{"messages":[{"role":"user","parts":[`+parts+`]}]}`), []byte(`{"messages":[`+messages+`]}`))
}

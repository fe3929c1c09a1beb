package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"nexus/ledger/api"
	"nexus/turns"
)

// What the daemon replies holds against the schemas that it serves.
func TestRepliesHoldAgainstTheServedSchemas(t *testing.T) {
	_, c := start(t, t.TempDir())
	ctx := t.Context()
	m, err := c.Conn().Request("$SRV.INFO.nexus", nil, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var info struct {
		Endpoints []struct {
			Metadata map[string]string `json:"metadata"`
		} `json:"endpoints"`
	}
	if err := json.Unmarshal(m.Data, &info); err != nil {
		t.Fatal(err)
	}
	schemas := jsonschema.NewCompiler()
	for _, e := range info.Endpoints {
		for _, side := range []string{"request", "reply"} {
			doc, err := jsonschema.UnmarshalJSON(strings.NewReader(e.Metadata[side]))
			if err != nil {
				t.Fatal(err)
			}
			if err := schemas.AddResource("mem:"+e.Metadata["verb"]+"/"+side, doc); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := c.Create(ctx, api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	long := turns.TextMessage(turns.Assistant, strings.Repeat("word ", 2000))
	var last *api.Appended
	for range 6 {
		if last, err = c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "q")}, Response: &long}); err != nil {
			t.Fatal(err)
		}
	}
	id, turn := s.ID.String(), last.ID.String()
	for _, r := range []struct{ verb, session, body string }{
		{"session.create", "", `{"label":"x","policy":"balanced","system":[{"name":"a","content":"b"}],"spawned_by":{"session":"` + id + `"},"meta":{"a":1}}`},
		{"session.get", id, `{"about":true}`},
		{"session.list", "", `{"about":true}`},
		{"session.set", id, `{"system":"terse"}`},
		{"turn.append", id, `{"messages":[{"role":"user","parts":[{"type":"text","content":"q"}]}],"response":null}`},
		{"turn.get", id, `{"id":"` + turn + `"}`},
		{"compaction.run", id, `{"dry_run":true,"policy":{"name":"balanced","set":{"keep_tokens":2000}}}`},
		{"compaction.run", id, `{"policy":{"name":"balanced","set":{"keep_tokens":2000}},"budget":100000,"at_once":true}`},
		{"compaction.list", id, `{}`},
		{"turn.list", id, `{"full":true}`},
		{"context.get", id, `{"explain":true}`},
		{"fork.create", id, `{"turn":"` + turn + `"}`},
		{"session.move", id, `{"to":null}`},
		{"lineage.path", id, `{}`},
		{"lineage.tree", id, `{}`},
		{"lineage.find", "", `{"name":"` + turn[18:] + `"}`},
		{"lineage.base", id, `{"other":{"session":"` + id + `"}}`},
		{"blob.put", "", `{"session":"` + id + `","data":"YWJj"}`},
		{"policy.list", "", `{}`},
		{"policy.get", "", `{"name":"balanced"}`},
		{"session.export", id, `{}`},
		{"audit.verify", "", `{"sessions":["` + id + `"]}`},
		{"session.reset", id, `{}`},
	} {
		subject := "nexus.v1.default.main." + r.verb
		if r.session != "" {
			subject += "." + r.session
		}
		reply, err := c.Conn().Request(subject, []byte(r.body), 20*time.Second)
		if err != nil || reply.Header.Get("Nats-Service-Error") != "" {
			t.Errorf("%s %s: %v %v", r.verb, r.body, err, reply)
			continue
		}
		for side, text := range map[string]string{"request": r.body, "reply": string(reply.Data)} {
			schema, err := schemas.Compile("mem:" + r.verb + "/" + side)
			if err != nil {
				t.Fatal(err)
			}
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(v); err != nil {
				t.Errorf("%s, %s %.300s: %v", r.verb, side, text, err)
			}
		}
	}
}

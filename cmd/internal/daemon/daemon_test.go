package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

func start(t *testing.T, dir string) (*Daemon, *client.Client) {
	t.Helper()
	return startWith(t, config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30})
}

func startWith(t *testing.T, c config.Config) (*Daemon, *client.Client) {
	t.Helper()
	d, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := d.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nc.Close()
		ctx, cancel := context.WithTimeout(context.Background(), untilTheTestEnds(t))
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return d, client.New(nc, "default", "main")
}

func TestARestartKeepsEverything(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	ctx := t.Context()
	s, err := c.Create(ctx, api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	var last *api.Appended
	for i := range 20 {
		m := turns.TextMessage(turns.Assistant, fmt.Sprint("answer ", i))
		last, err = c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, fmt.Sprint("question ", i))}, Response: &m})
		if err != nil {
			t.Fatal(err)
		}
	}
	var tail []uint64
	first := api.ListTurns{Page: api.Page{Limit: 17}}
	for x, err := range c.Turns(ctx, s.ID, first) {
		if err != nil {
			t.Fatal(err)
		}
		if first.After = x.ID.String(); x.Depth == 17 {
			break
		}
	}
	for x, err := range c.Turns(ctx, s.ID, first) {
		if err != nil {
			t.Fatal(err)
		}
		tail = append(tail, x.Depth)
	}
	if !slices.Equal(tail, []uint64{18, 19, 20}) {
		t.Errorf("turns after the seventeenth: %v", tail)
	}
	before, err := c.Context(ctx, s.ID, api.GetContext{})
	if err != nil {
		t.Fatal(err)
	}
	c.Conn().Close()
	if err := d.Close(ctx); err != nil {
		t.Fatal(err)
	}
	_, c = start(t, dir)
	got, err := c.Session(ctx, s.ID)
	if err != nil || got.Hash != last.Hash || got.Depth != 20 {
		t.Fatalf("after the restart: %+v, %v; want hash %v", got, err, last.Hash)
	}
	after, err := c.Context(ctx, s.ID, api.GetContext{})
	if err != nil || after.Fingerprint != before.Fingerprint {
		t.Errorf("context after the restart: %v, %v; want %v", after.Fingerprint, err, before.Fingerprint)
	}
	v, err := c.As(api.Operator).Verify(ctx)
	if err != nil || !v.OK || v.Turns != 20 {
		t.Errorf("verify: %+v, %v", v, err)
	}
}

// The operator reads everything and changes nothing.
func TestTheOperatorChangesNothing(t *testing.T) {
	_, c := start(t, t.TempDir())
	ctx := t.Context()
	s, err := c.Create(ctx, api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	op := c.As(api.Operator)
	_, appendErr := op.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "x")}})
	_, createErr := op.Create(ctx, api.CreateSession{})
	_, closeErr := op.Close(ctx, s.ID, api.CloseSession{})
	for what, err := range map[string]error{"append": appendErr, "create": createErr, "close": closeErr} {
		if !errors.Is(err, ledger.ErrDenied) {
			t.Errorf("%s by the operator: %v, want denied", what, err)
		}
	}
	if got, err := op.Session(ctx, s.ID); err != nil || got.Hash != s.Hash {
		t.Errorf("the operator reads %+v, %v", got, err)
	}
}

// A client has no way around the service to the stream.
func TestClientsCannotReachTheStream(t *testing.T) {
	_, c := start(t, t.TempDir())
	for _, subject := range []string{"$JS.API.INFO", "$JS.API.STREAM.INFO.NEXUS_LEDGER", "nexus.log.00.default.s.01ARZ3NDEKTSV4RRFFQ69G5FAV"} {
		m, err := c.Conn().Request(subject, nil, 300*time.Millisecond)
		if err == nil && !strings.Contains(string(m.Data), "JetStream not enabled for account") {
			t.Errorf("%s answered %s", subject, m.Data)
		}
	}
}

func TestErrorsAreTyped(t *testing.T) {
	_, c := start(t, t.TempDir())
	ctx := t.Context()
	s, err := c.Create(ctx, api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		subject, body string
		code          api.Code
		field         string
	}{
		{"session.create", `{"lable":"x"}`, api.Malformed, "/lable"},
		{"session.create", `{"kind":"main"}`, api.Denied, "/kind"},
		{"session.create", `{"policy":"none"}`, api.Malformed, "/policy/name"},
		{"turn.append." + s.ID.String(), `{"messages":[]}`, api.Malformed, "/messages"},
		{"turn.append." + s.ID.String(), `{"messages":[{"role":"user","ROLE":"system","parts":[]}]}`, api.Malformed, "/messages/0/ROLE"},
		{"turn.append." + s.ID.String(), `{"messages":[{"role":"robot","parts":[]}]}`, api.Malformed, "/messages/0/role"},
		{"turn.append." + s.ID.String(), "{\"messages\":[{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"content\":\"a\xff\"}]}]}", api.Malformed, "/messages/0/parts/0/content"},
		{"turn.append.01ARZ3NDEKTSV4RRFFQ69G5FAV", `{"messages":[{"role":"user","parts":[]}]}`, api.NotFound, ""},
		{"session.get.not-an-id", `{}`, api.Malformed, "session"},
		{"compaction.run." + s.ID.String(), `{}`, api.Nothing, ""},
		{"search.query", `{"text":"*"}`, api.Malformed, "/text"},
		{"audit.proof." + s.ID.String(), `{}`, api.Denied, ""},
		{"audit.consistency", `{"from":"2"}`, api.Denied, ""},
		{"audit.checkpoint", `{}`, api.Denied, ""},
		{"context.get." + s.ID.String(), `{"format":"latin"}`, api.Malformed, "/format"},
	} {
		m, err := c.Conn().Request("nexus.v1.default.main."+tc.subject, []byte(tc.body), untilTheTestEnds(t))
		if err != nil {
			t.Fatalf("%s: %v", tc.subject, err)
		}
		var got struct {
			Error *api.Error `json:"error"`
		}
		if err := turns.DecodeJSON(m.Data, &got); err != nil || got.Error == nil {
			t.Errorf("%s %s: answered %s", tc.subject, tc.body, m.Data)
			continue
		}
		field, _ := got.Error.Details["field"].(string)
		if got.Error.Code != tc.code || field != tc.field {
			t.Errorf("%s %s: %s %q (%s), want %s %q", tc.subject, tc.body, got.Error.Code, field, got.Error.Message, tc.code, tc.field)
		}
		if m.Header.Get("Nats-Service-Error-Code") != string(tc.code) {
			t.Errorf("%s: header %v", tc.subject, m.Header)
		}
	}
}

// A view shows a compaction that nobody stored: a client can read it, and no
// source of it names a turn that is not there.
func TestAViewIsReadAndNotStored(t *testing.T) {
	_, c := start(t, t.TempDir())
	ctx := t.Context()
	s, err := c.Create(ctx, api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		m := turns.TextMessage(turns.Assistant, strings.Repeat("an answer ", 100))
		if _, err := c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, fmt.Sprint("question ", i))}, Response: &m}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"balanced", "wolffish", "spec-008"} {
		v, err := c.Context(ctx, s.ID, api.GetContext{Policy: &api.Policy{Name: name}, Budget: 5000, Explain: true})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if v.Tokens > 5000 || len(v.Sources) == 0 {
			t.Errorf("%s: %d tokens from %d sources", name, v.Tokens, len(v.Sources))
		}
	}
	if got, err := c.Session(ctx, s.ID); err != nil || got.Compactions != 0 {
		t.Errorf("%+v, %v: a view was stored", got, err)
	}
}

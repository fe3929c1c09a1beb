package daemon

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/daemon/config"
	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Two daemons serve one JetStream. One stores a policy, and ends; the other opens a
// session under it by name, compacts by it, and stores the next version. Puts of one
// name at once get a version each, whichever daemon serves them.
func TestAPolicyPutOnOneDaemonIsUsedOnTheOther(t *testing.T) {
	s := natsServer(t, nil)
	open := func(create bool) (*Daemon, func()) {
		d := must[*Daemon](t)(Open(t.Context(), config.Config{Plaintext: true, NATS: s.ClientURL(), Replicas: 1, Create: create, Data: t.TempDir(), HTTP: "off"}))
		end := sync.OnceFunc(func() {
			ctx, cancel := context.WithTimeout(context.Background(), untilTheTestEnds(t))
			defer cancel()
			if err := d.Close(ctx); err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(end)
		return d, end
	}
	nc := must[*nats.Conn](t)(nats.Connect(s.ClientURL()))
	t.Cleanup(nc.Close)
	c, ctx := client.New(nc, "default", "main"), t.Context()

	_, endFirst := open(true)
	mine, _ := policy.Builtin("nexus")
	mine.KeepTokens, mine.Frame = 300, "Mine: {summary}"
	first := must[*api.PolicyInfo](t)(c.PutPolicy(ctx, api.PutPolicy{Name: "mine", Settings: mine.Bytes()}))
	if first.Version != 1 || first.Agent != "main" {
		t.Fatalf("%+v", first)
	}
	open(false)

	const puts = 8 // at once, spread over both daemons by the server
	versions := make(map[uint64]bool)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range puts {
		wg.Go(func() {
			p := mine
			p.KeepTokens = uint64(400 + i)
			info, err := c.PutPolicy(ctx, api.PutPolicy{Name: "mine", Settings: p.Bytes()})
			mu.Lock()
			defer mu.Unlock()
			if err != nil || versions[info.Version] {
				t.Errorf("put %d: %+v, %v", i, info, err)
				return
			}
			versions[info.Version] = true
		})
	}
	wg.Wait()
	for v := uint64(2); v < 2+puts; v++ {
		if !versions[v] {
			t.Errorf("no put has version %d: %v", v, versions)
		}
	}
	if _, err := c.As("other").PutPolicy(ctx, api.PutPolicy{Name: "mine", Settings: mine.Bytes()}); api.FromError(err).Code != api.Denied {
		t.Errorf("another agent's put: %v, want denied", err)
	}
	last := must[*api.PolicyInfo](t)(c.PutPolicy(ctx, api.PutPolicy{Name: "mine", Settings: mine.Bytes()}))
	endFirst()

	r := api.CreateSession{SessionSettings: api.SessionSettings{Policy: &api.Policy{Name: "mine"}, Limits: &turns.Limits{ContextWindow: 8000}}}
	sess := must[*api.Session](t)(c.As("other").Create(ctx, r))
	if sess.Policy.Digest != last.Digest || last.Version != puts+2 {
		t.Errorf("the session has policy %+v, the newest is %+v", sess.Policy, last)
	}
	other := c.As("other")
	for i := range 10 {
		m := turns.TextMessage(turns.Assistant, fmt.Sprint("answer ", i))
		must[*api.Appended](t)(other.Append(ctx, sess.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, strings.Repeat("some words ", 300))}, Response: &m}))
	}
	compact(t, other, sess.ID)
	cx := must[*api.Context](t)(other.Context(ctx, sess.ID, api.GetContext{}))
	if b := must[[]byte](t)(turns.EncodeJSON(cx.Messages)); !strings.Contains(string(b), "Mine: ") {
		t.Errorf("the context is not framed by the policy: %.300s", b)
	}
	pinned := must[*api.PolicyInfo](t)(c.Policy(ctx, api.GetPolicy{Name: "mine", Digest: first.Digest}))
	if pinned.Version != 1 {
		t.Errorf("the first version by its digest: %+v", pinned)
	}
	verified(t, c)
}

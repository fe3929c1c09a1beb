package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

// A verification that is interrupted says through which event it came, and what it found.
func TestInterruptedVerificationSaysHowFarItCame(t *testing.T) {
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	ctx, interrupt := context.WithTimeout(t.Context(), time.Minute)
	session, event, asked := api.NewID(), api.NewID(), 0
	_, err = nc.Subscribe("nexus.v1.>", func(m *nats.Msg) {
		if asked++; asked == 2 {
			interrupt()
			return
		}
		_ = m.Respond(fmt.Appendf(nil, `{"events":2000,"total_events":5000,"problem_count":1,"problems":[],"through":{"session":%q,"event":%q,"seq":2044},"next":"a~1"}`, session, event))
	})
	if err != nil {
		t.Fatal(err)
	}
	var out, errw bytes.Buffer
	_, err = VerifySessions(ctx, &terminal.Terminal{Out: &out, Err: &errw}, client.New(nc, "default", "_"), nil)
	want := fmt.Sprintf("verified 2,000 of 5,000 events, through position 2044, event %s of session %s: 1 problem so far\n", event, session)
	if !errors.Is(err, context.Canceled) || out.Len() > 0 || errw.String() != want {
		t.Errorf("%v; stdout %q, stderr %q; want %q", err, &out, &errw, want)
	}
}

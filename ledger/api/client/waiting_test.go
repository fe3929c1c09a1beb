package client_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

// said collects what a client reports, and when.
type said struct {
	waiting client.Waiting
	at      time.Time
}

func reporting(c *client.Client, got *[]said) *client.Client {
	return c.OnWaiting(2*time.Second, func(w client.Waiting) { *got = append(*got, said{w, time.Now()}) })
}

// A call that is tried again says why and until when, once, and not before it is
// worth a word.
func TestCallThatIsTriedAgainIsReportedOnce(t *testing.T) {
	var got []said
	inWorld(t, []reply{fails(api.Busy, "")}, func(w *world, c *client.Client) {
		began := time.Now()
		_, err := reporting(c, &got).Session(within(w.t, time.Minute), session)
		if err == nil {
			w.t.Fatal("a busy daemon answered")
		}
		if len(got) != 1 || got[0].at.Sub(began) != 2*time.Second || got[0].waiting.Why.Code != api.Busy || got[0].waiting.Until.Sub(began) != time.Minute {
			w.t.Errorf("reported %+v of a call that began %v", got, began)
		}
	})
}

func TestCallOverALostConnectionIsReported(t *testing.T) {
	var got []said
	inWorld(t, []reply{silence}, func(w *world, c *client.Client) {
		w.server.Shutdown()
		began := time.Now()
		if _, err := reporting(c, &got).Within(45*time.Second).Session(w.t.Context(), session); err == nil {
			w.t.Fatal("a server that is gone answered")
		}
		if len(got) != 1 || got[0].at.Sub(began) != 2*time.Second || got[0].waiting.Why.Message != "the connection to the NATS server is lost" ||
			got[0].waiting.Until.Sub(began) != 45*time.Second {
			w.t.Errorf("reported %+v of a call that began %v", got, began)
		}
	})
}

// A call that takes long, and one that is answered at its second try, is none to
// report.
func TestCallThatTakesLongIsNotReported(t *testing.T) {
	for name, script := range map[string][]reply{
		"a slow answer": {func(m *nats.Msg) { time.AfterFunc(10*time.Second, func() { answers(`{"label":"x"}`)(m) }) }},
		"a second try":  {fails(api.Unavailable, ""), answers(`{"label":"x"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			var got []said
			inWorld(t, script, func(w *world, c *client.Client) {
				if s, err := reporting(c, &got).Session(within(w.t, time.Minute), session); err != nil || s.Label != "x" {
					w.t.Fatalf("%+v, %v", s, err)
				}
				if len(got) != 0 {
					w.t.Errorf("reported %+v", got)
				}
			})
		})
	}
}

package daemon

import (
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// TestAReadSeesWhatWasAcknowledgedToOthers: while many append, whoever hears of a turn and
// asks over another connection finds it at the head, and the daemon needs no log for that.
func TestAReadSeesWhatWasAcknowledgedToOthers(t *testing.T) {
	d, _ := start(t, t.TempDir())
	const sessions, each = 16, 40
	var g errgroup.Group
	for range sessions {
		writer, other := clientOf(t, d), clientOf(t, d)
		s, err := writer.Create(t.Context(), api.CreateSession{})
		if err != nil {
			t.Fatal(err)
		}
		g.Go(func() error {
			for n := range each {
				got, err := writer.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, fmt.Sprint(n))}})
				if err != nil {
					return err
				}
				now, err := other.Session(t.Context(), s.ID)
				if err != nil {
					return err
				}
				if now.Head == nil || *now.Head != got.ID {
					return fmt.Errorf("the head is %v after %s was acknowledged", now.Head, got.ID)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, ok := d.engine.Reader.Acknowledged(""); !ok {
		t.Error("with all applied, the end of a chain is not known")
	}
}

func clientOf(t *testing.T, d *Daemon) *client.Client {
	t.Helper()
	nc, err := d.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return client.New(nc, "default", "main")
}

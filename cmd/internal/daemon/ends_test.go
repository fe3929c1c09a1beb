package daemon

import (
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// TestEndsOfChainsCoverWhatWasAcknowledged: whatever is added, applied and taken back by
// projections that are opened again, a position that is known covers its chain.
func TestEndsOfChainsCoverWhatWasAcknowledged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var last, applied uint64 = 7, 7
		acked := make(map[string]uint64)
		c := newChainEnds(func() uint64 { return applied }, last)
		check := func(subject string) {
			seq, ok := c.end(subject)
			switch {
			case ok && max(seq, applied) < acked[subject]:
				t.Fatalf("%s ends at %d for projections at %d, and %d was acknowledged", subject, seq, applied, acked[subject])
			case ok && seq > acked[subject]:
				t.Fatalf("%s ends at %d, and %d was the last acknowledged", subject, seq, acked[subject])
			case !ok && applied == last:
				t.Fatalf("the end of %s is not known where all is applied", subject)
			}
			if len(c.ends) > maxEnds {
				t.Fatalf("%d ends are held", len(c.ends))
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				subject := fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "chain"))
				last++
				acked[subject] = last
				c.add(subject, last)
				check(subject)
			},
			"append to many chains": func(t *rapid.T) {
				for n := range rapid.IntRange(maxEnds/3, maxEnds).Draw(t, "chains") {
					last++
					subject := fmt.Sprint(n)
					acked[subject] = last
					c.add(subject, last)
				}
			},
			"apply":  func(t *rapid.T) { applied = rapid.Uint64Range(applied, last).Draw(t, "applied") },
			"all":    func(*rapid.T) { applied = last },
			"reopen": func(t *rapid.T) { applied = rapid.Uint64Range(0, applied).Draw(t, "applied") },
			"":       func(t *rapid.T) { check(fmt.Sprint(rapid.IntRange(0, maxEnds).Draw(t, "chain"))) },
		})
	})
}

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

package storage

import (
	"context"
	"path/filepath"
	"time"

	"nexus/cmd/internal/daemon/folder"
	"nexus/ledger"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/mark"
	"nexus/turns"
)

// A daemon on a server of others whose log came back without records that it had appends no
// more, applies no more, answers reads from its projections, and names what is lost: in its log, in
// the file lost.json, in verify and at /readyz. It starts again once an operator has given
// those records up. Decision 87 has the states.

// lostTime bounds how long a daemon looks for what is lost.
const lostTime = 10 * time.Minute

// lostLines is how many lost records are lines of the daemon's log; the file has all.
const lostLines = 100

// cameBackShorter halts the daemon, or ends its start. It is called once.
func (s *Storage) cameBackShorter(why *jetstream.ShorterError) {
	defer close(s.lossKnown)
	loss := &folder.Loss{Ledger: s.Log.Ledger(), Time: time.Now().UTC(), Why: why.Why}
	s.Outage.Halt(&folder.LossError{Loss: loss})
	ctx, cancel := context.WithTimeout(context.Background(), lostTime)
	defer cancel()
	loss = s.findLost(ctx, loss, why.Place)
	s.Outage.Halt(&folder.LossError{Loss: loss})
	for _, r := range loss.Records {
		if r.Hash != (turns.Hash{}) {
			s.peers.tellLost(mark.Place{Seq: r.Seq, Sum: r.Hash})
			break
		}
	}
	for i, r := range loss.Records {
		if i == lostLines {
			s.logger.Error("and more, which the file names", "more", len(loss.Records)-i)
			break
		}
		s.logger.Error("lost", "position", r.Seq, "event", r.Event, "of", r.Chain, "tenant", r.Tenant, "hash", r.Hash, "replaced", r.Replaced)
	}
	file := filepath.Join(s.cfg.Data, folder.LostFile)
	s.logger.Error("the log came back without records that it had: appends are refused for good, reads go on from the projections", "why", why.Why, "lost", len(loss.Records), "file", file,
		"do", "ledgerctl export the sessions that lost turns, then stop all daemons of this ledger and run nexusd repair --nats URL --data DIR")
	if err := loss.Save(s.cfg.Data); err != nil {
		s.logger.Error("what is lost could not be written to its file", "err", err)
	}
	if !s.watched.Load() {
		s.fail(folder.WithLossRemedy(&folder.LossError{Loss: loss}))
	}
}

// findLost compares what this process knows with the log, from the position of a record that is
// lost: down to one that the log has, and up to the newest.
func (s *Storage) findLost(ctx context.Context, loss *folder.Loss, at mark.Place) *folder.Loss {
	out := *loss
	out.Records = nil
	look := func(seq uint64) (has, known bool) {
		r, ok := s.Log.Held(seq)
		if !ok && s.Projections != nil {
			stored, err := s.Projections.Record(seq)
			if r, ok = stored, err == nil; ok {
				r.Hash = turns.HashEvent(r.Payload)
			}
		}
		if !ok && seq == at.Seq && at.Sum != (turns.Hash{}) {
			r, ok = ledger.Record{Seq: seq, Hash: at.Sum}, true
		}
		if !ok {
			return false, false
		}
		place, err := s.Log.Find(ctx, seq)
		if err != nil {
			out.Unread++
			return false, true
		}
		if place.Sum == r.Hash {
			return true, true
		}
		lost := folder.DescribeLost(r)
		lost.Replaced = place.Seq != 0
		out.Records = append(out.Records, lost)
		return false, true
	}
	reached := s.Log.End()
	if s.Projections != nil {
		reached = max(reached, s.Projections.Applied().Seq)
	}
	from := at.Seq
	if from > reached { // another daemon names it, and nothing else is known up there
		look(from)
		from = reached
	}
	for seq := from; seq > 0; seq-- {
		if ctx.Err() != nil {
			out.Unread += seq
			break
		}
		if has, _ := look(seq); has {
			break
		}
	}
	for seq := from + 1; seq <= reached && seq != at.Seq; seq++ {
		if ctx.Err() != nil {
			out.Unread += reached - seq + 1
			break
		}
		look(seq)
	}
	out.Sort()
	return &out
}

// AwaitLoss returns once what the log has lost is named; at once if it has lost nothing.
func (s *Storage) AwaitLoss() {
	if s.Log != nil && s.Log.Lost() != nil {
		<-s.lossKnown
	}
}

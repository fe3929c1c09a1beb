package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"nexus/cmd/internal/daemon/folder"
	"nexus/cmd/internal/daemon/outage"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/disk"
	"nexus/ledger/jetstream/mark"
	"nexus/projections"
	"nexus/projections/db"
	"nexus/turns"
)

// OpenProjections opens the projections and replays what they lack, before the daemon
// serves or appends anything.
func (s *Storage) OpenProjections(ctx context.Context) (err error) {
	if s.Projections, err = s.openOrSetAside(ctx); err != nil {
		return err
	}
	s.opened(func(context.Context) error { return s.Projections.Close() })
	if err := s.confirmApplied(ctx); err != nil {
		return err
	}
	if err := s.Projections.Check(ctx, s.Log); err != nil {
		return err
	}
	st, err := s.Log.State(ctx)
	if err != nil {
		return err
	}
	s.follow(ctx)
	s.opened(func(context.Context) error { s.StopFollowing(); return nil })
	if n := st.Last - s.Projections.Applied().Seq; n > 10_000 {
		s.logger.Info("replaying the log into the projections", "records", n)
	}
	if err := s.Projections.WaitFor(ctx, st.Last); err != nil || s.server != nil {
		return err
	}
	stop, err := s.peers.start()
	if err != nil {
		return err
	}
	s.opened(stop)
	return nil
}

// startCompared is how many of the newest records that the projections applied are compared at a
// start with the log of a server of others.
const startCompared = 1024

// confirmApplied returns once the log is found to have the newest records that the projections
// have applied.
func (s *Storage) confirmApplied(ctx context.Context) error {
	last := s.Projections.Applied().Seq
	s.Log.Reached(last)
	if s.server != nil {
		return nil // its mark says more
	}
	for seq := max(last, startCompared) - startCompared + 1; seq <= last; seq++ {
		r, err := s.Projections.Record(seq)
		if err != nil {
			return err
		}
		s.Log.Knows(mark.Place{Seq: seq, Sum: turns.HashEvent(r.Payload)})
	}
	return s.Log.Confirm(ctx)
}

// openOrSetAside opens the projections. Damaged ones are set aside, in a folder that
// the next damaged ones replace, and made again from the log. Before that the whole log is
// read: where it is damaged too, the projections are its other copy and stay as they are.
func (s *Storage) openOrSetAside(ctx context.Context) (*projections.Store, error) {
	uid, err := s.LedgerID()
	if err != nil {
		return nil, err
	}
	c := projections.Config{Dir: filepath.Join(s.cfg.Data, folder.ProjectionsDir), Logger: s.logger, Ledger: turns.ID(uid)}
	store, err := projections.Open(c)
	if damaged := (*db.DamagedError)(nil); !errors.As(err, &damaged) {
		return store, err
	}
	if err := s.setAside(ctx, err); err != nil {
		return nil, err
	}
	return projections.Open(c)
}

// setAside moves the damaged projections away. They stay if the log is damaged, too.
func (s *Storage) setAside(ctx context.Context, damage error) error {
	if s.server != nil {
		broken, err := disk.Scrub(ctx, s.cfg.Data, jetstream.StreamName, s.Mark.Mark().Log.Seq, func(int64) error { return ctx.Err() })
		if err != nil {
			return err
		}
		if broken != nil {
			return fmt.Errorf("%w; and %w", broken, damage)
		}
	}
	dir := filepath.Join(s.cfg.Data, folder.ProjectionsDir)
	aside := dir + ".damaged"
	s.logger.Error("the projections are damaged; they are made again from the log", "err", damage, "aside", aside)
	return errors.Join(os.RemoveAll(aside), os.Rename(dir, aside))
}

// reopenProjections opens the projections, if they failed. What is damaged is set aside, and
// what has applied records that the log has lost is emptied: they were never
// acknowledged. Both are made again from the log; reads are refused until then.
func (s *Storage) reopenProjections(ctx context.Context) error {
	err := s.Projections.Reopen()
	if damaged := (*db.DamagedError)(nil); errors.As(err, &damaged) {
		s.Outage.CloseReads(fmt.Errorf("%w: the projections are made again from the log", outage.ErrStale))
		if err = s.setAside(ctx, err); err == nil {
			err = s.Projections.Reopen()
		}
	}
	if err != nil {
		return err
	}
	err = s.Projections.Check(ctx, s.Log)
	if diverged := (*projections.DivergedError)(nil); errors.As(err, &diverged) && s.server != nil && diverged.Log.Identity == diverged.Have.Identity {
		s.Outage.CloseReads(fmt.Errorf("%w: the projections are made again from the log", outage.ErrStale))
		s.logger.Warn("the projections have applied records that were not acknowledged and are gone; they are made again from the log", "err", err)
		err = s.Projections.Clear()
	}
	return err
}

// follow makes the projections follow the log.
func (s *Storage) follow(ctx context.Context) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	s.stopRun = func() { stop(); <-ended }
	go func() {
		defer close(ended)
		err := s.Projections.Run(running, s.Log)
		damaged := (*db.DamagedError)(nil)
		switch {
		case err == nil:
		case s.Log.Lost() != nil: // the daemon is halted, or its start ends
		case s.watched.Load() && (s.Projections.Fault() != nil || s.Outage.Active() != nil) && !errors.As(err, &damaged):
			s.Outage.Fail(err) // its own, or the log failed under it: reopen starts it again
		default:
			s.logger.Error("projections stopped", "err", err)
			s.fail(err)
		}
	}()
}

// StopFollowing ends that. The projections stay as they are.
func (s *Storage) StopFollowing() { s.stopRun() }

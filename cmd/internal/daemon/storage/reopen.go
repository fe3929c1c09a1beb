package storage

import (
	"context"
	"errors"

	"nexus/ledger/jetstream/disk"
)

// Reopen opens what is open on a disk that failed again, as a start does: the streams
// are closed, looked at and opened, then the projections. The server's connections and
// clients stay. Then it ends the outage, unless a write failed since there were that many
// failures.
//
// Crash states: those of a start. If it did not end the outage, Reopen can be called again. Until
// then the log is paused and the projections follow nothing, as before the first call.
func (s *Storage) Reopen(ctx context.Context, failures uint64) (ended bool, err error) {
	defer func() {
		if ended {
			return
		}
		why := s.Outage.Active()
		s.Projections.Hold(why)
		s.StopFollowing()
		s.Log.Pause(why)
	}()
	s.StopFollowing()
	if s.server != nil {
		if err := s.reopenStreams(ctx); err != nil {
			return false, err
		}
	}
	if s.server == nil {
		s.Log.Resume()
	}
	if err := s.reopenProjections(ctx); err != nil {
		return false, err
	}
	st, err := s.Log.State(ctx)
	if err != nil {
		return false, err
	}
	s.Projections.Hold(nil)
	s.follow(ctx)
	if err := s.Projections.WaitFor(ctx, st.Last); err != nil {
		return false, err
	}
	s.forget()
	return s.Outage.End(failures), nil
}

// reopenStreams closes the streams, compares their files with what was acknowledged, and
// opens them.
func (s *Storage) reopenStreams(ctx context.Context) error {
	s.collecting.Lock()
	defer s.collecting.Unlock()
	if err := errors.Join(s.closeSyncs(ctx), s.server.StopStreams()); err != nil {
		return err
	}
	if err := disk.Rewrite(s.cfg.Data); err != nil {
		return err
	}
	m := s.Mark.Mark()
	m.Closed = nil
	// What the failed fsync covered is gone or torn, above the mark of this process, which is
	// exact: nothing of it was acknowledged.
	found, err := disk.Inspect(ctx, s.cfg.Data, m, true)
	if err != nil {
		return err
	}
	if err := s.removeUnfinished(found, m, true); err != nil {
		return err
	}
	wrong, err := disk.InspectCopy(ctx, s.cfg.Data, m.BlobStream)
	if err != nil {
		return err
	}
	if wrong != "" {
		s.logger.Warn("the second copy of the blobs was damaged; it is made again", "damage", wrong)
	}
	s.Mark.Acked(found.Mark.Log, found.Mark.Blobs) // it is durable now, whoever was answered
	if err := s.Mark.Restore(ctx); err != nil {
		return err
	}
	s.Log.Resume() // nothing is acknowledged before reopenSyncs
	if err := s.server.StartStreams(); err != nil {
		return err
	}
	if err := s.reopenSyncs(); err != nil {
		return err
	}
	return s.reaches(ctx)
}

package storage

import (
	"context"
	"errors"
	"fmt"

	"nexus/cmd/internal/daemon/folder"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/groupsync"
)

// groupSync returns what syncs a stream's files from now on.
func (s *Storage) groupSync(stream string) (*groupsync.Stream, error) {
	f, err := groupsync.Open(groupsync.Config{Dir: embed.StreamDir(s.cfg.Data, stream), Top: s.cfg.Data, Failed: func(err error) {
		s.DiskFailed(fmt.Errorf("%w: %w", embed.ErrDisk, err))
	}})
	if err != nil {
		return nil, err
	}
	s.syncing.Lock()
	defer s.syncing.Unlock()
	if old := s.syncs[stream]; old != nil { // of a collection that failed
		s.fsyncs += old.Syncs()
		err = old.Close()
	}
	s.syncs[stream] = f
	return f, err
}

// closeSyncs ends what waits for a fsync.
func (s *Storage) closeSyncs(context.Context) error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	var errs []error
	for _, f := range s.syncs {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// reopenSyncs begins to sync the streams of the mark again, whose files may be others.
func (s *Storage) reopenSyncs() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	for _, stream := range folder.Streams(s.Mark.Mark()) {
		if err := s.syncs[stream].Reopen(); err != nil {
			return err
		}
	}
	return nil
}

// Fsyncs counts the fsyncs of the log and the blobs since the start; 0 on an external
// server, which does its own. The mark has up to two a second besides.
func (s *Storage) Fsyncs() (n uint64) {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	n = s.fsyncs
	for _, f := range s.syncs {
		n += f.Syncs()
	}
	return n
}

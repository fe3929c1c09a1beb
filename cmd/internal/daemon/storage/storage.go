package storage

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/daemon/folder"
	"nexus/cmd/internal/daemon/outage"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/groupsync"
	"nexus/ledger/jetstream/mark"
	"nexus/projections"
	"nexus/turns"
)

// Config says what a storage is of, and whom it tells.
type Config struct {
	config.Config
	// Opened takes what is to be done at the end, in the order of opening.
	Opened func(func(context.Context) error)
	// Run runs a function beside requests, until what was opened before it is closed.
	Run func(func(context.Context))
	// Fail ends the daemon, or its start.
	Fail func(error)
}

// Storage is the ledger of a data folder while a daemon has it open. The steps of a start are
// methods, in this order: StartServer (not with a server of others), OpenLog, OpenProjections,
// Register, OpenKeys, StartScrub and StartCollector, StartWatch.
type Storage struct {
	Log         *jetstream.Log     // nil before OpenLog
	Projections *projections.Store // nil before OpenProjections
	Outage      *outage.Outage
	Mark        *mark.Keeper // of what was acknowledged; nil on an external server

	cfg        config.Config
	logger     *slog.Logger
	opened     func(func(context.Context) error)
	run        func(func(context.Context))
	fail       func(error)
	server     *embed.Server   // nil on an external server
	identity   folder.Identity // of the data folder, with the embedded server
	scrubber   *scrubber       // nil on an external server
	collector  *collector      // nil on an external server
	collecting sync.Mutex      // held by a collection of blobs, and by what opens the streams again
	syncing    sync.Mutex
	syncs      map[string]*groupsync.Stream // by stream; guarded by syncing; empty on an external server
	fsyncs     uint64                       // of those that were replaced; guarded by syncing
	peers      *peers                       // the other daemons of the ledger; nil with the embedded server
	lossKnown  chan struct{}                // closed once what the log has lost is named
	watched    atomic.Bool                  // an outage does not end the daemon
	unkeyed    atomic.Int64                 // sessions whose key was missing or damaged at the start
	forget     func()                       // what is known of the ends of chains, after an outage
	stopRun    func()                       // ends the projections' Run; used by the start, the watch and the end, one after the other
}

// New returns a storage that has opened nothing yet.
func New(c Config) *Storage {
	return &Storage{cfg: c.Config, logger: c.Logger, opened: c.Opened, run: c.Run, fail: c.Fail, Outage: outage.New(c.Logger),
		syncs: make(map[string]*groupsync.Stream), lossKnown: make(chan struct{})}
}

// StartServer starts the embedded server on the files of the data folder, once they are found to
// hold what was acknowledged. c says who may connect.
func (s *Storage) StartServer(ctx context.Context, c embed.Config) (_ *embed.Server, err error) {
	c.DataDir, c.MaxStore, c.NoSync, c.Logger = s.cfg.Data, s.cfg.MaxStore, true, s.logger
	c.Failed, c.BeforeStart, c.AfterStop = s.DiskFailed, func() error { return s.inspect(ctx) }, s.closeMark
	s.server, err = embed.Start(c)
	return s.server, err
}

// OpenLog opens the log on a connection that owns its streams, and creates the streams of a folder
// that is not ready yet.
func (s *Storage) OpenLog(ctx context.Context, nc *nats.Conn) error {
	stream, err := js.New(nc)
	if err != nil {
		return err
	}
	c := jetstream.Config{Replicas: s.cfg.Replicas, Create: s.cfg.Create}
	var id folder.Identity
	if s.server != nil {
		id = s.identity
		c.Ledger, c.Create, c.Acked, c.CopyBlobs, c.GroupSync = id.Ledger, !id.Ready, s.Mark.Acked, true, s.groupSync
		c.BlobStream = s.Mark.Mark().BlobStream
	} else {
		if err := folder.RefuseLoss(s.cfg.Data); err != nil {
			return err
		}
		if c.Create {
			c.Ledger = uuid.NewString()
		}
		accepted, err := folder.AcceptedLosses(s.cfg.Data)
		if err != nil {
			return err
		}
		s.peers = newPeers(nc, accepted)
		c.Confirm, c.Others, c.Lost = true, s.peers.ask, s.cameBackShorter
	}
	s.opened(s.closeSyncs)
	if s.Log, err = jetstream.Open(ctx, stream, c); err != nil {
		return err
	}
	s.Outage.Pauses(s.Log)
	if s.server == nil {
		s.Log.Probe(ctx)
		s.peers.of(s.Log)
		return nil
	}
	if s.Log.Ledger() != id.Ledger {
		return fmt.Errorf("%w: the stream belongs to ledger %s, the data folder to %s", turns.ErrCorrupt, s.Log.Ledger(), id.Ledger)
	}
	if err := s.reaches(ctx); err != nil {
		return err
	}
	s.Mark.SetServer(embed.ServerVersion)
	if !id.Ready || !id.Marked || id.Server != embed.ServerVersion {
		id.Ready, id.Marked, id.Server = true, true, embed.ServerVersion
		return folder.SaveIdentity(s.cfg.Data, id)
	}
	return nil
}

// LedgerID returns the id of the ledger that the stream belongs to.
func (s *Storage) LedgerID() (uuid.UUID, error) {
	uid, err := uuid.Parse(s.Log.Ledger())
	if err != nil {
		return uid, fmt.Errorf("%w: the stream names no ledger: %w", turns.ErrCorrupt, err)
	}
	return uid, nil
}

// Began says how often the log of hashes began anew; see [folder.Identity].
func (s *Storage) Began() int { return s.identity.Began }

// Sound returns why nothing is stored: the log has lost records, the disk takes no writes, or what
// is stored is damaged. Nil: none of it is known.
func (s *Storage) Sound() error {
	if lost := s.Outage.Halted(); lost != nil {
		return lost
	}
	if why := s.Outage.Active(); why != nil {
		return why
	}
	if s.scrubber != nil {
		if damaged := s.scrubber.damaged.Load(); damaged != nil {
			return damaged
		}
	}
	return nil
}

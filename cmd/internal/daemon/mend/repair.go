package mend

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"nexus/cmd/internal/checkpoint"
	"nexus/cmd/internal/daemon/folder"
	"nexus/ledger"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/disk"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/mark"
	"nexus/ledger/tlog"
	"nexus/projections"
	"nexus/turns"
)

// RepairConfig says what [Repair] repairs.
type RepairConfig struct {
	Data   string // data folder
	Logger *slog.Logger
	// AcceptLoss lets the repair give up the positions of which no copy is sound.
	AcceptLoss bool
}

// Repaired is what [Repair] did.
type Repaired struct {
	Streams []disk.Repaired
	// Identity says that ledger.json was written again, from the stream's metadata.
	Identity bool
	Aside    string // folder with the damaged files; "" if there were none
	Mark     mark.Mark
	// NewLog is why the next start begins a new log of hashes, under another origin and key. "" if the log
	// continues what was signed, or AcceptLoss was not set. Signed is the newest note of the old one; "" if it can't be read.
	NewLog, Signed string
	// Unsigned is why the next start signs no checkpoints, where AcceptLoss was not set and would begin a new log.
	Unsigned string
}

// Repair writes the damaged files of a data folder again: the records of the log from
// the copies in the projections, the blobs from their second stream. No daemon may run on it. The damaged files are kept
// in a folder of their own. Where no copy is sound, the result names each position and
// the error is a [*disk.LossError]; nothing is changed then, unless AcceptLoss is set.
//
// Errors: [embed.ErrLocked]; [*disk.LossError]; [*disk.DamagedError] if something is
// still wrong after the repair; those of the file system.
func Repair(ctx context.Context, c RepairConfig) (out Repaired, err error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if _, err := os.Stat(filepath.Join(c.Data, "jetstream")); errors.Is(err, fs.ErrNotExist) {
		return out, fmt.Errorf("%w: there is no ledger in %s", ledger.ErrNotFound, c.Data)
	}
	lock, err := embed.Lock(c.Data)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := folder.CheckRestored(c.Data); err != nil {
		return out, err
	}
	m, _, err := mark.Load(filepath.Join(c.Data, folder.MarkFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, turns.ErrCorrupt) {
		return out, err
	}
	if err != nil {
		c.Logger.Warn("there is no mark of what was acknowledged; the projections tell how far the log reached", "err", err)
		if m.BlobStream, err = disk.BlobStream(c.Data); err != nil {
			return out, err
		}
	}
	id, err := folder.LoadIdentity(c.Data)
	if streamOf := disk.Ledger(c.Data); err != nil || id.Ledger != m.Ledger && m.Ledger == streamOf {
		if streamOf == "" || m.Ledger != "" && m.Ledger != streamOf {
			return out, errors.Join(err, fmt.Errorf("%w: %s says ledger %q, %s %q, the stream %q", turns.ErrCorrupt, folder.IdentityFile, id.Ledger, folder.MarkFile, m.Ledger, streamOf))
		}
		out.Identity = true
		id = folder.Identity{Ledger: streamOf, Ready: true, Marked: true}
		if err := folder.SaveIdentity(c.Data, id); err != nil {
			return out, err
		}
	}
	m.Ledger = id.Ledger
	if wrote := folder.WrittenBy(id, m); wrote != "" && wrote != embed.ServerVersion {
		return out, fmt.Errorf("%w: the streams were written by nats-server %s, this nexusd repairs those of %s: run the nexusd that wrote them", turns.ErrUnsupported, wrote, embed.ServerVersion)
	}
	r := disk.RepairConfig{Data: c.Data, Mark: m, AcceptLoss: c.AcceptLoss, Aside: filepath.Join(c.Data, "repair-"+time.Now().UTC().Format("20060102T150405.000Z"))}
	store, err := projections.Open(projections.Config{Dir: filepath.Join(c.Data, folder.ProjectionsDir), Logger: c.Logger, ReadOnly: true})
	if err != nil {
		c.Logger.Warn("the projections can't be opened; the log has no other copy", "err", err)
	} else {
		defer func() { err = errors.Join(err, store.Close()) }()
		r.Log, r.LogLast = copyOf(store), store.Applied().Seq
		r.Leaf = func(seq uint64) turns.Hash {
			h, err := store.TreeHashes().Hashes(0, seq-1, 1)
			if err != nil {
				return turns.Hash{}
			}
			return h[0]
		}
	}
	if _, err := os.Stat(embed.StreamDir(c.Data, jetstream.CopyStream(m.BlobStream))); err == nil {
		r.Blobs = disk.StreamCopy(c.Data, jetstream.CopyStream(m.BlobStream))
	}
	if out.Streams, err = disk.Repair(ctx, r); err != nil {
		return out, err
	}
	if _, err := os.Stat(r.Aside); err == nil {
		out.Aside = r.Aside
	}
	wentDown := m.WentDown()
	m.Closed = nil // all is read again
	found, err := disk.Inspect(ctx, c.Data, m, wentDown)
	if err != nil {
		return out, fmt.Errorf("after the repair: %w", err)
	}
	out.Mark = found.Mark
	if err := folder.SyncStreams(c.Data, found.Mark); err != nil {
		return out, err
	}
	k, err := mark.Open(filepath.Join(c.Data, folder.MarkFile), found.Mark, func(error) {})
	if err != nil {
		return out, err
	}
	if err := k.Close(nil); err != nil {
		return out, err
	}
	if !id.Marked {
		id.Marked = true
		if err := folder.SaveIdentity(c.Data, id); err != nil {
			return out, err
		}
	}
	note, why, err := notContinued(ctx, c.Data)
	if err != nil || why == "" {
		return out, err
	}
	if !c.AcceptLoss {
		out.Unsigned = why
		return out, nil
	}
	out.NewLog, out.Signed = why, string(note)
	return out, beginLog(c, id, why)
}

// notContinued says why the log does not continue the newest note of the folder, "" if it does.
func notContinued(ctx context.Context, data string) (note []byte, why string, err error) {
	note, why, err = checkpoint.Broken(data)
	if err != nil || why != "" || note == nil {
		return note, why, err
	}
	signed, err := tlog.ReadCheckpoint(note)
	if err != nil {
		return nil, "", err
	}
	tree := tlog.Frontier{}
	for rec, err := range blocks.Records(ctx, embed.StreamDir(data, jetstream.StreamName), 0) {
		if err != nil {
			return nil, "", err
		}
		if tree.Size() == signed.Size {
			break
		}
		if err := tree.AppendLeaf(tlog.Leaf(rec.Seq, rec.Payload), func(int, uint64, turns.Hash) error { return nil }); err != nil {
			return nil, "", err
		}
	}
	if tree.Size() == signed.Size && tree.Root() == signed.Root {
		return note, "", nil
	}
	return note, fmt.Sprintf("the log does not continue what was signed: %d events were, it has %d of them, or others", signed.Size, tree.Size()), nil
}

// beginLog begins a new log of hashes.
//
// Crash states: the origin is another one before the key and the notes are put aside; a start in between signs
// nothing, and the next repair goes on: the key is of another origin then.
func beginLog(c RepairConfig, id folder.Identity, why string) error {
	id.Began++
	if err := folder.SaveIdentity(c.Data, id); err != nil {
		return err
	}
	if err := checkpoint.Retire(c.Data, time.Now().UTC().Format("20060102T150405.000Z")); err != nil {
		return err
	}
	c.Logger.Warn("a new log of hashes begins, under another origin. Whoever kept a checkpoint is told so", "why", why)
	return nil
}

// copyOf returns the records that the projections hold.
func copyOf(store *projections.Store) disk.Copy {
	return func(_ context.Context, seq uint64) (blocks.Record, error) {
		r, err := store.Record(seq)
		if err != nil {
			return blocks.Record{}, err
		}
		return blocks.Record{Subject: r.Subject, Header: jetstream.LogHeader(r.Payload), Payload: r.Payload}, nil
	}
}

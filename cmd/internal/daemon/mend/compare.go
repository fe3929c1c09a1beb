package mend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/daemon/folder"
	"nexus/ledger"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/mark"
	"nexus/projections"
	"nexus/turns"
)

// CompareConfig says what [CompareLog] compares.
type CompareConfig struct {
	Data   string // data folder of a daemon that uses a server of others
	NATS   string // URLs of that server
	Logger *slog.Logger
	// AcceptLoss sets the projections aside if the log has lost records, so that the next start
	// makes them from the log as it is.
	AcceptLoss bool
}

// Compared is what [CompareLog] found.
type Compared struct {
	Loss    *folder.Loss // Records is empty if nothing is lost
	Applied uint64       // newest position that the folder knows
	Last    uint64       // where the log ends
	Aside   string       // folder with what was set aside; "": nothing was
	// Stale says that the file of the loss names records that the log has: with AcceptLoss it was
	// removed.
	Stale bool
}

// CompareLog compares every record that the projections of a data folder have with the log, and
// names those that the log has lost. No daemon may run on the folder. Without AcceptLoss it
// changes nothing, and a loss is a [*folder.LossError].
//
// Crash states: projections and search index are moved away first, the file of the loss last. Until
// that is gone no daemon starts, and another run goes on.
//
// Errors: [embed.ErrLocked]; [ledger.ErrCorrupt] for a log of another ledger; [ledger.ErrUnavailable].
func CompareLog(ctx context.Context, c CompareConfig) (out Compared, err error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	lock, err := embed.Lock(c.Data)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	known, err := folder.LoadLoss(c.Data)
	if err != nil {
		return out, err
	}
	nc, err := nats.Connect(c.NATS, nats.Name("nexusd repair"))
	if err != nil {
		return out, fmt.Errorf("%w: connect to %s: %w", ledger.ErrUnavailable, config.WithoutUser(c.NATS), err)
	}
	defer nc.Close()
	stream, err := js.New(nc)
	if err != nil {
		return out, err
	}
	log, err := jetstream.Open(ctx, stream, jetstream.Config{})
	if err != nil {
		return out, err
	}
	out.Loss = &folder.Loss{Ledger: log.Ledger(), Time: time.Now().UTC(), Why: "compared by nexusd repair"}
	if known != nil {
		if known.Ledger != log.Ledger() {
			return out, fmt.Errorf("%w: %s is of ledger %s, the log of %s", ledger.ErrCorrupt, folder.LostFile, known.Ledger, log.Ledger())
		}
		out.Loss.Time, out.Loss.Why = known.Time, known.Why
	}
	st, err := log.State(ctx)
	if err != nil {
		return out, err
	}
	out.Last = st.Last
	if _, err := os.Stat(filepath.Join(c.Data, folder.ProjectionsDir)); err == nil {
		if err := out.compare(ctx, log, filepath.Join(c.Data, folder.ProjectionsDir), c.Logger); err != nil {
			return out, err
		}
	}
	if known != nil {
		if err := out.addMissing(ctx, log, known.Records); err != nil {
			return out, err
		}
	}
	switch {
	case len(out.Loss.Records) == 0 && known == nil:
		return out, nil
	case len(out.Loss.Records) == 0:
		out.Stale = true
		if c.AcceptLoss {
			return out, os.Remove(filepath.Join(c.Data, folder.LostFile))
		}
		return out, nil
	case !c.AcceptLoss:
		return out, &folder.LossError{Loss: out.Loss}
	}
	if err := out.Loss.Save(c.Data); err != nil { // before anything moves: it refuses a start
		return out, err
	}
	out.Aside = filepath.Join(c.Data, folder.LostAside+time.Now().UTC().Format("20060102T150405.000Z"))
	return out, setLossAside(c.Data, out.Aside, out.Loss)
}

// compare compares the records of the projections in dir with the log.
func (out *Compared) compare(ctx context.Context, log *jetstream.Log, dir string, logger *slog.Logger) (err error) {
	store, err := projections.Open(projections.Config{Dir: dir, Logger: logger, ReadOnly: true})
	if err != nil {
		return fmt.Errorf("the projections, which are the other copy of the log: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	out.Applied = store.Applied().Seq
	next := uint64(1)
	lost := func(replaced bool) error {
		r, err := store.Record(next)
		if err != nil {
			return err
		}
		r.Hash = turns.HashEvent(r.Payload)
		x := folder.DescribeLost(r)
		x.Replaced = replaced
		out.Loss.Records = append(out.Loss.Records, x)
		return nil
	}
	if out.Last > 0 {
		for on, err := range log.Read(ctx, 1, false) {
			if err != nil {
				return err
			}
			if next > out.Applied {
				break
			}
			r, err := store.Record(next)
			if err != nil {
				return err
			}
			if turns.HashEvent(r.Payload) != turns.HashEvent(on.Payload) { // whatever stands beside it
				if err := lost(true); err != nil {
					return err
				}
			}
			next++
		}
	}
	for ; next <= out.Applied; next++ {
		if err := errors.Join(lost(false), ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// addMissing adds the records of the file of the loss that the projections had not applied, and that the
// log does not have.
func (out *Compared) addMissing(ctx context.Context, log *jetstream.Log, records []folder.LostRecord) error {
	for _, r := range records {
		if r.Seq <= out.Applied { // it was compared
			continue
		}
		on, err := log.Find(ctx, r.Seq)
		if err != nil {
			return err
		}
		if r.Hash == (turns.Hash{}) || on.Sum != r.Hash {
			out.Loss.Records = append(out.Loss.Records, r)
		}
	}
	out.Loss.Sort()
	return nil
}

// setLossAside moves what a folder has of another history than the log's into another one, and
// writes there what is lost.
func setLossAside(data, aside string, loss *folder.Loss) error {
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return err
	}
	if err := loss.Save(aside); err != nil {
		return err
	}
	for _, name := range []string{folder.ProjectionsDir, folder.SearchDir} {
		if err := os.Rename(filepath.Join(data, name), filepath.Join(aside, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := mark.SyncDir(data); err != nil { // the renames go before the file's end
		return err
	}
	if err := os.Remove(filepath.Join(data, folder.LostFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

package mend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	js "github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"nexus/cmd/internal/daemon/folder"
	"nexus/cmd/internal/wholefile"
	"nexus/ledger"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/backup"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/disk"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/mark"
	"nexus/turns"
	"nexus/turns/seal/keyring"
)

// RestoreConfig says what [Restore] restores.
type RestoreConfig struct {
	File string // the backup
	Keys string // the file of its content keys; "" for a ledger that does not seal
	Data string // folder that is empty or missing, or in which a restore did not end
	// AcceptIncomplete restores what is sound of a file that is damaged or incomplete. A record that
	// says "lost" takes the place of each other one, as a repair with AcceptLoss stores it.
	AcceptIncomplete bool
	// AcceptMissingKeys restores also if Keys lacks keys that events name.
	AcceptMissingKeys bool
	Logger            *slog.Logger
	Progress          func(bytes int) // called with the bytes of the backup that were read; nil: nobody is told
}

// Restored is what [Restore] did.
type Restored struct {
	backup.Report
	Data        string `json:"data"`
	KeysStored  int    `json:"keys_stored"`
	KeysErased  int    `json:"keys_erased"`
	KeysMissing int    `json:"keys_missing"` // that events name: their content can't be read
	// Missing is the ids of these keys: those of sessions, agents and the ledger. A start goes on without them.
	Missing []turns.ID `json:"missing,omitempty"`
	// ErasuresFrom is the file with the newest erasure that was found beside the backup or its keys; "" for none.
	// Erased counts the keys that it, or another one there, says were destroyed since the keys were backed up.
	ErasuresFrom string `json:"erasures_from,omitempty"`
	Erased       int    `json:"erased_since"`
}

// Text says what was restored, for a person.
func (r *Restored) Text() string {
	t := r.Totals
	s := fmt.Sprintf("restored: the log reaches %d, the blobs reach %d; %d content keys; %s\n", t.Log.Seq, t.Blobs.Seq, r.KeysStored, r.Digest)
	if r.Salvage != nil {
		s += fmt.Sprintf("the backup is %s: %s\n%s", r.State, r.Problem, r.Salvage.Text())
	} else if t.Lost+t.Broken > 0 {
		s += fmt.Sprintf("the ledger was backed up without %d events, and %d that follow them\n", t.Lost, t.Broken)
	}
	if r.KeysErased+r.KeysMissing > 0 {
		s += fmt.Sprintf("content keys that were destroyed: %d; that are missing: %d\n", r.KeysErased, r.KeysMissing)
	}
	if n := len(r.Missing); n > 0 {
		s += "can't be read, since the key is missing:"
		for _, id := range r.Missing[:min(n, namedKeys)] {
			s += " " + id.String()
		}
		if n > namedKeys {
			s += fmt.Sprintf(" and %d more", n-namedKeys)
		}
		s += fmt.Sprintf(" (all in %s); nexusd keys puts keys back\n", filepath.Join(r.Data, folder.MissingFile))
	}
	switch {
	case r.ErasuresFrom == "":
		s += "no list of erasures lies beside the backup: a session that was erased since can be read again\n"
	case r.Erased > 0:
		s += fmt.Sprintf("erased since this backup, and erased here too: %d (%s)\n", r.Erased, r.ErasuresFrom)
	default:
		s += fmt.Sprintf("the newest list of erasures is %s: it names nothing that the keys have\n", r.ErasuresFrom)
	}
	return s
}

// namedKeys is how many of the missing keys the text names.
const namedKeys = 10

// Restore makes a data folder of a backup. The records have the bytes, positions and times
// that they had, and the ledger its UUID. The streams are new ones, created now: so
// projections, marks and backups of the original are refused as another ledger's.
//
// Everything is checked on the way, and the files are read back before the folder is
// ready. Crash states: the file "restoring" is there until then, no daemon starts, and
// the next Restore begins again. After an error it is the same. The list of the keys that are
// missing is written before, so that a folder which starts has it.
//
// Errors: [ledger.ErrConflict]: the folder holds something else, or keys are missing; [ledger.ErrCorrupt]: the
// backup or its keys are damaged or incomplete; [ledger.ErrMalformed]: keys are needed;
// [ledger.ErrUnsupported]: it is no backup; [embed.ErrLocked]; those of the file system.
func Restore(ctx context.Context, c RestoreConfig) (out Restored, err error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	out.Data = c.Data
	f, err := os.Open(c.File)
	if err != nil {
		return out, fmt.Errorf("%w: %w", ledger.ErrNotFound, err)
	}
	defer f.Close()
	var keys backup.Keys
	if c.Keys != "" {
		if keys, err = backup.ReadKeys(c.Keys); err != nil {
			return out, err
		}
	}
	begin, plan, err := c.prepare(ctx, f, keys)
	if err != nil {
		return out, err
	}
	erased, err := c.erase(begin.Ledger, &keys, &out)
	if err != nil {
		return out, err
	}
	if err := c.createStreams(ctx, begin.Ledger); err != nil {
		return out, fmt.Errorf("create the streams: %w", err)
	}
	lock, err := embed.Lock(c.Data)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	var named *backup.Checker
	if out.Report, named, err = c.writeStreams(ctx, f, plan); err != nil {
		return out, err
	}
	if err := out.Report.Err(); err != nil && plan == nil {
		return out, fmt.Errorf("%w. ledgerctl backup verify says what of it is sound; --accept-incomplete restores that", err)
	}
	if err := c.countMissing(keys, named, &out); err != nil {
		return out, err
	}
	if err := c.storeKeys(ctx, keys, &out); err != nil {
		return out, err
	}
	if len(erased.Rows) > 0 { // the first start stores the events that the log lacks
		b, err := erased.Encode(nil)
		if err == nil {
			err = wholefile.Write(filepath.Join(c.Data, folder.ErasuresFile), 0o600, wholefile.Bytes(b))
		}
		if err != nil {
			return out, err
		}
	}
	return out, c.finish(ctx, begin, &out)
}

// prepare returns how the backup begins, and what can be restored of one that is not
// complete, if that is accepted. Nothing is written before the backup is known to be one.
func (c RestoreConfig) prepare(ctx context.Context, f *os.File, keys backup.Keys) (begin backup.Begin, plan *backup.Plan, err error) {
	info, err := f.Stat()
	if err != nil {
		return begin, nil, err
	}
	if c.AcceptIncomplete {
		if plan, _, err = backup.ReadDamaged(ctx, f, info.Size(), nil, nil); err != nil {
			return begin, nil, fmt.Errorf("%s: %w", c.File, err)
		}
		switch {
		case plan.State() == backup.Complete:
			plan = nil
		case plan.Bytes == 0:
			return begin, nil, fmt.Errorf("%w: the backup is %s: nothing of %s can be restored", ledger.ErrCorrupt, plan.State(), c.File)
		}
	}
	if plan == nil {
		begin, err = backup.ReadBegin(io.NewSectionReader(f, 0, info.Size()))
	} else if begin = plan.Begin; begin.Ledger == "" { // no sound frame says it
		begin.Ledger = keys.Ledger
	}
	if err != nil {
		return begin, nil, fmt.Errorf("%s: %w", c.File, err)
	}
	if _, err := uuid.Parse(begin.Ledger); err != nil {
		return begin, nil, fmt.Errorf("%w: %s: its ledger is no UUID", ledger.ErrCorrupt, c.File)
	}
	switch {
	case begin.Sealed && c.Keys == "":
		return begin, nil, needsKeys(c.File)
	case c.Keys != "" && keys.Ledger != begin.Ledger:
		return begin, nil, fmt.Errorf("%w: %s holds the keys of ledger %s, the backup is of %s", ledger.ErrConflict, c.Keys, keys.Ledger, begin.Ledger)
	}
	return begin, plan, nil
}

// claim empties the folder of what an earlier restore left there, and writes the file that
// refuses a start. The folder is locked.
func (c RestoreConfig) claim() error {
	entries, err := os.ReadDir(c.Data)
	if err != nil {
		return err
	}
	began := folder.CheckRestored(c.Data) != nil
	for _, e := range entries {
		switch name := e.Name(); {
		case name == "lock", name == "lost+found", name == folder.RestoringFile, name == folder.RestoringFile+".tmp":
		case !began:
			return fmt.Errorf("%w: %s is not empty (%s): a ledger is restored into a folder of its own", ledger.ErrConflict, c.Data, name)
		}
	}
	if err := wholefile.Write(filepath.Join(c.Data, folder.RestoringFile), 0o600, wholefile.Bytes([]byte("a restore began here and did not end\n"))); err != nil {
		return err
	}
	for _, e := range entries {
		switch name := e.Name(); name {
		case "lock", "lost+found", folder.RestoringFile:
		default:
			if err := os.RemoveAll(filepath.Join(c.Data, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// createStreams lets the server make the streams, empty, with the configuration that it
// gives them.
func (c RestoreConfig) createStreams(ctx context.Context, id string) (err error) {
	server, err := embed.Start(embed.Config{DataDir: c.Data, NoSync: true, MaxStore: 1 << 50, Logger: c.Logger, BeforeStart: c.claim})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	nc, err := server.LedgerConn()
	if err != nil {
		return err
	}
	defer nc.Close()
	api, err := js.New(nc)
	if err != nil {
		return err
	}
	_, err = jetstream.Open(ctx, api, jetstream.Config{Create: true, Ledger: id})
	return err
}

// writeStreams writes the records of the backup into block files: all of them, or those of a plan.
func (c RestoreConfig) writeStreams(ctx context.Context, f *os.File, plan *backup.Plan) (report backup.Report, named *backup.Checker, err error) {
	if err := disk.KeepMeta(c.Data, 0); err != nil {
		return report, nil, err
	}
	log, err := backup.NewBlocks(embed.StreamDir(c.Data, jetstream.StreamName))
	if err != nil {
		return report, nil, err
	}
	blobs, err := backup.NewBlocks(embed.StreamDir(c.Data, jetstream.BlobsStream(0)))
	if err != nil {
		return report, nil, err
	}
	number := uint64(0)
	visit := func(s backup.Stream, r blocks.Record) error {
		if !s.Blobs {
			return log.Append(r)
		}
		if s.Number != number { // a collection: the new stream holds all that stays
			number = s.Number
			if err := blobs.Reset(); err != nil {
				return err
			}
		}
		first, err := jetstream.FirstSubject(r.Subject)
		if err != nil {
			return err
		}
		r.Subject = first
		return blobs.Append(r)
	}
	if plan == nil {
		report, named, err = backup.Check(ctx, backup.Counted{Reader: f, Count: c.Progress}, visit)
	} else {
		report, named, err = plan.Restore(ctx, f, visit)
	}
	return report, named, errors.Join(err, log.Close(), blobs.Close())
}

// keyWriters is how many keys are stored at a time: each waits for fsyncs.
const keyWriters = 32

// countMissing lists the keys that events name and the file of keys lacks, and refuses them
// unless they are accepted: then it writes the list into the folder. Any run of the backup may need keys, not the first one alone.
func (c RestoreConfig) countMissing(keys backup.Keys, named *backup.Checker, out *Restored) error {
	if c.Keys == "" && (out.Totals.Keys > 0 || named.Begin().Sealed) {
		return needsKeys(c.File)
	}
	rows := make(map[turns.ID]backup.KeyRow, len(keys.Rows))
	for _, r := range keys.Rows {
		rows[r.ID] = r
	}
	older := false // than the backup: it does not even say that a key is missing
	for _, id := range named.Keys() {
		if r, ok := rows[id]; len(r.Key)+len(r.Remains) == 0 && !r.Erased {
			out.Missing = append(out.Missing, id)
			older = older || !ok
		}
	}
	out.KeysMissing = len(out.Missing)
	switch {
	case out.KeysMissing == 0:
		return nil
	case c.AcceptMissingKeys:
		m := folder.Missing{Ledger: named.Begin().Ledger, Time: time.Now().UTC(), Keys: out.Missing}
		return m.Save(c.Data)
	case older:
		return fmt.Errorf("%w: %s is older than the backup: %s; restore with the newest one, or accept that content can't be read (--accept-missing-keys)", ledger.ErrConflict, c.Keys, keysMissing(out.KeysMissing))
	}
	return fmt.Errorf("%w: the ledger had lost keys when %s was written: %s; --accept-missing-keys restores all the same, and their content can't be read", ledger.ErrConflict, c.Keys, keysMissing(out.KeysMissing))
}

func keysMissing(n int) string {
	if n == 1 {
		return "1 key missing"
	}
	return fmt.Sprintf("%d keys missing", n)
}

func needsKeys(file string) error {
	return fmt.Errorf("%w: the ledger in %s is sealed: name the file of its content keys with --keys", ledger.ErrMalformed, file)
}

// storeKeys stores the content keys, and the marks of those that were destroyed.
func (c RestoreConfig) storeKeys(ctx context.Context, keys backup.Keys, out *Restored) error {
	if c.Keys == "" {
		return nil
	}
	store, err := keyring.Open(filepath.Join(c.Data, "keys"))
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(keyWriters)
	var destroyed []turns.ID
	for _, r := range keys.Rows {
		switch {
		case gctx.Err() != nil:
		case r.Erased:
			destroyed = append(destroyed, r.ID)
		case len(r.Key)+len(r.Remains) > 0:
			out.KeysStored++
			g.Go(func() error { return putKey(store, r) })
		}
	}
	out.KeysErased = len(destroyed)
	if err := errors.Join(g.Wait(), ctx.Err(), store.Destroy(destroyed...), store.Close()); err != nil {
		return fmt.Errorf("store the keys: %w", err)
	}
	return nil
}

// finish reads back what was written, writes the mark and the identity, and lets daemons
// start.
func (c RestoreConfig) finish(ctx context.Context, begin backup.Begin, out *Restored) error {
	t := out.Totals
	m := mark.Mark{Ledger: begin.Ledger, Server: embed.ServerVersion, Log: mark.Place{Seq: t.Log.Seq, Sum: t.Log.Sum}, Blobs: mark.Place{Seq: t.Blobs.Seq, Sum: t.Blobs.Sum}}
	found, err := disk.Inspect(ctx, c.Data, m, false)
	if err != nil {
		return fmt.Errorf("read back what was restored: %w", err)
	}
	if found.TornLog != nil || found.TornBlobs != nil || found.Mark != m {
		return fmt.Errorf("%w: what was restored reads back otherwise", ledger.ErrCorrupt)
	}
	if err := folder.SyncStreams(c.Data, m); err != nil {
		return err
	}
	k, err := mark.Open(filepath.Join(c.Data, folder.MarkFile), m, func(error) {})
	if err != nil {
		return err
	}
	if err := k.Close(nil); err != nil {
		return err
	}
	id := folder.Identity{Ledger: begin.Ledger, Ready: true, Marked: true, Server: embed.ServerVersion, Restored: &folder.Restored{Digest: out.Digest, Seq: t.Log.Seq, Time: time.Now().UTC()}}
	if err := folder.SaveIdentity(c.Data, id); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(c.Data, folder.RestoringFile)); err != nil {
		return err
	}
	return mark.SyncDir(c.Data)
}

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"nexus/cmd/internal/checkpoint"
	"nexus/cmd/internal/engine/erasure"
	"nexus/cmd/internal/files"
	"nexus/cmd/internal/wholefile"
	"nexus/ledger"
	"nexus/ledger/jetstream/backup"
	"nexus/turns"
)

// erasuresFile is the list of erasures in the data folder. It is what a restored folder begins with, too.
const erasuresFile = "erasures"

// maxErasures bounds a list of erasures, in bytes: some million sessions.
const maxErasures = 256 << 20

// erasures keeps the list of erasures in the data folder, and a copy in each folder of [checkpoint] out.
type erasures struct {
	dir    string
	ledger string
	signer *checkpoint.Signer
	out    []string
	failed func(folder string, err error)

	mu      sync.Mutex
	copying sync.WaitGroup
	busy    map[string]bool // folders that a copy is being written to
}

// read returns the list; an empty one where there is no file.
func (l *erasures) read() (erasure.List, error) {
	list, err := readErasures(filepath.Join(l.dir, erasuresFile))
	if errors.Is(err, fs.ErrNotExist) {
		return erasure.List{Ledger: l.ledger}, nil
	}
	return list, err
}

// readErasures reads a file. One that is no list is not read as a whole.
func readErasures(name string) (erasure.List, error) {
	f, err := os.Open(name)
	if err != nil {
		return erasure.List{}, err
	}
	defer f.Close()
	b := make([]byte, 64)
	n, err := io.ReadFull(f, b)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) || !erasure.IsList(b[:n]) {
		return erasure.List{}, errors.Join(err, fmt.Errorf("%w: %s is no list of erasures", ledger.ErrMalformed, name))
	}
	rest, err := io.ReadAll(io.LimitReader(f, maxErasures))
	if err != nil {
		return erasure.List{}, err
	}
	return erasure.ParseList(append(b[:n], rest...))
}

// listed is what the folder's list has, and what the copies elsewhere have that this ledger's own key signed: the
// folder may be a copy of an earlier day.
func (l *erasures) listed() ([]erasure.Erased, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, err := l.read()
	if err != nil {
		return nil, err
	}
	for _, dir := range l.out {
		other, err := readErasures(filepath.Join(dir, l.copyName()))
		if err == nil && other.Ledger == l.ledger && other.Key != "" && other.Key == l.signer.Public() {
			list.Merge(other.Rows)
		}
	}
	return list.Rows, nil
}

func (l *erasures) copyName() string { return "nexus-" + l.ledger + ".erasures" }

// publish adds rows to the list. It is durable in the data folder on return; a folder elsewhere that does not answer
// holds nobody up, and gets the next list.
func (l *erasures) publish(rows []erasure.Erased) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, err := l.read()
	if err != nil {
		return err
	}
	list.Ledger = l.ledger
	name := filepath.Join(l.dir, erasuresFile)
	_, err = os.Stat(name)
	if there := err == nil; !list.Merge(rows) && (there || len(list.Rows) == 0) {
		return nil
	}
	sign := l.signer.SignText
	if list.Key = l.signer.Public(); list.Key == "" {
		sign = nil
	}
	b, err := list.Encode(sign)
	if err != nil {
		return err
	}
	if err := wholefile.Write(name, 0o600, wholefile.Bytes(b)); err != nil {
		return err
	}
	for _, dir := range l.out {
		if l.busy[dir] {
			continue
		}
		l.busy[dir] = true
		l.copying.Go(func() {
			err := wholefile.Write(filepath.Join(dir, l.copyName()), 0o600, wholefile.Bytes(b))
			l.mu.Lock()
			l.busy[dir] = false
			l.mu.Unlock()
			if err != nil {
				l.failed(dir, err)
			}
		})
	}
	return nil
}

// reachErasures connects the erasure of sessions with the stores beside the log. x writes the files; nil: nobody does.
func (d *Daemon) reachErasures(x *files.Exporter) {
	er := d.engine.Erasure
	if d.server == nil {
		er.Why = "on a NATS server of others each daemon keeps its own keys: a session can't be erased for all of them yet"
		return
	}
	list := &erasures{dir: d.cfg.Data, ledger: d.log.Ledger(), signer: d.signer, out: d.cfg.Checkpoint.Out, busy: make(map[string]bool),
		failed: func(folder string, err error) {
			d.logger.Error("the list of erasures is not written elsewhere", "folder", folder, "err", err)
		}}
	er.Publish, er.Listed = list.publish, list.listed
	files := erasure.Store{Name: "files", Note: "beside the ledger, of the designs; a file that a person changed is left as it is"}
	files.Erase = func(_ context.Context, s *ledger.Session, at uint64) (uint64, bool, error) {
		return 0, x != nil && x.Reached(s.ID, at), nil
	}
	if x == nil {
		dir := filepath.Join(d.cfg.Data, "files")
		if _, err := os.Stat(dir); err != nil { // none were written here
			return
		}
		files.Note = "beside the ledger, of the designs: nexusd runs with --files off, so those that it wrote before stay until it runs with them on"
	}
	er.Add(files)
}

// eraseAnswers connects it with the answers of /v1 that are not stored, and removes what earlier erasures left of them.
func (d *Daemon) eraseAnswers() error {
	if d.server == nil || d.door == nil {
		return nil
	}
	d.engine.Erasure.Add(erasure.Store{Name: "answers", Note: "events of answers of /v1 that are not stored",
		Erase: func(_ context.Context, s *ledger.Session, _ uint64) (uint64, bool, error) {
			n, done, err := d.door.Erase(s.ID)
			return uint64(n), done, err
		}})
	for s, err := range d.store.Erased() {
		if err == nil {
			_, _, err = d.door.Erase(s.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// finishErasures does what earlier erasures left, before anybody is served.
func (d *Daemon) finishErasures(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	return d.engine.Erasure.Finish(ctx)
}

// foundErasures is the erasures of a ledger that lie in folders: in lists, and in files of keys, which say what was
// destroyed. from is the file that has the newest one, "" if there is none.
func foundErasures(id string, folders ...string) (list erasure.List, from string, err error) {
	list.Ledger = id
	ledgerKey, err := uuid.Parse(id)
	if err != nil {
		return list, "", err
	}
	newest := time.Time{}
	for _, dir := range folders {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return list, "", err
		}
		for _, e := range entries {
			name := filepath.Join(dir, e.Name())
			if !e.Type().IsRegular() {
				continue
			}
			for _, r := range erasuresIn(name, id) {
				if r.Session.IsReserved() || r.Session == turns.ID(ledgerKey) { // no session has such a key, and others need it
					continue
				}
				if list.Merge([]erasure.Erased{r}) && from == "" || r.Time.After(newest) {
					from = name
				}
				if r.Time.After(newest) {
					newest = r.Time
				}
			}
		}
	}
	return list, from, nil
}

// erasuresIn returns the erasures that a file says, none if it is of another kind or ledger, or damaged.
func erasuresIn(name, id string) (rows []erasure.Erased) {
	if list, err := readErasures(name); err == nil && list.Ledger == id {
		return list.Rows
	}
	if !backup.IsKeys(name) {
		return nil
	}
	keys, err := backup.ReadKeys(name)
	if err != nil || keys.Ledger != id {
		return nil
	}
	for _, r := range keys.Rows {
		if r.Erased {
			rows = append(rows, erasure.Erased{Session: r.ID})
		}
	}
	return rows
}

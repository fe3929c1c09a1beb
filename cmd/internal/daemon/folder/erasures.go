package folder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"nexus/cmd/internal/checkpoint"
	"nexus/cmd/internal/engine/erasure"
	"nexus/cmd/internal/wholefile"
	"nexus/ledger"
)

// ErasuresFile is the list of erasures in the data folder. It is what a restored folder begins with, too.
const ErasuresFile = "erasures"

// maxErasures bounds a list of erasures, in bytes: some million sessions.
const maxErasures = 256 << 20

// Erasures keeps the list of erasures in the data folder, and a copy in each folder of [checkpoint] out.
type Erasures struct {
	dir    string
	ledger string
	signer *checkpoint.Signer
	logger *slog.Logger

	mu     sync.Mutex
	newest []byte
	copies []*erasuresCopy
}

// erasuresCopy is the list in a folder elsewhere. What may change is guarded by the list's mutex.
type erasuresCopy struct {
	name   string
	has    []byte // as it was written last; nil: not since the start
	busy   bool   // it is being written: a disk of the network may hang
	failed bool   // and that was said
}

func NewErasures(dir, ledger string, signer *checkpoint.Signer, out []string, logger *slog.Logger) *Erasures {
	l := &Erasures{dir: dir, ledger: ledger, signer: signer, logger: logger}
	for _, folder := range out {
		l.copies = append(l.copies, &erasuresCopy{name: filepath.Join(folder, "nexus-"+ledger+".erasures")})
	}
	return l
}

// read returns the list; an empty one where there is no file. One that is damaged, or another ledger's, is set aside: what the
// log knows of it is put on a new one.
func (l *Erasures) read() (erasure.List, error) {
	name := filepath.Join(l.dir, ErasuresFile)
	list, err := ReadErasures(name)
	if err == nil && list.Ledger != l.ledger {
		err = fmt.Errorf("%w: it is of ledger %.40q", ledger.ErrMalformed, list.Ledger)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, ledger.ErrMalformed):
		l.logger.Error("the list of erasures is damaged: it is set aside, and made anew from the log", "file", name, "as", name+".damaged", "err", err)
		if err := os.Rename(name, name+".damaged"); err != nil {
			return erasure.List{}, err
		}
	default:
		return list, err
	}
	return erasure.List{Ledger: l.ledger}, nil
}

// ReadErasures reads a file. One that is no list is not read as a whole.
func ReadErasures(name string) (erasure.List, error) {
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

// Listed is what the folder's list has, and what the copies elsewhere have that this ledger's own key signed: the
// folder may be a copy of an earlier day.
func (l *Erasures) Listed() ([]erasure.Erased, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, err := l.read()
	if err != nil {
		return nil, err
	}
	for _, c := range l.copies {
		other, err := ReadErasures(c.name)
		if err == nil && other.Ledger == l.ledger && other.Key != "" && other.Key == l.signer.Public() {
			list.Merge(other.Rows)
		}
	}
	return list.Rows, nil
}

// Publish adds rows to the list. It is durable in the data folder on return; a folder elsewhere that does not answer
// holds nobody up, and gets the newest list when it does, or at the next call.
func (l *Erasures) Publish(rows []erasure.Erased) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, err := l.read()
	if err != nil {
		return err
	}
	if list.Merge(rows); len(list.Rows) == 0 {
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
	name := filepath.Join(l.dir, ErasuresFile)
	if was, err := os.ReadFile(name); err != nil || !bytes.Equal(was, b) {
		if err := wholefile.Write(name, 0o600, wholefile.Bytes(b)); err != nil {
			return err
		}
	}
	l.newest = b
	for _, c := range l.copies {
		if !c.busy {
			c.busy = true
			go l.copyTo(c)
		}
	}
	return nil
}

// copyTo writes the newest list to a folder elsewhere, and again if a newer one came meanwhile.
func (l *Erasures) copyTo(c *erasuresCopy) {
	for {
		l.mu.Lock()
		b := l.newest
		if c.busy = !bytes.Equal(c.has, b); !c.busy {
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		err := wholefile.Write(c.name, 0o600, wholefile.Bytes(b))
		l.mu.Lock()
		if err != nil && !c.failed {
			l.logger.Error("the list of erasures is not written elsewhere", "file", c.name, "err", err)
		}
		if c.failed = err != nil; c.failed {
			c.busy = false
			l.mu.Unlock()
			return
		}
		c.has = b
		l.mu.Unlock()
	}
}

package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"

	"nexus/turns"
)

// unit is a set of files that grow together, and what the ledger has that is in them
// already. Its state is written after the files are synced.
//
// Crash states: what an append wrote and the state does not know is cut off when the
// unit is opened, and written again. A replacement whose state is written and that has
// not got its name gets it then. So each line is in the files once, whatever happens.
type unit struct {
	folder
	name  string // of the state
	state unitState
}

type unitState struct {
	Sizes    map[string]int64            `json:"sizes"`          // of the files, by name
	Replaced map[string]int64            `json:"next,omitempty"` // sizes of the replacements that get their names
	Sessions map[turns.ID]sessionWritten `json:"sessions"`
}

// sessionWritten is what the files have of a session.
type sessionWritten struct {
	Next        uint64            `json:"next"`              // number of the first event that is not written
	Compactions int               `json:"compactions"`       // that are written
	Steps       int               `json:"steps,omitempty"`   // of a task
	Calls       map[string]string `json:"calls,omitempty"`   // names of tools whose results are awaited, by call
	Request     string            `json:"request,omitempty"` // beginning of a task's first message
}

// unit returns the unit whose state has a name.
func (x *Exporter) unit(name string) (*unit, error) {
	if u := x.units[name]; u != nil {
		return u, nil
	}
	u := &unit{folder: x.root, name: name, state: unitState{Sizes: make(map[string]int64), Replaced: make(map[string]int64), Sessions: make(map[turns.ID]sessionWritten)}}
	err := u.readFile(name, func(r io.Reader) error {
		b, err := io.ReadAll(io.LimitReader(r, maxState))
		if err != nil {
			return err
		}
		return turns.DecodeJSON(b, &u.state)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w; remove it and the files beside it, and they are written again", name, err)
	}
	if err := u.settle(); err != nil {
		return nil, err
	}
	x.units[name] = u
	return u, nil
}

// drop forgets a unit after an error: it is opened again from what is on the disk.
func (x *Exporter) drop(u *unit) { delete(x.units, u.name) }

// settle brings the files to what the state says, after a crash. A file that a person
// made shorter stays so.
func (u *unit) settle() error {
	for name, size := range u.state.Replaced {
		if tmp := tmpName(name); u.size(tmp) == size {
			if err := u.rename(tmp, name); err != nil {
				return err
			}
		}
		u.state.Sizes[name] = size
	}
	clear(u.state.Replaced)
	for name, size := range u.state.Sizes {
		switch got := u.size(name); {
		case got < 0:
			u.state.Sizes[name] = 0
		case got < size:
			u.state.Sizes[name] = got
		case got > size:
			if err := u.truncate(name, size); err != nil {
				return err
			}
		}
	}
	return nil
}

// size returns the size of a file, -1 if there is none.
func (u *unit) size(name string) int64 {
	st, err := u.Stat(name)
	if err != nil {
		return -1
	}
	return st.Size()
}

func (u *unit) truncate(name string, size int64) error {
	if err := u.may(); err != nil {
		return err
	}
	f, err := u.openRegular(name, os.O_WRONLY)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Sync(), f.Close())
}

// flushBytes is about how much of a file is in memory before it is appended.
const flushBytes = 4 << 20

// append adds to a file and syncs it. The state counts it from the next save on.
func (u *unit) append(name string, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := u.may(); err != nil {
		return err
	}
	if err := u.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := u.openRegular(name, os.O_CREATE|os.O_WRONLY)
	if err != nil {
		return err
	}
	at := u.state.Sizes[name]
	if err = f.Truncate(at); err == nil { // what a first append left that no state counts
		_, err = f.WriteAt(b, at)
	}
	if err == nil {
		err = u.may()
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if at == 0 {
		if err := u.syncDir(path.Dir(name)); err != nil {
			return err
		}
	}
	u.state.Sizes[name] = at + int64(len(b))
	return nil
}

// prepare writes the replacement of a file. It gets its name in commit, after the
// state that counts it is saved.
func (u *unit) prepare(name string, b []byte) error {
	dir := path.Dir(name)
	if err := u.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	err := u.writeFile(tmpName(name), func(w io.Writer) error { _, err := w.Write(b); return err })
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	u.state.Replaced[name] = int64(len(b))
	return u.syncDir(dir)
}

// commit saves the state, and gives the replacements their names.
func (u *unit) commit() error {
	b, err := turns.EncodeJSON(u.state)
	if err != nil {
		return err
	}
	if err := u.replace(u.name, func(w io.Writer) error { _, err := w.Write(b); return err }, nil); err != nil {
		return err
	}
	for name, size := range maps.Clone(u.state.Replaced) {
		if err := u.rename(tmpName(name), name); err != nil {
			return err
		}
		if err := u.syncDir(path.Dir(name)); err != nil {
			return err
		}
		u.state.Sizes[name] = size
		delete(u.state.Replaced, name)
	}
	return nil
}

// content returns what the state counts of a file.
func (u *unit) content(name string) ([]byte, error) {
	f, err := u.openRegular(name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, u.state.Sizes[name]))
	return b, errors.Join(err, f.Close())
}

func tmpName(name string) string { return path.Join(path.Dir(name), "."+path.Base(name)+".next") }

// jsonLine returns v as a line of JSON.
func jsonLine(v any) ([]byte, error) {
	b, err := turns.EncodeJSON(v)
	return append(b, '\n'), err
}

// eachLine calls f with each line of JSON lines.
func eachLine(b []byte, f func(line []byte) error) error {
	for line := range bytes.Lines(b) {
		if err := f(line); err != nil {
			return err
		}
	}
	return nil
}

package seal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"sync"
)

// memDisk is a file system that knows what is durable and what is not, fails at
// one operation as told, and can lose power.
type memDisk struct {
	mu      sync.Mutex
	live    map[string]*inode // names as a running process sees them; a nil inode is a folder
	durable map[string]*inode // names as they are after a power cut, at the least
	all     []*inode          // every file there ever was, unlinked ones included

	ops   int // operations that change something, so far
	fail  int // the operation to fail, from 1; 0: none
	how   fault
	after bool // every operation after the failed one fails too: the process is dying
	dead  bool
}

type inode struct{ data []byte }

type fault int

const (
	failedAndLost fault = iota
	failedButDone
	torn
)

var errInjected = errors.New("injected")

func newMemDisk() *memDisk {
	return &memDisk{live: map[string]*inode{"/": nil}, durable: map[string]*inode{"/": nil}}
}

// step counts a changing operation and says how it goes: do it, do half of it, fail it.
func (d *memDisk) step() (do, half bool, err error) {
	if d.dead {
		return false, false, errInjected
	}
	d.ops++
	if d.ops != d.fail {
		return true, false, nil
	}
	d.dead = d.after
	return d.how == failedButDone, d.how == torn, errInjected
}

func (d *memDisk) List(dir string) (names []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.live {
		if filepath.Dir(name) == dir {
			names = append(names, filepath.Base(name))
		}
	}
	return names, nil
}

func (d *memDisk) Append(name string, at int, b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.live[name]
	if n == nil {
		return fs.ErrNotExist
	}
	do, half, err := d.step()
	if half {
		b = b[:len(b)/2]
	}
	if do || half {
		n.data = append(append(make([]byte, 0, at+len(b)), n.data[:min(at, len(n.data))]...), make([]byte, max(0, at-len(n.data)))...)
		n.data = append(n.data, b...)
	}
	return err
}

func (d *memDisk) Read(name string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, ok := d.live[name]
	if !ok || n == nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	return bytes.Clone(n.data), nil
}

func (d *memDisk) Write(name string, b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.live[filepath.Dir(name)]; !ok {
		return fs.ErrNotExist
	}
	do, half, err := d.step()
	if !do && !half {
		return err
	}
	n := d.live[name]
	if n == nil {
		n = new(inode)
		d.live[name], d.all = n, append(d.all, n)
	}
	if half {
		copy(n.data, b[:len(b)/2])
		if len(n.data) < len(b)/2 {
			n.data = bytes.Clone(b[:len(b)/2])
		}
	} else {
		n.data = bytes.Clone(b)
	}
	return err
}

func (d *memDisk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	do, _, err := d.step()
	if do {
		d.live[to] = d.live[from]
		delete(d.live, from)
	}
	return err
}

func (d *memDisk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.live[name]; !ok {
		return fs.ErrNotExist
	}
	do, _, err := d.step()
	if do {
		delete(d.live, name)
	}
	return err
}

func (d *memDisk) Mkdir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.live[name]; ok {
		return nil
	}
	do, _, err := d.step()
	if do {
		d.live[name] = nil
	}
	return err
}

func (d *memDisk) SyncDir(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	do, _, err := d.step()
	if do {
		for name := range d.durable {
			if _, ok := d.live[name]; !ok && filepath.Dir(name) == dir {
				delete(d.durable, name)
			}
		}
		for name, n := range d.live {
			if filepath.Dir(name) == dir {
				d.durable[name] = n
			}
		}
	}
	return err
}

// restart is the end of the process: what it wrote stays.
func (d *memDisk) restart() { d.fail, d.dead = 0, false }

// cutPower loses or keeps each change of a name that no SyncDir had reached,
// as keep says. A file whose folder is lost is lost with it.
func (d *memDisk) cutPower(keep func() bool) {
	d.restart()
	names := map[string]bool{}
	for n := range d.live {
		names[n] = true
	}
	for n := range d.durable {
		names[n] = true
	}
	next := map[string]*inode{}
	for name := range names {
		from := d.durable
		if keep() {
			from = d.live
		}
		if n, ok := from[name]; ok {
			next[name] = n
		}
	}
	for name := range next {
		for dir := filepath.Dir(name); dir != "/"; dir = filepath.Dir(dir) {
			if _, ok := next[dir]; !ok {
				delete(next, name)
			}
		}
	}
	d.live, d.durable = next, map[string]*inode{}
	for name, n := range next {
		d.durable[name] = n
	}
}

// keys are those that the named files give to who opens each log with each epoch key that
// is left, and those that are there in the clear; with everywhere, of any file there ever was.
func (d *memDisk) keys(everywhere bool) map[Key]bool {
	var files [][]byte
	for _, names := range []map[string]*inode{d.live, d.durable} {
		for _, n := range names {
			if n != nil {
				files = append(files, n.data)
			}
		}
	}
	if everywhere {
		for _, n := range d.all {
			files = append(files, n.data)
		}
	}
	out := make(map[Key]bool)
	for _, f := range files {
		at := bytes.Index(f, []byte(epochMagic))
		if at < 0 || len(f) < at+49 {
			continue
		}
		e := epoch{binary.BigEndian.Uint64(f[at+9:]), gcm(Key(f[at+17 : at+49]))}
		for _, log := range files {
			for slot := 0; (slot+1)*slotSize <= len(log); slot++ {
				if _, x, ok, _ := e.record(log[slot*slotSize:(slot+1)*slotSize], slot); ok && x.kind == recordKey {
					out[x.key] = true
				}
			}
		}
	}
	return out
}

// without is a copy of the disk on which a folder is empty.
func (d *memDisk) without(dir string) *memDisk {
	out := newMemDisk()
	for name, n := range d.live {
		if filepath.Dir(name) == dir {
			continue
		}
		if n != nil {
			n = &inode{bytes.Clone(n.data)}
			out.all = append(out.all, n)
		}
		out.live[name], out.durable[name] = n, n
	}
	return out
}

func coin(seed uint64) func() bool {
	r := rand.New(rand.NewPCG(seed, 1))
	return func() bool { return r.Uint64()&1 == 0 }
}

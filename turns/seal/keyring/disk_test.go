package keyring

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"sync"

	"nexus/turns/seal"
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

	before, done func(name string) // called before and after each WriteAt
}

// inode is a file: what a process reads, what the medium has, and the sectors that a sync, or
// the system by itself, would write.
type inode struct {
	data  []byte
	disk  []byte
	dirty map[int]bool
}

// sector is small, so that a record has several.
const sector = 16

// write changes what a process reads.
func (n *inode) write(b []byte, at int) {
	if grow := at + len(b) - len(n.data); grow > 0 {
		n.data = append(n.data, make([]byte, grow)...)
	}
	copy(n.data[at:], b)
	n.touch(at, at+len(b))
}

func (n *inode) touch(from, to int) {
	if n.dirty == nil {
		n.dirty = make(map[int]bool)
	}
	for at := from / sector; at*sector < to; at++ {
		n.dirty[at] = true
	}
}

// flush writes the dirty sectors that keep picks, and forgets that the others are dirty.
func (n *inode) flush(keep func() bool) {
	if keep() {
		n.disk = append(n.disk, make([]byte, max(0, len(n.data)-len(n.disk)))...)[:len(n.data)]
	}
	for at := 0; at*sector < len(n.data); at++ {
		if n.dirty[at] && keep() {
			if end := min((at+1)*sector, len(n.data)); end > len(n.disk) {
				n.disk = append(n.disk, make([]byte, end-len(n.disk))...)
			}
			copy(n.disk[at*sector:], n.data[at*sector:min((at+1)*sector, len(n.data))])
		}
	}
	n.dirty = nil
}

type fault int

const (
	failedAndLost fault = iota // nothing is done
	failedButDone
	torn       // half of a write is done, and not synced
	syncFailed // a read shows the write, and no later sync writes it
	syncTorn   // the same, but some sectors are on the medium
	faults
)

var errInjected = errors.New("injected")

func always() bool { return true }
func never() bool  { return false }

func newMemDisk() *memDisk {
	return &memDisk{live: map[string]*inode{"/": nil}, durable: map[string]*inode{"/": nil}}
}

// step counts a changing operation and says how it goes: done, how it fails.
func (d *memDisk) step() (do bool, how fault, err error) {
	if d.dead {
		return false, failedAndLost, errInjected
	}
	d.ops++
	if d.ops != d.fail {
		return true, failedButDone, nil
	}
	d.dead = d.after
	return d.how == failedButDone, d.how, errInjected
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

func (d *memDisk) List(dir string) (names []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.live {
		if filepath.Dir(name) == dir && name != dir {
			names = append(names, filepath.Base(name))
		}
	}
	return names, nil
}

func (d *memDisk) Write(name string, b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.live[filepath.Dir(name)]; !ok {
		return fs.ErrNotExist
	}
	return d.change(name, true, func(n *inode, half bool) {
		if half {
			n.write(b[:len(b)/2], 0)
			return
		}
		n.data = n.data[:min(len(n.data), len(b))]
		n.write(b, 0)
	})
}

func (d *memDisk) WriteAt(name string, b []byte, at int64) error {
	if d.before != nil {
		d.before(name)
		defer d.done(name)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.change(name, false, func(n *inode, half bool) {
		if half {
			b = b[:len(b)/2]
		}
		n.write(b, int(at))
	})
}

func (d *memDisk) Truncate(name string, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.change(name, false, func(n *inode, half bool) {
		if !half {
			n.data = n.data[:min(len(n.data), int(size))]
		}
	})
}

// change changes a file and syncs it.
func (d *memDisk) change(name string, create bool, do func(n *inode, half bool)) error {
	n := d.live[name]
	if n == nil && !create {
		return fs.ErrNotExist
	}
	_, how, err := d.step()
	if err != nil && how == failedAndLost {
		return err
	}
	if n == nil {
		n = new(inode)
		d.live[name], d.all = n, append(d.all, n)
	}
	do(n, err != nil && how == torn)
	switch {
	case err == nil || how == failedButDone:
		n.flush(always)
	case how == syncFailed:
		n.dirty = nil
	case how == syncTorn:
		n.flush(coin(uint64(d.ops)))
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

// cutPower loses or keeps each change of a name that no SyncDir had reached, and each sector
// that no sync had, as keep says. A file whose folder is lost is lost with it.
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
	for _, n := range d.all {
		if len(n.dirty) > 0 {
			n.flush(keep)
		}
		n.data = bytes.Clone(n.disk)
	}
}

// contents returns what is in the named files; with everywhere, in any file there ever was:
// what a process reads, and what the medium has.
func (d *memDisk) contents(everywhere bool) (out [][]byte) {
	for _, names := range []map[string]*inode{d.live, d.durable} {
		for _, n := range names {
			if n != nil {
				out = append(out, n.data, n.disk)
			}
		}
	}
	for _, n := range d.all {
		if everywhere {
			out = append(out, n.data, n.disk)
		}
	}
	return out
}

// secrets returns every key that a thief of the files can find: each record at any offset of
// any file is opened under each epoch key that is left in any file.
func (d *memDisk) secrets(everywhere bool) map[seal.Key]bool {
	found := map[seal.Key]bool{}
	files := d.contents(everywhere)
	var epochs []*epoch
	for _, b := range files {
		for at := 0; at+epochBlock <= len(b); at++ {
			if block, ok := blockAt(b, at); ok {
				epochs = append(epochs, newEpoch(binary.BigEndian.Uint64(block[9:]), storeID(block[17:]), seal.Key(block[33:])))
			}
		}
	}
	for _, b := range files {
		for at := range b {
			h, ok := headAt(b, at)
			if !ok {
				continue
			}
			start := at
			if h.last {
				start = at + headSize - h.size()
			}
			for _, e := range epochs {
				if start < 0 {
					continue
				}
				if body, ok := e.open(b, start, h); ok && len(body) == len(seal.Key{}) {
					found[seal.Key(body)] = true
				}
			}
		}
	}
	return found
}

// leaks returns one of the keys that is in a file, plain or sealed under an epoch key that is
// left, and false if none is.
func (d *memDisk) leaks(keys map[seal.Key]bool, everywhere bool) (seal.Key, bool) {
	found := d.secrets(everywhere)
	for k := range keys {
		if found[k] {
			return k, true
		}
		for _, b := range d.contents(everywhere) {
			if bytes.Contains(b, k[:]) {
				return k, true
			}
		}
	}
	return seal.Key{}, false
}

func coin(seed uint64) func() bool {
	r := rand.New(rand.NewPCG(seed, 1))
	return func() bool { return r.Uint64()&1 == 0 }
}

package mark

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"nexus/turns"
)

// Place is a position of a stream and the SHA-256 of what is stored there. The zero
// Place is before the first position.
type Place struct {
	Seq uint64     `json:"seq"`
	Sum turns.Hash `json:"sum"`
}

// Mark is how far the streams of a ledger must reach.
type Mark struct {
	Ledger string `json:"ledger"` // UUID
	Log    Place  `json:"log"`
	Blobs  Place  `json:"blobs"`
	// BlobStream is the number of the stream that holds the blobs: how often a collection
	// replaced it.
	BlobStream uint64 `json:"blob_stream,omitzero"`
	// Closed is set by a clean stop, when nothing can be stored after the mark.
	Closed *Sizes `json:"closed,omitzero"`
	// Boot names the run of the machine in which the mark was written; "" if the
	// system does not tell. Within one run the kernel keeps what was written.
	Boot string `json:"boot,omitzero"`

	// Server is the version of the nats-server that wrote the files of the streams.
	Server string `json:"server,omitzero"`

	// Generation counts the writes of the file.
	Generation uint64 `json:"generation"`
}

// Sizes is how large the block files of each stream are together, in bytes.
type Sizes struct {
	Log   int64 `json:"log"`
	Blobs int64 `json:"blobs"`
}

// The file has two slots. A write goes to the slot that holds the older mark, so that
// a write that is cut short leaves the newer one. They are a page apart: no disk
// writes both at once. A slot is the SHA-256 of the mark in hexadecimal, a space, the
// mark as one line of JSON, and zeroes.
const (
	slotSize = 4096
	slots    = 2
)

// interval is the longest time between an acknowledgement and the mark of it.
const interval = 500 * time.Millisecond

// Load reads the mark in the file at path. Errors: [fs.ErrNotExist], [turns.ErrCorrupt]
// if neither slot can be read. One damaged slot is no error: the other holds a mark
// that is at most one write older, and torn is set.
func Load(path string) (m Mark, torn bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return m, false, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, slots*slotSize))
	if err != nil {
		return m, false, err
	}
	var found int
	for i := range slots {
		slot, err := decode(b[min(i*slotSize, len(b)):min((i+1)*slotSize, len(b))])
		switch {
		case err != nil:
			torn = torn || !errors.Is(err, errEmpty)
		default:
			if found++; found == 1 || slot.Generation > m.Generation {
				m = slot
			}
		}
	}
	if found == 0 {
		return m, torn, fmt.Errorf("%w: %s holds no mark that can be read", turns.ErrCorrupt, path)
	}
	return m, torn, nil
}

var errEmpty = errors.New("empty slot")

func encode(m Mark) ([]byte, error) {
	b, err := turns.EncodeJSON(m)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	b = append(append(hex.AppendEncode(nil, sum[:]), ' '), b...)
	if b = append(b, '\n'); len(b) > slotSize {
		return nil, fmt.Errorf("a mark of %d bytes does not fit its slot", len(b))
	}
	return append(b, make([]byte, slotSize-len(b))...), nil
}

func decode(slot []byte) (m Mark, err error) {
	line := bytes.TrimRight(slot, "\x00")
	if len(line) == 0 {
		return m, errEmpty
	}
	sum, line, ok := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
	if got := sha256.Sum256(line); !ok || hex.EncodeToString(got[:]) != string(sum) {
		return m, fmt.Errorf("%w: a slot of the mark has a wrong checksum", turns.ErrCorrupt)
	}
	return m, turns.DecodeJSON(line, &m)
}

// WentDown reports whether the machine went down, as after a power cut, since m was
// written, in which case writes that no fsync covered may be gone. A clean stop
// leaves none.
func (m Mark) WentDown() bool { return m.Closed == nil && m.Boot != "" && m.Boot != boot() }

// boot names the run of the machine, where the system tells it.
func boot() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Keeper writes the mark of a running ledger. Safe for concurrent use.
type Keeper struct {
	file   *os.File
	failed func(error)
	wake   chan struct{}
	again  chan chan error // asks run for Restore
	stop   chan struct{}
	done   chan struct{}

	writing    sync.Mutex // held by a write of the file, from the reading of mark on
	generation uint64     // of the last write; guarded by writing

	mu      sync.Mutex
	mark    Mark // guarded by mu
	changed bool // since the last write; guarded by mu
}

// Open opens the file at path, or creates it, and writes m there, synced. From then
// on the mark is written within [interval] of a change. failed is called from another
// goroutine when a write fails: acknowledgements are no longer marked, until
// [Keeper.Restore].
func Open(path string, m Mark, failed func(error)) (*Keeper, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("mark: %w", err)
	}
	k := &Keeper{file: f, generation: m.Generation, failed: failed, mark: m, wake: make(chan struct{}, 1), again: make(chan chan error), stop: make(chan struct{}), done: make(chan struct{})}
	k.mark.Closed, k.mark.Boot = nil, boot()
	err = f.Truncate(slots * slotSize)
	err = cmp.Or(err, k.writeBoth(k.mark))
	if err = cmp.Or(err, SyncDir(filepath.Dir(path))); err != nil {
		return nil, errors.Join(fmt.Errorf("mark: %w", err), f.Close())
	}
	go k.run()
	return k, nil
}

// Acked notes that the streams must reach the places from now on, the zero Place for
// no change. It does not wait for the disk.
func (k *Keeper) Acked(log, blobs Place) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if log.Seq > k.mark.Log.Seq {
		k.mark.Log, k.changed = log, true
	}
	if blobs.Seq > k.mark.Blobs.Seq {
		k.mark.Blobs, k.changed = blobs, true
	}
	if k.changed {
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
}

// Mark returns what is marked, written or not yet.
func (k *Keeper) Mark() Mark {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mark
}

// SetServer notes the version of the server that has opened the files of the streams.
func (k *Keeper) SetServer(version string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mark.Server != version {
		k.mark.Server, k.changed = version, true
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
}

// Close writes the last mark and closes the file. closed are the sizes of the streams'
// files after a clean stop; nil after any other.
func (k *Keeper) Close(closed *Sizes) error {
	close(k.stop)
	<-k.done
	k.writing.Lock()
	defer k.writing.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mark.Closed = closed
	return errors.Join(k.write(k.mark), k.file.Close())
}

// Restore writes the mark after failed was called, to both slots: what a failed fsync
// left of the file is not believed. If it returns nil, changes are written again.
func (k *Keeper) Restore(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case k.again <- done:
	case <-k.done:
		return os.ErrClosed
	case <-ctx.Done(): // a write may hang
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *Keeper) run() {
	defer close(k.done)
	t := time.NewTimer(0)
	<-t.C
	wake := (<-chan struct{})(k.wake) // nil while the mark waits for its interval, or for Restore
	var pause <-chan time.Time
	for {
		select {
		case <-k.stop:
			return
		case done := <-k.again:
			k.writing.Lock()
			err := k.writeBoth(k.Mark())
			k.writing.Unlock()
			if done <- err; err == nil {
				wake = k.wake
			}
		case <-wake:
			if err := k.flush(); err != nil {
				k.failed(fmt.Errorf("the mark of acknowledged positions: %w", err))
				wake = nil
				continue
			}
			t.Reset(interval)
			wake, pause = nil, t.C
		case <-pause:
			wake, pause = k.wake, nil
		}
	}
}

// SwitchBlobs notes that the blobs are in another stream from now on and must reach a
// place there. On return both slots say so, synced: a slot that is damaged later does not
// bring the old stream back. After an error nobody can tell which stream the file names.
func (k *Keeper) SwitchBlobs(stream uint64, blobs Place) error {
	k.writing.Lock()
	defer k.writing.Unlock()
	k.mu.Lock()
	k.mark.BlobStream, k.mark.Blobs = stream, blobs
	m := k.mark
	k.mu.Unlock()
	if err := k.writeBoth(m); err != nil {
		return fmt.Errorf("mark: %w", err)
	}
	return nil
}

// flush writes the mark if it changed.
func (k *Keeper) flush() error {
	k.writing.Lock()
	defer k.writing.Unlock()
	k.mu.Lock()
	m, changed := k.mark, k.changed
	k.changed = false
	k.mu.Unlock()
	if !changed {
		return nil
	}
	return k.write(m)
}

// writeBoth writes m to both slots.
func (k *Keeper) writeBoth(m Mark) error {
	for range slots {
		if err := k.write(m); err != nil {
			return err
		}
	}
	return nil
}

// write writes m to the slot of the older mark, synced. Callers are Open, before it
// returns, and holders of writing.
func (k *Keeper) write(m Mark) error {
	m.Generation = k.generation + 1
	b, err := encode(m)
	if err != nil {
		return err
	}
	k.generation = m.Generation
	if _, err := k.file.WriteAt(b, int64(m.Generation%slots)*slotSize); err != nil {
		return err
	}
	return k.file.Sync()
}

// SyncDir makes the names in a folder durable, or the bytes of a file.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

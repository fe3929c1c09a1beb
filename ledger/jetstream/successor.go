package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
	"nexus/ledger/jetstream/groupsync"
	"nexus/ledger/jetstream/mark"
	"nexus/turns"
)

const (
	firstPrefix = "nexus.blobs."
	// LostChunk is the subject of what a repair stores in the place of a chunk that
	// nobody can name.
	LostChunk = firstPrefix + "lost"
)

// BlobsStream returns the name of the stream of blobs with a number: NEXUS_BLOBS for 0,
// NEXUS_BLOBS_<number> for those that collections made.
func BlobsStream(number uint64) string {
	if number == 0 {
		return BlobsName
	}
	return BlobsName + "_" + strconv.FormatUint(number, 10)
}

// CopyStream returns the name of the second copy of a stream of blobs.
func CopyStream(number uint64) string { return BlobsStream(number) + "_COPY" }

// BlobStreamNumber returns the number of the stream of blobs with a name, or of that whose
// copy has the name. ok is false for the name of another stream.
func BlobStreamNumber(name string) (number uint64, ok bool) {
	rest := strings.TrimSuffix(name, "_COPY")
	if rest == BlobsName {
		return 0, true
	}
	digits, ok := strings.CutPrefix(rest, BlobsName+"_")
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, ok && err == nil && BlobsStream(number) == rest
}

// blobPrefix is what the subjects of a stream of blobs begin with.
func blobPrefix(number uint64) string {
	if number == 0 {
		return firstPrefix
	}
	return fmt.Sprintf("nexus.blobs_%d.", number)
}

// FirstSubject returns the subject that a chunk of any stream of blobs has in the first one.
// [ledger.ErrCorrupt]: it is no subject of a chunk.
func FirstSubject(subject string) (string, error) {
	first, ok := firstSubject(subject)
	if !ok {
		return "", fmt.Errorf("%w: %s is no subject of a chunk", ledger.ErrCorrupt, subject)
	}
	return first, nil
}

// firstSubject returns the subject that a chunk has in the first stream.
func firstSubject(subject string) (string, bool) {
	if strings.HasPrefix(subject, firstPrefix) {
		return subject, true
	}
	rest, ok := strings.CutPrefix(subject, "nexus.blobs_")
	digits, rest, dot := strings.Cut(rest, ".")
	_, err := strconv.ParseUint(digits, 10, 64)
	return firstPrefix + rest, ok && dot && err == nil
}

// blobStream is one stream of blobs. Its methods take the subjects of the first stream.
type blobStream struct {
	number uint64
	stream js.Stream
	sync   *groupsync.Stream
}

// subject returns the subject that a chunk has in s.
func (s *blobStream) subject(first string) string {
	return blobPrefix(s.number) + strings.TrimPrefix(first, firstPrefix)
}

// last reads the last message of a subject from the stream's leader.
func (s *blobStream) last(ctx context.Context, first string) (*js.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.stream.GetLastMsgForSubject(ctx, s.subject(first))
}

// Number returns the number of the stream that holds the blobs.
func (b *Blobs) Number() uint64 { return b.current.Load().number }

// Held reports whether a request relied on a blob lately; see [HoldTime].
func (b *Blobs) Held(k BlobKey) bool { return b.holds.has(k) }

// KeyOf returns the key of a blob.
func (b *Blobs) KeyOf(tenant string, digest turns.Hash) (BlobKey, error) {
	base, err := blobSubject(tenant, digest)
	return keyOf(base), err
}

// State returns the position of the last chunk and how many bytes the chunks have.
func (b *Blobs) State(ctx context.Context) (last, bytes uint64, err error) {
	return state(ctx, b.current.Load().stream)
}

func state(ctx context.Context, s js.Stream) (last, bytes uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	info, err := s.Info(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("state of the blobs: %w", readError(err))
	}
	return info.State.LastSeq, info.State.Bytes, nil
}

// Successor is a new stream of blobs, which is filled with the chunks of the current one that
// are to stay, and then takes its place. A stream refuses to delete a single message, so
// what is not needed goes with the whole old stream. Safe for concurrent use.
//
// Crash states: until the commit of [Blobs.Switch], the current stream holds everything and
// the successor may be removed. After it, the reverse. The mark says which.
type Successor struct {
	blobs *Blobs
	to    *blobStream

	mu   sync.Mutex
	last mark.Place // the chunk that was stored at the highest position; guarded by mu
}

// Number returns the number of the stream.
func (n *Successor) Number() uint64 { return n.to.number }

// Last returns the highest position that [Successor.Store] stored at.
func (n *Successor) Last() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last.Seq
}

// NewSuccessor creates the stream, and its second copy where there is one. One that an
// earlier try left is removed.
func (b *Blobs) NewSuccessor(ctx context.Context) (*Successor, error) {
	if err := b.RemoveOthers(ctx); err != nil {
		return nil, err
	}
	c := b.cfg
	c.BlobStream = b.Number() + 1
	c.Replicas = max(c.Replicas, 1)
	s, err := b.js.CreateStream(ctx, blobsConfig(c))
	if err == nil && c.CopyBlobs {
		_, err = b.js.CreateStream(ctx, copyConfig(c.BlobStream))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: create stream %s: %w", ledger.ErrUnavailable, BlobsStream(c.BlobStream), err)
	}
	to := &blobStream{number: c.BlobStream, stream: s}
	if c.GroupSync != nil {
		if to.sync, err = c.GroupSync(BlobsStream(c.BlobStream)); err != nil {
			return nil, err
		}
	}
	return &Successor{blobs: b, to: to}, nil
}

// Store stores a chunk of the current stream, with its subject and header as they are stored
// there. It keeps the time of the first storing. [ledger.ErrCorrupt]: the payload is not what its
// header says.
func (n *Successor) Store(ctx context.Context, subject string, header, payload []byte, stored time.Time) error {
	first, err := FirstSubject(subject)
	if err != nil {
		return err
	}
	sum, err := CheckChunk(subject, header, payload)
	if err != nil {
		return err
	}
	h, err := nats.DecodeHeadersMsg(header)
	if err != nil {
		return fmt.Errorf("%w: chunk %s: %w", ledger.ErrCorrupt, subject, err)
	}
	to := nats.Header{storedHeader: {strconv.FormatInt(StoredAt(header, stored).UnixNano(), 10)}}
	for _, name := range []string{chunkHeader, blobHeader, chunksHeader, sizeHeader} {
		if v := h.Get(name); v != "" {
			to.Set(name, v)
		}
	}
	seq, err := settle(ctx, write{
		action: "copy chunk to", subject: n.to.subject(first),
		send: func(ctx context.Context) (uint64, error) {
			h := nats.Header{expectHeader: {"0"}}
			maps.Copy(h, to)
			return publish(ctx, n.blobs.js, &nats.Msg{Subject: n.to.subject(first), Header: h, Data: payload})
		},
		next:  func(ctx context.Context) (*js.RawStreamMsg, error) { return n.to.last(ctx, first) },
		isOwn: func(m *js.RawStreamMsg) (bool, error) { return bytes.Equal(m.Data, payload), nil },
	})
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if seq > n.last.Seq {
		n.last = mark.Place{Seq: seq, Sum: sum}
	}
	return nil
}

// StoredAt returns when a chunk was stored first: in its own stream, at the time stored, or in an
// earlier one, as its header says.
func StoredAt(header []byte, stored time.Time) time.Time {
	h, err := nats.DecodeHeadersMsg(header)
	if err != nil {
		return stored
	}
	ns, err := strconv.ParseInt(h.Get(storedHeader), 10, 64)
	if err != nil || ns > stored.UnixNano() {
		return stored
	}
	return time.Unix(0, ns)
}

// Switch puts n in the place of the current stream. No chunk is written or relied on while
// it calls last, which copies what is missing yet and reports whether all is there; if not,
// nothing changes. commit makes the switch durable. If it fails, nobody knows which stream the
// next start opens, so that b writes nothing more.
func (b *Blobs) Switch(ctx context.Context, n *Successor, last func() (bool, error), commit func(number uint64, place mark.Place) error) (switched bool, err error) {
	b.switching.Lock()
	defer b.switching.Unlock()
	if ready, err := last(); err != nil || !ready {
		return false, err
	}
	n.mu.Lock()
	place := n.last
	n.mu.Unlock()
	if err := n.to.sync.Wait(ctx, place.Seq); err != nil { // all of it, before the old ones may go
		return false, fmt.Errorf("%w: %v", ledger.ErrUnavailable, err)
	}
	if err := commit(n.to.number, place); err != nil {
		err = fmt.Errorf("%w: the switch to stream %s: %w", ledger.ErrUnavailable, BlobsStream(n.to.number), err)
		b.stopped.Store(&err)
		return false, err
	}
	old := b.current.Swap(n.to)
	return true, old.sync.Close()
}

// AwaitCopy returns when the second copy of the current stream holds all that was stored
// when it was called, or with an error after a minute.
func (b *Blobs) AwaitCopy(ctx context.Context) error {
	if !b.cfg.CopyBlobs {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	want, _, err := b.State(ctx)
	if err != nil {
		return err
	}
	name := CopyStream(b.Number())
	pause := newPause(10*time.Millisecond, time.Second)
	for {
		var have uint64
		s, err := b.js.Stream(ctx, name)
		if err == nil {
			have, _, err = state(ctx, s)
		}
		if err == nil && have >= want {
			return nil
		}
		if !pause.wait(ctx) {
			return fmt.Errorf("%w: stream %s has %d of %d chunks: %w", ledger.ErrUnavailable, name, have, want, errors.Join(ctx.Err(), err))
		}
	}
}

// RemoveOthers removes every stream of blobs but the current one and its copy. The current
// one must hold all that is to stay.
func (b *Blobs) RemoveOthers(ctx context.Context) error {
	names := b.js.StreamNames(ctx)
	var others []string
	for name := range names.Name() {
		if n, ok := BlobStreamNumber(name); ok && n != b.Number() {
			others = append(others, name)
		}
	}
	if err := names.Err(); err != nil {
		return fmt.Errorf("%w: streams of blobs: %w", ledger.ErrUnavailable, err)
	}
	for _, name := range others {
		if err := b.js.DeleteStream(ctx, name); err != nil && !errors.Is(err, js.ErrStreamNotFound) {
			return fmt.Errorf("%w: remove stream %s: %w", ledger.ErrUnavailable, name, err)
		}
	}
	return nil
}

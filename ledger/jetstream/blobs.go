package jetstream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"nexus/ledger"
	"nexus/ledger/jetstream/mark"
	"nexus/turns"
)

const (
	chunkSize = 256 << 10 // at most; less where messages are smaller

	chunkHeader  = "Nexus-Chunk-Sha256" // of the chunk, hex
	blobHeader   = "Nexus-Blob-Sha256"  // of the whole sealed blob, hex; on chunk 0
	chunksHeader = "Nexus-Blob-Chunks"  // how many, on chunk 0
	sizeHeader   = "Nexus-Blob-Size"    // of the whole, in bytes; on chunk 0
	storedHeader = "Nexus-Stored"       // when the first stream stored the chunk, Unix ns; on one that a collection copied
)

// Blobs is [ledger.Blobs] on a JetStream stream. Safe for concurrent use.
//
// Chunk 0 is at nexus.blobs.<tenant>.<digest>.0, chunk n at
// nexus.blobs.<tenant>.<digest>.<sum>.<n>, where sum is from the SHA-256 of the
// sealed bytes. Every chunk is written once, by a compare-and-set that expects
// its subject to be empty.
//
// Chunk 0 is written last: it is the commit point, and names the sum of its
// followers. A crash before it leaves chunks that nothing names. Where chunks are
// smaller than chunkSize, their size is part of the subject: writers with other
// limits write other subjects. Two writers who sealed the same content differently
// never mix their chunks: the first chunk 0 wins.
//
// A collection puts another stream in the place of this one; see [Successor]. There the
// subjects begin with nexus.blobs_<number>. Errors name the subjects of the first stream.
type Blobs struct {
	js    js.JetStream
	cfg   Config
	acked func(log, blobs mark.Place)
	chunk int // size of the chunks that PutBlob writes, in bytes

	// switching is held for reading by whatever relies on a chunk that is stored or writes
	// one, and for writing while another stream takes the place of the current one.
	switching sync.RWMutex
	current   atomic.Pointer[blobStream]
	holds     holds
	stopped   atomic.Pointer[error]  // once set, nothing more is written
	paused    *atomic.Pointer[error] // see [Log.Pause]
	era       func() uint64          // changes with each Pause and Resume
}

// maxBlob is the largest content with what sealing adds to it, in bytes.
const maxBlob = turns.MaxBody + 1024

var _ ledger.Blobs = (*Blobs)(nil)

// PutBlob implements [ledger.Blobs].
func (b *Blobs) PutBlob(ctx context.Context, tenant string, digest turns.Hash, sealed []byte) error {
	base, err := blobSubject(tenant, digest)
	if err != nil {
		return err
	}
	if len(sealed) > maxBlob {
		return fmt.Errorf("put blob %v: %w: %d bytes, the limit is %d", digest, ledger.ErrTooLarge, len(sealed), maxBlob)
	}
	if err := b.refused(); err != nil {
		return fmt.Errorf("put blob %v: %w", digest, err)
	}
	if stored, _ := b.hold(ctx, base); stored && b.refused() == nil {
		return nil // the first copy stays
	}
	sum := sha256.Sum256(sealed)
	chunks := split(sealed, b.chunk)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for n := 1; n < len(chunks); n++ {
		g.Go(func() error {
			return b.put(gctx, followerSubject(base, sum, b.chunk, n), nil, chunks[n])
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("put blob %v: %w", digest, err)
	}
	header := nats.Header{
		blobHeader:   {hex.EncodeToString(sum[:])},
		chunksHeader: {strconv.Itoa(len(chunks))},
		sizeHeader:   {strconv.Itoa(len(sealed))},
	}
	if err := b.put(ctx, base+".0", header, chunks[0]); err != nil {
		return fmt.Errorf("put blob %v: %w", digest, err)
	}
	return nil
}

// put stores one chunk. A chunk that subject has already stays.
func (b *Blobs) put(ctx context.Context, subject string, header nats.Header, chunk []byte) error {
	b.switching.RLock()
	defer b.switching.RUnlock()
	era := b.era()
	if err := b.refused(); err != nil {
		return err
	}
	stored := turns.Hash(sha256.Sum256(chunk))
	w := b.current.Load().sync.Begin()
	defer w.End()
	seq, err := settle(ctx, write{
		action: "store chunk at", subject: subject,
		send: func(ctx context.Context) (uint64, error) {
			// Headers of its own for each try: the client writes into them.
			h := nats.Header{expectHeader: {"0"}, chunkHeader: {hexSum(chunk)}}
			if synced := b.current.Load().sync.Synced(); synced > 0 {
				h.Set(syncedHeader, strconv.FormatUint(synced, 10))
			}
			maps.Copy(h, header)
			return publish(ctx, b.js, &nats.Msg{Subject: b.current.Load().subject(subject), Header: h, Data: chunk})
		},
		next: func(ctx context.Context) (*js.RawStreamMsg, error) { return b.current.Load().last(ctx, subject) },
		isOwn: func(m *js.RawStreamMsg) (bool, error) {
			stored = sha256.Sum256(m.Data) // another writer may have been first
			if err := b.refused(); err != nil {
				return false, fmt.Errorf("%w: %w", ledger.ErrIndeterminate, err)
			}
			return true, nil
		},
	})
	if err == nil {
		err = w.Wait(ctx, seq)
	}
	if err == nil && b.era() != era {
		err = fmt.Errorf("%w: %w", ledger.ErrIndeterminate, errInterrupted)
	}
	if err == nil {
		b.acked(mark.Place{}, mark.Place{Seq: seq, Sum: stored})
	}
	return err
}

// hold makes sure that the next collection keeps the blob at base, and reports whether it
// is stored.
//
// Invariant: the blob is held before its chunk is looked up, and no stream takes the place
// of another in between. So a blob that is found here is not collected before [HoldTime].
func (b *Blobs) hold(ctx context.Context, base string) (stored bool, err error) {
	b.switching.RLock()
	defer b.switching.RUnlock()
	b.holds.add(keyOf(base))
	era, now := b.era(), b.current.Load()
	m, err := now.last(ctx, base+".0")
	if err == nil {
		err = now.sync.Wait(ctx, m.Sequence)
	}
	if err == nil && b.era() != era {
		err = fmt.Errorf("%w: %w", ledger.ErrUnavailable, errInterrupted)
	}
	return err == nil, err
}

// KeepBlob implements [ledger.Blobs].
func (b *Blobs) KeepBlob(ctx context.Context, tenant string, digest turns.Hash) error {
	base, err := blobSubject(tenant, digest)
	if err != nil {
		return err
	}
	if _, err := b.hold(ctx, base); err != nil {
		return fmt.Errorf("keep blob %v: %w", digest, readError(err))
	}
	return nil
}

// refused returns why nothing counts as stored, nil if it does.
func (b *Blobs) refused() error {
	for _, p := range []*error{b.stopped.Load(), b.paused.Load()} {
		if p != nil {
			return *p
		}
	}
	return nil
}

// GetBlob implements [ledger.Blobs].
func (b *Blobs) GetBlob(ctx context.Context, tenant string, digest turns.Hash) ([]byte, error) {
	base, err := blobSubject(tenant, digest)
	if err != nil {
		return nil, err
	}
	for {
		s := b.current.Load()
		sealed, err := s.get(ctx, base)
		if err != nil && b.current.Load() != s {
			continue // a collection replaced the stream meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("get blob %v: %w", digest, err)
		}
		return sealed, nil
	}
}

func (s *blobStream) get(ctx context.Context, base string) ([]byte, error) {
	first, err := s.read(ctx, base+".0")
	if err != nil {
		return nil, err
	}
	chunks, err1 := strconv.Atoi(first.Header.Get(chunksHeader))
	size, err2 := strconv.Atoi(first.Header.Get(sizeHeader))
	sum, err3 := hex.DecodeString(first.Header.Get(blobHeader))
	if err := errors.Join(err1, err2, err3); err != nil || size < 0 || len(sum) != sha256.Size ||
		(chunks > 1 && len(first.Data) == 0) || (chunks > 1 && chunks != count(size, len(first.Data))) || (chunks == 1 && size != len(first.Data)) || chunks < 1 {
		return nil, fmt.Errorf("%w: headers of chunk 0: %v", ledger.ErrCorrupt, first.Header)
	}
	sealed, each := first.Data, len(first.Data)
	for n := 1; n < chunks; n++ {
		m, err := s.read(ctx, followerSubject(base, [32]byte(sum), each, n))
		if errors.Is(err, ledger.ErrNotFound) { // it was stored before chunk 0
			return nil, fmt.Errorf("%w: chunk %d of %d is gone", ledger.ErrCorrupt, n, chunks)
		}
		if err != nil {
			return nil, err
		}
		sealed = append(sealed, m.Data...)
	}
	if got := sha256.Sum256(sealed); len(sealed) != size || !bytes.Equal(got[:], sum) {
		return nil, fmt.Errorf("%w: %d bytes hash to %x; chunk 0 says %d bytes and %x", ledger.ErrCorrupt, len(sealed), got, size, sum)
	}
	return sealed, nil
}

// read reads one chunk and checks it.
func (s *blobStream) read(ctx context.Context, subject string) (*js.RawStreamMsg, error) {
	m, err := s.last(ctx, subject)
	if err != nil {
		return nil, readError(err)
	}
	if _, err := checkChunk(subject, m.Header, m.Data); err != nil {
		return nil, err
	}
	return m, nil
}

// CheckChunk returns the SHA-256 of a message of the blobs' stream as it is stored, with
// its headers as they are on the wire. [ledger.ErrCorrupt]: another hash is stored
// beside it.
func CheckChunk(subject string, header, payload []byte) (turns.Hash, error) {
	h, err := nats.DecodeHeadersMsg(header)
	if err != nil {
		return turns.Hash{}, fmt.Errorf("%w: chunk %s: %w", ledger.ErrCorrupt, subject, err)
	}
	return checkChunk(subject, h, payload)
}

// ChunkHeader is the header, as on the wire, that a chunk is stored with, but for
// what only a first chunk has and what only its write needs.
func ChunkHeader(payload []byte) []byte {
	return []byte("NATS/1.0\r\n" + chunkHeader + ": " + hexSum(payload) + "\r\n\r\n")
}

func checkChunk(subject string, h nats.Header, payload []byte) (turns.Hash, error) {
	sum := turns.Hash(sha256.Sum256(payload))
	if got, want := hex.EncodeToString(sum[:]), h.Get(chunkHeader); got != want {
		return sum, fmt.Errorf("%w: chunk %s hashes to %s, its header says %q", ledger.ErrCorrupt, subject, got, want)
	}
	return sum, nil
}

// blobSubject returns the prefix of the subjects of a blob's chunks.
func blobSubject(tenant string, digest turns.Hash) (string, error) {
	if tenant == "" || strings.ContainsAny(tenant, ".*> \t\r\n") {
		return "", fmt.Errorf("blob %v: %w tenant %q", digest, ledger.ErrMalformed, tenant)
	}
	return firstPrefix + tenant + "." + hex.EncodeToString(digest[:]), nil
}

// followerSubject returns the subject of chunk n >= 1. Sixteen bytes of the sum
// keep differently sealed copies apart; GetBlob checks the whole sum.
func followerSubject(base string, sum [32]byte, chunk, n int) string {
	if chunk != chunkSize {
		return fmt.Sprintf("%s.%x-%d.%d", base, sum[:16], chunk, n)
	}
	return fmt.Sprintf("%s.%x.%d", base, sum[:16], n)
}

// count returns how many chunks size bytes need: at least one.
func count(size, chunk int) int { return max(1, (size+chunk-1)/chunk) }

// split divides sealed into count(len(sealed), chunk) chunks that share its memory.
func split(sealed []byte, chunk int) [][]byte {
	chunks := make([][]byte, count(len(sealed), chunk))
	for n := range chunks {
		chunks[n] = sealed[n*chunk : min((n+1)*chunk, len(sealed))]
	}
	return chunks
}

func hexSum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

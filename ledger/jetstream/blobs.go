package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
	"nexus/turns"
)

// chunk is how many bytes of a blob one message holds.
const chunk = 256 << 10

const (
	totalHeader = "Nexus-Blob-Size"
	sumHeader   = "Nexus-Chunk-Sha256"
)

// Blobs is the blobs on the stream NEXUS_BLOBS, one subject a chunk. A chunk is
// written once: the stream refuses a second message on its subject.
type Blobs struct {
	js     js.JetStream
	stream js.Stream
}

func chunkSubject(tenant string, digest turns.Hash, n int) string {
	return fmt.Sprintf("blobs.%s.%s.%d", tenant, hex.EncodeToString(digest[:]), n)
}

// PutBlob implements [ledger.Blobs]. Chunks go last first: the first one, which
// readers ask for, is there only when all are. A crash in between leaves chunks
// that the next try finds in place: the same content is sealed to the same
// bytes.
func (b *Blobs) PutBlob(ctx context.Context, tenant string, digest turns.Hash, sealed []byte) error {
	if len(sealed) > turns.MaxBody+1024 {
		return fmt.Errorf("%w: blob of %d bytes", ledger.ErrTooLarge, len(sealed))
	}
	if _, err := b.GetBlob(ctx, tenant, digest); !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	for n := max(0, (len(sealed)-1)/chunk); n >= 0; n-- {
		part := sealed[n*chunk : min(len(sealed), (n+1)*chunk)]
		sum := sha256.Sum256(part)
		err := b.putChunk(ctx, &nats.Msg{Subject: chunkSubject(tenant, digest, n), Data: part, Header: nats.Header{
			totalHeader: {strconv.Itoa(len(sealed))}, sumHeader: {hex.EncodeToString(sum[:])}, expectHeader: {"0"},
		}})
		if errors.Is(err, ledger.ErrConflict) {
			return b.await(ctx, tenant, digest)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// await waits for another writer's copy to be whole. The writer that stored the
// last chunk goes on; all others end here.
func (b *Blobs) await(ctx context.Context, tenant string, digest turns.Hash) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		_, err := b.GetBlob(ctx, tenant, digest)
		return struct{}{}, err
	}, backoff.WithMaxElapsedTime(5*time.Second))
	if err != nil {
		return fmt.Errorf("%w: another copy of blob %s is half written: %w", ledger.ErrUnavailable, digest, err)
	}
	return nil
}

// putChunk stores one chunk; [ledger.ErrConflict] if other bytes are there.
func (b *Blobs) putChunk(ctx context.Context, m *nats.Msg) error {
	var last error
	for range tries {
		tctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := b.js.PublishMsg(tctx, m, js.WithRetryAttempts(0))
		cancel()
		if err == nil {
			return nil
		}
		last = err
		was, err := b.stream.GetLastMsgForSubject(ctx, m.Subject)
		if err == nil {
			if string(was.Data) == string(m.Data) {
				return nil
			}
			return fmt.Errorf("%w: %s holds other bytes", ledger.ErrConflict, m.Subject)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return fmt.Errorf("%w: store %s: %w", ledger.ErrUnavailable, m.Subject, last)
}

// GetBlob implements [ledger.Blobs].
func (b *Blobs) GetBlob(ctx context.Context, tenant string, digest turns.Hash) ([]byte, error) {
	first, err := b.stream.GetLastMsgForSubject(ctx, chunkSubject(tenant, digest, 0))
	if errors.Is(err, js.ErrMsgNotFound) {
		return nil, fmt.Errorf("%w: blob %s", ledger.ErrNotFound, digest)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: blob %s: %w", ledger.ErrUnavailable, digest, err)
	}
	return b.gather(ctx, tenant, digest, first)
}

func (b *Blobs) gather(ctx context.Context, tenant string, digest turns.Hash, first *js.RawStreamMsg) ([]byte, error) {
	total, err := strconv.Atoi(first.Header.Get(totalHeader))
	if err != nil || total < 0 || total > turns.MaxBody+1024 {
		return nil, fmt.Errorf("%w: blob %s: size %q", ledger.ErrCorrupt, digest, first.Header.Get(totalHeader))
	}
	out := make([]byte, 0, total)
	for n, m := 0, first; ; {
		sum := sha256.Sum256(m.Data)
		if hex.EncodeToString(sum[:]) != m.Header.Get(sumHeader) {
			return nil, fmt.Errorf("%w: blob %s: chunk %d fails its check", ledger.ErrCorrupt, digest, n)
		}
		out = append(out, m.Data...)
		if len(out) >= total {
			break
		}
		n++
		if m, err = b.stream.GetLastMsgForSubject(ctx, chunkSubject(tenant, digest, n)); err != nil {
			return nil, fmt.Errorf("%w: blob %s: chunk %d: %w", ledger.ErrCorrupt, digest, n, err)
		}
	}
	if len(out) != total {
		return nil, fmt.Errorf("%w: blob %s has %d bytes, not %d", ledger.ErrCorrupt, digest, len(out), total)
	}
	return out, nil
}

package memlog

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"nexus/ledger"
	"nexus/turns"
)

// Blobs implements [ledger.Blobs] in memory. The zero Blobs is empty and ready.
// Safe for concurrent use.
type Blobs struct {
	// MaxBlob limits a blob, in bytes; 0: 64 MiB. Set it before first use.
	MaxBlob int

	mu     sync.Mutex
	stored map[blobKey][]byte
}

type blobKey struct {
	tenant string
	digest turns.Hash
}

var _ ledger.Blobs = (*Blobs)(nil)

// PutBlob implements [ledger.Blobs].
func (b *Blobs) PutBlob(ctx context.Context, tenant string, digest turns.Hash, sealed []byte) error {
	limit := b.MaxBlob
	if limit == 0 {
		limit = 64 << 20
	}
	if len(sealed) > limit {
		return fmt.Errorf("put blob %v: %w: %d bytes, the limit is %d", digest, ledger.ErrTooLarge, len(sealed), limit)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("put blob %v: %w: %w", digest, ledger.ErrUnavailable, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stored == nil {
		b.stored = map[blobKey][]byte{}
	}
	k := blobKey{tenant, digest}
	if _, ok := b.stored[k]; !ok {
		b.stored[k] = slices.Clone(sealed)
	}
	return nil
}

// GetBlob implements [ledger.Blobs].
func (b *Blobs) GetBlob(ctx context.Context, tenant string, digest turns.Hash) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("get blob %v: %w: %w", digest, ledger.ErrUnavailable, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.stored[blobKey{tenant, digest}]
	if !ok {
		return nil, fmt.Errorf("get blob %v: %w", digest, ledger.ErrNotFound)
	}
	return slices.Clone(s), nil
}

// KeepBlob implements [ledger.Blobs]. Nothing collects these blobs.
func (b *Blobs) KeepBlob(_ context.Context, tenant string, digest turns.Hash) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.stored[blobKey{tenant, digest}]; !ok {
		return fmt.Errorf("keep blob %v: %w", digest, ledger.ErrNotFound)
	}
	return nil
}

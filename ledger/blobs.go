package ledger

import (
	"context"

	"nexus/turns"
)

// Blobs keeps content that is too large for an event: sealed bytes under a
// keyed digest, written once. A blob is stored before the event that refers to
// it, so a crash between the two leaves a blob that nothing names, never an
// event that names a missing blob. Safe for concurrent use.
type Blobs interface {
	// PutBlob stores sealed under digest; durable on return. If the digest
	// is stored already, PutBlob changes nothing: the first copy stays.
	// Errors: [ErrUnavailable] (retry; a half-written blob is completed),
	// [ErrIndeterminate], [ErrTooLarge].
	PutBlob(ctx context.Context, tenant string, digest turns.Hash, sealed []byte) error
	// GetBlob returns what PutBlob stored. [ErrNotFound]: nothing whole;
	// [ErrCorrupt]: a chunk fails its check.
	GetBlob(ctx context.Context, tenant string, digest turns.Hash) ([]byte, error)
	// KeepBlob says that an event is about to refer to a blob that is stored. PutBlob says
	// so too. No collection takes the blob away while the request lasts.
	// [ErrNotFound]: it is not stored.
	KeepBlob(ctx context.Context, tenant string, digest turns.Hash) error
}

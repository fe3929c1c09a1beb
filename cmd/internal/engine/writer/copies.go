package writer

import (
	"context"
	"fmt"

	"nexus/ledger"
)

// allCopies is more than there are requests at a time.
const allCopies = 1 << 30

// copying is the key of a context whose request holds a copy.
type copying struct{}

// HoldCopy says that a request is about to read content of one session and to store it in another, until it calls release.
// The returned context is that of the request from then on: a request that has it holds no second copy.
//
// A fork copies the settings of its source. Without this the source could be erased in between, and the erasure
// acknowledged, before they are stored.
func (wr *Writer) HoldCopy(ctx context.Context) (_ context.Context, release func(), err error) {
	if ctx.Value(copying{}) != nil { // an erasure may wait already
		return ctx, func() {}, nil
	}
	if err := wr.copies.Acquire(ctx, 1); err != nil {
		return ctx, nil, fmt.Errorf("%w: an erasure waits for other requests: %w", ledger.ErrUnavailable, err)
	}
	return context.WithValue(ctx, copying{}, true), func() { wr.copies.Release(1) }, nil
}

// AwaitCopies returns when no request holds a copy that it began before the call. The caller holds none.
func (wr *Writer) AwaitCopies(ctx context.Context) error {
	if err := wr.copies.Acquire(ctx, allCopies); err != nil {
		return fmt.Errorf("%w: requests that may copy what is erased have not ended: %w", ledger.ErrUnavailable, err)
	}
	wr.copies.Release(allCopies)
	return nil
}

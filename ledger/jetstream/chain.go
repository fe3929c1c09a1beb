package jetstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
)

// Chain implements [ledger.Log]. The stream's leader decides where the chain ends; what is
// before comes through a consumer of the chain's subject, since a request for each record
// costs several times what everything else does with it.
func (l *Log) Chain(ctx context.Context, subject string, after uint64) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		r := reader{log: l, next: after + 1, yield: yield}
		if err := r.chain(ctx, subject); err != nil && !errors.Is(err, errStopped) {
			yield(ledger.Record{}, fmt.Errorf("record of %s after %d: %w", subject, r.next-1, readError(err)))
		}
	}
}

// chain yields the records of a subject. Each time it asks the leader it gets on by a record,
// so a consumer that breaks, or that ends too early, costs time only.
func (r *reader) chain(ctx context.Context, subject string) error {
	for broken := 0; ; {
		m, err := next(ctx, r.log.stream, subject, r.next-1)
		if errors.Is(err, js.ErrMsgNotFound) {
			return nil
		}
		if err == nil {
			err = r.log.onDisk(ctx, m.Sequence)
		}
		if err == nil {
			err = r.yieldNext(ctx, recordOf(m.Sequence, m.Subject, m.Data, m.Header.Get(hashHeader), m.Time))
		}
		if err != nil {
			return err
		}
		if broken == tries {
			continue
		}
		switch err := r.consumeChain(ctx, subject); {
		case errors.Is(err, errStopped), errors.Is(err, ledger.ErrUnavailable):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			broken++
		}
	}
}

// consumeChain yields what a consumer has of a subject.
func (r *reader) consumeChain(ctx context.Context, subject string) error {
	c, err := r.consumer(ctx, subject)
	if err != nil {
		return err
	}
	defer r.drop(ctx, c)
	if info := c.CachedInfo(); info != nil && info.NumPending == 0 {
		return nil
	}
	it, err := c.Messages(js.PullMaxMessages(liveBatch))
	if err != nil {
		return err
	}
	defer it.Stop()
	defer context.AfterFunc(ctx, it.Stop)()
	for {
		m, err := it.Next(js.NextMaxWait(idle))
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("metadata of a delivered message: %w", err)
		}
		if r.log.copies > 1 && r.skipped(m) {
			return errSkipped
		}
		if err := r.log.onDisk(ctx, meta.Sequence.Stream); err != nil {
			return err
		}
		if err := r.yieldNext(ctx, recordOf(meta.Sequence.Stream, m.Subject(), m.Data(), m.Headers().Get(hashHeader), meta.Timestamp)); err != nil {
			return err
		}
		if meta.NumPending == 0 {
			return nil
		}
	}
}

// skipped reports whether a record of the chain may be before m that the consumer left out: a
// server of a cluster that lost records serves consumers as any other. The header of a
// record says which one it followed when it was appended.
func (r *reader) skipped(m js.Msg) bool {
	followed, err := strconv.ParseUint(m.Headers().Get(expectHeader), 10, 64)
	return err != nil || followed >= r.next
}

package outage

import (
	"context"
	"fmt"
	"io"
	"iter"

	"nexus/cmd/internal/engine/content"
	"nexus/ledger"
	"nexus/ledger/jetstream"
	"nexus/projections"
	"nexus/turns"
	"nexus/turns/seal"
)

// guardedLog is the log as the engine uses it. In an outage it appends nothing, and its
// reads answer from the projections, or are unavailable. What runs when an outage begins
// ends at once.
type guardedLog struct {
	*jetstream.Log
	store  *projections.Store
	outage *Outage
	ends   *Ends
}

// Log guards a log that the projections follow. ends is nil where others may append to it, too.
func (o *Outage) Log(log *jetstream.Log, store *projections.Store, ends *Ends) ledger.Log {
	return &guardedLog{Log: log, store: store, outage: o, ends: ends}
}

// Append implements [ledger.Log].
func (g *guardedLog) Append(ctx context.Context, subject string, expect uint64, payload []byte) (uint64, error) {
	ctx, stop, err := g.outage.During(ctx)
	if err != nil {
		return 0, fmt.Errorf("append to %s: %w", subject, err)
	}
	defer stop()
	defer g.outage.writing()()
	seq, err := g.Log.Append(ctx, subject, expect, payload)
	if err == nil && g.ends != nil {
		g.ends.add(subject, seq)
	}
	return seq, err
}

// ErrStale says that what the log holds is not known.
var ErrStale = fmt.Errorf("%w: the disk takes no writes, and what is served now may not be the log's end", ledger.ErrUnavailable)

// guarded returns what read returns, or what stale returns if there is an outage before it has
// ended: the server may show what is not on the disk, and after the outage, what was there
// before.
func guarded[T any](ctx context.Context, o *Outage, read func(context.Context) (T, error), stale func() (T, error)) (T, error) {
	sound, _ := o.now() // it ends with any outage that read meets
	during, stop, err := o.During(ctx)
	if err != nil {
		return stale()
	}
	defer stop()
	out, err := read(during)
	if sound.Err() != nil {
		return stale()
	}
	return out, err
}

// Last implements [ledger.Log].
func (g *guardedLog) Last(ctx context.Context, subject string) (ledger.Record, error) {
	return guarded(ctx, g.outage, func(ctx context.Context) (ledger.Record, error) { return g.Log.Last(ctx, subject) },
		func() (ledger.Record, error) { return g.store.Last(subject) })
}

// Get implements [ledger.Log].
func (g *guardedLog) Get(ctx context.Context, seq uint64) (ledger.Record, error) {
	return guarded(ctx, g.outage, func(ctx context.Context) (ledger.Record, error) { return g.Log.Get(ctx, seq) },
		func() (ledger.Record, error) { return g.store.Record(seq) })
}

// State implements [ledger.Log].
func (g *guardedLog) State(ctx context.Context) (ledger.State, error) {
	return guarded(ctx, g.outage, g.Log.State, func() (ledger.State, error) {
		if lost := g.outage.Halted(); lost != nil {
			return ledger.State{}, lost
		}
		return ledger.State{}, ErrStale
	})
}

// Read implements [ledger.Log].
func (g *guardedLog) Read(ctx context.Context, from uint64, follow bool) iter.Seq2[ledger.Record, error] {
	return g.records(ctx, func(ctx context.Context) iter.Seq2[ledger.Record, error] { return g.Log.Read(ctx, from, follow) })
}

// Chain implements [ledger.Log].
func (g *guardedLog) Chain(ctx context.Context, subject string, after uint64) iter.Seq2[ledger.Record, error] {
	return g.records(ctx, func(ctx context.Context) iter.Seq2[ledger.Record, error] { return g.Log.Chain(ctx, subject, after) })
}

// records yields what read yields, until an outage begins.
func (g *guardedLog) records(ctx context.Context, read func(context.Context) iter.Seq2[ledger.Record, error]) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		during, stop, err := g.outage.During(ctx)
		if err != nil {
			yield(ledger.Record{}, err)
			return
		}
		defer stop()
		read(during)(yield)
	}
}

// guardedBlobs is the blobs as the engine uses them. In an outage it stores nothing;
// reads go on as long as the server answers.
type guardedBlobs struct {
	*jetstream.Blobs
	outage *Outage
}

// Blobs guards blobs.
func (o *Outage) Blobs(b *jetstream.Blobs) ledger.Blobs { return &guardedBlobs{b, o} }

// PutBlob implements [ledger.Blobs].
func (g *guardedBlobs) PutBlob(ctx context.Context, tenant string, digest turns.Hash, sealed []byte) error {
	ctx, stop, err := g.outage.During(ctx)
	if err != nil {
		return fmt.Errorf("put blob %v: %w", digest, err)
	}
	defer stop()
	defer g.outage.writing()()
	return g.Blobs.PutBlob(ctx, tenant, digest, sealed)
}

// guardedKeys reports a key that the disk refuses.
type guardedKeys struct {
	content.Keys
	outage *Outage
}

// Keys guards the keys of the data folder.
func (o *Outage) Keys(keys content.Keys) content.Keys { return &guardedKeys{keys, o} }

// Create implements [content.Keys].
func (g *guardedKeys) Create(id turns.ID, rand io.Reader) (seal.Key, error) {
	defer g.outage.writing()()
	k, err := g.Keys.Create(id, rand)
	return k, g.check(err)
}

// Begin implements [content.Keys].
func (g *guardedKeys) Begin(id turns.ID, rand io.Reader) (seal.Key, func() error, error) {
	ended := g.outage.writing()
	k, durable, err := g.Keys.Begin(id, rand)
	if err != nil {
		ended()
		return k, nil, g.check(err)
	}
	return k, func() error {
		defer ended()
		return g.check(durable())
	}, nil
}

// Put implements [content.Keys].
func (g *guardedKeys) Put(id turns.ID, k seal.Key) error {
	defer g.outage.writing()()
	return g.check(g.Keys.Put(id, k))
}

// PutRemains implements [content.Keys].
func (g *guardedKeys) PutRemains(id turns.ID, left *seal.Remains) error {
	defer g.outage.writing()()
	return g.check(g.Keys.PutRemains(id, left))
}

func (g *guardedKeys) check(err error) error {
	if IsDiskError(err) {
		g.outage.Fail(fmt.Errorf("keys: %w", err))
	}
	return err
}

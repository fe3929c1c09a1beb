package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// collectedBlobs has collected everything that was put before.
type collectedBlobs struct {
	ledger.Blobs
	put map[turns.Hash]bool // again
}

func (b *collectedBlobs) PutBlob(ctx context.Context, tenant string, digest turns.Hash, sealed []byte) error {
	b.put[digest] = true
	return b.Blobs.PutBlob(ctx, tenant, digest, sealed)
}

func (b *collectedBlobs) GetBlob(ctx context.Context, tenant string, digest turns.Hash) ([]byte, error) {
	if !b.put[digest] {
		return nil, fmt.Errorf("%w: collected", ledger.ErrNotFound)
	}
	return b.Blobs.GetBlob(ctx, tenant, digest)
}

func (b *collectedBlobs) KeepBlob(ctx context.Context, tenant string, digest turns.Hash) error {
	if !b.put[digest] {
		return fmt.Errorf("%w: collected", ledger.ErrNotFound)
	}
	return b.Blobs.KeepBlob(ctx, tenant, digest)
}

// An import rests for long between a blob and the event that names it, and the blob is
// collected. The daemon's cache still has it. The event is refused until the blob comes again.
func TestAnImportDoesNotNameACollectedBlob(t *testing.T) {
	from := newWorld().Engine(t)
	s := create(t, from, 0, "nexus").ID
	add(t, from, s, say("one", "two"))
	info := must(from.Writer.PutBlob(t.Context(), alice, api.PutBlob{Session: s, Data: []byte(noise(600 << 10))}))(t)
	add(t, from, s, api.AppendTurn{Messages: []turns.Message{{Role: turns.User, Parts: []turns.Part{refTo(info.Digest, info.Size)}}}})
	records := exports(t, from, s)
	to := newWorld().Engine(t)
	last := len(records) - 1
	if records[last].Event == nil {
		t.Fatalf("the last record is %+v", records[last])
	}
	if err := importAs(t, to, alice, records[:last]...); err != nil {
		t.Fatal(err)
	}
	must(to.Reader.GetBlob(t.Context(), alice, api.GetBlob{Session: s, Digest: info.Digest}))(t) // it is in the cache now
	to.Store.Blobs = &collectedBlobs{to.Store.Blobs, map[turns.Hash]bool{}}
	if err := importAs(t, to, alice, records[last]); code(err) != api.Conflict {
		t.Fatalf("%v, want conflict", err)
	}
	for range 2 { // the same import from its beginning
		if err := importAs(t, to, alice, records...); err != nil {
			t.Fatal(err)
		}
	}
	verified(t, to)
}

// The content of a small attachment is in the event, so its blob is collected. A retry of the
// request finds the stored turn; the same request under another id is told which blob is gone.
func TestARetryIsSettledThoughItsBlobIsCollected(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "nexus").ID
	data := []byte(long(20_000))
	info := must(e.Writer.PutBlob(t.Context(), alice, api.PutBlob{Session: s, Data: data}))(t)
	r := api.AppendTurn{ID: newID(t), Messages: []turns.Message{{Role: turns.User, Parts: []turns.Part{refTo(info.Digest, info.Size)}}}}
	first := must(e.Sessions.Append(t.Context(), alice, s, r, canon(r)))(t)
	k := api.RecordCompaction{ID: newID(t), Replacement: r.Messages}
	compaction := must(e.Compactions.Record(t.Context(), alice, s, k, canon(k)))(t)

	e = w.Engine(t) // without a cache
	e.Store.Blobs = &collectedBlobs{e.Store.Blobs, map[turns.Hash]bool{}}
	if again, err := e.Sessions.Append(t.Context(), alice, s, r, canon(r)); err != nil || !again.Duplicate || again.Hash != first.Hash {
		t.Errorf("append: %+v, %v", again, err)
	}
	if again, err := e.Compactions.Record(t.Context(), alice, s, k, canon(k)); err != nil || !again.Duplicate || again.ID != compaction.ID {
		t.Errorf("record: %+v, %v", again, err)
	}
	other := r
	other.ID = newID(t)
	_, err := e.Sessions.Append(t.Context(), alice, s, other, canon(other))
	if x := (*api.Error)(nil); !errors.As(err, &x) || x.Code != api.NotFound || x.Details["digest"] != info.Digest.String() {
		t.Errorf("%v, want not_found with the digest", err)
	}
	must(e.Writer.PutBlob(t.Context(), alice, api.PutBlob{Session: s, Data: data}))(t)
	must(e.Sessions.Append(t.Context(), alice, s, other, canon(other)))(t)
	verified(t, e)
}

package blocks_test

import (
	"bytes"
	"testing"

	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/ledgertest"
	"nexus/turns"
)

// What the ledger itself writes is sound, and each message has a header: that is
// what makes the end of its subject certain.
func TestTheLedgersStreamsAreSoundAndHaveHeaders(t *testing.T) {
	dir, ctx := t.TempDir(), ledgertest.Within(t)
	s, err := embed.Start(embed.Config{DataDir: dir, MaxStore: 1 << 30, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := s.LedgerConn()
	if err != nil {
		t.Fatal(err)
	}
	j, err := js.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	l, err := jetstream.Open(ctx, j, jetstream.Config{Create: true, Ledger: "L"})
	if err != nil {
		t.Fatal(err)
	}
	var tail uint64
	for _, n := range []int{0, 1, 5000} {
		if tail, err = l.Append(ctx, "nexus.log.00.t.s.A", tail, bytes.Repeat([]byte{1}, n)); err != nil {
			t.Fatal(err)
		}
	}
	blob := bytes.Repeat([]byte{2}, 600<<10)
	if err := l.Blobs().PutBlob(ctx, "t", turns.HashEvent(blob), blob); err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint64{jetstream.StreamName: 3, jetstream.BlobsName: 3} {
		dir := embed.StreamDir(dir, name)
		r, err := blocks.Check(ctx, dir, blocks.Options{Acked: want})
		if err != nil || r.Err() != nil || r.Torn != nil || r.Records != want || r.Index.Use != blocks.Current || r.Stream.Name != name {
			t.Errorf("%s: %+v, torn %+v, %v, %v", name, r, r.Torn, r.Err(), err)
		}
		for rec, err := range blocks.Records(ctx, dir, 0) {
			if err != nil || rec.Header == nil {
				t.Errorf("%s, record %d: no header, or %v", name, rec.Seq, err)
			}
		}
	}
}

package blocks

import (
	"bytes"
	"path/filepath"
	"testing"

	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/ledgertest"
	"nexus/turns"
)

// What the ledger itself writes is sound, and each message has a header: that is
// what makes the end of its subject certain.
func TestTheLedgersStreamsAreSoundAndHaveHeaders(t *testing.T) {
	s, ctx := start(t, t.TempDir()), ledgertest.Within(t)
	j, err := js.New(s.conn)
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
	s.stop(t)
	for name, want := range map[string]uint64{jetstream.StreamName: 3, jetstream.BlobsName: 3} {
		dir := filepath.Join(s.data, "jetstream", "jetstream", embed.LedgerAccount, "streams", name)
		r := check(t, dir, Options{Acked: want})
		if r.Err() != nil || r.Torn != nil || r.Records != want || r.Index.Use != Current || r.Stream.Name != name {
			t.Errorf("%s: %+v, torn %+v, %v", name, r, r.Torn, r.Err())
		}
		for _, rec := range all(t, dir, 0) {
			if rec.Header == nil {
				t.Errorf("%s, record %d: no header", name, rec.Seq)
			}
		}
	}
}

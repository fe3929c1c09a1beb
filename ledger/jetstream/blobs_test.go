package jetstream

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"nexus/ledger"
	"nexus/ledger/ledgertest"
	"nexus/turns"
)

// TestAHalfWrittenBlobIsCompletedByTheNextPut leaves what a crash leaves at each point of a put, and
// then puts again: the same bytes, and the same content sealed otherwise.
func TestAHalfWrittenBlobIsCompletedByTheNextPut(t *testing.T) {
	ctx := ledgertest.Within(t)
	sealed := map[string][]byte{"same": bytes.Repeat([]byte("a"), 3*chunkSize+1), "otherwise": bytes.Repeat([]byte("b"), 3*chunkSize+1)}
	for name, again := range sealed {
		t.Run(name, func(t *testing.T) {
			b := single(t).Blobs()
			for stored := range 3 { // chunks 1.. that were stored; chunk 0 never
				digest := turns.Hash{byte(stored)}
				base, err := blobSubject("t", digest)
				if err != nil {
					t.Fatal(err)
				}
				first := sealed["same"]
				sum := sha256.Sum256(first)
				for n := 1; n <= stored; n++ {
					if err := b.put(ctx, followerSubject(base, sum, chunkSize, n), nil, split(first, chunkSize)[n]); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := b.GetBlob(ctx, "t", digest); !errors.Is(err, ledger.ErrNotFound) {
					t.Errorf("%d chunks: %v, want not found", stored, err)
				}
				if err := b.PutBlob(ctx, "t", digest, again); err != nil {
					t.Errorf("%d chunks, put again: %v", stored, err)
				}
				if got, err := b.GetBlob(ctx, "t", digest); err != nil || !bytes.Equal(got, again) {
					t.Errorf("%d chunks, put again: got %d bytes, %v", stored, len(got), err)
				}
			}
		})
	}
}

// TestABlobThatFailsItsChecksIsCorrupt stores chunks that this code never would.
func TestABlobThatFailsItsChecksIsCorrupt(t *testing.T) {
	ctx := ledgertest.Within(t)
	b := single(t).Blobs()
	for i, h := range []nats.Header{
		{chunkHeader: {hexSum([]byte("other"))}},
		{chunkHeader: {hexSum([]byte("x"))}},
		{chunkHeader: {hexSum([]byte("x"))}, chunksHeader: {"1"}, sizeHeader: {"-1"}, blobHeader: {hexSum([]byte("x"))}},
		{chunkHeader: {hexSum([]byte("x"))}, chunksHeader: {"1"}, sizeHeader: {"2"}, blobHeader: {hexSum([]byte("x"))}},
		{chunkHeader: {hexSum([]byte("x"))}, chunksHeader: {"9999"}, sizeHeader: {"1"}, blobHeader: {hexSum([]byte("x"))}},
		{chunkHeader: {hexSum([]byte("x"))}, chunksHeader: {"1"}, sizeHeader: {"1"}, blobHeader: {hexSum([]byte("y"))}},
		{chunkHeader: {hexSum([]byte("x"))}, chunksHeader: {"2"}, sizeHeader: {"300000"}, blobHeader: {hexSum([]byte("x"))}},
	} {
		digest := turns.Hash{byte(i)}
		base, err := blobSubject("t", digest)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.js.PublishMsg(ctx, &nats.Msg{Subject: base + ".0", Header: h, Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		if got, err := b.GetBlob(ctx, "t", digest); !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("case %d: %q, %v; want corrupt", i, got, err)
		}
	}
	for _, tenant := range []string{"", "a.b", "*", ">", "a b"} {
		if err := b.PutBlob(ctx, tenant, turns.Hash{1}, nil); !errors.Is(err, ledger.ErrMalformed) {
			t.Errorf("tenant %q: %v, want malformed", tenant, err)
		}
	}
}

package ledgertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"nexus/ledger"
	"nexus/turns"
)

// noise is n bytes that do not compress, the same for the same seed.
func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	rand.NewChaCha8(key).Read(b)
	return b
}

// TestBlobs runs the conformance suite of blobs. open gives an empty store.
func TestBlobs(t *testing.T, open func(t *testing.T) ledger.Blobs) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, context.Context, ledger.Blobs)
	}{
		{"sizes", testBlobSizes},
		{"the first copy stays", testBlobFirst},
		{"not found", testBlobNotFound},
		{"tenants are apart", testBlobTenants},
		{"ownership", testBlobOwnership},
		{"racing puts", testBlobRace},
		{"keep", testBlobKeep},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := Within(t)
			c.run(t, ctx, open(t))
		})
	}
}

func mustPut(t testing.TB, ctx context.Context, b ledger.Blobs, tenant string, d turns.Hash, sealed []byte) {
	t.Helper()
	if err := b.PutBlob(ctx, tenant, d, sealed); err != nil {
		t.Fatalf("put %d bytes: %v", len(sealed), err)
	}
}

func wantBlob(t testing.TB, ctx context.Context, b ledger.Blobs, tenant string, d turns.Hash, want []byte) {
	t.Helper()
	got, err := b.GetBlob(ctx, tenant, d)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, %v; want the %d that were put", len(got), err, len(want))
	}
}

func testBlobSizes(t *testing.T, ctx context.Context, b ledger.Blobs) {
	const k = 256 << 10
	for i, n := range []int{0, 1, k - 1, k, k + 1, 2 * k, 3*k + 7, 9 << 20} {
		p := noise(uint64(i), n)
		d := turns.Hash{byte(i), 1}
		mustPut(t, ctx, b, "t", d, p)
		wantBlob(t, ctx, b, "t", d, p)
	}
	err := b.PutBlob(ctx, "t", turns.Hash{99}, make([]byte, 128<<20))
	if !errors.Is(err, ledger.ErrTooLarge) {
		t.Errorf("put of 128 MiB: %v, want too large", err)
	}
}

func testBlobFirst(t *testing.T, ctx context.Context, b ledger.Blobs) {
	first := noise(1, 600<<10)
	mustPut(t, ctx, b, "t", turns.Hash{1}, first)
	for i, other := range [][]byte{first, noise(2, 600<<10), noise(3, 10), noise(4, 900<<10)} {
		if err := b.PutBlob(ctx, "t", turns.Hash{1}, other); err != nil {
			t.Errorf("put %d under a stored digest: %v", i, err)
		}
		wantBlob(t, ctx, b, "t", turns.Hash{1}, first)
	}
}

func testBlobNotFound(t *testing.T, ctx context.Context, b ledger.Blobs) {
	if _, err := b.GetBlob(ctx, "t", turns.Hash{1}); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("%v, want not found", err)
	}
}

func testBlobKeep(t *testing.T, ctx context.Context, b ledger.Blobs) {
	if err := b.KeepBlob(ctx, "t", turns.Hash{1}); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("keep nothing: %v, want not found", err)
	}
	mustPut(t, ctx, b, "t", turns.Hash{1}, []byte("x"))
	if err := b.KeepBlob(ctx, "t", turns.Hash{1}); err != nil {
		t.Error(err)
	}
	if err := b.KeepBlob(ctx, "u", turns.Hash{1}); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("keep another tenant's: %v, want not found", err)
	}
}

func testBlobTenants(t *testing.T, ctx context.Context, b ledger.Blobs) {
	mustPut(t, ctx, b, "t", turns.Hash{1}, []byte("of t"))
	if _, err := b.GetBlob(ctx, "u", turns.Hash{1}); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("%v, want not found", err)
	}
	mustPut(t, ctx, b, "u", turns.Hash{1}, []byte("of u"))
	wantBlob(t, ctx, b, "t", turns.Hash{1}, []byte("of t"))
	wantBlob(t, ctx, b, "u", turns.Hash{1}, []byte("of u"))
}

func testBlobOwnership(t *testing.T, ctx context.Context, b ledger.Blobs) {
	p := []byte("abc")
	mustPut(t, ctx, b, "t", turns.Hash{1}, p)
	copy(p, "xyz")
	got, err := b.GetBlob(ctx, "t", turns.Hash{1})
	if err != nil {
		t.Fatal(err)
	}
	copy(got, "xyz")
	wantBlob(t, ctx, b, "t", turns.Hash{1}, []byte("abc"))
}

// testBlobRace puts differently sealed bytes under one digest at once: what is
// read afterwards is whole, and one of them.
func testBlobRace(t *testing.T, ctx context.Context, b ledger.Blobs) {
	var wg sync.WaitGroup
	copies := make([][]byte, 6)
	for i := range copies {
		copies[i] = noise(uint64(i), 700<<10)
		wg.Go(func() {
			if err := b.PutBlob(ctx, "t", turns.Hash{1}, copies[i]); err != nil {
				t.Error(fmt.Errorf("put of copy %d: %w", i, err))
			}
		})
	}
	wg.Wait()
	got, err := b.GetBlob(ctx, "t", turns.Hash{1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range copies {
		if bytes.Equal(got, c) {
			return
		}
	}
	t.Error("what is stored is none of the copies that were put")
}

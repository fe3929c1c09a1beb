package backup_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"nexus/cmd/internal/engine/backup"
	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// fake has one record, whose frame is large.
type fake []byte

func (f fake) State(context.Context) (*api.BackupState, error) { return new(api.BackupState), nil }

func (f fake) Read(_ context.Context, r api.ReadBackup, _ int) ([]byte, uint64, error) {
	return f, r.First + 1, nil
}

var operator = reader.Caller{Tenant: "default", Agent: api.Operator}

func TestAFrameThatIsLargerThanAMessageComesInPieces(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789"), 1000)
	limits := &page.Limits{MaxPayload: 4096}
	b := backup.New(fake(want), new(content.Store), limits)
	var got []byte
	for q := (api.ReadBackup{Stream: "log", First: 7, Last: 9}); ; {
		out, err := b.Read(t.Context(), operator, true, q)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := turns.EncodeJSON(out); err != nil || len(text) > limits.MaxPayload {
			t.Fatalf("a reply of %d bytes (%v)", len(text), err)
		}
		got = append(got, out.Frames...)
		if out.NextOffset == 0 {
			if out.Next != 8 {
				t.Errorf("next is %d", out.Next)
			}
			break
		}
		if out.Next != 7 || out.NextOffset != len(got) {
			t.Fatalf("%d bytes: %d, %d", len(got), out.Next, out.NextOffset)
		}
		q.Offset = out.NextOffset
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d, or they differ", len(got), len(want))
	}
	for _, offset := range []int{-1, len(want), len(want) + 1} {
		if _, err := b.Read(t.Context(), operator, true, api.ReadBackup{Stream: "log", First: 7, Last: 9, Offset: offset}); !errors.Is(err, ledger.ErrMalformed) {
			t.Errorf("offset %d: %v", offset, err)
		}
	}
}

func TestRequestsOfABackupAreChecked(t *testing.T) {
	b := backup.New(fake("x"), new(content.Store), new(page.Limits))
	for _, r := range []api.ReadBackup{{Stream: "other", First: 1, Last: 1}, {Stream: "log", Number: 1, First: 1, Last: 1}, {Stream: "log", Last: 1}, {Stream: "blobs", First: 2, Last: 1}} {
		if _, err := b.Read(t.Context(), operator, true, r); !errors.Is(err, ledger.ErrMalformed) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if _, err := b.Keys(t.Context(), operator, true, api.BackupKeys{IDs: make([]turns.ID, 1001)}); !errors.Is(err, ledger.ErrMalformed) {
		t.Errorf("1,001 keys: %v", err)
	}
	if _, err := b.Keys(t.Context(), operator, true, api.BackupKeys{IDs: make([]turns.ID, 1)}); !errors.Is(err, ledger.ErrUnsupported) {
		t.Errorf("a key of a daemon without keys: %v", err)
	}
	none := backup.New(nil, new(content.Store), new(page.Limits))
	if _, err := none.State(t.Context(), operator, true); !errors.Is(err, ledger.ErrUnsupported) {
		t.Errorf("an external server: %v", err)
	}
	for _, tc := range []struct {
		c     reader.Caller
		every bool
	}{{operator, false}, {reader.Caller{Tenant: "default", Agent: "main"}, true}} {
		if _, err := b.State(t.Context(), tc.c, tc.every); !errors.Is(err, ledger.ErrDenied) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

package erasure

import (
	"bytes"
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"nexus/ledger/api"
	"nexus/ledger/tlog"
	"nexus/turns"
)

func aList(t *testing.T) (l List, sign func(string) ([]byte, error)) {
	t.Helper()
	key, err := tlog.NewKey(rand.Reader, tlog.Origin("0c5d3c1a-1111-4222-8333-444455556666", time.Unix(0, 0), 0))
	if err != nil {
		t.Fatal(err)
	}
	l1 := api.NewID()
	l = List{Ledger: "0c5d3c1a-1111-4222-8333-444455556666", Key: key.Public()}
	l.Merge([]Erased{
		{Session: api.NewID(), Tenant: "default", Hash: turns.Hash{1}, Position: 7, Time: time.Unix(1, 2).UTC(), Ground: "-x"},
		{Session: api.NewID(), Tenant: "acme", Position: 0},
		{Session: l1, Tenant: "acme", Hash: turns.Hash{2}, Position: 9, Time: time.Unix(1, 3).UTC()},
		{Session: l1, Event: api.NewID(), Tenant: "acme", Hash: turns.Hash{3}, Position: 4, Time: time.Unix(1, 4).UTC(), Ground: "leak"},
		{Session: l1, Event: api.NewID(), Tenant: "acme", Hash: turns.Hash{4}, Position: 5, Time: time.Unix(1, 5).UTC()},
	})
	if len(l.Rows) != 5 {
		t.Fatalf("%d rows", len(l.Rows))
	}
	return l, key.SignText
}

func TestAListReadsAsItWasWritten(t *testing.T) {
	l, sign := aList(t)
	unsigned := l
	unsigned.Key = ""
	for name, tc := range map[string]struct {
		l    List
		sign func(string) ([]byte, error)
	}{"signed": {l, sign}, "not signed": {unsigned, nil}, "empty": {List{Ledger: l.Ledger}, nil}} {
		b, err := tc.l.Encode(tc.sign)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseList(b)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, b)
		}
		again, err := got.Encode(tc.sign)
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s: %v, it reads as\n%s\nof\n%s", name, err, again, b)
		}
	}
}

// No byte of a signed list can be changed, and nothing left out.
func TestAListThatWasChangedIsRefused(t *testing.T) {
	l, sign := aList(t)
	b, err := l.Encode(sign)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		for _, c := range [][]byte{append(bytes.Clone(b[:i]), b[i+1:]...), append(append(bytes.Clone(b[:i]), b[i]^1), b[i+1:]...), b[:i]} {
			got, err := ParseList(c)
			if err != nil {
				continue
			}
			if again, err := got.Encode(sign); err != nil || !bytes.Equal(again, b) {
				t.Errorf("with a change at %d it is read:\n%s", i, c)
			}
		}
	}
}

func TestAListKeepsWhatSaysMore(t *testing.T) {
	l, _ := aList(t)
	i := slices.IndexFunc(l.Rows, func(r Erased) bool { return r.Hash.IsZero() })
	at := l.Rows[i].Session
	if l.Merge(l.Rows) {
		t.Error("the same rows are a change")
	}
	if !l.Merge([]Erased{{Session: at, Hash: turns.Hash{2}, Position: 9}}) || l.Rows[i].Position != 9 {
		t.Errorf("%+v", l.Rows)
	}
	if l.Merge([]Erased{{Session: at}}) || len(l.Rows) != 5 || l.Rows[i].Position != 9 {
		t.Errorf("%+v", l.Rows)
	}
	i = slices.IndexFunc(l.Rows, func(r Erased) bool { return r.Ground == "leak" })
	of := l.Rows[i]
	if of.Position = 8; !l.Merge([]Erased{{Session: of.Session, Event: of.Event, Tenant: of.Tenant, Hash: of.Hash, Position: 8, Time: of.Time}}) || l.Rows[i] != of || len(l.Rows) != 5 { // redacted again
		t.Errorf("%+v", l.Rows)
	}
}

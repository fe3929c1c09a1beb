package rows

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	"nexus/ledger"
	"nexus/turns"
)

// fillSome sets fields of a value at random; with all, each of them.
func fillSome(rng *rand.Rand, v reflect.Value, all bool) {
	if !all && v.Kind() != reflect.Struct && rng.IntN(2) == 0 {
		return
	}
	number := func() uint64 { return 1 + rng.Uint64()>>rng.IntN(64) }
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "_" {
				fillSome(rng, v.Field(i), all)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillSome(rng, v.Elem(), all)
	case reflect.Array:
		for i := range v.Len() {
			fillSome(rng, v.Index(i), all)
		}
	case reflect.String:
		v.SetString(string(bytes.Repeat([]byte("n"), 1+rng.IntN(300))))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(int64(number()) * int64(1-2*rng.IntN(2)))
	case reflect.Uint8:
		v.SetUint(1 + rng.Uint64()%255)
	default:
		v.SetUint(number())
	}
}

// The row of a session has the bytes that the library gives it, whichever fields are zero.
func TestSessionRowsAreThoseOfTheLibrary(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range 3000 {
		var s ledger.Session
		fillSome(rng, reflect.ValueOf(&s).Elem(), i%10 == 1)
		if i%3 == 0 {
			s.Flushes = [len(s.Flushes)]turns.Flush{}
		}
		if i == 0 {
			s = ledger.Session{}
		}
		want, err := Encode(&s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := EncodeSession(&s)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%+v\nis %x, %v\nwant %x", s, got, err, want)
		}
		var back ledger.Session
		if err := Decode(got, &back); err != nil || !reflect.DeepEqual(back, s) {
			t.Fatalf("%+v\nreads as %+v, %v", s, back, err)
		}
	}
}

func BenchmarkSessionRow(b *testing.B) {
	s := ledger.Session{ID: turns.ID{1}, Tenant: "default", Agent: "main", Kind: turns.Main, Root: turns.ID{1}, Origin: turns.Origin{Tenant: "default", Session: turns.ID{1}}, Recorded: 1 << 60, Tail: ledger.Tail{Seq: 1e6, Index: 1e3, Hash: turns.Hash{1}},
		Head: turns.Ref{Session: turns.ID{1}, Turn: turns.ID{2}}, Last: turns.Ref{Session: turns.ID{1}, Turn: turns.ID{2}}, Segment: turns.ID{3}, Turns: 1e3, Updated: 1 << 60, First: 1 << 60, Latest: 1 << 60, Uncounted: ledger.Uncounted{Calls: 1e3, Input: 1e6, Output: 1e6}}
	for name, f := range map[string]func() ([]byte, error){"library": func() ([]byte, error) { return Encode(&s) }, "own": func() ([]byte, error) { return EncodeSession(&s) }} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package rows

import (
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/turns"
)

func drawID(t *rapid.T, name string) (id turns.ID) {
	copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, name))
	return id
}

func drawTurn(t *rapid.T) Turn {
	own := turns.Ref{Session: drawID(t, "session"), Turn: drawID(t, "turn")}
	x := Turn{Node: lineage.Node{Ref: own}}
	for _, r := range turnRefs(&x) {
		*r = rapid.SampledFrom([]turns.Ref{{}, own, {Session: own.Session, Turn: drawID(t, "local")}, {Session: drawID(t, "other"), Turn: drawID(t, "turn of it")},
			{Session: drawID(t, "half"), Turn: turns.ID{}}, {Turn: drawID(t, "other half")}}).Draw(t, "ref")
	}
	for _, n := range turnNumbers(&x) {
		*n = rapid.Uint64().Draw(t, "number")
	}
	x.Segment = rapid.SampledFrom([]turns.ID{own.Turn, {}, drawID(t, "segment")}).Draw(t, "which segment")
	x.Kind, x.Halves = turns.Kind(rapid.Byte().Draw(t, "kind")), turns.Halves(rapid.Byte().Draw(t, "halves"))
	x.Imported, x.Dropped, x.Call = rapid.Bool().Draw(t, "imported"), rapid.Bool().Draw(t, "dropped"), rapid.Bool().Draw(t, "call")
	x.Recorded = rapid.Int64().Draw(t, "recorded")
	copy(x.Hash[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
	return x
}

func TestTurnRowsReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawTurn(t)
		b := want.Encode()
		got, err := DecodeTurn(want.Ref, b)
		if err != nil || got != want {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
		for n := range b {
			if _, err := DecodeTurn(want.Ref, b[:n]); !errors.Is(err, ledger.ErrCorrupt) {
				t.Fatalf("the first %d of %d bytes: %v, want corrupt", n, len(b), err)
			}
		}
		if _, err := DecodeTurn(want.Ref, append(b, 0)); !errors.Is(err, ledger.ErrCorrupt) {
			t.Fatalf("with a byte more: %v, want corrupt", err)
		}
	})
}

// A new field of a turn must get into its row: every field, changed alone, makes another row.
func TestEachFieldOfATurnIsInItsRow(t *testing.T) {
	var walk func(v reflect.Value)
	base := Turn{Node: lineage.Node{Ref: turns.Ref{Session: turns.ID{1}, Turn: turns.ID{2}}}}
	without := string(base.Encode())
	walk = func(v reflect.Value) {
		for i := range v.NumField() {
			f, name := v.Field(i), v.Type().Field(i).Name
			was := reflect.New(f.Type()).Elem()
			was.Set(f)
			switch {
			case name == "Node":
				walk(f)
				continue
			case name == "Ref":
				continue // it is in the key
			}
			switch x := f.Addr().Interface().(type) {
			case *turns.Ref:
				*x = turns.Ref{Session: turns.ID{3}, Turn: turns.ID{4}}
			case *turns.ID:
				x[0] = 9
			case *turns.Hash:
				x[0] = 9
			default:
				switch f.Kind() {
				case reflect.Bool:
					f.SetBool(true)
				case reflect.Int64:
					f.SetInt(9)
				default:
					f.SetUint(9)
				}
			}
			if string(base.Encode()) == without {
				t.Errorf("field %s is not in the row", name)
			}
			f.Set(was)
		}
	}
	walk(reflect.ValueOf(&base).Elem())
}

func TestPlaceRowsReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Place{Session: drawID(t, "session"), Index: rapid.Uint64().Draw(t, "index")}
		if rapid.Bool().Draw(t, "record") {
			want = Place{Subject: rapid.StringN(1, 20, 60).Draw(t, "subject"), Payload: rapid.SliceOf(rapid.Byte()).Draw(t, "payload")}
		}
		b := want.Encode()
		got, err := DecodePlace(1, b)
		if err != nil || got.Session != want.Session || got.Index != want.Index || got.Subject != want.Subject || string(got.Payload) != string(want.Payload) {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
		for n := range len(b) - len(want.Payload) {
			if _, err := DecodePlace(1, b[:n]); !errors.Is(err, ledger.ErrCorrupt) {
				t.Fatalf("the first %d of %d bytes: %v, want corrupt", n, len(b), err)
			}
		}
	})
}

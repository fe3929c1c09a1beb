package api

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"nexus/turns"
)

// The reply of turn.append has the bytes that the library gives it, whichever members it has.
func TestTheReplyOfAnAppendIsThatOfTheLibrary(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		if v.Kind() != reflect.Struct && rng.IntN(3) == 0 {
			return
		}
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i))
			}
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem())
		case reflect.Array:
			for i := range v.Len() {
				fill(v.Index(i))
			}
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), rng.IntN(4), 4))
			for i := range v.Len() {
				fill(v.Index(i))
			}
		case reflect.String:
			v.SetString([]string{"idle", "call_1", `a "quote" \ and é`, "\x01\u2028<&>", "12"}[rng.IntN(5)])
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Float64:
			v.SetFloat([]float64{0.5, 1e-9, 1e22, -0.1, 1.0 / 3, 12, math.MaxFloat64, math.Copysign(0, -1)}[rng.IntN(8)])
		default:
			v.SetUint(rng.Uint64() >> rng.IntN(64) & (1<<(8*v.Type().Size()-1) - 1))
		}
	}
	for range 5000 {
		var a Appended
		fill(reflect.ValueOf(&a).Elem())
		want, err := turns.EncodeJSON(&a)
		if err != nil {
			t.Fatal(err)
		}
		got, err := a.AppendJSON([]byte("x"))
		if err != nil || !bytes.Equal(got[1:], want) {
			t.Fatalf("%s, %v\nwant %s", got[1:], err, want)
		}
	}
	for _, a := range []Appended{{Position: "\xff"}, {Open: []string{"\xff"}}, {Compaction: CompactionState{State: "\xff"}}} {
		if got, err := a.AppendJSON(nil); err == nil {
			t.Errorf("%q, want an error", got)
		}
	}
}

func BenchmarkReplyOfAnAppend(b *testing.B) {
	a := &Appended{ID: turns.ID{1}, Session: turns.ID{2}, Parent: &turns.ID{3}, Depth: 100, Hash: turns.Hash{1}, Position: "p.12345", Context: Gauge{1e5, 2e5, 0.512, true}, Compaction: CompactionState{"idle"}, Flush: FlushState{false, 3}}
	for name, f := range map[string]func() ([]byte, error){"library": func() ([]byte, error) { return turns.EncodeJSON(a) }, "own": func() ([]byte, error) { return a.AppendJSON(make([]byte, 0, 512)) }} {
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

// The request of turn.append has the bytes that the library gives it, whichever members it has.
func TestTheRequestOfAnAppendIsThatOfTheLibrary(t *testing.T) {
	if n := reflect.TypeFor[AppendTurn]().NumField(); n != 9 {
		t.Errorf("AppendTurn has %d fields, AppendJSON writes 9", n)
	}
	at, far := Time(time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)), Time(time.Date(12026, 1, 2, 0, 0, 0, 0, time.UTC))
	line := turns.TextMessage(turns.User, "a \"line\"\n")
	result := turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "c", Response: turns.Raw(`[ 1 ]`)}}}
	for _, ms := range [][]turns.Message{nil, {}, {line}, {line, result}} {
		for _, response := range []*turns.Message{nil, {Role: turns.Assistant, FinishReason: "stop"}} {
			for _, r := range []AppendTurn{
				{}, {ID: turns.ID{1}}, {Parent: turns.ID{2}}, {ID: turns.ID{1}, Parent: turns.ID{2}, Model: "m<1>"},
				{Usage: &turns.Usage{}}, {Usage: &turns.Usage{InputTokens: 1, OutputTokens: 2, CacheRead: 3, CacheCreation: 4}}, {Time: &at}, {Time: &far}, {Time: new(Time)},
				{Meta: turns.Raw(`{ "b": 1, "a": 2 }`)}, {Meta: turns.Raw("")}, {Meta: turns.Raw("null")}, {Context: &ContextUsed{}}, {Context: &ContextUsed{Recipe: turns.Raw(`{}`), Fingerprint: "f"}}, {Model: "\xff"},
			} {
				r.Messages, r.Response = ms, response
				want, werr := turns.EncodeJSON(&r)
				got, err := r.AppendJSON([]byte("x"))
				if (err == nil) != (werr == nil) || err == nil && !bytes.Equal(got[1:], want) {
					t.Errorf("%s, %v\nwant %s, %v", got, err, want, werr)
				}
			}
		}
	}
}

func BenchmarkRequestOfAnAppend(b *testing.B) {
	text := strings.Repeat("\tif err != nil { // \"a line\" of code\n", 100)
	r := &AppendTurn{ID: turns.ID{1}, Parent: turns.ID{2}, Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "call_1", Response: turns.RawText(text)}}}},
		Response: &turns.Message{Role: turns.Assistant, Parts: []turns.Part{turns.TextPart(text)}}}
	for name, f := range map[string]func() ([]byte, error){"library": func() ([]byte, error) { return turns.EncodeJSON(r) }, "own": func() ([]byte, error) { return r.AppendJSON(make([]byte, 0, 3*len(text))) }} {
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

package turns

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestCanonicalFormIsMadeInOnePass: what requests consist of never needs the library, and what is left to it is as it was.
func TestCanonicalFormIsMadeInOnePass(t *testing.T) {
	text := strings.Repeat(`a line of the file, with \"quotes\" and \\ and ü\n\t`, 50)
	for in, want := range map[string]string{
		`{}`:                         `{}`,
		` [ ] `:                      `[]`,
		`-0.5e+10`:                   `-0.5e+10`,
		`"\u001b[1m"`:                `"\u001b[1m"`,
		`{"b":[],"a":{"y":1,"x":0}}`: `{"a":{"x":0,"y":1},"b":[]}`,
		`{"ab":1,"a":2,"a.":3}`:      `{"a":2,"a.":3,"ab":1}`,
		`{"messages":[{"role":"user","parts":[{"type":"text","content":"` + text + `"}]}],"id":"x"}`: `{"id":"x","messages":[{"parts":[{"content":"` + text + `","type":"text"}],"role":"user"}]}`,
	} {
		if got := canonicalForm([]byte(in)); string(got) != want {
			t.Errorf("%.80s: %.80q, want %.80s", in, got, want)
		}
	}
	for _, in := range []string{``, `{`, `{"a":1,}`, `[1,]`, `[1 2]`, `{"a" 1}`, `{"a":1 "b":2}`, `01`, `1.`, `-`, `1e`, `nul`, `truex`, `"a`, `"\`, "\"\x01\"", "\"\xff\"", `"\u0041"`, `"\u001B"`, `"\u000a"`, `"\/"`, `{"é":1}`, `{"a\n":1}`,
		`{"b":1,"a":1,"b":1}`, `{"a":1,"a":1}`, `{} {}`, strings.Repeat("[", MaxNesting+1) + strings.Repeat("]", MaxNesting+1)} {
		if got := canonicalForm([]byte(in)); got != nil {
			t.Errorf("%.80s: %q, want it left to the library", in, got)
		}
	}
}

func FuzzCanonicalJSON(f *testing.F) {
	for _, s := range []string{`{"b":1,"a":[ 1 , {"d":null,"c":"x\n"}]}`, `{"a":{"b":{"c":[]}},"A":true,"":-0.1e-7}`, `"\ud83d\ude00"`, `{"k":"`, "[\"12345678\\\\901234\\\"567\x7f\"]", `{"a":1,"a":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(compareWithLibrary)
}

func compareWithLibrary(t *testing.T, b []byte) {
	got, err := CanonicalJSON(b)
	want, werr := libraryCanonical(b)
	if (err == nil) != (werr == nil) || !bytes.Equal(got, want) {
		t.Fatalf("%q is %q, %v; the library has %q, %v", b, got, err, want, werr)
	}
	if err := libraryCheck(b); IsSoundJSON(b) && err != nil {
		t.Fatalf("%q passes, and the library refuses it: %v", b, err)
	}
	raw, err := AppendRaw([]byte("x"), b)
	written, werr := EncodeJSON(Raw(b))
	if (err == nil) != (werr == nil) || err == nil && string(raw) != "x"+string(written) {
		t.Fatalf("%q is written as %q, %v; by the library as %q, %v", b, raw, err, written, werr)
	}
}

// TestOnePassAgreesWithTheLibrary: whatever is changed in JSON, one pass makes and passes what the library does.
func TestOnePassAgreesWithTheLibrary(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	of := []string{`{`, `}`, `[`, `]`, `,`, `:`, `"`, `\`, `\u00`, `1f`, `\ud83d\ude00`, `\n`, `\/`, `true`, `null`, `-`, `0`, `1.5e-7`, ` `, "\n", `"a"`, `"b":`, `"aa":{}`, `é`, "\xff", "\x7f", "\x01", `"x y z 0123456789"`, `\u000a`, `\u001B`}
	for range 50_000 {
		b := []byte([]string{`{"b":1,"a":[1,{"d":null,"c":"x\n"}],"aa":{"z":"","y":-0.5}}`, `["a","b\u001b",{"k":{"j":[]}},12]`, `"text"`, ``}[rng.IntN(4)])
		for range rng.IntN(5) {
			at, piece := rng.IntN(len(b)+1), of[rng.IntN(len(of))]
			end := min(len(b), at+rng.IntN(3))
			b = append(append(append([]byte(nil), b[:at]...), piece...), b[end:]...)
		}
		compareWithLibrary(t, b)
	}
}

// TestSoundJSONPassesWithoutTheLibrary: what tools answer with is checked in one pass.
func TestSoundJSONPassesWithoutTheLibrary(t *testing.T) {
	for _, in := range []string{`"\u00e9\/\u001B[1m"`, `{"b":{"c":[null,true,false,-1.5e3]},"a":""}`, strings.Repeat("[", MaxNesting) + strings.Repeat("]", MaxNesting)} {
		if !IsSoundJSON([]byte(in)) || libraryCheck([]byte(in)) != nil {
			t.Errorf("%.80s does not pass", in)
		}
	}
	for _, in := range []string{`"\ud83d\ude00"`, `{"é":1}`} { // valid, and left to the library
		if IsSoundJSON([]byte(in)) || !ValidJSON([]byte(in)) {
			t.Errorf("%s", in)
		}
	}
	for _, in := range []string{`"\ud83d"`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, "\"\xff\"", `"\u00"`, `"\x"`, `[`, strings.Repeat("[", MaxNesting+1) + strings.Repeat("]", MaxNesting+1)} {
		if IsSoundJSON([]byte(in)) || ValidJSON([]byte(in)) {
			t.Errorf("%.80s passes", in)
		}
	}
}

func TestPlainBytesEndAtTheFirstThatIsNone(t *testing.T) {
	for n := range 20 {
		for c := range 256 {
			b := []byte(strings.Repeat("é", 5) + strings.Repeat("x\x7f", 10))[:n]
			b = append(append(b, byte(c)), `0123456789"`...)
			want := n
			if c != '"' && c != '\\' && c >= ' ' {
				want = n + 11
			}
			if got := PlainBytes(b); got != want {
				t.Errorf("%q: %d, want %d", b, got, want)
			}
		}
	}
}

func BenchmarkCanonicalJSON(b *testing.B) {
	text := strings.Repeat("a line of a file with some words in it ", 26)
	in := []byte(`{"id":"01JE000000000000000000000","messages":[{"role":"user","parts":[{"type":"text","content":"` + text + `"}]}],"response":{"role":"assistant","parts":[{"type":"text","content":"` + text + `"}]}}`)
	for name, f := range map[string]func([]byte) ([]byte, error){"one pass": CanonicalJSON, "library": libraryCanonical} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

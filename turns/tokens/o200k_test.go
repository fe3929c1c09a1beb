package tokens

import (
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"nexus/turns"
)

// Counts of OpenAI's own encoder (npm tiktoken 1.0.22, encode_ordinary).
var goldenO200k = []struct {
	text string
	want uint64
}{
	{"", 0},
	{"a", 1},
	{"hello world", 2},
	{"Hello, World! How's it going?", 9},
	{"IT'S THEY'LL WE'VE i'd", 9},
	{"'\u017f it'\u017f", 5},
	{"\n \n", 1},
	{"a\n\n \n  b", 4},
	{"   leading and trailing   ", 5},
	{"\ttabs\t\tand\r\n\r\nlines", 6},
	{"1234567890 3.14159 0xdeadbeef", 15},
	{"HTTPServer parseJSONToken getURL", 7},
	{"func (m *Message) Calls(dst []string) []string {\n\treturn dst\n}\n", 18},
	{"https://example.com/a/b?c=d&e=f#g", 12},
	{"//////////\n/* x */\n", 6},
	{`{"role":"user","parts":[{"type":"text","content":"hi"}]}`, 17},
	{"Zürich, naïve café, Ünïcödé", 12},
	{"漢字かな交じり文、カタカナ。", 13},
	{"한국어 텍스트", 5},
	{"हिन्दी में लिखा", 5},
	{"שָׁלוֹם עולם", 8},
	{"العربية ١٢٣٤", 7},
	{"漢A漢B! 漢a", 8},
	{"e\u0301A \u0301A \u0301", 8},
	{"\u00a0\u2003\u3000x\u0085", 6},
	{"😀👨\u200d👩\u200d👧🇨🇭", 13},
	{"𝒳𐐀𐐨𝟘 ½²Ⅷ", 19},
	{"<|endoftext|><|im_start|>", 12},
	{"01JCVXQ5M3Z8K2N7R4T6W9Y1AB", 23},
	{"TWFuIGlzIGRpc3Rpbmd1aXNoZWQ=", 18},
	{"supercalifragilisticexpialidocious", 10},
}

func TestO200kCountsAsThePublishedEncoder(t *testing.T) {
	for _, test := range goldenO200k {
		if got := (O200k{}).Text(test.text); got != test.want {
			t.Errorf("%q: %d tokens, want %d", test.text, got, test.want)
		}
	}
	m := turns.Message{Role: turns.Assistant, Parts: []turns.Part{
		turns.TextPart("hello world"),
		{Type: turns.ToolCall, ID: "a", Name: "a", Arguments: turns.Raw(`"hello world"`)},
		{Type: turns.Text, Ref: &turns.BlobRef{Size: 37}},
		{Type: turns.Blob, Modality: "image", Data: []byte("x")},
	}}
	if got := (O200k{}).Message(&m); got != 4+2+(4+1+1+4)+10+1504 {
		t.Errorf("the message has %d tokens", got)
	}
}

// Text that makes one piece of everything, or many that begin alike. The
// counts of 40,000 repetitions are of the same encoder, which takes tens of
// seconds for them; a quadratic one would not come to the end of a megabyte.
func TestO200kEndsSoonOnHostileText(t *testing.T) {
	for _, test := range []struct {
		unit string
		want uint64
	}{
		{"a", 5000},
		{" ", 313},
		{"A", 5000},
		{"\n ", 20001},
		{"漢A", 80000},
		{"\u0301", 40000},
		{"/", 625},
		{"qzx", 80000},
		{"'", 10000},
		{"x1", 80000},
	} {
		if got := (O200k{}).Text(strings.Repeat(test.unit, 40_000)); got != test.want {
			t.Errorf("%q: %d tokens, want %d", test.unit, got, test.want)
		}
	}
	for _, test := range []struct {
		unit string
		want uint64
	}{
		{"a", 125_000},
		{" ", 7_813},
		{"漢A", 500_000},
	} {
		if got := (O200k{}).Text(strings.Repeat(test.unit, 1_000_000/len(test.unit))); got != test.want {
			t.Errorf("a megabyte of %q: %d tokens, want %d", test.unit, got, test.want)
		}
	}
}

// Many may ask at once.
func TestO200kIsSafeForConcurrentUse(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, test := range goldenO200k {
				if got := (O200k{}).Text(test.text); got != test.want {
					t.Errorf("%q: %d tokens, want %d", test.text, got, test.want)
				}
			}
		})
	}
	wg.Wait()
}

// The slow twin: the definition's regular expression, but for its look-ahead,
// and a merge that looks at all pairs each time.

var twinRE = func() *regexp.Regexp {
	const (
		before     = `[^\r\n\p{L}\p{N}]?`
		capital    = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
		little     = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
		shortening = `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`
		white      = `\t-\r\x{85}\p{Z}`
	)
	return regexp.MustCompile(`^(?:` + before + capital + `*` + little + `+` + shortening +
		`|` + before + capital + `+` + little + `*` + shortening +
		`|\p{N}{1,3}| ?[^` + white + `\p{L}\p{N}]+[\r\n/]*|[` + white + `]*[\r\n]+|(?P<blank>[` + white + `]+))`)
}()

func twinPiece(s string) string {
	m := twinRE.FindStringSubmatchIndex(s)
	end := m[1]
	if blank := m[2] >= 0; blank && end < len(s) {
		if _, last := utf8.DecodeLastRuneInString(s[:end]); last < end {
			end -= last
		}
	}
	return s[:end]
}

func twinCount(ranks map[string]uint32, piece string) uint64 {
	var tokens []string
	for i := range len(piece) {
		tokens = append(tokens, piece[i:i+1])
	}
	for {
		best, at := uint32(none), 0
		for i := 0; i+1 < len(tokens); i++ {
			if rank, ok := ranks[tokens[i]+tokens[i+1]]; ok && rank < best {
				best, at = rank, i
			}
		}
		if best == none {
			return uint64(len(tokens))
		}
		tokens[at] += tokens[at+1]
		tokens = append(tokens[:at+1], tokens[at+2:]...)
	}
}

func checkTwin(t interface{ Errorf(string, ...any) }, text string) {
	v := vocabulary()
	var m merger
	for s := text; s != ""; {
		want := twinPiece(s)
		if got := s[:v.classes.piece(s)]; got != want {
			t.Errorf("%q: at %q the piece is %q, want %q", text, s, got, want)
			return
		}
		if got, count := m.count(v.ranks, want), twinCount(v.ranks, want); got != count {
			t.Errorf("%q has %d tokens, want %d", want, got, count)
		}
		s = s[len(want):]
	}
}

func TestO200kAgreesWithItsTwin(t *testing.T) {
	for _, test := range goldenO200k {
		checkTwin(t, test.text)
	}
	hard := rapid.StringOfN(rapid.RuneFrom([]rune("aAzZsStTmMdDrReEvVlL' \n\r\t/.,!09éÉǅʰª漢あ한ि\u0301½²٣\u00a0\u2003\u0085\u200b\u2028\u017f\u212a😀𝒳𐐀𐐨𝟘")), 10, 60, -1)
	rapid.Check(t, func(t *rapid.T) {
		checkTwin(t, rapid.OneOf(hard, rapid.String(), rapid.StringMatching(`[ -~\n]{0,60}`)).Draw(t, "text"))
	})
}

func FuzzO200k(f *testing.F) {
	for _, test := range goldenO200k {
		f.Add(test.text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n := O200k{}.Text(s)
		if n > uint64(len(s)) || n == 0 && s != "" {
			t.Fatalf("%q: %d tokens of %d bytes", s, n, len(s))
		}
		if utf8.ValidString(s) && len(s) < 1000 {
			checkTwin(t, s)
		}
	})
}

func BenchmarkO200kLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readVocabulary(packedO200k); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkO200k(b *testing.B) {
	for _, test := range []struct{ name, text string }{
		{"code", strings.Repeat("\tif err := readVocabulary(packed); err != nil { return fmt.Errorf(\"%w: %d\", err, 0x1f3a9c) }\n", 1000)},
		{"chinese", strings.Repeat("会话的历史是一条链，每一轮都有父节点。", 2000)},
		{"base64", strings.Repeat("TWFuIGlzIGRpc3Rpbmd1aXNoZWQsIG5vdCBvbmx5IGJ5IGhpcyByZWFzb24/+", 1600)},
		{"one letter", strings.Repeat("a", 100_000)},
	} {
		b.Run(test.name, func(b *testing.B) {
			b.SetBytes(int64(len(test.text)))
			b.ReportAllocs()
			for b.Loop() {
				O200k{}.Text(test.text)
			}
		})
	}
}

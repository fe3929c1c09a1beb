package highlight

import (
	"html"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Each language has the colours of its words, strings, numbers and comments.
func TestEachKindOfTextHasItsColour(t *testing.T) {
	for _, x := range []struct{ language, code, want string }{
		{"go", "func f() string { return \"a\\\"b\" + `x\"` } // why\n", `<k>func</> <f>f</>() <t>string</> { <k>return</> <s>"a\"b"</> + <s>` + "`x\"`" + `</> } <c>// why</>` + "\n"},
		{"GoLang", "x := 0x1F + len(y) /* two\nlines */ + 'c'", "x := <n>0x1F</> + <t>len</>(y) <c>/* two\nlines */</> + <s>'c'</>"},
		{"py", "@wraps\ndef f(x): # why\n    \"\"\"two\n    lines\"\"\"\n    return None", "@wraps\n<k>def</> <f>f</>(x): <c># why</>\n    <s>\"\"\"two\n    lines\"\"\"</>\n    <k>return</> <t>None</>"},
		{"py", "if self.open and x.len(): ...len(y)", "<k>if</> <t>self</>.open <k>and</> x.<f>len</>(): ...<t>len</>(y)"},
		{"rust", "fn f<'a>(s: &'a str) -> u8 { s.len() }", "<k>fn</> f<'a>(s: &'a <t>str</>) -> <t>u8</> { s.<f>len</>() }"},
		{"bash", "grep -c \"a\nb\" x#y # why\nif true; then f; fi", "<t>grep</> -c <s>\"a\nb\"</> x#y <c># why</>\n<k>if</> <t>true</>; <k>then</> f; <k>fi</>"},
		{"json", `{"rows": 10, "on":true, "path": "a: b"}`, `{<f>"rows"</>: <n>10</>, <f>"on"</>:<t>true</>, <f>"path"</>: <s>"a: b"</>}`},
		{"yaml", "on: [push] # why\nrun: a b\nurl: http://x", "<f>on</>: [push] <c># why</>\n<f>run</>: a b\n<f>url</>: http://x"},
		{"sql", "SELECT count(*) FROM t WHERE a = 'it''s' -- why", "<k>SELECT</> <t>count</>(*) <k>FROM</> t <k>WHERE</> a = <s>'it'</><s>'s'</> <c>-- why</>"},
		{"html", `<p class="a b">x < y if</p><!-- <b> -->`, `<<k>p</> <f>class</>=<s>"a b"</>>x < y if</<k>p</>><c><!-- <b> --></>`},
		{"diff", "--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same", "<f>--- a\n</><f>+++ b\n</><k>@@ -1 +1 @@\n</><d>-old\n</><i>+new\n</> same"},
		{"js", "const f = async (x) => `a\n${x}`", "<k>const</> f = <k>async</> (x) => <s>`a\n${x}`</>"},
		{"go", `s := "no end` + "\nfor {}", `s := <s>"no end</>` + "\n<k>for</> {}"},
		{"go", "naïve := \"日本\"; 世界()", "naïve := <s>\"日本\"</>; <f>世界</>()"},
	} {
		var got strings.Builder
		for _, r := range languages()[strings.ToLower(x.language)].runs(x.code) {
			if r.class == "" {
				got.WriteString(r.text)
			} else {
				got.WriteString("<" + r.class + ">" + r.text + "</>")
			}
		}
		if got.String() != x.want {
			t.Errorf("%s:\n got %s\nwant %s", x.language, got.String(), x.want)
		}
	}
}

var spans = regexp.MustCompile(`<span class="[kftsncid]">|</span>`)

// The HTML of any text in any language is that text, and nothing in it is markup but the spans.
func TestTheHTMLIsTheText(t *testing.T) {
	all := slices.Sorted(maps.Keys(languages()))
	pieces := []string{"\"", "'", "`", "\\", "/*", "*/", "//", "#", "--", "--[[", "]]", "<", ">", "</", "<!--", "-->", "{-", ":", "=", "\n", " ", "\t", "if", "for", "0x1", "1.5.", "é", "\xff", "&", "<script>", "+", "@@", "\"\"\"", "$", "\x00", "\r"}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.OneOf(rapid.SampledFrom(pieces), rapid.String())).Draw(t, "text"), "")
		language := rapid.SampledFrom(all).Draw(t, "language")
		out, ok := NewPage().Code(language, text)
		if !ok {
			return
		}
		plain := spans.ReplaceAllString(string(out), "")
		if strings.ContainsAny(plain, "<>\"'") || html.UnescapeString(plain) != text {
			t.Fatalf("%s of %q: %s", language, text, out)
		}
	})
}

// What has no language, is too long or is over the budget of its page stays plain; a page is the same when it is made twice.
func TestColoursHaveABudget(t *testing.T) {
	if out, ok := NewPage().Code("mermaid", "if"); ok {
		t.Errorf("a language that is not known: %s", out)
	}
	if out, ok := (*Page)(nil).Code("go", "if"); ok {
		t.Errorf("no page: %s", out)
	}
	if out, ok := NewPage().Code("go", strings.Repeat("if ", MaxBlock/3+1)); ok {
		t.Errorf("a long block: %.50s", out)
	}
	p := NewPage()
	for pass := range 2 {
		coloured := 0
		for i := range 100 {
			code := strings.Repeat("x ", i) + strings.Repeat("if ", 100)
			if _, ok := p.Code("go", code); ok {
				coloured++
			}
		}
		if want := pageBytes / (100 * len(`<span class="k"></span>`)); coloured != want {
			t.Errorf("pass %d: %d blocks have colours, want %d", pass, coloured, want)
		}
	}
	if !p.Off() || p.Off() {
		t.Error("they are off once")
	}
	if _, ok := p.Code("go", "if"); ok {
		t.Error("colours of a page that has none")
	}
}

func BenchmarkCode(b *testing.B) {
	for language, code := range map[string]string{
		"go":   strings.Repeat("func f(x int) error { return fmt.Errorf(\"row %d\", x) } // why\n", 64),
		"json": `"` + strings.Repeat(`\\`, 2000),
	} {
		b.Run(language, func(b *testing.B) {
			b.SetBytes(int64(len(code)))
			for b.Loop() {
				languages()[language].runs(code)
			}
		})
	}
}

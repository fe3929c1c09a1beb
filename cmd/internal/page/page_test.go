package page

import (
	"bytes"
	"html"
	"iter"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
	"pgregory.net/rapid"

	"nexus/ledger/api"
	"nexus/turns"
)

func id(n byte) turns.ID { return turns.ID{0: 1, 15: n} }

func textMessage(role turns.Role, s string) turns.Message { return turns.TextMessage(role, s) }

// turnAt is a turn of a session, with what was asked and answered.
func turnAt(n byte, asked, answered string) api.Turn {
	at := api.Time(time.Date(2026, 3, 4, 5, int(n), 0, 0, time.UTC))
	t := api.Turn{ID: id(n), Session: id(100), Type: "normal", Depth: uint64(n), Recorded: at, Time: &at, Model: "model-1"}
	if asked != "" {
		t.Messages = []turns.Message{textMessage(turns.User, asked)}
	}
	if answered != "" {
		m := textMessage(turns.Assistant, answered)
		t.Response = &m
	}
	return t
}

func list(ts ...api.Turn) iter.Seq2[api.Turn, error] {
	return func(yield func(api.Turn, error) bool) {
		for _, t := range ts {
			if !yield(t, nil) {
				return
			}
		}
	}
}

func session() *api.Session { return &api.Session{ID: id(100), Agent: "main"} }

func pageOf(t rapid.TB, opt Options, ts ...api.Turn) *Page {
	t.Helper()
	p, err := New(session(), list(ts...), opt)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func htmlOf(t rapid.TB, p *Page) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.HTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func markdownOf(t rapid.TB, p *Page) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// call is a turn in which the model calls a tool, and result the next one.
func call(n byte, name, args string) api.Turn {
	t := turnAt(n, "", "")
	t.Response = &turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "c", Name: name, Arguments: turns.Raw(args)}}}
	return t
}

func result(n byte, text, answer string) api.Turn {
	t := turnAt(n, "", answer)
	t.Messages = []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "c", Response: turns.RawText(text)}}}}
	return t
}

// hostile are texts that try to be more than text.
var hostile = []string{
	`<script>alert(1)</script>`, `<img src=x onerror=alert(1)>`, `</article></main><h1>mine</h1>`, `<!-- gone`, `<style>*{display:none}</style>`,
	`<details open><summary>x</summary>`, "```\n<b>never closed", "[x](javascript:alert(1))", "[](http://example.com/empty)", "![pixel](http://example.com/track.png)",
	`<https://example.com/a?b=c&d>`, `<javascript:alert(1)>`, "\x1b[31mred\x1b[0m\x1b]0;title\a", "a\u202eb\u2066c", "nul\x00byte", "</details>", `"><svg/onload=alert(1)>`,
	"<a href=\"http://example.com\">x</a>", "    <script>", "| <b> | |\n|--|--|\n| <i> | |", "]]>", "<?php", "<![CDATA[x", "&lt;script&gt;", "[x]: http://example.com\n[x]", "~~~\nopen", "{{.Title}}", "<p\nclass=x>",
	"a&#x202e;b &#27;[31m &#8294; `&#x202e;` &lrm;c", "| a |\n|--|\n| &#x202e; |", "![pixel][p]", "[p]: http://example.com/track.png",
}

// tag is an element of a page, and attribute one of its attributes. Neither the template nor
// a text brings a bare < or > of another kind.
var (
	tag       = regexp.MustCompile(`<([a-zA-Z][a-zA-Z0-9]*)((?:\s+[^<>]*)?)>`)
	attribute = regexp.MustCompile(`([a-zA-Z-]+)(?:="([^"]*)")?`)
)

// elements returns the names of the elements of a page, and fails for a bracket that is not
// of an element, and for an attribute that could load or run something.
func elements(t rapid.TB, page string) map[string]int {
	t.Helper()
	_, page, _ = strings.Cut(page, "</style>")
	out := make(map[string]int)
	for _, m := range tag.FindAllStringSubmatch(page, -1) {
		out[m[1]]++
		for _, a := range attribute.FindAllStringSubmatch(m[2], -1) {
			switch key, v := a[1], html.UnescapeString(a[2]); {
			case strings.HasPrefix(key, "on") || key == "style":
				t.Fatalf("%s", m[0])
			case key == "href" && !strings.HasPrefix(v, "#") && !strings.HasPrefix(v, "http") && !strings.HasPrefix(v, "mailto:"), key == "src" && !strings.HasPrefix(v, "data:image/"):
				t.Fatalf("%s", m[0])
			}
		}
	}
	if rest := regexp.MustCompile(`</[a-z0-9]+>`).ReplaceAllString(tag.ReplaceAllString(page, ""), ""); strings.ContainsAny(rest, "<>") {
		t.Fatalf("a bracket that is of no element: %.2000s", rest)
	}
	return out
}

// wherever returns a page that has a text in each place where a transcript brings one.
func wherever(t rapid.TB, s string) *Page {
	t.Helper()
	name := turns.RawText(s)
	first := turnAt(1, s, s)
	first.Model = s
	if first.Response == nil {
		first.Response = &turns.Message{Role: turns.Assistant}
	}
	first.Response.Parts = append(first.Response.Parts, turns.Part{Type: turns.Reasoning, Content: s}, turns.Part{Type: turns.URI, Content: s, MimeType: s, Modality: s},
		turns.Part{Type: turns.Blob, MimeType: "image/svg+xml", Data: []byte(s)})
	k := turnAt(4, "", "")
	k.Compaction = &api.Compaction{Summary: &s, Tier: s, Model: s, Policy: s, Covered: 1, Through: new(id(1))}
	c := call(2, s, `{"first":`+string(name)+`,`+string(turns.RawText("k"+s))+`:[`+string(name)+`]}`)
	x := session()
	x.Label, x.Title, x.Agent = s, s, s
	x.Meta = turns.Raw(`{"cwd":` + string(name) + `,"git_branch":` + string(name) + `}`)
	x.ForkedFrom = &api.ForkedFrom{Session: id(101), Turn: id(1)}
	p, err := New(x, list(first, c, result(3, s, s), k), Options{Forks: map[turns.ID][]api.TreeSession{id(2): {{ID: id(102), Label: s}}}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A page with a hostile text in every place has the elements of the same page with a plain
// one, and those that Markdown makes of it: none that runs, loads or covers anything.
func TestHostileTextsStayText(t *testing.T) {
	prose := map[string]bool{"p": true, "a": true, "code": true, "pre": true, "ul": true, "ol": true, "li": true, "blockquote": true, "em": true, "strong": true, "del": true, "br": true, "hr": true,
		"table": true, "thead": true, "tbody": true, "tr": true, "td": true, "th": true, "div": true, "span": true, "b": true, "details": true, "summary": true}
	plainPage := elements(t, htmlOf(t, wherever(t, "plain")))
	for _, s := range hostile {
		page := htmlOf(t, wherever(t, s))
		for tag, n := range elements(t, page) {
			if n != plainPage[tag] && !prose[tag] {
				t.Errorf("%q: %d <%s>, %d on a plain page", s, n, tag, plainPage[tag])
			}
		}
		if strings.ContainsAny(page, "\x00\x1b\a\u202e\u2066") {
			t.Errorf("%q: hidden characters reach the page", s)
		}
	}
}

func TestAnyTextStaysText(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := strings.Join(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(hostile), rapid.SampledFrom([]string{"\n", "> ", "- ", "    ", "`", "``` ", "*", "[", "](", "<", "|", "&", "\\", "# "}), rapid.String()), 1, 8).Draw(r, "pieces"), "")
		page := htmlOf(r, wherever(r, s))
		found := elements(r, page)
		for _, tag := range []string{"script", "style", "iframe", "object", "form", "input", "svg", "img", "link", "base"} {
			if n := found[tag]; n > 0 {
				r.Fatalf("%d <%s>", n, tag)
			}
		}
		if found["h1"] != 1 || found["main"] != 1 {
			r.Fatal("the text changed the page")
		}
		// The Markdown form has no HTML but its folds, loads no picture, and each text ends
		// where it ends: the last line is a heading of the page's own.
		source := []byte(markdownOf(r, wherever(r, s)) + "\n## The end\n")
		doc := markdown().Parser().Parse(text.NewReader(source))
		if last := doc.LastChild(); last == nil || last.Kind() != ast.KindHeading || string(linesOf(last, source)) != "The end" {
			r.Fatalf("a text swallows what follows it:\n%s", source)
		}
		_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			switch n := n.(type) {
			case *ast.Image:
				r.Fatalf("a picture:\n%s", source)
			case *ast.RawHTML:
				r.Fatalf("HTML in a line:\n%s", source)
			case *ast.HTMLBlock:
				if b := string(htmlLines(n, source)); entering && !strings.HasPrefix(b, "<details><summary>") && strings.TrimSpace(b) != "</details>" {
					r.Fatalf("HTML %q:\n%s", b, source)
				}
			}
			return ast.WalkContinue, nil
		})
	})
}

func TestCredentialsAreMaskedUnlessAskedFor(t *testing.T) {
	secret := "gh" + "p_" + strings.Repeat("Ab3dE7gH", 5) // of no account
	for _, write := range []func(rapid.TB, *Page) string{htmlOf, markdownOf} {
		if out := write(t, wherever(t, "with "+secret)); strings.Contains(out, secret) || !strings.Contains(out, "credentials are masked") {
			t.Error("a credential is on the page, or the page does not say that it masks")
		}
		if out := write(t, pageOf(t, Options{ShowSecrets: true}, turnAt(1, secret, ""))); !strings.Contains(out, secret) {
			t.Error("--show-secrets shows none")
		}
	}
}

// Colours that a tool writes in a credential, as grep does with what it found, do not hide it
// from the mask: the page drops them.
func TestCredentialInColoursIsMasked(t *testing.T) {
	secret := "gh" + "p_" + strings.Repeat("Ab3dE7gH", 5)
	for _, s := range []string{"\x1b[31m" + secret + "\x1b[0m", "\x1b[01;31m\x1b[K" + secret[:9] + "\x1b[m\x1b[K" + secret[9:]} {
		if p := pageOf(t, Options{}, result(1, s, s)); strings.Contains(htmlOf(t, p), secret) || p.Masked != 2 {
			t.Errorf("%q: %d are masked", s, p.Masked)
		}
	}
	nested := call(1, "Edit", `{"edits":[{"new":"a line\n`+secret+`"}]}`)
	if p := pageOf(t, Options{}, nested); strings.Contains(htmlOf(t, p), secret) {
		t.Error("it is in the arguments of a call")
	}
}

// What one text defines is no picture in another, and numbers of hidden characters stay
// numbers, in the Markdown file too.
func TestMarkdownFileLoadsNothingByParts(t *testing.T) {
	out := markdownOf(t, pageOf(t, Options{}, turnAt(1, "", "![pixel][p]"), turnAt(2, "", "[p]: http://example.com/track.png"), turnAt(3, "", "x &#x202e; y &RightToLeftMark; &rlm;")))
	doc := markdown().Parser().Parse(text.NewReader([]byte(out)))
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if n.Kind() == ast.KindImage {
			t.Fatalf("a picture:\n%s", out)
		}
		return ast.WalkContinue, nil
	})
	if !strings.Contains(out, "```text\nx &#x202e; y") {
		t.Errorf("%s", out)
	}
}

// A credential across the place where a long text is cut is masked too.
func TestCredentialAtTheCutIsMasked(t *testing.T) {
	secret := "gh" + "p_" + strings.Repeat("Ab3dE7gH", 5)
	out := htmlOf(t, pageOf(t, Options{}, turnAt(1, strings.Repeat("x", MaxPart-10)+" "+secret, "")))
	if strings.Contains(out, secret[:9]) {
		t.Error("the beginning of a credential is on the page")
	}
}

func TestLongTextIsCutAndSaysSo(t *testing.T) {
	p := pageOf(t, Options{}, result(1, strings.Repeat("y", 10<<20), ""))
	out := htmlOf(t, p)
	if len(out) > 2*MaxPart || !strings.Contains(out, "9.9 MiB more are not on this page") {
		t.Errorf("%d bytes", len(out))
	}
}

func TestResultStandsWithItsCall(t *testing.T) {
	p := pageOf(t, Options{}, call(1, "Bash", `{"command":"ls -l","n":[1]}`), result(2, "a\nb", "done"))
	c := p.Sections[0].Entries[0].Answer[0]
	if c.Result == nil || c.Result.Text.Text != "a\nb" || c.Brief != "ls -l" || len(p.Sections[0].Entries[1].Asked) != 0 {
		t.Errorf("%+v", c)
	}
}

// What a compaction replaced is in a fold that names it, and the summary stands at the
// compaction.
func TestCompactionFoldsWhatItReplaced(t *testing.T) {
	k := turnAt(3, "", "")
	k.Compaction = &api.Compaction{Summary: new("the story so far"), Covered: 2, Through: new(id(2)), TokensBefore: 90_000, TokensAfter: 4_000, Tier: "extractive"}
	p := pageOf(t, Options{}, turnAt(1, "one", "1"), turnAt(2, "two", "2"), k, turnAt(4, "four", "4"))
	if len(p.Sections) != 2 || p.Sections[0].By == nil || p.Sections[0].By.Depth != 3 || p.Sections[0].To != 2 || p.Sections[1].By != nil || len(p.Sections[1].Entries) != 2 {
		t.Fatalf("%+v", p.Sections)
	}
	out := htmlOf(t, p)
	for _, s := range []string{`<details open class="replaced"><summary>Turns 1 to 2, which a compaction replaced`, `<a href="#t3">`, "90k of context became 4k", "the story so far", `id="t4"`} {
		if !strings.Contains(out, s) {
			t.Errorf("no %s", s)
		}
	}
}

// What Claude Code wrote itself names no model, and changes none.
func TestPlaceholderOfNoModelIsNoName(t *testing.T) {
	own := turnAt(2, "go on", "API error")
	own.Model = "<synthetic>"
	p := pageOf(t, Options{}, turnAt(1, "hello", "hi"), own, turnAt(3, "again", "yes"))
	for name, text := range map[string]string{"html": html.UnescapeString(htmlOf(t, p)), "markdown": strings.ReplaceAll(markdownOf(t, p), `\`, "")} {
		if strings.Contains(text, "synthetic") || strings.Count(text, "model-1") != 2 { // in the head, and where it begins
			t.Errorf("%s: %d times model-1, or the placeholder", name, strings.Count(text, "model-1"))
		}
	}
}

func TestTextOfAProgramIsFolded(t *testing.T) {
	p := pageOf(t, Options{}, turnAt(1, "<system-reminder>be kind</system-reminder>\nfix it", ""), turnAt(2, "<environment_context>linux</environment_context>", ""))
	es := p.Sections[0].Entries
	if es[0].Asked[0].Text.Text != "fix it" || es[0].Asked[1].Kind != kindProgram || es[1].Asked[0].Kind != kindProgram || len(p.Prompts) != 1 {
		t.Errorf("%+v", es[0].Asked)
	}
}

func TestMessageOfAProgramIsFolded(t *testing.T) {
	x := turnAt(1, "Read SKILL.md first.", "done")
	x.Messages = append(x.Messages, turns.TextMessage(turns.User, "fix it"))
	x.Meta = turns.Raw(`{"program_messages":[0]}`)
	p := pageOf(t, Options{}, x)
	asked := p.Sections[0].Entries[0].Asked
	if asked[0].Kind != kindProgram || asked[1].Kind != kindPerson || len(p.Prompts) != 1 || p.Prompts[0].Text != "fix it" {
		t.Errorf("%+v, prompts %+v", asked, p.Prompts)
	}
}

// Deeply nested Markdown costs no more than its length.
func TestNestedMarkdownIsShownAsText(t *testing.T) {
	if _, ok := rendered(markdown(), strings.Repeat("> ", 10_000)+"x", nil); ok {
		t.Error("it was rendered")
	}
}

// A page ends with its last turn, not with a compaction that the ledger made months later.
func TestDatesOfAPageAreOfItsTurns(t *testing.T) {
	k := turnAt(2, "", "")
	k.Type, k.Time, k.Compaction = "compaction", nil, &api.Compaction{}
	k.Recorded = api.Time(time.Date(2026, 9, 9, 0, 0, 0, 0, time.UTC))
	if p := pageOf(t, Options{}, turnAt(1, "dig", "dug"), k, turnAt(3, "on", "done")); p.From != "4 March 2026" || p.To != p.From {
		t.Errorf("from %s to %s", p.From, p.To)
	}
	if p := pageOf(t, Options{}, turnAt(1, "dig", "dug"), k); p.To != "4 March 2026" {
		t.Errorf("to %s", p.To)
	}
}

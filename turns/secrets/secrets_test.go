package secrets

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// sample is a made-up credential of a shape in a text that has more than that.
type sample struct{ kind, before, secret, after string }

func (s sample) text() string { return s.before + s.secret + s.after }

// samples returns one of each shape, in their order. They are put together here, so that no
// scanner takes this file for a leak.
func samples() []sample {
	run := func(n int) string { return strings.Repeat("Ab3dE7gH", n/8+1)[:n] }
	return []sample{
		{"private key", "", "-----BEGIN RSA " + "PRIVATE KEY-----\n" + run(64) + "\n-----END RSA " + "PRIVATE KEY-----", ""},
		{"AWS access key", "", "AK" + "IA" + strings.Repeat("QZ7X", 4), ""},
		{"GitHub token", "", "gh" + "p_" + run(36), ""},
		{"GitHub token", "", "git" + "hub_pat_" + run(22) + "_" + run(59), ""},
		{"GitLab token", "", "gl" + "pat-" + run(20), ""},
		{"Slack token", "", "xo" + "xb-" + "123456789012-" + run(24), ""},
		{"Stripe key", "", "sk" + "_live_" + run(24), ""},
		{"Anthropic key", "", "sk" + "-ant-api03-" + run(40), ""},
		{"OpenAI key", "", "sk" + "-proj-" + run(48), ""},
		{"Google API key", "", "AI" + "za" + run(35), ""},
		{"npm token", "", "np" + "m_" + run(36), ""},
		{"PyPI token", "", "py" + "pi-AgE" + run(60), ""},
		{"SendGrid key", "", "S" + "G." + run(22) + "." + run(43), ""},
		{"Hugging Face token", "", "h" + "f_" + run(34), ""},
		{"JSON web token", "", "ey" + "J" + run(30) + ".ey" + "J" + run(30) + "." + run(30), ""},
		{"password in a URL", "postgres://" + "app:", "hunter2secret", "@db.example/x"},
	}
}

func TestCredentialsOfKnownShapesAreFoundAndMasked(t *testing.T) {
	all := samples()
	if len(all) != len(shapes) {
		t.Fatalf("%d samples of %d shapes", len(all), len(shapes))
	}
	for i, s := range all {
		if !shapes[i].is.MatchString(s.text()) || shapes[i].kind != s.kind {
			t.Errorf("sample %d is none of shape %d, a %s", i, i, shapes[i].kind)
		}
		for _, frame := range []string{"%", "token=%\nnext", "\"%\"", "use % now, 東京", `{"key":"%"}`, `{"key":"a line\n%\nanother"}`, `{"key":"a\t%"}`, "\x1b[01;31m\x1b[K%\x1b[m\x1b[K in colour", `{"key":"\u001b[1m\u001B[31m%\u001b[0m"}`} {
			text := strings.Replace(frame, "%", s.text(), 1)
			got := Find(text)
			if len(got) != 1 || got[0].Kind != s.kind || text[got[0].From:got[0].To] != s.secret {
				t.Errorf("%s in %q: %+v", s.kind, frame, got)
				continue
			}
			masked := Mask(text)
			if want := strings.Replace(frame, "%", s.before+strings.Repeat("*", len(s.secret))+s.after, 1); masked != want {
				t.Errorf("%s in %q: masked as %q", s.kind, frame, masked)
			}
		}
	}
	both := all[10].text() + " and " + all[2].text() // not in the order of the shapes
	if got := Find(both); len(got) != 2 || got[0].Kind != "npm token" || got[1].Kind != "GitHub token" {
		t.Errorf("two: %+v", got)
	}
}

// A shape is looked for where one of its signs is.
func TestEachBeginningOfAShapeIsFound(t *testing.T) {
	all := samples()
	for _, of := range []struct {
		sample     int
		beginnings []string
	}{{1, []string{"AK" + "IA", "AS" + "IA"}}, {2, []string{"gh" + "p_", "gh" + "o_", "gh" + "u_", "gh" + "s_", "gh" + "r_"}}} {
		for _, begin := range of.beginnings {
			if text := "x " + begin + all[of.sample].secret[4:]; len(Find(text)) != 1 {
				t.Errorf("%q is not found", text)
			}
		}
	}
	for _, scheme := range []string{"redis", "https", "HTTPS", "mongodb+srv"} {
		if text := "at " + scheme + "://" + "a:secret1@h/x"; Mask(text) != "at "+scheme+"://a:*******@h/x" {
			t.Errorf("%q", Mask(text))
		}
	}
}

// Of two at one place the shape that is tried first counts.
func TestACredentialIsFoundOnce(t *testing.T) {
	all := samples()
	jwt := all[14].text()
	text := all[7].text() + " x://a:" + jwt + "@h " + all[8].text()
	got := Find(text)
	var kinds []string
	for _, s := range got {
		kinds = append(kinds, s.Kind)
	}
	if want := "Anthropic key, JSON web token, OpenAI key"; strings.Join(kinds, ", ") != want {
		t.Errorf("%q, want %q", kinds, want)
	}
}

func TestTheWorkGrowsWithTheNumberOfCredentials(t *testing.T) {
	all := samples()
	text := strings.Repeat(all[7].text()+" "+all[2].text()+" "+all[10].text()+" ", 500)
	once, one := find(text)
	twice, two := find(text + text)
	if len(once) != 1500 || len(twice) != 3000 || two > 2*one+10 {
		t.Errorf("%d steps for %d credentials, %d for %d", one, len(once), two, len(twice))
	}
}

func TestOrdinaryTextHasNoCredentials(t *testing.T) {
	for _, text := range []string{
		"", "sk-learn and sk_live_ keys", "https://example.com:8080/a@b", "see http://localhost:4222", "gh" + "p_short", "AKIA is a prefix", "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
		"npm_config_registry", "git@github.com:a/b.git", "a sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "postgres://user:$PASSWORD@host/db", "postgres://user:${PW}@host",
	} {
		if got := Find(text); len(got) > 0 {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func FuzzMask(f *testing.F) {
	for _, s := range samples() {
		f.Add("x " + s.text())
	}
	f.Fuzz(func(t *testing.T, s string) {
		m := Mask(s)
		if len(m) != len(s) {
			t.Fatalf("%q has another length than %q", m, s)
		}
		last := 0
		for _, x := range Find(s) {
			if x.From < last || x.To <= x.From || x.To > len(s) {
				t.Fatalf("%q: %+v", s, x)
			}
			last = x.To
		}
	})
}

// A part of a text is masked as it is in the whole text, wherever it begins and ends.
func TestPartIsMaskedAsInTheWholeText(t *testing.T) {
	var pieces []string
	for _, s := range samples() {
		pieces = append(pieces, s.text(), s.text()[:len(s.text())/2])
	}
	pieces = append(pieces, " ", " ", "\n", "\\n", "\t", "words of prose ", "x", "\x1b[1m", `\u001b[31m`, "://", "é", "-", strings.Repeat("a long one ", 50))
	rng := rand.New(rand.NewPCG(2, 7))
	for range 5000 {
		var b strings.Builder
		for range 1 + rng.IntN(12) {
			b.WriteString(pieces[rng.IntN(len(pieces))])
		}
		text := b.String()
		from := rng.IntN(len(text) + 1)
		to := from + rng.IntN(len(text)-from+1)
		if got, want := MaskPart(text, from, to), Mask(text)[from:to]; got != want {
			t.Fatalf("%q[%d:%d]: %q, want %q", text, from, to, got, want)
		}
	}
}

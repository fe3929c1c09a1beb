package secrets

import (
	"strings"
	"testing"
)

// samples returns a made-up credential of each kind. They are put together here, so that no
// scanner takes this file for a leak.
func samples() map[string]string {
	run := func(n int) string { return strings.Repeat("Ab3dE7gH", n/8+1)[:n] }
	return map[string]string{
		"private key":        "-----BEGIN RSA " + "PRIVATE KEY-----\n" + run(64) + "\n-----END RSA " + "PRIVATE KEY-----",
		"AWS access key":     "AK" + "IA" + strings.Repeat("QZ7X", 4),
		"GitHub token":       "gh" + "p_" + run(36),
		"GitLab token":       "gl" + "pat-" + run(20),
		"Slack token":        "xo" + "xb-" + "123456789012-" + run(24),
		"Stripe key":         "sk" + "_live_" + run(24),
		"Anthropic key":      "sk" + "-ant-api03-" + run(40),
		"OpenAI key":         "sk" + "-proj-" + run(48),
		"Google API key":     "AI" + "za" + run(35),
		"npm token":          "np" + "m_" + run(36),
		"PyPI token":         "py" + "pi-AgE" + run(60),
		"SendGrid key":       "S" + "G." + run(22) + "." + run(43),
		"Hugging Face token": "h" + "f_" + run(34),
		"JSON web token":     "ey" + "J" + run(30) + ".ey" + "J" + run(30) + "." + run(30),
	}
}

func TestCredentialsOfKnownShapesAreFoundAndMasked(t *testing.T) {
	for kind, secret := range samples() {
		for _, frame := range []string{"%", "token=%\nnext", "\"%\"", "use % now, 東京", `{"key":"%"}`} {
			text := strings.Replace(frame, "%", secret, 1)
			got := Find(text)
			if len(got) != 1 || got[0].Kind != kind || text[got[0].From:got[0].To] != secret {
				t.Errorf("%s in %q: %+v", kind, frame, got)
				continue
			}
			masked := Mask(text)
			if want := strings.Replace(frame, "%", strings.Repeat("*", len(secret)), 1); masked != want {
				t.Errorf("%s in %q: masked as %q", kind, frame, masked)
			}
		}
	}
	url := "postgres://" + "app:" + "hunter2secret" + "@db.example/x"
	if got := Mask(url); got != "postgres://app:*************@db.example/x" {
		t.Errorf("a password in a URL: %q", got)
	}
	both := samples()["GitHub token"] + " and " + samples()["npm token"]
	if got := Find(both); len(got) != 2 || got[0].Kind != "GitHub token" {
		t.Errorf("two: %+v", got)
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
		f.Add("x " + s)
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

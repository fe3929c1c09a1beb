package policy

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"nexus/turns"
)

// TXT-1: The prompt of the flush is the design's, byte for byte.
func TestFlushPromptIsTheDesigns(t *testing.T) {
	f := builtin("spec-008").Flush
	b, err := os.ReadFile("../testdata/txt1/spec-008-flush.txt")
	must(t, err)
	if f.Prompt != string(b) || f.SilentToken != "SILENT" || f.Threshold != 4_000 {
		t.Errorf("%+v, want the prompt\n%s", f, b)
	}
	seed, err := os.ReadFile("../../../shared/seeds/spec-008.md")
	if err != nil {
		t.Skip("no published designs beside the project")
	}
	_, rest, _ := strings.Cut(string(seed), "FLUSH_SYSTEM_PROMPT = (")
	rest, _, _ = strings.Cut(rest, "\n)")
	quoted := ""
	for _, m := range regexp.MustCompile(`"([^"]*)"`).FindAllStringSubmatch(rest, -1) {
		quoted += m[1]
	}
	if quoted != string(b) {
		t.Errorf("the design says\n%s\nthe golden file\n%s", quoted, b)
	}
}

// A reply is silent if it is the token, and not if it holds it.
func TestFlushSilent(t *testing.T) {
	f := builtin("spec-008").Flush
	for reply, want := range map[string]bool{
		"SILENT": true, " SILENT\n": true, "": false, "SILENT.": false, "silent": false,
		"I will stay SILENT about that.": false, "SILENTLY saved": false, "SILENT SILENT": false,
	} {
		if got := f.Silent(reply); got != want {
			t.Errorf("%q: silent %v, want %v", reply, got, want)
		}
	}
}

// A flush needs its prompt, its token and its lease, and keeps the design's where
// an override does not name them.
func TestFlushSettings(t *testing.T) {
	p := builtin("spec-008")
	got, err := p.With(turns.Raw(`{"flush":{"threshold":1000}}`))
	want := p
	want.Flush.Threshold = 1000
	if err != nil || got.Digest() != want.Digest() {
		t.Errorf("%+v, %v; want the design's flush with another threshold", got.Flush, err)
	}
	off, err := p.With(turns.Raw(`{"flush":{"threshold":0,"prompt":"","silent_token":"","lease_seconds":0}}`))
	if err != nil || off.Flush.On() {
		t.Errorf("without a threshold: %+v, %v", off.Flush, err)
	}
	for set, fields := range map[string]string{
		`{"flush":{"prompt":""}}`:                                  "/policy/set/flush/prompt",
		`{"flush":{"silent_token":" x"}}`:                          "/policy/set/flush/silent_token",
		`{"flush":{"lease_seconds":4000}}`:                         "/policy/set/flush/lease_seconds",
		`{"flush":{"threshold":1e30}}`:                             "/policy/set/flush/threshold",
		`{"flush":{"prompt":"` + strings.Repeat("a", 4001) + `"}}`: "/policy/set/flush/prompt",
	} {
		_, err := p.With(turns.Raw(set))
		if got := strings.Join(faultFields(err), " "); got != fields {
			t.Errorf("%.60s: faults at %q, want %s", set, got, fields)
		}
	}
}

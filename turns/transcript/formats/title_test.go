package formats

import (
	"maps"
	"strings"
	"testing"

	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/claude"
	"nexus/turns/transcript/codex"
	"nexus/turns/transcript/pi"
)

// A transcript names its sessions: what a person called one beats what a model did,
// and the last of equals counts.
func TestTitles(t *testing.T) {
	const user = `{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s1","timestamp":"2026-01-02T03:04:05Z","message":{"role":"user","content":"hi"}}`
	const other = `{"type":"user","uuid":"u2","parentUuid":null,"sessionId":"s2","timestamp":"2026-01-02T03:04:06Z","message":{"role":"user","content":"ho"}}`
	const header = `{"timestamp":"2026-04-29T23:50:54Z","type":"session_meta","payload":{"id":"019ddba6-d9ca-71d2-89c3-5dd074c317b3","timestamp":"2026-04-29T23:50:54Z"}}`
	const piHead = `{"type":"session","version":3,"id":"p1","timestamp":"2026-01-02T03:04:05Z","cwd":"/"}`
	for name, c := range map[string]struct {
		format string
		lines  []string
		want   []string
	}{
		"none":         {"claude", []string{user}, nil},
		"the last":     {"claude", []string{user, `{"type":"ai-title","aiTitle":"One","sessionId":"s1"}`, `{"type":"ai-title","aiTitle":"  Two\n words ","sessionId":"s1"}`}, []string{"Two words"}},
		"a person's":   {"claude", []string{`{"type":"custom-title","customTitle":"Mine","sessionId":"s1"}`, user, `{"type":"ai-title","aiTitle":"Its","sessionId":"s1"}`}, []string{"Mine"}},
		"a summary":    {"claude", []string{`{"type":"summary","summary":"Sum","leafUuid":"u1"}`, `{"type":"summary","summary":"of another file","leafUuid":"x"}`, user}, []string{"Sum"}},
		"summaries":    {"claude", []string{`{"type":"summary","summary":"One","leafUuid":"u1"}`, user, `{"type":"assistant","uuid":"a1","parentUuid":"u1","sessionId":"s1","timestamp":"2026-01-02T03:04:06Z","message":{"id":"m1","role":"assistant","content":[{"type":"text","text":"done"}]}}`, `{"type":"summary","summary":"Two","leafUuid":"a1"}`}, []string{"Two"}},
		"too long":     {"claude", []string{user, `{"type":"ai-title","aiTitle":"` + strings.Repeat("x", 5000) + `","sessionId":"s1"}`}, nil},
		"two":          {"claude", []string{user, other, `{"type":"ai-title","aiTitle":"B","sessionId":"s2"}`, `{"type":"ai-title","aiTitle":"A","sessionId":"s1"}`, `{"type":"ai-title","aiTitle":"C","sessionId":"s3"}`}, []string{"A", "B"}},
		"no text":      {"claude", []string{user, `{"type":"ai-title","aiTitle":7,"sessionId":"s1"}`, `{"type":"ai-title","aiTitle":" ","sessionId":"s1"}`}, nil},
		"codex":        {"codex", []string{header, `{"type":"event_msg","payload":{"type":"thread_name_updated","thread_id":"019ddba6-d9ca-71d2-89c3-5dd074c317b3","thread_name":"FAQ"}}`}, []string{"FAQ"}},
		"another's":    {"codex", []string{header, `{"type":"event_msg","payload":{"type":"thread_name_updated","thread_id":"019ddba6","thread_name":"FAQ"}}`}, nil},
		"pi":           {"pi", []string{piHead, `{"type":"session_info","id":"a","parentId":null,"timestamp":"2026-01-02T03:04:06Z","name":"Work"}`}, []string{"Work"}},
		"pi, no title": {"pi", []string{piHead, `{"type":"session_info","id":"a","parentId":null,"timestamp":"2026-01-02T03:04:06Z","name":{}}`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			in := strings.NewReader(strings.Join(c.lines, "\n") + "\n")
			var r interface {
				Next() (transcript.Step, error)
				Titles() map[turns.ID]string
			}
			switch c.format {
			case "claude":
				r = claude.Read(in, transcript.Options{Final: true})
			case "codex":
				r = codex.Read(in, transcript.Options{Final: true})
			default:
				r = pi.Read(in, transcript.Options{Final: true})
			}
			for err := error(nil); err == nil; {
				_, err = r.Next()
			}
			got := make(map[string]bool)
			for _, text := range r.Titles() {
				got[text] = true
			}
			want := make(map[string]bool)
			for _, text := range c.want {
				want[text] = true
			}
			if !maps.Equal(got, want) {
				t.Errorf("titles %v, want %v", got, want)
			}
		})
	}
}

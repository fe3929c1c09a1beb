package chat

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

// logLine is a line of a log of requests: texts of the user and the assistant in turn.
func logLine(form string, texts ...string) string {
	var ms []string
	for i, s := range texts {
		role := []string{"user", "assistant"}[i%2]
		if form == "anthropic" { // the mark of the cache moves to the newest message
			mark := ""
			if i == len(texts)-1 {
				mark = `,"cache_control":{"type":"ephemeral"}`
			}
			ms = append(ms, fmt.Sprintf(`{"role":%q,"content":[{"type":"text","text":%q%s}]}`, role, s, mark))
			continue
		}
		ms = append(ms, fmt.Sprintf(`{"role":%q,"content":%q}`, role, s))
	}
	if form == "anthropic" {
		return `{"model":"claude-haiku-4-5","max_tokens":100,"system":"be brief","messages":[` + strings.Join(ms, ",") + "]}\n"
	}
	return `{"model":"gpt-4o","messages":[{"role":"system","content":"be brief"},` + strings.Join(ms, ",") + "]}\n"
}

// chatPaths returns the texts on the path of each session's last turn, in the order in which
// the sessions are opened, and how many turns are stored.
func chatPaths(t *testing.T, steps []transcript.Step) (paths []string, stored int) {
	t.Helper()
	text := make(map[turns.ID]string) // of the path, by turn
	tip := make(map[turns.ID]turns.ID)
	var order []turns.ID
	for _, s := range steps {
		switch {
		case s.Open != nil:
			order, tip[s.Open.ID] = append(order, s.Open.ID), turns.ID{}
		case s.Fork != nil:
			if _, ok := text[s.Fork.At.Turn]; !ok {
				t.Fatalf("a fork at %s, which is not there", s.Fork.At.Turn)
			}
			order, tip[s.Fork.ID] = append(order, s.Fork.ID), s.Fork.At.Turn
		case s.Append != nil:
			a := s.Append
			if tip[a.Session] != a.Parent {
				t.Fatalf("the turn %s follows %s, the head of its session is %s", a.ID, a.Parent, tip[a.Session])
			}
			said := text[a.Parent]
			for _, m := range a.Messages {
				said += " " + m.Parts[0].Content
			}
			if a.Response != nil {
				said += " " + a.Response.Parts[0].Content
			}
			if _, ok := text[a.ID]; ok {
				t.Fatalf("the turn %s is there already", a.ID)
			}
			text[a.ID], tip[a.Session] = said, a.ID
			stored++
		}
	}
	for _, s := range order {
		paths = append(paths, strings.TrimSpace(text[tip[s]]))
	}
	return paths, stored
}

// A log that has all messages so far in each line is one conversation that grows, and a line
// that goes on otherwise is a fork. What only begins alike is not joined.
func TestLogOfRequestsIsOneConversation(t *testing.T) {
	for _, form := range []string{"openai", "anthropic"} {
		line := func(texts string) string { return logLine(form, strings.Fields(texts)...) }
		for name, x := range map[string]struct {
			lines []string
			paths []string
			turns int
		}{
			"grows":                   {[]string{"q1", "q1 a1 q2", "q1 a1 q2 a2 q3"}, []string{"q1 a1 q2 a2 q3"}, 3},
			"ends with answers":       {[]string{"q1 a1", "q1 a1 q2 a2"}, []string{"q1 a1 q2 a2"}, 2},
			"the same request twice":  {[]string{"q1", "q1 a1 q2", "q1 a1 q2", "q1 a1 q2 a2 q3"}, []string{"q1 a1 q2 a2 q3"}, 3},
			"diverges":                {[]string{"q1", "q1 a1 q2", "q1 a1 other", "q1 a1 other b q4"}, []string{"q1 a1 other b q4", "q1 a1 q2"}, 4},
			"two at the same time":    {[]string{"q1", "r1", "q1 a1 q2", "r1 b1 r2"}, []string{"q1 a1 q2", "r1 b1 r2"}, 4},
			"strangers begin alike":   {[]string{"hello hi q1 a1", "hello hi q2 a2"}, []string{"hello hi q1 a1", "hello hi q2 a2"}, 4},
			"answers to one question": {[]string{"q1 a1", "q1 a2"}, []string{"q1 a1", "q1 a2"}, 2},
			"equal conversations":     {[]string{"q1 a1", "q1 a1"}, []string{"q1 a1", "q1 a1"}, 2},
		} {
			t.Run(form+" "+name, func(t *testing.T) {
				var text string
				ids := make(map[turns.ID]bool)
				for i, l := range x.lines {
					text += line(l)
					steps, _ := transcripttest.ReadAll(t, Read(strings.NewReader(text), transcript.Options{}, Form(form)))
					now := make(map[turns.ID]bool)
					for _, s := range steps {
						now[s.ID()] = true
					}
					for id := range ids {
						if !now[id] {
							t.Errorf("with line %d the id %s is no more", i+1, id)
						}
					}
					ids = now
				}
				steps, _ := transcripttest.ReadAll(t, Read(strings.NewReader(text), transcript.Options{Final: true}, Form(form)))
				paths, n := chatPaths(t, steps)
				slices.Sort(paths)
				if !slices.Equal(paths, x.paths) {
					t.Errorf("conversations %q, want %q", paths, x.paths)
				}
				if n != x.turns && name != "equal conversations" {
					t.Errorf("%d turns, want %d", n, x.turns)
				}
			})
		}
	}
}

// A file of examples has as many conversations as lines: what is kept of them is bounded. One
// that grows now and then is among those that are kept, and the messages at the end of one that
// is forgotten are stored.
func TestConversationsOfALogAreForgotten(t *testing.T) {
	const all = 3 * maxLogs
	var text strings.Builder
	grows, want := []string{"q0", "a0"}, 0
	for i := range all {
		text.WriteString(logLine("openai", fmt.Sprint("example ", i), "answer", "open"))
		if want += 2; i%(maxLogs/2) == 0 {
			text.WriteString(logLine("openai", grows...))
			grows = append(grows, fmt.Sprint("q", i+1), fmt.Sprint("a", i+1))
			want++
		}
	}
	c := newChatReader(strings.NewReader(text.String()), transcript.Options{Final: true}, "")
	sessions, stored, most := 0, 0, 0
	for s, err := range c.Reader().Steps() {
		if err != nil {
			t.Fatal(err)
		}
		if s.Open != nil || s.Fork != nil {
			sessions++
		}
		if s.Append != nil {
			stored++
		}
		most = max(most, len(c.logs), len(c.ends)/2, len(c.answered)/2)
	}
	if sessions != all+1 || stored != want {
		t.Errorf("%d sessions and %d turns, want %d and %d", sessions, stored, all+1, want)
	}
	if most > 2*maxLogs {
		t.Errorf("%d conversations are kept, want %d at most", most, 2*maxLogs)
	}
}

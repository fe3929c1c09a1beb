package handover

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"nexus/cmd/internal/agents"
	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/formats"
	"nexus/turns/transcript/gemini"
)

func id(n byte) turns.ID { return turns.ID{0: 1, 5: 1, 15: n} }

// turnOf is a turn in which something is asked and answered, with a call if name is not "".
func turnOf(n byte, asked, answered, call string) transcript.WrittenTurn {
	t := transcript.WrittenTurn{ID: id(n), Time: time.UnixMilli(int64(n) * 1000), Model: "claude-opus-4-5", Response: &turns.Message{Role: turns.Assistant, Parts: []turns.Part{turns.TextPart(answered)}}}
	if asked != "" {
		t.Messages = append(t.Messages, turns.TextMessage(turns.User, asked))
	}
	if call != "" {
		t.Response.Parts = append(t.Response.Parts, turns.Part{Type: turns.ToolCall, ID: call, Name: "ls", Arguments: turns.Raw(`{}`)})
	}
	return t
}

// answer puts the result of a call before what a turn says.
func answer(call string, t transcript.WrittenTurn) transcript.WrittenTurn {
	t.Messages = append([]turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: call, Response: turns.RawText("ok")}}}}, t.Messages...)
	return t
}

func path() []transcript.WrittenTurn {
	return []transcript.WrittenTurn{turnOf(1, "one", "1", ""), turnOf(2, "two", "2", "c1"), answer("c1", turnOf(3, "", "3", "")), turnOf(4, "four", "4", "c2"), answer("c2", turnOf(5, "five", "5", ""))}
}

// formatNames are the formats of the agents that resume transcripts.
func formatNames() (out []string) {
	for _, a := range agents.All() {
		if a.Resumes() {
			out = append(out, a.Format)
		}
	}
	return out
}

func transcriptOf(format string, path []transcript.WrittenTurn) *Transcript {
	return &Transcript{Format: format, Session: transcript.WrittenSession{ID: id(100), Time: time.UnixMilli(5), Cwd: "/w"}, Path: path}
}

func read(t *testing.T, format string, r io.Reader) (out []transcript.Step) {
	t.Helper()
	for _, f := range formats.All() {
		if f.Name != format {
			continue
		}
		for st, err := range f.Open(r, transcript.Options{Final: true}).Steps() {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, st)
		}
	}
	return out
}

// sinceHandover returns the steps that a grown transcript adds.
func sinceHandover(t *testing.T, before, grown *Transcript) (out []transcript.Step, own int, err error) {
	t.Helper()
	j, err := NewJoint(before)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := grown.Write(&text); err != nil {
		t.Fatal(err)
	}
	for _, st := range read(t, grown.Format, &text) {
		st, written, err := j.Step(st)
		switch {
		case err != nil:
			return out, own, err
		case written:
			own++
		default:
			out = append(out, st)
		}
	}
	return out, own, nil
}

func TestWhatComesBackGoesOntoTheFork(t *testing.T) {
	for _, format := range formatNames() {
		added, own, err := sinceHandover(t, transcriptOf(format, path()[:3]), transcriptOf(format, path()))
		if err != nil || own == 0 || len(added) != 2 {
			t.Fatalf("%s: %d added, %d own, %v", format, len(added), own, err)
		}
		a, b := added[0].Append, added[1].Append
		if a.Session != id(100) || a.Parent != id(3) || b.Session != id(100) || b.Parent != a.ID {
			t.Errorf("%s: %+v, %+v", format, a, b)
		}
		if a.Messages[0].Parts[0].Content != "four" || a.Response == nil {
			t.Errorf("%s: %+v", format, a.Messages)
		}
	}
}

// A transcript that did not grow adds nothing but, at most, the results that were put in for
// open calls.
func TestTranscriptThatDidNotGrowAddsNothing(t *testing.T) {
	for _, format := range formatNames() {
		for n := 1; n <= 5; n++ {
			x := transcriptOf(format, path()[:n])
			added, _, err := sinceHandover(t, x, x)
			open := n == 2 || n == 4
			if err != nil || !open && len(added) != 0 || len(added) > 1 || len(added) == 1 && added[0].Append.Response != nil {
				t.Errorf("%s, %d turns: %d added, %v", format, n, len(added), err)
			}
		}
	}
}

// Calls that are open where an agent goes on have a result in its transcript, and that comes
// back with what is said next.
func TestOpenCallsHaveAResult(t *testing.T) {
	for _, format := range formatNames() {
		before := transcriptOf(format, path()[:2])
		var text bytes.Buffer
		if err := before.Write(&text); err != nil {
			t.Fatal(err)
		}
		if strings.Count(text.String(), transcript.NoResult) != 1 {
			t.Errorf("%s: %s", format, text.String())
		}
		end := before.openCalls()
		next := turnOf(9, "go on", "9", "")
		next.Messages = slices.Concat(end.Messages, next.Messages)
		grown := slices.Concat(path()[:2], []transcript.WrittenTurn{*end, turnOf(9, "go on", "9", "")})
		added, _, err := sinceHandover(t, before, transcriptOf(format, grown))
		if err != nil || len(added) == 0 {
			t.Fatalf("%s: %v", format, err)
		}
		var said []string
		for _, st := range added {
			for _, m := range st.Append.Messages {
				for _, p := range m.Parts {
					if s, ok := p.Response.Text(); ok {
						said = append(said, s)
					} else {
						said = append(said, p.Content)
					}
				}
			}
		}
		if d := cmp.Diff([]string{transcript.NoResult, "go on"}, said); d != "" || added[0].Append.Parent != id(2) {
			t.Errorf("%s: parent %s\n%s", format, added[0].Append.Parent, d)
		}
	}
}

// The result of an open call has the time of the handover: the turn that an agent adds to an
// old session, and its cost, are of the day on which it is said.
func TestResultOfAnOpenCallIsOfTheHandover(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for _, c := range []struct{ forked, want time.Time }{{at, at}, {time.UnixMilli(5), path()[1].Time}} {
		before := transcriptOf("claude-code", path()[:2])
		before.Session.Time = c.forked
		if end := before.openCalls(); !end.Time.Equal(c.want) {
			t.Errorf("%s, want %s", end.Time, c.want)
		}
	}
}

// A transcript that is written now was not last changed when its first turn was said: Gemini
// CLI removes what is old by that time.
func TestGeminiTranscriptIsAsNewAsItsFork(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for _, c := range []struct{ forked, want time.Time }{{at, at}, {time.UnixMilli(5), path()[4].Time}} {
		x := transcriptOf("gemini-cli", path())
		x.Session.Time = c.forked
		var text bytes.Buffer
		if err := x.Write(&text); err != nil {
			t.Fatal(err)
		}
		var got struct {
			Updated time.Time `json:"lastUpdated"`
		}
		if err := json.Unmarshal(text.Bytes(), &got); err != nil || !got.Updated.Equal(c.want) {
			t.Errorf("%s, want %s, %v", got.Updated, c.want, err)
		}
	}
}

func TestSaveNeverWritesOverAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "below", "it.jsonl")
	x := transcriptOf("pi", path())
	if err := x.Save(file); err != nil {
		t.Fatal(err)
	}
	was, err := os.ReadFile(file)
	if err != nil || len(was) == 0 {
		t.Fatal(err)
	}
	if err := transcriptOf("pi", path()[:1]).Save(file); !errors.Is(err, ErrExists) {
		t.Errorf("%v", err)
	}
	if now, _ := os.ReadFile(file); !bytes.Equal(now, was) {
		t.Error("the file is another")
	}
	left, _ := os.ReadDir(filepath.Dir(file))
	st, _ := os.Stat(file)
	if len(left) != 1 || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", left, st.Mode())
	}
}

// Each agent finds its transcript where it looks for its own.
func TestTranscriptIsWhereItsAgentLooks(t *testing.T) {
	s := transcript.WrittenSession{ID: id(100), Time: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Cwd: "/home/me/my.shop"}
	set := map[string]string{"CODEX_HOME": "/c"}
	home := agents.Home{Dir: t.TempDir(), Getenv: func(k string) string { return set[k] }}
	if err := os.MkdirAll(filepath.Join(home.Dir, ".gemini"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home.Dir, ".gemini", "projects.json"), []byte(`{"projects":{"/home/me/my.shop":"my-shop","/other":"../x"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	uuid := s.TranscriptID()
	for name, want := range map[string][2]string{
		"claude": {home.Dir + "/.claude/projects/-home-me-my-shop/" + uuid + ".jsonl", "claude --resume " + uuid + " --model m"},
		"codex":  {"/c/sessions/2026/03/04/rollout-2026-03-04T05-06-07-" + uuid + ".jsonl", "codex resume " + uuid + " --model m"},
		"pi":     {home.Dir + "/.pi/agent/sessions/--home-me-my.shop--/2026-03-04T05-06-07-000Z_" + uuid + ".jsonl", "pi --session F --model m"},
		"gemini": {home.Dir + "/.gemini/tmp/my-shop/chats/session-2026-03-04T05-06-00000064.json", "gemini --resume " + uuid + " --model m"},
	} {
		a, ok := agents.Find(name)
		if !ok {
			t.Fatal(name)
		}
		if got := a.File(home, &s); got != want[0] {
			t.Errorf("%s: %s", name, got)
		}
		if got := strings.Join(a.Command(&s, "F", "m"), " "); got != want[1] {
			t.Errorf("%s: %s", name, got)
		}
	}
	s.Cwd = "/other" // a name that would lead out of the folder
	a, _ := agents.Find("gemini")
	if got := a.File(home, &s); !strings.HasPrefix(got, home.Dir+"/.gemini/tmp/"+gemini.ProjectHash("/other")) {
		t.Error(got)
	}
}

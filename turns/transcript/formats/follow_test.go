package formats

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/gemini"
	"nexus/turns/transcript/transcripttest"
)

// A log becomes turns, forks and compactions; what was taken back stays.
func TestGeminiCLILog(t *testing.T) {
	r := gemini.Read(strings.NewReader(transcripttest.GeminiCLILogText), transcript.Options{})
	steps, _ := transcripttest.ReadAll(t, r)
	ids := make(map[turns.ID]string)
	var got []string
	for _, s := range steps {
		switch {
		case s.Open != nil:
			ids[s.Open.ID] = "s" + string(rune('0'+len(ids)))
			got = append(got, "open "+ids[s.Open.ID])
		case s.Fork != nil:
			ids[s.Fork.ID] = "f"
			got = append(got, "fork "+ids[s.Fork.ID]+" at "+ids[s.Fork.At.Turn])
		case s.Compaction != nil:
			got = append(got, "compaction in "+ids[s.Compaction.Session]+" after "+ids[s.Compaction.Parent]+" keeps "+ids[s.Compaction.FirstKept])
			ids[s.Compaction.ID] = "the compaction"
			if len(s.Compaction.Replacement) != 2 {
				t.Errorf("the replacement has %d messages", len(s.Compaction.Replacement))
			}
		default:
			a := s.Append
			name := a.Response.Parts[0].Content
			ids[a.ID] = name
			text := "turn in " + ids[a.Session] + " after " + ids[a.Parent] + ": "
			for _, m := range a.Messages {
				text += string(m.Role) + " "
			}
			got = append(got, text+name)
		}
	}
	want := []string{
		"open s0", "turn in s0 after : user I look.", "turn in s0 after I look.: tool done", "turn in s0 after done: user as you say",
		"fork f at done", "turn in f after done: user better", "compaction in f after better keeps better", "turn in f after the compaction: user ok",
		"open s8", "turn in s8 after : user new",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if ts := r.Titles(); len(ts) != 1 {
		t.Errorf("titles %v", ts)
	}
	doc := transcripttest.StepsOf(t, gemini.Format(), `{"sessionId":"s1","projectHash":"p","startTime":"2026-04-11T14:53:00Z","messages":[{"id":"u1","timestamp":"2026-04-11T14:53:01Z","type":"user","content":"one"},{"id":"g1","timestamp":"2026-04-11T14:53:02Z","type":"gemini","content":"I look."},{"id":"x","type":"user","content":"y"}]}`, transcript.Options{})
	for i, s := range doc { // Gemini CLI moves a document to a log when a session is resumed
		if s.ID() != steps[i].ID() {
			t.Errorf("step %d has another id than the document's", i)
		}
	}
}

// followLines feeds a transcript line by line, and returns each step in the order in which it
// comes. complete says to ask for complete turns after each line.
func followLines(t *testing.T, f transcript.Format, text string, copied, complete bool) (steps []transcript.Step) {
	t.Helper()
	x := f.Follow(transcript.Options{Copied: copied})
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			line += "\n"
		}
		x.Feed(strings.NewReader(line))
		for {
			s, err := x.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			steps = append(steps, s)
		}
		if complete {
			steps = append(steps, x.Complete()...)
		}
	}
	return append(steps, x.Complete()...)
}

// A title is kept wherever it stands: a log may end before its first turn is complete.
func TestGeminiCLILogKeepsAnEarlyTitle(t *testing.T) {
	const begun = `{"sessionId":"s1","projectHash":"p","startTime":"2026-04-11T14:53:00Z","kind":"main"}
{"id":"u1","timestamp":"2026-04-11T14:53:01Z","type":"user","content":"one"}
{"id":"g1","timestamp":"2026-04-11T14:53:02Z","type":"gemini","content":"I look.","model":"m"}
{"$set":{"summary":"a title"}}
`
	r := gemini.Read(strings.NewReader(begun), transcript.Options{Final: true})
	steps, _ := transcripttest.ReadAll(t, r)
	if ts := r.Titles(); len(steps) == 0 || len(ts) != 1 || ts[steps[0].Open.ID] != "a title" {
		t.Errorf("titles %v of %d steps", ts, len(steps))
	}
}

// A transcript that is followed line by line gives the steps of one that is read at once,
// byte for byte: none is missing, and none comes twice.
func TestFollowingGivesTheStepsOfReading(t *testing.T) {
	const readBytes = 4 << 20
	most := make(map[string]int)
	for _, tr := range growingTranscripts(t) {
		f := formatOf(t, tr.format)
		if !f.Grows([]byte(tr.whole[:min(len(tr.whole), 64<<10)])) || len(tr.whole) > readBytes {
			continue
		}
		t.Run(tr.format+"/"+tr.name, func(t *testing.T) {
			for _, complete := range []bool{false, true} {
				read := transcripttest.StepsOf(t, formatOf(t, tr.format), tr.whole, transcript.Options{})
				whole, seen := transcripttest.NewStepIndex(read), make(map[turns.ID]bool)
				steps := followLines(t, f, tr.whole, false, complete)
				for i, s := range steps {
					if seen[s.ID()] {
						t.Errorf("step %d, %s, comes again", i, s.ID())
					}
					seen[s.ID()] = true
				}
				if err := whole.Contains(steps); err != nil {
					t.Fatalf("complete %v: %v", complete, err)
				}
				if len(steps) != len(read) {
					t.Errorf("complete %v: %d steps, read at once %d", complete, len(steps), len(read))
				}
				if !complete && tr.format != "codex" && tr.format != "claude-code" {
					for i := range read {
						if steps[i].ID() != read[i].ID() {
							t.Fatalf("step %d is another", i)
						}
					}
				}
				most[tr.format] = max(most[tr.format], len(steps))
			}
		})
	}
	for _, f := range All() {
		if f.Lines != nil && most[f.Name] < 3 {
			t.Errorf("no transcript of format %s gives 3 steps", f.Name)
		}
	}
}

// What a follower keeps of steps that it gave early does not grow with the transcript: the
// reader of Claude Code never gives them again.
func TestFollowerForgetsWhatItGave(t *testing.T) {
	for _, tr := range growingTranscripts(t) {
		f := formatOf(t, tr.format)
		if !f.Grows([]byte(tr.whole[:min(len(tr.whole), 64<<10)])) || len(tr.whole) > 1<<20 {
			continue
		}
		x := f.Follow(transcript.Options{})
		for line := range strings.Lines(tr.whole) {
			x.Feed(strings.NewReader(line))
			for err := error(nil); err == nil; {
				_, err = x.Next()
			}
			x.Complete()
			if n := len(x.Early); n > 3 {
				t.Fatalf("%s %s: %d steps are kept", tr.format, tr.name, n)
			}
		}
	}
}

// A line that is fed in parts of a few bytes is read like one that is fed at once.
func TestFollowerReadsALineInManyReads(t *testing.T) {
	f := formatOf(t, "gemini-cli")
	x := f.Follow(transcript.Options{})
	x.Feed(iotest.OneByteReader(strings.NewReader(transcripttest.GeminiCLILogText)))
	n := 0
	for {
		_, err := x.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if want := len(transcripttest.StepsOf(t, gemini.Format(), transcripttest.GeminiCLILogText, transcript.Options{})); n != want {
		t.Errorf("%d steps, want %d", n, want)
	}
	if _, err := x.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
}

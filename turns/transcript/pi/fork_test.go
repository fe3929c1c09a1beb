package pi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

const (
	piParentName = "2026-03-01T10-00-00-000Z_0b54e2c1-8a35-4c12-9c1e-0000000000a1.jsonl"
	piForkName   = "2026-03-01T11-00-00-000Z_0b54e2c1-8a35-4c12-9c1e-0000000000a2.jsonl"
)

// piForkLine is an entry at a minute after ten.
func piForkLine(id, parent, role, text string, minute int) string {
	p := "null"
	if parent != "" {
		p = `"` + parent + `"`
	}
	at := fmt.Sprintf("2026-03-01T%02d:%02d:00.000Z", 10+minute/60, minute%60)
	rest := ""
	if role == "assistant" {
		rest = `,"api":"anthropic-messages","provider":"anthropic","model":"m","responseId":"r-` + id + `","usage":{"input":10,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":11,"cost":{"total":0.5}},"stopReason":"stop"`
	}
	return `{"type":"message","id":"` + id + `","parentId":` + p + `,"timestamp":"` + at + `","message":{"role":"` + role + `","content":[{"type":"text","text":"` + text + `"}]` + rest + `}}` + "\n"
}

func piForkHeader(name, parent string) string {
	at, id, _ := strings.Cut(strings.TrimSuffix(name, ".jsonl"), "_")
	up := ""
	if parent != "" {
		up = `,"parentSession":"` + parent + `"`
	}
	day, clock, _ := strings.Cut(at, "T")
	c := strings.Split(clock, "-")
	return `{"type":"session","version":3,"id":"` + id + `","timestamp":"` + day + "T" + c[0] + ":" + c[1] + ":" + c[2] + "." + c[3] + `","cwd":"/w"` + up + "}\n"
}

// piFamily is a session with a branch of its own, and forks of it: at the end of the branch,
// in the middle, and of a fork.
func piFamily() map[string]string {
	path := []string{
		piForkLine("a1", "", "user", "one", 1), piForkLine("a2", "a1", "assistant", "1", 2),
		piForkLine("b1", "a2", "user", "two", 3), piForkLine("b2", "b1", "assistant", "2", 4),
	}
	branch := []string{piForkLine("d1", "a2", "user", "other", 5), piForkLine("d2", "d1", "assistant", "o", 6)}
	own := []string{piForkLine("f1", "d2", "user", "fork", 61), piForkLine("f2", "f1", "assistant", "f", 62)}
	return map[string]string{
		"parent": piForkHeader(piParentName, "") + strings.Join(path, "") + strings.Join(branch, ""),
		"branch": piForkHeader(piForkName, "/home/u/.pi/x/"+piParentName) + strings.Join(path[:2], "") + strings.Join(branch, "") + strings.Join(own, ""),
		"middle": piForkHeader("2026-03-01T12-00-00-000Z_0b54e2c1-8a35-4c12-9c1e-0000000000a3.jsonl", `C:\\u\\`+piParentName) + strings.Join(path[:2], "") + piForkLine("m1", "a2", "user", "mid", 121) + piForkLine("m2", "m1", "assistant", "m", 122),
		"second": piForkHeader("2026-03-01T13-00-00-000Z_0b54e2c1-8a35-4c12-9c1e-0000000000a4.jsonl", "/moved/"+piForkName) + strings.Join(path[:2], "") + strings.Join(branch, "") + strings.Join(own, "") + piForkLine("s1", "f2", "user", "sec", 181) + piForkLine("s2", "s1", "assistant", "s", 182),
	}
}

// A fork's file gives a fork at the turn that was copied last; the copied turns have the
// ids that the parent's own file gives them.
func TestPiForkIsAForkOfItsParent(t *testing.T) {
	files := piFamily()
	parent, _ := readPi(t, files["parent"], false)
	ids := make(map[turns.ID]string)
	for _, s := range parent {
		if s.Append != nil {
			ids[s.Append.ID] = s.Append.Response.Parts[0].Content
		}
	}
	for _, c := range []struct{ file, at, own string }{{"branch", "o", "f"}, {"middle", "1", "m"}} {
		steps, losses := readPi(t, files[c.file], false)
		if len(steps) != 2 || steps[0].Fork == nil || ids[steps[0].Fork.At.Turn] != c.at || steps[1].Append.Response.Parts[0].Content != c.own || len(losses) != 0 {
			t.Errorf("%s: %v, losses %+v", c.file, transcripttest.OutlineSteps(steps), losses)
			continue
		}
		f := steps[0].Fork
		places := append([]turns.Ref{f.At}, f.Else...)
		found := false
		for _, s := range parent {
			if a := s.Append; a != nil && a.ID == f.At.Turn {
				for _, p := range places {
					found = found || p == turns.Ref{Session: a.Session, Turn: a.ID}
				}
			}
		}
		if !found {
			t.Errorf("%s: none of %v is where the parent has the turn", c.file, places)
		}
		copied, _ := transcripttest.ReadAll(t, Read(strings.NewReader(files[c.file]), transcript.Options{Copied: true}))
		whole := transcripttest.NewStepIndex(parent)
		for _, s := range copied {
			if a := s.Append; a != nil && ids[a.ID] != "" {
				b := *a
				b.Session = whole[a.ID].Append.Session // only the parent's file says on which branch
				if err := whole.Contains([]transcript.Step{{Append: &b}}); err != nil {
					t.Errorf("%s: %v", c.file, err)
				}
			}
		}
		if len(copied) < 4 || copied[0].Open == nil || copied[0].Open.ID != parent[0].Open.ID {
			t.Errorf("%s, copied: %v", c.file, transcripttest.OutlineSteps(copied))
		}
	}
}

// A file whose header names no parent that can be found keeps the history that it copied,
// and says so.
func TestPiForkOfAnUnknownFileKeepsItsHistory(t *testing.T) {
	text := strings.Replace(piFamily()["middle"], piParentName, "renamed.jsonl", 1)
	steps, losses := readPi(t, text, false)
	want := []string{"open S1", "S1 T1 after - user(one) => assistant(1)", "S1 T2 after T1 user(mid) => assistant(m)"}
	if d := cmp.Diff(want, transcripttest.OutlineSteps(steps)); d != "" || len(losses) != 1 || !strings.Contains(string(steps[0].Open.Meta), "renamed.jsonl") {
		t.Errorf("steps (-want +got):\n%s\nlosses %+v, meta %s", d, losses, steps[0].Open.Meta)
	}
}

// A new session that only names its parent copied nothing: it is a session.
func TestPiSessionWithAParentAndNoCopies(t *testing.T) {
	steps, losses := readPi(t, piForkHeader(piForkName, piParentName)+piForkLine("x1", "", "user", "new", 61)+piForkLine("x2", "x1", "assistant", "n", 62), false)
	if d := cmp.Diff([]string{"open S1", "S1 T1 after - user(new) => assistant(n)"}, transcripttest.OutlineSteps(steps)); d != "" || len(losses) != 0 {
		t.Errorf("steps (-want +got):\n%s\nlosses %+v", d, losses)
	}
}

// Ids do not depend on lines that are not understood, nor on where a line stands.
func TestPiIDsAreNoPositions(t *testing.T) {
	for name, text := range map[string]string{"version 1": transcripttest.PiV1, "version 3": transcripttest.PiV3, "family": piFamily()["parent"]} {
		whole, _ := readPi(t, text, true)
		index := transcripttest.NewStepIndex(whole)
		var lines []string
		for line := range strings.Lines(text) {
			lines = append(lines, line)
		}
		for at := 1; at <= len(lines); at++ {
			unknown := `{"type":"telemetry","timestamp":"2026-03-01T10:00:30.000Z","n":` + fmt.Sprint(at) + "}\n"
			if name == "version 1" && at < len(lines)-2 {
				continue // an index of the format itself counts lines
			}
			got, _ := readPi(t, strings.Join(lines[:at], "")+unknown+strings.Join(lines[at:], ""), true)
			if err := index.Contains(got); err != nil || len(got) != len(whole) {
				t.Errorf("%s, an unknown line at %d: %d steps, %v", name, at, len(got), err)
			}
		}
	}
}

// A torn line keeps its place: what follows it stays on its branch.
func TestPiTornLineKeepsItsBranch(t *testing.T) {
	lines := []string{piForkLine("a1", "", "user", "one", 1), piForkLine("a2", "a1", "assistant", "1", 2), piForkLine("b1", "a2", "user", "two", 3), piForkLine("b2", "b1", "assistant", "2", 4),
		piForkLine("d1", "a2", "user", "lost", 5)[:100] + "\n", piForkLine("d2", "d1", "assistant", "o", 6)}
	steps, losses := readPi(t, piForkHeader(piParentName, "")+strings.Join(lines, ""), true)
	want := []string{"open S1", "S1 T1 after - user(one) => assistant(1)", "S1 T2 after T1 user(two) => assistant(2)", "fork S2 at T1 of S1", "S2 T3 after T1  => assistant(o)"}
	if d := cmp.Diff(want, transcripttest.OutlineSteps(steps)); d != "" || len(losses) != 1 {
		t.Errorf("steps (-want +got):\n%s\nlosses %+v", d, losses)
	}
}

// Whatever changes what the model sees, and usage outside of turns, is a loss.
func TestPiLossesOfWhatTheModelSees(t *testing.T) {
	text := piForkHeader(piParentName, "") + piForkLine("a1", "", "user", "one", 1) + piForkLine("a2", "a1", "assistant", "1", 2) +
		`{"type":"context_edit","id":"e1","parentId":"a2","timestamp":"2026-03-01T10:03:00.000Z","targetId":"a1","replacement":null}
{"type":"usage","id":"u1","parentId":"e1","timestamp":"2026-03-01T10:04:00.000Z","kind":"cache_warm","usage":{"input":5,"output":1}}
{"type":"compaction","id":"k1","parentId":"u1","timestamp":"2026-03-01T10:05:00.000Z","summary":"s","tokensBefore":9,"firstKeptEntryId":"a1","usage":{"input":7,"output":2}}
{"type":"custom_message","id":"c1","parentId":"k1","timestamp":"2026-03-01T10:06:00.000Z","customType":"x","content":"from a program"}
{"type":"message","id":"c2","parentId":"c1","timestamp":"2026-03-01T10:06:30.000Z","message":{"role":"bashExecution","command":"ls","output":"secret","excludeFromContext":true}}
` + piForkLine("c3", "c2", "user", "from a person", 7) + piForkLine("c4", "c3", "assistant", "2", 8)
	steps, losses := readPi(t, text, true)
	var got []string
	for _, l := range losses {
		used := uint64(0)
		if l.Usage != nil {
			used = l.Usage.InputTokens
		}
		got = append(got, fmt.Sprint(l.Kind, " ", l.Reason, " ", used))
	}
	want := []string{
		`skipped an edit of what the model sees; the entry "a1" is stored as it was 0`,
		"skipped usage of a call outside the conversation 5",
		"skipped commands that the user ran, which the model does not see 0",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("losses (-want +got):\n%s", d)
	}
	if k := steps[len(steps)-2].Compaction; k == nil || k.Usage == nil || k.Usage.InputTokens != 7 {
		t.Errorf("compaction %+v", k)
	}
	last := steps[len(steps)-1].Append
	if at := turns.ProgramMessages(last.Meta); len(last.Messages) != 2 || len(at) != 1 || at[0] != 0 {
		t.Errorf("%d messages, of programs %v", len(last.Messages), at)
	}
}

// An entry without a time has that of the one before it as a bound.
func TestPiEntryWithoutATime(t *testing.T) {
	text := piForkHeader(piParentName, "") + piForkLine("a1", "", "user", "one", 1) + strings.Replace(piForkLine("a2", "a1", "assistant", "1", 2), `"timestamp":"2026-03-01T10:02:00.000Z",`, "", 1)
	steps, _ := readPi(t, text, true)
	a := steps[1].Append
	if a.Time.Minute() != 1 || turns.TimeBoundOf(a.Meta) != turns.TimeNotBefore {
		t.Errorf("time %v, bound %q", a.Time, turns.TimeBoundOf(a.Meta))
	}
}

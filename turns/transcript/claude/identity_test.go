package claude

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

// claudeIDs returns the digests of the steps of a transcript by id.
func claudeIDs(t *testing.T, lines []string) map[turns.ID]string {
	t.Helper()
	steps := claudeSteps(t, []byte(strings.Join(lines, "\n")+"\n"), true)
	out := make(map[turns.ID]string, len(steps))
	for i, d := range claudeDigests(t, steps) {
		out[steps[i].ID()] = d
	}
	return out
}

// linesOf returns the lines of a file of testdata.
func linesOf(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimRight(string(b), "\n"), "\n")
}

// Lines that the reader does not know change neither the ids nor the content of what it
// stores, wherever they stand.
func TestUnknownLinesOfClaudeCodeChangeNoTurn(t *testing.T) {
	files, err := filepath.Glob("testdata/claudecode-*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	unknown := []string{
		`{"type":"novelty","sessionId":"S1","value":{"a":[1]}}`,
		`{"type":"novelty","uuid":"n-%d","sessionId":"S1","parentUuid":null,"isSidechain":false}`,
	}
	for _, file := range files {
		lines := linesOf(t, file)
		want := claudeIDs(t, lines)
		for _, u := range unknown {
			for i := range len(lines) + 1 {
				if i > 0 && !strings.HasSuffix(lines[i-1], "}") {
					continue // it would stand in the middle of a torn line
				}
				more := slices.Insert(slices.Clone(lines), i, strings.ReplaceAll(u, "%d", fmt.Sprint(i)))
				if d := cmp.Diff(want, claudeIDs(t, more)); d != "" {
					t.Fatalf("%s: an unknown line before line %d (-want +got):\n%s", file, i+1, d)
				}
			}
		}
	}
}

// longClaude returns a transcript of one session: prompts, calls with results, answers, with
// an unknown line in the chain after each answer.
func longClaude(n int) (lines []string) {
	parent, second := "null", 0
	add := func(uuid, format string, args ...any) {
		second++
		lines = append(lines, fmt.Sprintf(`{"parentUuid":%s,"uuid":%q,"sessionId":"S1","timestamp":"2026-01-01T00:%02d:%02d.000Z",`, parent, uuid, second/60, second%60)+fmt.Sprintf(format, args...)+"}")
		parent = fmt.Sprintf("%q", uuid)
	}
	for i := range n {
		add(fmt.Sprint("u", i), `"type":"user","message":{"role":"user","content":"prompt %d"}`, i)
		add(fmt.Sprint("a", i), `"type":"assistant","message":{"id":"m%d","stop_reason":"tool_use","content":[{"type":"tool_use","id":"c%d","name":"Bash","input":{}}]}`, i, i)
		add(fmt.Sprint("r", i), `"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c%d","content":"out %d"}]}`, i, i)
		add(fmt.Sprint("b", i), `"type":"assistant","message":{"id":"n%d","stop_reason":"end_turn","content":[{"type":"text","text":"answer %d"}]}`, i, i)
		add(fmt.Sprint("s", i), `"type":"system","subtype":"novelty"`)
	}
	return lines
}

// Of a transcript that begins at another line, as one that was cut or written anew, all
// turns have the ids that they had before, but the one which the cut goes through.
func TestIDsOfClaudeCodeDoNotDependOnWhatComesBefore(t *testing.T) {
	lines := longClaude(6)
	whole := claudeIDs(t, lines)
	for k := range lines {
		got := claudeIDs(t, lines[k:])
		maps.DeleteFunc(got, func(id turns.ID, _ string) bool { return whole[id] != "" })
		if len(got) > 1 {
			t.Errorf("without the first %d lines %d ids are new, want the first turn's at most", k, len(got))
		}
	}
}

// A line in the chain that is lost takes no other turn with it, and a line that is dropped
// and stands for nothing takes none.
func TestLostLineOfClaudeCodeLosesOneTurn(t *testing.T) {
	lines := longClaude(6)
	whole := claudeIDs(t, lines)
	for k, line := range lines {
		got := claudeIDs(t, slices.Delete(slices.Clone(lines), k, k+1))
		lost := maps.Clone(whole)
		maps.DeleteFunc(lost, func(id turns.ID, _ string) bool { return got[id] != "" })
		extra := maps.Clone(got)
		maps.DeleteFunc(extra, func(id turns.ID, _ string) bool { return whole[id] != "" })
		most := 1
		if strings.Contains(line, `"novelty"`) {
			most = 0
		}
		if len(lost) > most || len(extra) > most {
			t.Errorf("without line %d %d turns are lost and %d new: %s", k+1, len(lost), len(extra), line)
		}
	}
}

// A session is named by its sessionId alone, so that the files of its sub-agents and forks
// name it too, and a turn by its first line, in whatever session a copy of it stands.
func TestFilesOfClaudeCodeNameEachOther(t *testing.T) {
	const session, other = "0d7e7650-d2a6-4ccd-8cde-71355c00a7e7", "1d7e7650-d2a6-4ccd-8cde-71355c00a7e8"
	const line = `{"parentUuid":null,"uuid":"21bc603e-f027-49b2-a38e-28a8775c1ae9","sessionId":%q,"timestamp":"2026-09-01T10:00:05.000Z","type":"user","message":{"role":"user","content":"go"}%s}` + "\n"
	read := func(format string, args ...any) []transcript.Step {
		steps, _ := transcripttest.ReadAll(t, Read(bytes.NewReader(fmt.Appendf(nil, format, args...)), transcript.Options{Final: true}))
		return steps
	}
	main := read(line, session, "")
	agent := read(line, session, `,"isSidechain":true,"agentId":"a1"`)
	if got := agent[0].Open.SpawnedBy; got.Session != main[0].ID() || !got.Turn.IsZero() {
		t.Errorf("the sub-agent is spawned by %v, the session is %s", got, main[0].ID())
	}
	if agent[0].ID() == main[0].ID() {
		t.Error("a sub-agent has the id of its session")
	}
	copied := read(line, other, "")
	if copied[0].ID() == main[0].ID() || copied[1].ID() != main[1].ID() {
		t.Errorf("a copy has the session %s and the turn %s, the original %s and %s", copied[0].ID(), copied[1].ID(), main[0].ID(), main[1].ID())
	}
}

// The fold reads a file that its writer lost no line of as the case in ../shared/cases says.
func TestClaudeCodeCasesOfReports(t *testing.T) {
	dir := filepath.Join(filepath.Dir(transcripttest.Data(t)), "cases")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("the cases of reports are not next to the project (../shared/cases)")
	}
	read := func(pattern string, opt transcript.Options) (steps []transcript.Step) {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(files) != 1 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		b, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		opt.Final = true
		steps, _ = transcripttest.ReadAll(t, Read(bytes.NewReader(b), opt))
		return steps
	}
	t.Run("09", func(t *testing.T) {
		a := read("09-*/t.jsonl", transcript.Options{})[1].Append
		if a.Usage.InputTokens != 117_550 || a.Usage.OutputTokens != 446 {
			t.Errorf("the turn has %+v", a.Usage)
		}
		calls := turns.ModelCallsOf(a.Meta)
		if len(calls) != 2 || calls[0].Usage.InputTokens+a.Usage.InputTokens != 234_439 || calls[0].Usage.OutputTokens+a.Usage.OutputTokens != 491 ||
			calls[1].Model != "claude-opus-4-7" || calls[1].Usage != (turns.Usage{InputTokens: 159_419, OutputTokens: 7805}) {
			t.Errorf("further calls %+v", calls)
		}
	})
	t.Run("12", func(t *testing.T) {
		steps := read("12-*/t.jsonl", transcript.Options{})
		if len(steps) != 5 || steps[3].Compaction == nil || steps[3].Compaction.FirstKept != steps[2].ID() || steps[4].Append == nil || steps[4].Append.Parent != steps[3].ID() {
			t.Errorf("%+v", steps)
		}
	})
	t.Run("15b", func(t *testing.T) {
		var branch []string // the texts on the session of B's first prompt
		steps := read("15b-*/t.jsonl", transcript.Options{})
		texts := make(map[turns.ID][]string)
		for _, s := range steps {
			if s.Append != nil {
				for _, m := range s.Append.Messages {
					texts[s.Append.Session] = append(texts[s.Append.Session], m.Parts[0].Content)
				}
			}
		}
		for _, ts := range texts {
			if slices.Contains(ts, "client B asks") {
				branch = ts
			}
		}
		if !slices.Equal(branch, []string{"client B asks", "B again"}) {
			t.Errorf("B's conversation: %q; all: %v", branch, texts)
		}
	})
	t.Run("17", func(t *testing.T) {
		main := read("17-*/projects/*/*.jsonl", transcript.Options{})
		for _, agent := range []string{"a1111111", "b2222222"} {
			if by := read("17-*/projects/*/*/subagents/agent-"+agent+".jsonl", transcript.Options{})[0].Open.SpawnedBy; by.Session != main[0].ID() {
				t.Errorf("%s is spawned by %v, not %s", agent, by, main[0].ID())
			}
		}
	})
	t.Run("18", func(t *testing.T) {
		parent := read("18-*/p/a61f138c-*.jsonl", transcript.Options{})
		child := read("18-*/p/b7a61de1-*.jsonl", transcript.Options{})
		last := parent[len(parent)-1]
		if len(child) != 2 || child[0].Fork == nil || child[0].Fork.At != (turns.Ref{Session: parent[0].ID(), Turn: last.ID()}) || child[1].Append.Parent != last.ID() {
			t.Errorf("the fork: %+v", child)
		}
		whole := claudeDigests(t, read("18-*/p/b7a61de1-*.jsonl", transcript.Options{Copied: true}))
		if !slices.Equal(whole, append(claudeDigests(t, parent), claudeDigests(t, child)...)) {
			t.Error("with what it copied, the fork's file does not read as the parent's and its own")
		}
	})
}

package formats

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

// transcriptCopies is a transcript as its writer saves it while it grows.
type transcriptCopies struct {
	name   string
	format string
	whole  string
	cuts   func(whole string) []string // shorter copies
}

// cutAtLines returns the copies that end after each line, in the middle of each line
// and before each line break.
func cutAtLines(text string) (copies []string) {
	at := 0
	for line := range strings.Lines(text) {
		for _, n := range []int{len(line) / 2, len(strings.TrimSuffix(line, "\n")), len(line)} {
			copies = append(copies, text[:at+n])
		}
		at += len(line)
	}
	return slices.Compact(copies)
}

// cutAfterLines returns the copies that end after each line.
func cutAfterLines(text string) (copies []string) {
	for line := range strings.Lines(text) {
		before := ""
		if n := len(copies); n > 0 {
			before = copies[n-1]
		}
		copies = append(copies, before+line)
	}
	return copies
}

// cutAtMessages returns the copies of a JSON document that end after each message,
// and after each tool call of a message. Gemini CLI writes a message, then its calls.
func cutAtMessages(t *testing.T) func(string) []string {
	return func(text string) (copies []string) {
		var doc map[string]turns.Raw
		var messages []map[string]turns.Raw
		if err := errors.Join(values.Decode([]byte(text), &doc), values.Decode(doc["messages"], &messages)); err != nil {
			t.Fatal(err)
		}
		for i, m := range messages {
			var calls []turns.Raw
			if err := values.Decode(m["toolCalls"], &calls); m["toolCalls"] != nil && err != nil {
				t.Fatal(err)
			}
			short := maps.Clone(m)
			delete(short, "toolCalls")
			for n := range calls {
				copies = append(copies, chatDocument(doc, append(slices.Clone(messages[:i]), short)))
				short = maps.Clone(m)
				short["toolCalls"] = values.Encoded(calls[:n+1])
			}
			copies = append(copies, chatDocument(doc, messages[:i+1]))
		}
		return copies
	}
}

// chatDocument returns a document with other messages, which come last in it.
func chatDocument(doc map[string]turns.Raw, messages []map[string]turns.Raw) string {
	var b strings.Builder
	for _, name := range []string{"sessionId", "id", "projectHash", "startTime"} {
		if v, ok := doc[name]; ok {
			fmt.Fprintf(&b, "%q:%s,", name, v)
		}
	}
	return "{" + b.String() + `"messages":` + string(values.Encoded(messages)) + "}"
}

// growingTranscripts returns the transcripts of this package's tests and, where
// they are present, the real ones next to the project.
func growingTranscripts(t *testing.T) (out []transcriptCopies) {
	t.Helper()
	files := func(pattern, format string, cuts func(string) []string) {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, transcriptCopies{filepath.Join(filepath.Base(filepath.Dir(name)), filepath.Base(name)), format, string(b), cuts})
		}
	}
	files(filepath.Join("testdata", "claudecode-*.jsonl"), "claude-code", cutAtLines)
	text := func(name, format, whole string, cuts func(string) []string) {
		out = append(out, transcriptCopies{name, format, whole, cuts})
	}
	text("parent", "codex", transcripttest.CodexParent+transcripttest.CodexRest, cutAtLines)
	text("fork", "codex", transcripttest.CodexChild(), cutAtLines)
	text("version 1", "pi", transcripttest.PiV1, cutAtLines)
	text("version 3", "pi", transcripttest.PiV3, cutAtLines)
	text("chat", "gemini-cli", transcripttest.GeminiCLIChat, cutAtMessages(t))
	text("log", "gemini-cli", transcripttest.GeminiCLILogText, func(text string) []string { return cutAtLines(text)[2:] }) // a torn header is no chat
	text("conversation", "openai", `{"id":"c","messages":[{"role":"user","content":"one"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"ls","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"x"},{"role":"assistant","content":"done"},{"role":"user","content":"next"},{"role":"assistant","content":"ok"}]}`, cutAtMessages(t))
	text("conversation", "anthropic", `{"id":"c","messages":[{"role":"user","content":"one"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"ls","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"}]},{"role":"assistant","content":"done"},{"role":"user","content":"next"},{"role":"assistant","content":"ok"}]}`, cutAtMessages(t))
	var spans string
	for i, texts := range [][]string{{"a", "1"}, {"a", "1", "b", "2"}, {"a", "1", "other", "x"}, {"a", "1", "b", "2", "c", "3"}} {
		spans += transcripttest.OtlpLine(fmt.Sprint(i), "T", transcripttest.OtlpCall("string", texts...)...)
	}
	text("spans", "otel", spans, cutAfterLines)
	dir := transcripttest.Data(t)
	if _, err := os.Stat(dir); err != nil {
		t.Run("real transcripts", func(t *testing.T) { t.Skipf("there are no real transcripts: %v", err) })
		return out
	}
	files(filepath.Join(dir, "claude-code-*", "*.jsonl"), "claude-code", cutAtLines)
	files(filepath.Join(dir, "codex-*", "*.jsonl"), "codex", cutAtLines)
	files(filepath.Join(dir, "pi", "*.jsonl"), "pi", cutAtLines)
	files(filepath.Join(dir, "gemini-cli-*", "*.json"), "gemini-cli", cutAtMessages(t))
	return out
}

// TestStepsOfEveryCutAreStepsOfTheWhole: a copy that was read while its writer was
// still at work gives steps that the whole transcript has too, byte for byte. So an
// import of the copy and one of the whole store what one import of the whole stores.
func TestStepsOfEveryCutAreStepsOfTheWhole(t *testing.T) {
	const readBytes = 2 << 20    // a large file is cut at fewer places
	most := make(map[string]int) // steps of a cut, by format
	for _, tr := range growingTranscripts(t) {
		t.Run(tr.format+"/"+tr.name, func(t *testing.T) {
			for _, copied := range []bool{false, true} {
				whole := transcripttest.NewStepIndex(transcripttest.StepsOf(t, formatOf(t, tr.format), tr.whole, transcript.Options{Final: true, Copied: copied}))
				if len(whole) == 0 {
					t.Skip("the transcript has no steps")
				}
				cuts := tr.cuts(tr.whole)
				every := 1 + len(cuts)*len(tr.whole)/2/readBytes
				for i := 0; i < len(cuts); i += every {
					steps := transcripttest.StepsOf(t, formatOf(t, tr.format), cuts[i], transcript.Options{Copied: copied})
					most[tr.format] = max(most[tr.format], len(steps))
					if err := whole.Contains(steps); err != nil {
						t.Fatalf("cut %d of %d: %v", i, len(cuts), err)
					}
				}
				if tr.format != "codex" {
					break
				}
			}
		})
	}
	for _, f := range All() {
		if most[f.Name] < 3 {
			t.Errorf("no cut of a transcript of format %s gives 3 steps", f.Name)
		}
	}
}

// A crash and a resume leave whole records behind a torn one on a line: they are read, and the
// loss says how much is torn.
func TestRecordsBehindATornOneAreRead(t *testing.T) {
	codex := func(role, kind, text string) string {
		return `{"timestamp":"2026-01-02T03:04:06Z","type":"response_item","payload":{"type":"message","role":"` + role + `","content":[{"type":"` + kind + `","text":"` + text + `"}]}}`
	}
	gemini := func(id, kind, text string) string {
		return `{"id":"` + id + `","timestamp":"2026-01-02T03:04:06Z","type":"` + kind + `","content":"` + text + `"}`
	}
	for name, x := range map[string]struct {
		format string
		whole  string   // lines before
		torn   string   // the beginning of a record
		behind []string // whole records
		want   string   // outline of the steps
	}{
		"claude": {"claude-code", `{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s1","timestamp":"2026-01-02T03:04:05Z","message":{"role":"user","content":"hi"}}`,
			`{"parentUuid":"u1","type":"assi`,
			[]string{`{"parentUuid":"u1","type":"assistant","uuid":"a1","sessionId":"s1","timestamp":"2026-01-02T03:04:06Z","message":{"id":"m1","role":"assistant","content":[{"type":"text","text":"done"}]}}`},
			"user(hi) => assistant(done)"},
		"claude, two": {"claude-code", `{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s1","timestamp":"2026-01-02T03:04:05Z","message":{"role":"user","content":"hi"}}`,
			`{"parentUuid":"u1","type":"assi`,
			[]string{`{"parentUuid":"u1","type":"assistant","uuid":"a1","sessionId":"s1","timestamp":"2026-01-02T03:04:06Z","message":{"id":"m1","role":"assistant","content":[{"type":"text","text":"done"}]}}`,
				`{"parentUuid":"a1","type":"user","uuid":"u2","sessionId":"s1","timestamp":"2026-01-02T03:04:07Z","message":{"role":"user","content":"more"}}`},
			"user(hi) => assistant(done), user(more) => pending"},
		"pi": {"pi", `{"type":"session","version":3,"id":"p1","timestamp":"2026-01-02T03:04:05Z","cwd":"/"}
{"type":"message","id":"1","parentId":null,"timestamp":"2026-01-02T03:04:06Z","message":{"role":"user","content":"hi"}}`,
			`{"type":"message","id":"2","pare`,
			[]string{`{"type":"message","id":"3","parentId":"1","timestamp":"2026-01-02T03:04:06Z","message":{"role":"assistant","content":"done"}}`},
			"user(hi) => assistant(done)"},
		"codex": {"codex", `{"timestamp":"2026-01-02T03:04:05Z","type":"session_meta","payload":{"id":"c1","timestamp":"2026-01-02T03:04:05Z","cwd":"/"}}` + "\n" + codex("user", "input_text", "hi"),
			`{"timestamp":"2026-01-02T03:04:06Z","type":"response_item","payload":{"type":"reasoning","summary":[{"type":"summary_text","text":"a"},{"type":"summary_t`,
			[]string{codex("assistant", "output_text", "done")}, "user(hi) => assistant(done)"},
		"codex, two": {"codex", `{"timestamp":"2026-01-02T03:04:05Z","type":"session_meta","payload":{"id":"c1","timestamp":"2026-01-02T03:04:05Z","cwd":"/"}}` + "\n" + codex("user", "input_text", "hi"),
			`{"timestamp":"2026-01-02T03:04:06Z","type":"response_item","payload":{"type":"reasoning","summary":[{"type":"summary_text","text":"a"}`,
			[]string{codex("assistant", "output_text", "done"), codex("user", "input_text", "more")}, "user(hi) => assistant(done), user(more) => pending"},
		"gemini": {"gemini-cli", `{"sessionId":"g1","projectHash":"p","startTime":"2026-01-02T03:04:05Z","lastUpdated":"2026-01-02T03:04:05Z"}` + "\n" + gemini("u1", "user", "hi"),
			`{"id":"x1","timestamp":"2026-01-02T03:04:06Z","type":"gemini","content":"","toolCalls":[{"id":"t1","name":"ls","args":{}},{"id":"t2","na`,
			[]string{gemini("a1", "gemini", "done")}, "user(hi) => assistant(done)"},
		"gemini, two": {"gemini-cli", `{"sessionId":"g1","projectHash":"p","startTime":"2026-01-02T03:04:05Z","lastUpdated":"2026-01-02T03:04:05Z"}` + "\n" + gemini("u1", "user", "hi"),
			`{"id":"x1","timestamp":"2026-01-02T03:04:06Z","type":"gemini","content":"","toolCalls":[{"id":"t1","name":"ls","args":{}}`,
			[]string{gemini("a1", "gemini", "done"), gemini("u2", "user", "more")}, "user(hi) => assistant(done), user(more) => pending"},
		"gemini, a rewind": {"gemini-cli", `{"sessionId":"g1","projectHash":"p","startTime":"2026-01-02T03:04:05Z","lastUpdated":"2026-01-02T03:04:05Z"}` + "\n" + gemini("u1", "user", "hi") + "\n" + gemini("a1", "gemini", "done") + "\n" + gemini("u2", "user", "no"),
			`{"id":"x1","timestamp":"2026-01-02T03:04:06Z","ty`,
			[]string{`{"$rewindTo":"u2"}`, gemini("u3", "user", "more")}, "user(hi) => assistant(done), user(more) => pending"},
	} {
		t.Run(name, func(t *testing.T) {
			steps, losses := transcripttest.ReadAll(t, formatOf(t, x.format).Open(strings.NewReader(x.whole+"\n"+x.torn+strings.Join(x.behind, "")+"\n"), transcript.Options{Final: true}))
			var got []string
			for _, s := range transcripttest.OutlineSteps(steps) {
				if _, said, ok := strings.Cut(s, " after "); ok {
					_, said, _ = strings.Cut(said, " ")
					got = append(got, said)
				}
			}
			if text := strings.Join(got, ", "); text != x.want {
				t.Errorf("%s, want %s", text, x.want)
			}
			want := []string{fmt.Sprintf("%d bytes are torn, before another object on the line", len(x.torn))}
			if n := len(x.behind); n > 1 {
				want = append(want, fmt.Sprintf("%d objects on one line were split", n))
			}
			for _, reason := range want {
				if !slices.ContainsFunc(losses, func(l transcript.Loss) bool { return l.Reason == reason }) {
					t.Errorf("no loss says %q: %+v", reason, losses)
				}
			}
		})
	}
}

// A copy of a chat that Gemini CLI saved under a name is no transcript.
func TestGeminiCLISavedCopyIsNoTranscript(t *testing.T) {
	for _, text := range []string{
		`[{"role":"user","parts":[{"text":"hello"}]},{"role":"model","parts":[{"functionCall":{"name":"ls","args":{}}}]}]`,
		`{"history":[{"role":"user","parts":[{"text":"hello"}]}],"clientHistory":[{"role":"user","parts":[{"text":"hello"}]}],"toolCall":{"name":"ls","args":{}}}`,
	} {
		for _, f := range All() {
			if f.Sniff([]byte(text)) {
				t.Errorf("%s is taken for %s", text, f.Name)
			}
		}
	}
}

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/transcripts"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
)

// claudeLine is a line of a transcript of Claude Code.
type claudeLine struct {
	session string
	n, up   int // of uuids; zero: none
	text    string
	answer  bool
	from    string // the session that it is copied from
	model   string
	content string // in place of text
	more    string // further members, each after a comma
}

func claudeUUID(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

func (l claudeLine) String() string {
	up, content := "null", cmp.Or(l.content, fmt.Sprintf(`[{"type":"text","text":%q}]`, l.text))
	if l.up > 0 {
		up = fmt.Sprintf("%q", claudeUUID(l.up))
	}
	if l.from != "" {
		l.more += fmt.Sprintf(`,"forkedFrom":{"sessionId":%q,"messageUuid":%q}`, l.from, claudeUUID(l.n))
	}
	typ, message := "user", `{"role":"user","content":`+content+`}`
	if l.answer {
		typ, message = "assistant", fmt.Sprintf(`{"id":"msg_%d","role":"assistant","model":%q,"stop_reason":"end_turn","content":%s,"usage":{"input_tokens":10,"output_tokens":1}}`, l.n, cmp.Or(l.model, "claude-haiku-4-5"), content)
	}
	return fmt.Sprintf(`{"parentUuid":%s,"isSidechain":false,"cwd":"/w","sessionId":%q,"version":"2.1.250","type":%q,"uuid":%q,"timestamp":"2026-03-01T10:%02d:%02d.000Z","message":%s%s}`+"\n",
		up, l.session, typ, claudeUUID(l.n), l.n/60, l.n%60, message, l.more)
}

// claudeTurnOf is a prompt, the line n, and its answer, the line n+1, after the line up.
func claudeTurnOf(session string, n, up int, text, from string) string {
	return claudeLine{session: session, n: n, up: up, text: text, from: from}.String() +
		claudeLine{session: session, n: n + 1, up: n, text: text + "!", answer: true, from: from}.String()
}

// importedState is what importing files one after the other, or together, comes to: of each
// session its path, with the turns of its own after a bar, and where it begins.
func importedState(t *testing.T, texts map[string]string, order []string, together bool) []string {
	t.Helper()
	ctx := t.Context()
	e := newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard})
	c, stop, err := local.Start(ctx, e.Terminal, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	dir := t.TempDir()
	var files []transcriptfile.File
	for _, name := range order {
		f := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(f), 0o700); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".jsonl") {
			files = append(files, transcriptfile.File{Name: f})
		}
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	imports := [][]transcriptfile.File{files}
	if !together {
		imports = nil
		for i := range files {
			imports = append(imports, files[i:i+1])
		}
	}
	for _, fs := range append(imports, files) {
		im := transcripts.Importer{Client: c, Format: "auto", Final: true}
		for i, o := range im.Files(ctx, fs) {
			if o.Err != nil {
				t.Fatalf("%v, together %v: %s: %v", order, together, filepath.Base(fs[i].Name), o.Err)
			}
		}
	}
	var out []string
	for s, err := range c.Sessions(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		var path []string
		for x, err := range c.Turns(ctx, s.ID, api.ListTurns{Full: true}) {
			if err != nil {
				t.Fatal(err)
			}
			text := "compaction"
			if x.Type == "normal" {
				text = x.Messages[0].Parts[0].Content
			}
			if x.Session == s.ID {
				text = "*" + text
			}
			path = append(path, text)
		}
		slices.Reverse(path)
		line := s.ID.String()[22:] + ": " + strings.Join(path, " ")
		if s.SpawnedBy != nil {
			line += " <- " + s.SpawnedBy.Session.String()[22:] + " " + s.SpawnedBy.Turn.String()
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// permutations returns all orders of names.
func permutations(names []string) (out [][]string) {
	if len(names) == 0 {
		return [][]string{nil}
	}
	for i, n := range names {
		for _, rest := range permutations(slices.Concat(names[:i], names[i+1:])) {
			out = append(out, append([]string{n}, rest...))
		}
	}
	return out
}

// inEachOrder checks that files come to the same in each order, one by one and together.
func inEachOrder(t *testing.T, texts map[string]string, want []string) {
	t.Helper()
	var names []string
	for name := range texts {
		if strings.HasSuffix(name, ".jsonl") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, order := range permutations(names) {
		for _, together := range []bool{false, true} {
			got := importedState(t, texts, order, together)
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v, together %v:\n%s\nwant\n%s", order, together, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
}

// A message of Claude Code's own about a call that failed names no model. The thinking of the
// model that was called stays in the context.
func TestFailedCallNamesNoModel(t *testing.T) {
	ctx := t.Context()
	e := newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard})
	c, stop, err := local.Start(ctx, e.Terminal, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	const session = "a61f138c-d78e-4a15-a8d2-16e14727e258"
	text := claudeLine{session: session, n: 1, text: "count"}.String() +
		claudeLine{session: session, n: 2, up: 1, answer: true, content: `[{"type":"thinking","thinking":"one two","signature":"c2ln"},{"type":"text","text":"two"}]`}.String() +
		claudeLine{session: session, n: 3, up: 2, text: "more"}.String() +
		claudeLine{session: session, n: 4, up: 3, answer: true, model: "<synthetic>", text: "API Error: overloaded", more: `,"isApiErrorMessage":true`}.String()
	name := filepath.Join(t.TempDir(), "a.jsonl")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	im := transcripts.Importer{Client: c, Format: "auto", Final: true}
	r, err := im.File(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Context(ctx, r.Sessions[0], api.GetContext{Format: "anthropic"})
	if err != nil {
		t.Fatal(err)
	}
	if s := string(must(json.Marshal(got))(t)); !strings.Contains(s, "one two") {
		t.Errorf("the context has no thinking: %s", s)
	}
}

// A sub-agent that another sub-agent started knows the turn with the call, by the files
// beside it, in whatever order they are read.
func TestSubagentOfASubagentKnowsItsSpawner(t *testing.T) {
	const session = "a61f138c-d78e-4a15-a8d2-16e14727e258"
	agent := func(id, text string) string {
		return strings.ReplaceAll(text, `"isSidechain":false`, `"isSidechain":true,"agentId":"`+id+`"`)
	}
	call := func(n, up int, id string) string {
		return claudeLine{session: session, n: n, up: up, answer: true, content: `[{"type":"tool_use","id":"` + id + `","name":"Agent","input":{}}]`}.String()
	}
	result := func(n, up int, id, agent string) string {
		return claudeLine{session: session, n: n, up: up, content: `[{"type":"tool_result","tool_use_id":"` + id + `","content":"done"}]`, more: `,"toolUseResult":{"agentId":"` + agent + `"}`}.String() +
			claudeLine{session: session, n: n + 1, up: n, answer: true, text: "ok"}.String()
	}
	texts := map[string]string{
		session + ".jsonl":                       claudeLine{session: session, n: 1, text: "main"}.String() + call(2, 1, "c1") + result(3, 2, "c1", "outer"),
		session + "/subagents/agent-outer.jsonl": agent("outer", claudeLine{session: session, n: 11, text: "outer"}.String()+call(12, 11, "c2")+result(13, 12, "c2", "inner")),
		session + "/subagents/agent-inner.jsonl": agent("inner", claudeTurnOf(session, 21, 0, "inner", "")),
	}
	flat := make(map[string]string) // as older versions have them
	for name, text := range texts {
		flat[path.Base(name)] = text
	}
	for _, form := range []string{"flat", "folders", "with the call beside it"} {
		switch form {
		case "flat":
			texts, flat = flat, texts
		case "folders":
			texts = flat
		default:
			texts[session+"/subagents/agent-inner.meta.json"] = `{"toolUseId":"c2","spawnDepth":2}`
		}
		started, by := 0, make(map[string]bool)
		state := importedState(t, texts, slices.Sorted(maps.Keys(texts)), false)
		for _, l := range state {
			_, spawner, ok := strings.Cut(l, " <- ")
			if ok && !strings.HasSuffix(l, " 00000000000000000000000000") {
				started++
				by[strings.Fields(spawner)[0]] = true
			}
		}
		if started != 2 || len(by) != 2 {
			t.Errorf("%s: %d sub-agents know the turn that started them, by %v:\n%s", form, started, by, strings.Join(state, "\n"))
		}
		inEachOrder(t, texts, nil)
	}
}

// A fork whose file begins with the copy of a compaction is a fork of the session that was
// compacted, in whatever order they are read.
func TestForkAfterACompaction(t *testing.T) {
	const a, b = "a61f138c-d78e-4a15-a8d2-16e14727e258", "b7a61de1-7e35-4021-bd7b-0f2823809de5"
	compacted := func(session, from string) string {
		boundary := claudeLine{session: session, n: 3, content: `""`, from: from, more: `,"subtype":"compact_boundary","logicalParentUuid":"` + claudeUUID(2) + `","compactMetadata":{"trigger":"auto"}`}.String()
		return strings.Replace(boundary, `"type":"user"`, `"type":"system"`, 1) +
			claudeLine{session: session, n: 4, up: 3, text: "summary", from: from, more: `,"isCompactSummary":true`}.String() +
			claudeTurnOf(session, 5, 4, "new", from)
	}
	texts := map[string]string{
		"a.jsonl": claudeTurnOf(a, 1, 0, "old", "") + compacted(a, "") + claudeTurnOf(a, 7, 6, "more", ""),
		"b.jsonl": compacted(b, a) + claudeTurnOf(b, 11, 6, "own", ""),
	}
	for _, together := range []bool{false, true} {
		for _, order := range [][]string{{"a.jsonl", "b.jsonl"}, {"b.jsonl", "a.jsonl"}} {
			got := strings.Join(importedState(t, texts, order, together), "\n")
			// Of each session the newest turn first; those with a star are its own. Where the copy
			// came first and alone, what it begins with stands for what the parent had before.
			want := []string{"*more *new *compaction *old", "*own new compaction old"}
			if !together && order[0] == "b.jsonl" {
				want = []string{"*more *new *summary", "*old", "*own new summary"}
			}
			var paths []string
			for line := range strings.SplitSeq(got, "\n") {
				_, path, _ := strings.Cut(line, ": ")
				paths = append(paths, path)
			}
			slices.Sort(paths)
			if !slices.Equal(paths, want) {
				t.Errorf("%v, together %v: sessions %q, want %q", order, together, paths, want)
			}
			for _, own := range []string{"*new", "*more", "*own", "*old"} {
				if n := strings.Count(got+"\n", own); n != 1 {
					t.Errorf("%v, together %v: the turn %s stands %d times:\n%s", order, together, own, n, got)
				}
			}
		}
	}
}

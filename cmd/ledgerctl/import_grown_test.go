package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/cmd/internal/transcripts"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/cmd/ledgerctl/internal/importreport"
	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// grownFiles are sessions of each format as they grow, %s for their id.
var grownFiles = map[string][]string{
	"pi": lines(`{"type":"session","version":3,"id":"%s","timestamp":"2025-12-09T00:53:29.825Z","cwd":"/w"}
{"type":"message","id":"a1","parentId":null,"timestamp":"2025-12-09T00:54:00Z","message":{"role":"user","content":"one"}}
{"type":"message","id":"a2","parentId":"a1","timestamp":"2025-12-09T00:54:01Z","message":{"role":"user","content":"and"}}
{"type":"message","id":"a3","parentId":"a2","timestamp":"2025-12-09T00:54:02Z","message":{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"ls","arguments":{"n": 1}}]}}
{"type":"message","id":"a4","parentId":"a3","timestamp":"2025-12-09T00:54:03Z","message":{"role":"toolResult","toolCallId":"c","toolName":"ls","content":"x"}}
{"type":"message","id":"a5","parentId":"a4","timestamp":"2025-12-09T00:54:04Z","message":{"role":"assistant","content":"done"}}
{"type":"compaction","id":"k1","parentId":"a5","timestamp":"2025-12-09T00:56:02Z","summary":"all","tokensBefore":5,"firstKeptEntryId":"a4"}
{"type":"message","id":"a6","parentId":"k1","timestamp":"2025-12-09T00:57:00Z","message":{"role":"user","content":"next"}}
{"type":"message","id":"a7","parentId":"a6","timestamp":"2025-12-09T00:57:01Z","message":{"role":"assistant","content":"ok"}}
`),
	"codex": lines(`{"timestamp":"2026-04-11T14:53:07.700Z","type":"session_meta","payload":{"id":"%s","timestamp":"2026-04-11T14:53:07.660Z"}}
{"timestamp":"2026-04-11T14:53:08Z","type":"response_item","payload":{"type":"message","role":"user","content":"one"}}
{"timestamp":"2026-04-11T14:53:09Z","type":"response_item","payload":{"type":"message","role":"assistant","content":"I look."}}
{"timestamp":"2026-04-11T14:53:10Z","type":"response_item","payload":{"type":"function_call","name":"exec","arguments":"{\"n\": 1.50}","call_id":"c1"}}
{"timestamp":"2026-04-11T14:53:11Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":120},"last_token_usage":{"input_tokens":100,"cached_input_tokens":80,"output_tokens":20}}}}
{"timestamp":"2026-04-11T14:53:13Z","type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"data"}}
{"timestamp":"2026-04-11T14:53:14Z","type":"response_item","payload":{"type":"message","role":"user","content":"and"}}
{"timestamp":"2026-04-11T14:53:15Z","type":"response_item","payload":{"type":"message","role":"assistant","content":"done"}}
{"timestamp":"2026-04-11T14:53:16Z","type":"response_item","payload":{"type":"message","role":"user","content":"next"}}
{"timestamp":"2026-04-11T14:53:17Z","type":"response_item","payload":{"type":"message","role":"assistant","content":"ok"}}
`),
	"claude-code": lines(`{"type":"user","uuid":"u1%[1]s","parentUuid":null,"sessionId":"%[1]s","timestamp":"2026-04-11T14:53:01Z","message":{"role":"user","content":"one"}}
{"type":"assistant","uuid":"a1%[1]s","parentUuid":"u1%[1]s","sessionId":"%[1]s","timestamp":"2026-04-11T14:53:02Z","message":{"id":"m1","role":"assistant","model":"m","content":[{"type":"text","text":"I look."}],"usage":{"input_tokens":1,"output_tokens":1}}}
{"type":"assistant","uuid":"a2%[1]s","parentUuid":"a1%[1]s","sessionId":"%[1]s","timestamp":"2026-04-11T14:53:03Z","message":{"id":"m1","role":"assistant","model":"m","content":[{"type":"tool_use","id":"t1","name":"ls","input":{"n":1}}],"usage":{"input_tokens":1,"output_tokens":9}}}
{"type":"user","uuid":"u2%[1]s","parentUuid":"a2%[1]s","sessionId":"%[1]s","timestamp":"2026-04-11T14:53:04Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]}}
{"type":"assistant","uuid":"a3%[1]s","parentUuid":"u2%[1]s","sessionId":"%[1]s","timestamp":"2026-04-11T14:53:05Z","message":{"id":"m2","role":"assistant","model":"m","content":[{"type":"text","text":"done"}],"usage":{"input_tokens":2,"output_tokens":1}}}
{"type":"user","uuid":"u3%[1]s","parentUuid":"a3%[1]s","sessionId":"%[1]s","timestamp":"2026-04-11T14:53:06Z","message":{"role":"user","content":"next"}}
{"type":"assistant","uuid":"a4%[1]s","parentUuid":"u3%[1]s","sessionId":"%[1]s","timestamp":"2026-04-11T14:53:07Z","message":{"id":"m3","role":"assistant","model":"m","content":[{"type":"text","text":"ok"}],"usage":{"input_tokens":3,"output_tokens":1}}}
`),
	"openai": {
		`{"id":"%s","messages":[{"role":"user","content":"one"}]}`,
		`{"id":"%s","messages":[{"role":"user","content":"one"},{"role":"user","content":"and"}]}`,
		`{"id":"%s","messages":[{"role":"user","content":"one"},{"role":"user","content":"and"},{"role":"assistant","content":"done"}]}`,
		`{"id":"%s","messages":[{"role":"user","content":"one"},{"role":"user","content":"and"},{"role":"assistant","content":"done"},{"role":"user","content":"next"},{"role":"assistant","content":"ok"}]}`,
	},
	"gemini-cli": {
		`{"sessionId":"%s","projectHash":"p","startTime":"2026-04-11T14:53:01Z","messages":[{"id":"1","timestamp":"2026-04-11T14:53:01Z","type":"user","content":"one"}]}`,
		`{"sessionId":"%s","projectHash":"p","startTime":"2026-04-11T14:53:01Z","messages":[{"id":"1","timestamp":"2026-04-11T14:53:01Z","type":"user","content":"one"},{"id":"2","timestamp":"2026-04-11T14:53:02Z","type":"gemini","content":"I look."}]}`,
		`{"sessionId":"%s","projectHash":"p","startTime":"2026-04-11T14:53:01Z","messages":[{"id":"1","timestamp":"2026-04-11T14:53:01Z","type":"user","content":"one"},{"id":"2","timestamp":"2026-04-11T14:53:02Z","type":"gemini","content":"I look.","toolCalls":[{"id":"t","name":"ls","args":{"n": 1},"result":[{"functionResponse":{"id":"t","name":"ls","response":{"output":"x"}}}],"status":"success"}]}]}`,
		`{"sessionId":"%s","projectHash":"p","startTime":"2026-04-11T14:53:01Z","messages":[{"id":"1","timestamp":"2026-04-11T14:53:01Z","type":"user","content":"one"},{"id":"2","timestamp":"2026-04-11T14:53:02Z","type":"gemini","content":"I look.","toolCalls":[{"id":"t","name":"ls","args":{"n": 1},"result":[{"functionResponse":{"id":"t","name":"ls","response":{"output":"x"}}}],"status":"success"}]},{"id":"3","timestamp":"2026-04-11T14:53:03Z","type":"gemini","content":"ok"}]}`,
	},
}

// lines are the copies of a file that has grown by each of its lines.
func lines(text string) (copies []string) {
	all := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	for i := range all {
		copies = append(copies, strings.Join(all[:i+1], ""))
	}
	return copies
}

// Copies of a file that grows lose nothing and store nothing twice. Copies imported
// without --final leave the turns that one import of the whole stores. After a copy that
// was imported with --final, what came since is appended to what is there: the parts
// are the same, a turn may be two.
func TestImportOfAGrowingFile(t *testing.T) {
	ctx := t.Context()
	e := newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard})
	c, stop, err := local.Start(ctx, e.Terminal, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	dir := t.TempDir()
	n := 0
	for format, copies := range grownFiles {
		for _, final := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/final=%v", format, final), func(t *testing.T) {
				kept := storedTurns
				if final {
					kept = pathParts
				}
				// bring imports copies; the last is always the whole, with --final.
				bring := func(id string, copies ...string) (session turns.ID) {
					t.Helper()
					name := filepath.Join(dir, id)
					for i, text := range copies {
						text = strings.ReplaceAll(strings.ReplaceAll(text, "%[1]s", id), "%s", id)
						if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
							t.Fatal(err)
						}
						im := transcripts.Importer{Client: c, Format: "auto", Final: final || i == len(copies)-1}
						r, err := im.File(ctx, name)
						if err != nil {
							t.Fatalf("copy %d of %d: %v\n%s", i+1, len(copies), err, text)
						}
						if len(r.Sessions) > 0 {
							session = r.Sessions[0]
						}
					}
					return session
				}
				id := func() string {
					n++
					return fmt.Sprintf("019d7d08-46c9-7f73-affe-%012d", n)
				}
				last := copies[len(copies)-1]
				session := bring(id(), last)
				if parts := pathParts(ctx, t, c, session); len(parts) == 0 || !strings.Contains(parts[len(parts)-1], "ok") {
					t.Fatalf("the last answer is missing: %q", parts)
				}
				want := kept(ctx, t, c, session)
				for i, text := range copies[:len(copies)-1] {
					s := bring(id(), text, last, last)
					if d := cmp.Diff(want, kept(ctx, t, c, s)); d != "" {
						t.Errorf("copy %d, then the whole (-want +got):\n%s", i+1, d)
					}
				}
				at := id()
				s := bring(at, append(copies[:len(copies):len(copies)], last)...)
				if d := cmp.Diff(want, kept(ctx, t, c, s)); d != "" {
					t.Errorf("each copy (-want +got):\n%s", d)
				}
				before := hashes(ctx, t, c, s)
				im := transcripts.Importer{Client: c, Format: "auto", Final: true}
				if r, err := im.File(ctx, filepath.Join(dir, at)); err != nil || r.Stored > 0 {
					t.Errorf("again: %+v, %v", r, err)
				}
				if d := cmp.Diff(before, hashes(ctx, t, c, s)); d != "" {
					t.Errorf("hashes after the same file again (-before +after):\n%s", d)
				}
				newest := id()
				s = bring(newest, last)
				before = hashes(ctx, t, c, s)
				bring(newest, copies...)
				if d := cmp.Diff(before, hashes(ctx, t, c, s)); d != "" {
					t.Errorf("hashes after older copies (-before +after):\n%s", d)
				}
			})
		}
	}
	if v, err := c.As(api.Operator).Verify(ctx); err != nil || !v.OK {
		t.Errorf("verify: %+v, %v", v, err)
	}
}

// The copies of each Claude Code file cut after a line, one after the other, and
// then the whole: every session of it holds the turns that it holds when only the whole
// is imported, and what was stored keeps its hash.
func TestImportOfEveryPrefix(t *testing.T) {
	ctx := t.Context()
	e := newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard})
	files, err := filepath.Glob(filepath.Join("..", "..", "turns", "transcript", "claude", "testdata", "claudecode-*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Join(t.TempDir(), "s.jsonl")
			bring := func(c *client.Client, text string, final bool) *tally.Report {
				t.Helper()
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				im := transcripts.Importer{Client: c, Format: "claude-code", Final: final}
				r, err := im.File(ctx, name)
				if err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
				return r
			}
			once, stop, err := local.Start(ctx, e.Terminal, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			grown, stop2, err := local.Start(ctx, e.Terminal, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer stop2()
			whole := bring(once, string(b), true)
			stored := map[turns.ID][]string{}
			text := ""
			for line := range strings.Lines(string(b)) {
				text += line
				for _, s := range bring(grown, text, false).Sessions {
					now := hashes(ctx, t, grown, s)
					if was := stored[s]; len(was) > len(now) || !slices.Equal(was, now[:len(was)]) {
						t.Fatalf("session %s: hashes %v, then %v", s, was, now)
					}
					stored[s] = now
				}
			}
			bring(grown, string(b), true)
			if r := bring(grown, string(b), true); r.Stored > 0 {
				t.Errorf("the whole a second time: %+v", r)
			}
			for _, s := range whole.Sessions {
				if d := cmp.Diff(storedTurns(ctx, t, once, s), storedTurns(ctx, t, grown, s)); d != "" {
					t.Errorf("session %s (-whole +grown):\n%s", s, d)
				}
			}
			for _, c := range []*client.Client{once, grown} {
				if v, err := c.As(api.Operator).Verify(ctx); err != nil || !v.OK {
					t.Errorf("verify: %+v, %v", v, err)
				}
			}
		})
	}
}

// storedTurns returns the turns on the path of a session's head, as JSON, without
// what two imports of the same content differ in: ids, times of recording, hashes, meta.
func storedTurns(ctx context.Context, t *testing.T, c *client.Client, session turns.ID) (out []string) {
	t.Helper()
	for x, err := range c.Turns(ctx, session, api.ListTurns{Full: true}) {
		if err != nil {
			t.Fatal(err)
		}
		short := api.Turn{Type: x.Type, Depth: x.Depth, Time: x.Time, Model: x.Model, Messages: x.Messages, Response: x.Response, Usage: x.Usage,
			TokenCount: x.TokenCount, ToolCalls: x.ToolCalls, Pending: x.Pending, OpenCalls: x.OpenCalls, HasChildren: x.HasChildren}
		b, err := turns.EncodeJSON(short)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
	}
	return out
}

// hashes is the hash of each turn on the path of a session's head, oldest first.
func hashes(ctx context.Context, t *testing.T, c *client.Client, session turns.ID) (out []string) {
	t.Helper()
	for x, err := range c.Turns(ctx, session, api.ListTurns{}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, x.Hash.String())
	}
	return out
}

// pathParts returns the parts on the path of a session's head, without where
// turns end.
func pathParts(ctx context.Context, t *testing.T, c *client.Client, session turns.ID) (out []string) {
	t.Helper()
	for x, err := range c.Turns(ctx, session, api.ListTurns{Full: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if x.Compaction != nil {
			out = append(out, "compaction")
		}
		if x.Type != "normal" {
			continue
		}
		ms := x.Messages
		if x.Response != nil {
			ms = append(ms, *x.Response)
		}
		for _, m := range ms {
			for _, p := range m.Parts {
				out = append(out, fmt.Sprint(m.Role, " ", p.Type, " ", p.Content, p.ID, string(p.Arguments), string(p.Response)))
			}
		}
	}
	return out
}

// A turn that was stored while its file grew gets its rest as another turn, with the output
// that came since. What no turn can take is among the losses, with its numbers.
func TestImportOfAGrownTurnCountsItsUsageOnce(t *testing.T) {
	ctx := t.Context()
	c, stop, err := local.Start(ctx, newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard}).Terminal, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	const user = `{"type":"user","uuid":"u%[1]s","parentUuid":null,"sessionId":"%[1]s","timestamp":"2026-04-11T14:53:01Z","message":{"role":"user","content":"one"}}
`
	answer := func(n int, usage string) string {
		return fmt.Sprintf(`{"type":"assistant","uuid":"a%[1]d%%[1]s","parentUuid":"%[2]s%%[1]s","sessionId":"%%[1]s","timestamp":"2026-04-11T14:53:02Z","message":{"id":"m1","role":"assistant","model":"m","content":[{"type":"text","text":"part %[1]d"}],"usage":%[3]s}}
`, n, []string{"u", "a1", "a2"}[n-1], usage)
	}
	codex := grownFiles["codex"]
	for n, x := range []struct {
		name   string
		copies []string
		total  turns.Usage // of the session, after the last copy
		lost   turns.Usage // of the last copy
	}{
		{
			name: "output grows",
			copies: []string{
				user + answer(1, `{"input_tokens":100,"output_tokens":1}`),
				user + answer(1, `{"input_tokens":100,"output_tokens":1}`) + answer(2, `{"input_tokens":100,"output_tokens":9}`),
				user + answer(1, `{"input_tokens":100,"output_tokens":1}`) + answer(2, `{"input_tokens":100,"output_tokens":9}`) + answer(3, `{"input_tokens":100,"output_tokens":30}`),
			},
			total: turns.Usage{InputTokens: 100, OutputTokens: 30},
		},
		{
			name: "input grows",
			copies: []string{
				user + answer(1, `{"input_tokens":100,"output_tokens":1}`),
				user + answer(1, `{"input_tokens":100,"output_tokens":1}`) + answer(2, `{"input_tokens":100,"cache_read_input_tokens":50,"output_tokens":9}`),
			},
			total: turns.Usage{InputTokens: 100, OutputTokens: 9},
			lost:  turns.Usage{InputTokens: 50, CacheRead: 50},
		},
		{
			name:   "usage comes alone",
			copies: []string{codex[3], codex[4]},
			lost:   turns.Usage{InputTokens: 100, OutputTokens: 20, CacheRead: 80},
		},
		{
			name:   "usage comes with the rest",
			copies: []string{codex[2], codex[4]},
			total:  turns.Usage{InputTokens: 100, OutputTokens: 20, CacheRead: 80},
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			id := fmt.Sprintf("019d7d08-46c9-7f73-afff-%012d", n)
			name := filepath.Join(t.TempDir(), "s.jsonl")
			var r *tally.Report
			for _, text := range append(x.copies, x.copies[len(x.copies)-1]) { // the last one again
				if err := os.WriteFile(name, []byte(strings.ReplaceAll(strings.ReplaceAll(text, "%[1]s", id), "%s", id)), 0o600); err != nil {
					t.Fatal(err)
				}
				im := transcripts.Importer{Client: c, Format: "auto", Final: true}
				if r, err = im.File(ctx, name); err != nil {
					t.Fatal(err)
				}
			}
			if r.Stored != 0 {
				t.Errorf("the last copy again stored %d", r.Stored)
			}
			s, err := c.Session(ctx, r.Sessions[0])
			if err != nil {
				t.Fatal(err)
			}
			if s.Usage != x.total {
				t.Errorf("usage of the session %+v, want %+v", s.Usage, x.total)
			}
			var lost turns.Usage
			for _, l := range r.Losses {
				if l.Usage != nil {
					lost = lost.Plus(*l.Usage)
				}
			}
			if lost != x.lost {
				t.Errorf("losses report %+v, want %+v\n%+v", lost, x.lost, r.Losses)
			}
		})
	}
}

func TestUncountedUsageIsOneRowWithItsSum(t *testing.T) {
	var out strings.Builder
	var r tally.Report
	for n := range uint64(3) {
		r.AddUncounted(anID(byte(n)), turns.Usage{InputTokens: 1000 * n, OutputTokens: n, CacheRead: 500 * n})
	}
	importreport.PrintKinds(newEnv(&terminal.Terminal{Out: &out}).Terminal, r.Losses)
	if want := "kept_first      2  usage that came after its turn was stored is not counted, 3,000 input tokens and 3 output tokens (1,500 of the cache)\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("got:\n%swant the row:\n%s", &out, want)
	}
}

// Where the ids of turns do not depend on the file, what changed goes on a fork, and what is
// there stays.
func TestImportOfAChangedPiFileForks(t *testing.T) {
	ctx := t.Context()
	e := newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard})
	c, stop, err := local.Start(ctx, e.Terminal, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	name := filepath.Join(t.TempDir(), "s.jsonl")
	copies := grownFiles["pi"]
	read := func(text string) *tally.Report {
		if err := os.WriteFile(name, []byte(strings.ReplaceAll(text, "%s", "s")), 0o600); err != nil {
			t.Fatal(err)
		}
		im := transcripts.Importer{Client: c, Format: "auto", Final: true}
		r, err := im.File(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := read(copies[4]) // ends with a result
	changed := strings.Replace(copies[8], `"content":"x"`, `"content":"y"`, 1)
	r := read(changed)
	fork := r.Sessions[len(r.Sessions)-1]
	if got := strings.Join(pathParts(ctx, t, c, fork), "\n"); fork == first.Sessions[0] || !strings.Contains(got, `c"y"`) || strings.Contains(got, `c"x"`) || !strings.HasSuffix(got, "ok") {
		t.Errorf("sessions %v, path of the last:\n%s", r.Sessions, got)
	}
	if got := strings.Join(pathParts(ctx, t, c, first.Sessions[0]), "\n"); !strings.HasSuffix(got, `c"x"`) {
		t.Errorf("path of the first:\n%s", got)
	}
	if again := read(changed); again.Stored != 0 {
		t.Errorf("again: %+v", again)
	}
}

package daemon

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

var newState = flag.String("new-state", "", "TestNewState writes a data folder to testdata/states/NAME.tar.gz; it never replaces one")

// maxState is the largest archive of a data folder, in bytes.
const maxState = 400 << 10

// state is what a ledger answers about everything it holds.
type state struct {
	Sessions map[string]sessionState `json:"sessions"`
	Turns    map[string]turnState    `json:"turns"`
	Contexts []contextState          `json:"contexts"`
	Marks    *marksState             `json:"marks,omitempty"` // nil: of a folder from before it was observed
}

type sessionState struct {
	Agent string     `json:"agent"`
	Label string     `json:"label"`
	State string     `json:"state"`
	Hash  turns.Hash `json:"hash"`
	Head  *turns.ID  `json:"head"`
	Depth uint64     `json:"depth"`
}

type turnState struct {
	Hash    turns.Hash `json:"hash"`
	Depth   uint64     `json:"depth"`
	Content string     `json:"content"`         // SHA-256 of messages, response and replacement
	Error   api.Code   `json:"error,omitempty"` // "erased": what was inherited from a session that was erased
}

type contextState struct {
	Session     turns.ID  `json:"session"`
	Format      string    `json:"format"`
	Recipe      turns.Raw `json:"recipe"`
	Fingerprint string    `json:"fingerprint"`
	Messages    string    `json:"messages"` // SHA-256
}

// A data folder that an earlier commit wrote opens, reads as it did then,
// continues, verifies, and gives the same after its projections are rebuilt.
// To add the folder of a change to what is stored:
//
//	go test ./cmd/internal/daemon -run TestNewState -new-state 2026-11-22-what
func TestDataFoldersOfEarlierCommitsContinue(t *testing.T) {
	archives, err := filepath.Glob("testdata/states/*.tar.gz")
	if err != nil || len(archives) == 0 {
		t.Fatalf("%d archives, %v", len(archives), err)
	}
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".tar.gz"), func(t *testing.T) {
			if info, err := os.Stat(archive); err != nil || info.Size() > maxState {
				t.Errorf("%v, or over %d bytes", err, maxState)
			}
			dir := t.TempDir()
			unpack(t, archive, dir)
			b, err := os.ReadFile(filepath.Join(dir, "expected.json"))
			if err != nil {
				t.Fatal(err)
			}
			var want state
			if err := turns.DecodeJSON(b, &want); err != nil {
				t.Fatal(err)
			}
			if len(want.Sessions) == 0 || len(want.Turns) == 0 || len(want.Contexts) == 0 {
				t.Fatalf("expected.json has %d sessions, %d turns, %d contexts", len(want.Sessions), len(want.Turns), len(want.Contexts))
			}
			data := filepath.Join(dir, "data")

			d, c := start(t, data)
			if diff := cmp.Diff(want, observe(t, c, want.Contexts)); diff != "" {
				t.Errorf("as it was opened (-then +now):\n%s", diff)
			}
			verified(t, c)
			continueAll(t, c)
			verified(t, c)
			continued := observe(t, c, want.Contexts)
			if len(continued.Turns) <= len(want.Turns) {
				t.Errorf("%d turns after it was continued, %d before", len(continued.Turns), len(want.Turns))
			}
			for id, turn := range want.Turns {
				if diff := cmp.Diff(turn, continued.Turns[id]); diff != "" {
					t.Errorf("turn %s after the ledger was continued (-then +now):\n%s", id, diff)
				}
			}
			if diff := cmp.Diff(want.Contexts, continued.Contexts); diff != "" {
				t.Errorf("contexts after the ledger was continued (-then +now):\n%s", diff)
			}
			stop(t, d, c)

			if err := os.RemoveAll(filepath.Join(data, "projections")); err != nil {
				t.Fatal(err)
			}
			_, c = start(t, data)
			if diff := cmp.Diff(continued, observe(t, c, want.Contexts)); diff != "" {
				t.Errorf("with rebuilt projections (-before +after):\n%s", diff)
			}
			verified(t, c)
		})
	}
}

// TestNewState writes an archive with -new-state; without, it proves in a
// temporary folder that one can be written.
func TestNewState(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "state.tar.gz")
	if *newState != "" {
		archive = filepath.Join("testdata/states", *newState+".tar.gz")
	}
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	d, c := start(t, data)
	populate(t, c)
	markAll(t, c)
	s := observe(t, c, nil)
	verified(t, c)
	stop(t, d, c)
	b, err := turns.EncodeJSON(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "expected.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	pack(t, dir, archive)
	info, err := os.Stat(archive)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > maxState {
		t.Errorf("%s has %d bytes, more than %d", archive, info.Size(), maxState)
	}
	t.Logf("%d sessions, %d turns, %d contexts: %d bytes", len(s.Sessions), len(s.Turns), len(s.Contexts), info.Size())
}

// populate stores turns and what moves them, a part that is a blob, and compactions
// of several policies, built in and put by an agent, under two agents. [markAll] stores the
// other kinds of event.
func populate(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := t.Context()
	label, model := "channel", "large-1"
	tools := []turns.Raw{turns.Raw(`{"name":"read_file","parameters":{"type":"object"}}`)}
	r := api.CreateSession{SessionSettings: api.SessionSettings{Label: &label, Model: &model, System: &api.System{{Content: "You help."}}, Tools: &tools, Meta: turns.Raw(`{"title":"the first"}`)}}
	first := must[*api.Session](t)(c.Create(ctx, r))
	extend(t, c, first.ID, 12)
	large := strings.Repeat("a line of a large file\n", 40_000)
	call := turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "c1", Name: "read_file", Arguments: turns.Raw(`{"path":"large.txt"}`)}}}
	must[*api.Appended](t)(c.Append(ctx, first.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "Read it.")}, Response: &call}))
	answer := turns.TextMessage(turns.Assistant, "It has many lines.")
	result := turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "c1", Response: turns.Raw(`"` + strings.ReplaceAll(large, "\n", `\n`) + `"`)}}}
	must[*api.Appended](t)(c.Append(ctx, first.ID, api.AppendTurn{Messages: []turns.Message{result}, Response: &answer}))
	compact(t, c, first.ID)
	a := extend(t, c, first.ID, 5)
	for _, mode := range []string{"as_seen", "full", "summary"} {
		f := must[*api.Session](t)(c.Fork(ctx, first.ID, api.CreateFork{Turn: a.ID, Mode: mode}))
		extend(t, c, f.ID, 3)
		if mode == "full" { // a fork of a fork, from before the compaction
			head := extend(t, c, f.ID, 2)
			g := must[*api.Session](t)(c.Fork(ctx, f.ID, api.CreateFork{Turn: head.ID}))
			extend(t, c, g.ID, 2)
		}
	}
	must[*api.Session](t)(c.Move(ctx, first.ID, api.MoveSession{To: a.Parent, Note: "another way"}))
	extend(t, c, first.ID, 4)
	must[*api.Session](t)(c.Set(ctx, first.ID, api.SetSession{SessionSettings: api.SessionSettings{Policy: &api.Policy{Name: "nexus"}}}))
	extend(t, c, first.ID, 3)
	must[*api.Session](t)(c.Reset(ctx, first.ID, api.ResetSession{Cause: "a new day"}))

	other := c.As("other")
	flush := api.CreateSession{}
	flush.Policy, flush.Model, flush.Limits = &api.Policy{Name: "spec-008"}, &model, &turns.Limits{ContextWindow: 16_000, MaxOutputTokens: 1_000, SafetyMargin: 200}
	s := must[*api.Session](t)(other.Create(ctx, flush))
	last := extend(t, other, s.ID, 1)
	for !last.Flush.Due {
		last = extend(t, other, s.ID, 1)
	}
	must[*api.BegunFlush](t)(other.BeginFlush(ctx, s.ID, api.BeginFlush{Cycle: last.Flush.Cycle}))
	must[*api.EndedFlush](t)(other.DoneFlush(ctx, s.ID, api.DoneFlush{Cycle: last.Flush.Cycle, Response: "SILENT", Saved: 2}))
	compact(t, other, s.ID)
	closed := must[*api.Session](t)(other.Create(ctx, api.CreateSession{}))
	extend(t, other, closed.ID, 2)
	must[*api.Session](t)(other.Close(ctx, closed.ID, api.CloseSession{Cause: "done"}))

	mine, _ := policy.Builtin("nexus") // a session keeps version 1, another has overrides of version 2
	for i, set := range []turns.Raw{nil, turns.Raw(`{"keep_tokens":500}`)} {
		mine.KeepTokens, mine.Frame = uint64(300+i), "Version "+strconv.Itoa(i+1)+" says: {summary}"
		must[*api.PolicyInfo](t)(other.PutPolicy(ctx, api.PutPolicy{Name: "mine", Settings: mine.Bytes()}))
		r := api.CreateSession{SessionSettings: api.SessionSettings{Policy: &api.Policy{Name: "mine", Set: set}, Limits: &turns.Limits{ContextWindow: 8_000}}}
		s := must[*api.Session](t)(c.Create(ctx, r))
		extend(t, c, s.ID, 8)
		compact(t, c, s.ID)
	}
}

// continueAll appends to, compacts and forks every session that is open.
func continueAll(t *testing.T, c *client.Client) {
	t.Helper()
	n := 0
	for s, err := range c.As(api.Operator).Sessions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if s.State != "open" {
			continue
		}
		own := c.As(s.Agent)
		extend(t, own, s.ID, 3)
		compact(t, own, s.ID)
		if s.Head != nil {
			f := must[*api.Session](t)(own.Fork(t.Context(), s.ID, api.CreateFork{Turn: *s.Head}))
			extend(t, own, f.ID, 2)
		}
		if n++; n == 4 { // forks come into the list while it is read
			break
		}
	}
	if n == 0 {
		t.Error("no session is open")
	}
}

func extend(t *testing.T, c *client.Client, session turns.ID, n int) (last *api.Appended) {
	t.Helper()
	for range n {
		id := api.NewID()
		m := turns.TextMessage(turns.Assistant, strings.Repeat("some words of an answer ", 40)+id.String())
		last = must[*api.Appended](t)(c.Append(t.Context(), session, api.AppendTurn{ID: id, Response: &m,
			Messages: []turns.Message{turns.TextMessage(turns.User, "What comes after "+id.String()+"?")}, Usage: &turns.Usage{}}))
	}
	return last
}

// compact compacts where there is something to compact.
func compact(t *testing.T, c *client.Client, session turns.ID) {
	t.Helper()
	run, err := c.Compact(t.Context(), session, api.RunCompaction{WaitMS: 20_000})
	if e := (*api.Error)(nil); errors.As(err, &e) && e.Code == api.Nothing {
		return
	}
	if err != nil || run.State != "done" {
		t.Fatalf("%+v, %v", run, err)
	}
}

// clearContentTypes removes from the refs of large parts the type of their content, which no event has: a reader of the turn
// adds it, and earlier builds did not.
func clearContentTypes(ms []turns.Message) {
	for i := range ms {
		for j := range ms[i].Parts {
			if ref := ms[i].Parts[j].Ref; ref != nil {
				ref.MimeType = ""
			}
		}
	}
}

// observe reads everything as the operator, who changes nothing; contexts by
// the recipes of served, or, without, as they are now.
func observe(t *testing.T, c *client.Client, served []contextState) state {
	t.Helper()
	ctx := t.Context()
	op := c.As(api.Operator)
	out, refused := state{Sessions: make(map[string]sessionState), Turns: make(map[string]turnState)}, 0
	for s, err := range op.ListSessions(ctx, api.ListSessions{Hidden: true}) {
		if err != nil {
			t.Fatal(err)
		}
		out.Sessions[s.ID.String()] = sessionState{s.Agent, s.Label, s.State, s.Hash, s.Head, s.Depth}
		if s.State == "erased" {
			continue
		}
		for x, err := range op.Turns(ctx, s.ID, api.ListTurns{Full: true}) {
			if err != nil || x.Error != "" && x.Error != api.Erased {
				t.Fatalf("turn %s: %v, %q", x.ID, err, x.Error)
			}
			content := []any{x.Messages, x.Response}
			clearContentTypes(x.Messages)
			if x.Response != nil {
				clearContentTypes([]turns.Message{*x.Response})
			}
			if x.Compaction != nil {
				clearContentTypes(x.Compaction.Replacement)
				content = append(content, x.Compaction.Replacement)
			}
			out.Turns[x.ID.String()] = turnState{Hash: x.Hash, Depth: x.Depth, Content: sum(t, content), Error: x.Error}
		}
		if served == nil && s.Head != nil {
			for _, format := range []string{"otel", "openai", "anthropic", "gemini"} {
				cx := must[*api.Context](t)(op.Context(ctx, s.ID, api.GetContext{Format: format}))
				out.Contexts = append(out.Contexts, contextState{s.ID, format, cx.Recipe, cx.Fingerprint, sum(t, cx.Messages)})
			}
		}
	}
	for _, k := range served {
		cx, err := op.Context(ctx, k.Session, api.GetContext{Format: k.Format, Recipe: k.Recipe})
		if r, ok := errors.AsType[*api.Error](err); ok && r.Code == api.Unsupported && r.Details["field"] == "/recipe/summary" {
			refused++ // its view was squeezed by another extract than that of this build
			out.Contexts = append(out.Contexts, k)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		out.Contexts = append(out.Contexts, contextState{k.Session, k.Format, k.Recipe, cx.Fingerprint, sum(t, cx.Messages)})
	}
	if refused > 8 { // two sessions have such views, in four formats
		t.Errorf("%d of %d contexts are refused", refused, len(served))
	}
	out.Marks = observeMarks(t, op)
	return out
}

// refSize is the size of a ref. When the folders were made, the API gave it as a string, and
// their sums are of that form.
var refSize = regexp.MustCompile(`("ref":\{"digest":"sha256:[0-9a-f]{64}","size":)(\d+)`)

func sum(t *testing.T, v any) string {
	t.Helper()
	b, err := turns.EncodeJSON(v)
	if err != nil {
		t.Fatal(err)
	}
	b = refSize.ReplaceAll(b, []byte(`$1"$2"`))
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

func verified(t *testing.T, c *client.Client) {
	t.Helper()
	if v, err := c.As(api.Operator).Verify(t.Context()); err != nil || !v.OK || v.Turns == 0 {
		t.Errorf("verify: %+v, %v", v, err)
	}
}

func stop(t *testing.T, d *Daemon, c *client.Client) {
	t.Helper()
	c.Conn().Close()
	if err := d.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// must gives the value of a call that may not fail.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// pack writes the regular files under dir to a new archive. The index of words is left
// out: a start makes it again.
func pack(t *testing.T, dir, archive string) {
	t.Helper()
	f, err := os.OpenFile(archive, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && path == filepath.Join(dir, "search") {
			return filepath.SkipDir
		}
		if err != nil || !e.Type().IsRegular() || e.Name() == "lock" || e.Name() == "LOCK" {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o600, Size: int64(len(b)), Format: tar.FormatPAX}); err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	})
	if err := errors.Join(err, w.Close(), z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(root.MkdirAll(filepath.Dir(h.Name), 0o700), root.WriteFile(h.Name, b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

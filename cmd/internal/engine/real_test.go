package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/claude"

	"nexus/turns/render/strict"
)

// transcripts are the real Claude Code sessions in ../shared/data next to the checkout.
func transcripts(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"claude-code-entire-cli", "claude-code-git-sync", "agentcmd-fixtures"} {
		m, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "shared", "data", pattern, "*.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, m...)
	}
	if len(files) == 0 {
		t.Skip("../shared/data is absent: the real transcripts are not part of the repository")
	}
	return files
}

// replay does a transcript's steps on the engine; after each turn it calls each.
func replay(t *testing.T, e *Engine, file string, window uint64, policy string, each func(session turns.ID)) (sessions []turns.ID, appended int) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for st, err := range claude.Read(f, transcript.Options{Final: true}).Steps() {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case st.Open != nil:
			r := api.CreateSession{ID: st.Open.ID}
			r.Limits, r.Policy, r.Meta = &turns.Limits{ContextWindow: window}, &api.Policy{Name: policy}, st.Open.Meta
			must(e.Sessions.Create(t.Context(), alice, r, canon(r)))(t)
			sessions = append(sessions, st.Open.ID)
		case st.Fork != nil:
			r := api.CreateFork{ID: st.Fork.ID, Turn: st.Fork.At.Turn, Meta: st.Fork.Meta}
			must(e.Forks.Fork(t.Context(), alice, st.Fork.At.Session, r, canon(r)))(t)
			sessions = append(sessions, st.Fork.ID)
		case st.Append != nil:
			a := st.Append
			at := api.Time(a.Time)
			r := api.AppendTurn{ID: a.ID, Parent: a.Parent, Messages: a.Messages, Response: a.Response, Model: a.Model, Usage: a.Usage, Time: &at, Meta: a.Meta}
			must(e.Sessions.Append(t.Context(), alice, a.Session, r, canon(r)))(t)
			appended++
			if each != nil {
				each(a.Session)
			}
		case st.Compaction != nil:
			k := st.Compaction
			at := api.Time(k.Time)
			r := api.RecordCompaction{ID: k.ID, Parent: k.Parent, Time: &at, Trigger: k.Trigger, Replacement: k.Replacement, Summary: k.Summary,
				FirstKept: k.FirstKept, TokensBefore: k.TokensBefore, Dropped: k.Dropped, Meta: k.Meta}
			for _, x := range k.Cleared {
				r.Cleared = append(r.Cleared, api.ClearedResult{Turn: x.Turn, Call: x.Call})
			}
			if _, err := e.Compactions.Record(t.Context(), alice, k.Session, r, canon(r)); err != nil && code(err) != api.Nothing {
				t.Fatalf("compaction %s: %v", k.ID, err)
			}
			if each != nil {
				each(k.Session)
			}
		}
	}
	return sessions, appended
}

func validContext(t *testing.T, e *Engine, s turns.ID) *api.Context {
	t.Helper()
	cx := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{Format: "openai", Page: api.Page{Limit: 1 << 20}}))(t)
	if cx.Tokens+cx.Overhead > cx.Budget {
		t.Fatalf("%d tokens of %d", cx.Tokens, cx.Budget)
	}
	whole := func(format string) (system turns.Raw, ms []turns.Raw) {
		for after := ""; ; {
			p := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{Format: format, Page: api.Page{After: after}}))(t)
			if after == "" {
				system = p.System
			}
			ms = append(ms, p.Messages...)
			if after = p.Next; after == "" {
				return system, ms
			}
		}
	}
	_, ms := whole("openai")
	if err := strict.OpenAI(canon(ms)); err != nil {
		t.Fatalf("openai: %v", err)
	}
	system, ms := whole("anthropic")
	if err := strict.Anthropic(system, canon(ms)); err != nil {
		t.Fatalf("anthropic: %v", err)
	}
	system, ms = whole("gemini")
	if err := strict.Gemini(system, canon(ms), strict.Thinking); err != nil {
		t.Fatalf("gemini: %v", err)
	}
	return cx
}

// Every real session imports, a second time stores nothing, verifies, and,
// exported into a second, empty ledger, has the same hashes and context there.
func TestRealTranscripts(t *testing.T) {
	for _, file := range transcripts(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			w := newWorld()
			e := w.Engine(t)
			sessions, n := replay(t, e, file, 1_000_000, "balanced", nil)
			st := must(w.Log.State(t.Context()))(t)
			replay(t, e, file, 1_000_000, "balanced", nil)
			if again := must(w.Log.State(t.Context()))(t); again.Last != st.Last {
				t.Errorf("a second import stored %d records", again.Last-st.Last)
			}
			v := verified(t, e)
			if int(v.Turns) != n {
				t.Errorf("%d turns verified, %d imported", v.Turns, n)
			}
			second := newWorld().Engine(t)
			for _, s := range sessions {
				for after := ""; ; {
					p := must(e.Transfer.Export(t.Context(), alice, s, api.ExportSession{Page: api.Page{After: after}}))(t)
					must(second.Transfer.Import(t.Context(), alice, api.ImportRecords{Records: p.Records}))(t)
					if after = p.Next; after == "" {
						break
					}
				}
				a, b := must(e.Reader.Get(t.Context(), alice, s, api.Read{}))(t), must(second.Reader.Get(t.Context(), alice, s, api.Read{}))(t)
				if a.Hash != b.Hash || a.Turns != b.Turns {
					t.Errorf("session %s: hash %v became %v", s, a.Hash, b.Hash)
				}
				if a.Turns > 0 {
					validContext(t, e, s)
				}
			}
			verified(t, second)
			t.Logf("%d sessions, %d turns, %d compactions, %d events", v.Sessions, v.Turns, v.Compactions, v.Events)
		})
	}
}

// A tool loop longer than the window compacts inside itself, and every context
// on the way is valid for both providers and fits.
func TestRealToolLoopLongerThanTheWindow(t *testing.T) {
	for _, file := range transcripts(t) {
		for _, want := range []string{"53-d1e0ac66e6-0.jsonl", "7f-01a5ec2f19-0.jsonl"} {
			if filepath.Base(file) != want {
				continue
			}
			for _, policy := range policy.Names() {
				t.Run(fmt.Sprint(want, " ", policy), func(t *testing.T) {
					w := newWorld()
					e := w.Engine(t)
					compacted, split := 0, 0
					replay(t, e, file, 40_000, policy, func(s turns.ID) {
						if cx := validContext(t, e, s); cx.Compacted != nil {
							compacted++
							k := must(e.Reader.GetTurn(t.Context(), alice, s, api.GetTurn{ID: *cx.Compacted}))(t)
							if k.Compaction.Split {
								split++
							}
						}
					})
					if compacted < 3 {
						t.Errorf("%d compactions, want several", compacted)
					}
					v := verified(t, e)
					t.Logf("%d compactions, %d of them inside a turn; %d turns", v.Compactions, split, v.Turns)
				})
			}
		}
	}
}

// NXS-1: After ten compactions of a real long transcript each half turn of the path is
// in exactly one state, counted one by one.
func TestTenCompactionsAccountForEveryHalf(t *testing.T) {
	for _, file := range transcripts(t) {
		if filepath.Base(file) != "53-d1e0ac66e6-0.jsonl" {
			continue
		}
		e := newWorld().Engine(t)
		sessions, _ := replay(t, e, file, 24_000, "balanced", func(s turns.ID) {
			must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t)
		})
		s := must(e.Reader.Projections.Session(sessions[0]))(t)
		if s.Compactions < 10 {
			t.Fatalf("%d compactions, want ten", s.Compactions)
		}
		head := must(e.Reader.HeadNode(&s))(t)
		path := must(lineage.Path(e.Reader.Projections, head, 1))(t)
		chain := must(lineage.Chain(e.Reader.Projections, head))(t)
		want := 0
		for _, n := range path {
			for _, h := range []turns.Half{turns.MessagesHalf, turns.ResponseHalf} {
				if n.Kind == turns.KindTurn && n.Halves.Has(h) {
					want++
				}
			}
		}
		states := lineage.Cover(path, chain, lineage.ElidedBy(nil))
		if err := lineage.CheckPartition(path, states); err != nil {
			t.Error(err)
		}
		visible := make(map[lineage.HalfState]int)
		count := make(map[string]int)
		for _, x := range states {
			key := lineage.HalfState{Ref: x.Ref, Half: x.Half}
			if visible[key]++; visible[key] > 1 {
				t.Errorf("%v %v is accounted for twice", x.Ref, x.Half)
			}
			count[x.State.String()]++
		}
		if len(visible) != want {
			t.Errorf("%d halves accounted for, the path has %d", len(visible), want)
		}
		t.Logf("%d compactions, %d halves: %v", s.Compactions, want, count)
	}
}

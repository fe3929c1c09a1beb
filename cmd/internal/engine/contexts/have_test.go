package contexts_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/turns"
)

// held is a context that a caller put together, and what it asked for.
type held struct {
	session       turns.ID
	format, model string
	context       *api.Context
}

// readAll reads all pages of a context, and puts them behind what the caller has.
func readAll(ctx context.Context, e *engine.Engine, s turns.ID, r api.GetContext, have *held) (*api.Context, error) {
	if have != nil {
		r.Have = &api.Have{Fingerprint: have.context.Fingerprint, Preamble: have.context.PreambleDigest}
	}
	var out *api.Context
	partial := ""
	for {
		p, err := e.Contexts.Context(ctx, enginetest.Alice, s, r)
		if err != nil {
			return nil, err
		}
		if partial += p.Partial; p.PartialEnd {
			p.Messages, partial = append(p.Messages, turns.Raw(partial)), ""
		}
		if out == nil {
			out = p
			if p.Keep > 0 {
				out.Messages = append(append([]turns.Raw{}, have.context.Messages[:p.Keep]...), p.Messages...)
			}
			if p.KeepPreamble {
				out.System, out.Tools = have.context.System, have.context.Tools
			}
		} else {
			out.Messages = append(out.Messages, p.Messages...)
		}
		if r.After = p.Next; p.Next == "" {
			return out, nil
		}
	}
}

// Whatever happens between two calls, what a reply keeps and what it holds are the messages of
// the whole context: after appends, compactions, rewinds, forks, changes of settings and of the
// policy that is asked for, in each format, by daemons that served the first call, another,
// or none.
func TestWhatAReplyKeepsAndHoldsIsTheWholeContext(t *testing.T) {
	kept, keptOfSource := 0, 0
	formats := []string{"otel", "openai", "anthropic", "gemini"}
	rapid.Check(t, func(rt *rapid.T) {
		w := enginetest.NewWorld()
		engines := []*engine.Engine{w.Engine(t), w.Engine(t)}
		for _, e := range engines {
			e.Limits.MaxPayload = rapid.SampledFrom([]int{1 << 20, 16 << 10}).Draw(rt, "max payload")
		}
		var sessions []turns.ID
		path := make(map[turns.ID][]turns.ID)
		forked := make(map[turns.ID]turns.ID)
		open := make(map[turns.ID]bool)
		var callers []held
		sessions = append(sessions, enginetest.Create(t, engines[0], 9000, "nexus").ID)
		text := func(n int) string { return enginetest.Text(rapid.IntRange(1, n).Draw(rt, "length")) }
		// Two turns and a call in each format first, so that most worlds have something to keep.
		for range 2 {
			path[sessions[0]] = append(path[sessions[0]], enginetest.Add(t, engines[0], sessions[0], enginetest.Say(text(3000), text(2000))).ID)
		}
		for _, format := range formats {
			c, err := readAll(rt.Context(), engines[0], sessions[0], api.GetContext{Format: format}, nil)
			if err != nil {
				rt.Fatal(err)
			}
			callers = append(callers, held{session: sessions[0], format: format, context: c})
		}
		for i := range rapid.IntRange(4, 40).Draw(rt, "steps") {
			s := rapid.SampledFrom(sessions).Draw(rt, "session")
			e := rapid.SampledFrom(engines).Draw(rt, "daemon")
			ctx := rt.Context()
			switch rapid.SampledFrom([]string{"append", "append", "append", "call", "get", "get", "get", "get", "compact", "move", "fork", "fork", "set"}).Draw(rt, "step") {
			case "append":
				r := enginetest.Say(fmt.Sprint(i, " ", text(3000)), text(2000))
				r.Model = rapid.SampledFrom([]string{"", "claude-opus-4-7", "claude-opus-4-8"}).Draw(rt, "model")
				r.Response.Parts = append([]turns.Part{{Type: turns.Reasoning, Content: "hm", Ext: turns.Raw(`{"anthropic":{"signature":"s"}}`)}}, r.Response.Parts...)
				if a, err := e.Sessions.Append(ctx, enginetest.Alice, s, r, enginetest.JSON(r)); err == nil {
					path[s], open[s] = append(path[s], a.ID), false
				}
			case "call":
				r := enginetest.CallTool("a", "b")
				if open[s] {
					r = enginetest.AnswerCalls("a", "b")
				}
				if a, err := e.Sessions.Append(ctx, enginetest.Alice, s, r, enginetest.JSON(r)); err == nil {
					path[s], open[s] = append(path[s], a.ID), !open[s]
				}
			case "compact":
				var r api.RunCompaction
				if rapid.Bool().Draw(rt, "keeps little") { // so that a second one follows
					r.Policy = &api.Policy{Name: "nexus", Set: turns.Raw(`{"keep_tokens":50}`)}
				}
				_, _ = e.Compactions.Compact(ctx, enginetest.Alice, s, r, []byte("{}"))
			case "move":
				if len(path[s]) > 0 {
					to := rapid.SampledFrom(path[s]).Draw(rt, "turn")
					_, _ = e.Sessions.Move(ctx, enginetest.Alice, s, api.MoveSession{To: &to}, nil)
				}
			case "fork":
				if len(path[s]) > 0 && len(sessions) < 4 {
					at := rapid.SampledFrom(path[s]).Draw(rt, "turn")
					if f, err := e.Forks.Fork(ctx, enginetest.Alice, s, api.CreateFork{Turn: at}, []byte("{}")); err == nil {
						sessions = append(sessions, f.ID)
						forked[f.ID] = s
					}
				}
			case "set":
				var r api.SetSession
				switch rapid.SampledFrom([]string{"system", "model", "tools"}).Draw(rt, "setting") {
				case "system":
					r.System = &api.System{{Name: "s", Content: text(4000)}}
				case "model":
					m := rapid.SampledFrom([]string{"claude-opus-4-7", "claude-opus-4-8"}).Draw(rt, "model")
					r.Model = &m
				case "tools":
					r.Tools = &[]turns.Raw{turns.Raw(fmt.Sprintf(`{"name":"t%d"}`, i))}
				}
				_, _ = e.Sessions.Set(ctx, enginetest.Alice, s, r, enginetest.JSON(r))
			case "get":
				h := held{session: s, format: rapid.SampledFrom(formats).Draw(rt, "format"), model: rapid.SampledFrom([]string{"", "", "claude-opus-4-7"}).Draw(rt, "called model")}
				r := api.GetContext{Format: h.format, Model: h.model}
				switch rapid.IntRange(0, 5).Draw(rt, "policy") {
				case 0:
					r.Policy = &api.Policy{Name: "moltbot"}
				case 1:
					r.Budget = 6000
				case 2:
					if len(path[s]) > 0 {
						r.At = rapid.SampledFrom(path[s]).Draw(rt, "at")
					}
				}
				var have *held
				for j := len(callers) - 1; j >= 0 && (have == nil || rapid.IntRange(0, 2).Draw(rt, "older") == 0); j-- {
					if c := &callers[j]; (c.session == s || c.session == forked[s]) && c.format == h.format && c.model == h.model {
						have = c
					}
				}
				got, err := readAll(ctx, e, s, r, have)
				want, werr := readAll(ctx, e, s, r, nil)
				if enginetest.Code(err) != enginetest.Code(werr) {
					rt.Fatalf("with have %v, without %v", err, werr)
				}
				if err != nil {
					continue
				}
				if got.Keep > 0 {
					kept++
					if have.session != s {
						keptOfSource++
					}
				}
				if d := cmp.Diff(texts(want), texts(got)); d != "" || got.Fingerprint != want.Fingerprint {
					rt.Fatalf("%s, keeping %d (-whole, +put together):\n%s", h.format, got.Keep, d)
				}
				h.context = want
				callers = append(callers, h)
			}
		}
	})
	if kept == 0 || keptOfSource == 0 {
		t.Errorf("%d replies kept anything, %d of the session that was forked", kept, keptOfSource)
	}
}

// The provider's system member has what the summary of a compaction says, where the policy gives it the system's role. A
// second compaction changes it, and leaves the messages that the first began with.
func TestASummaryInTheSystemMemberIsSentWhenItChanged(t *testing.T) {
	for _, format := range []string{"otel", "openai", "anthropic", "gemini"} {
		for _, policy := range []string{"nexus", "spec-008", "balanced"} {
			t.Run(format+", "+policy, func(t *testing.T) {
				e := enginetest.NewWorld().Engine(t)
				s := enginetest.Create(t, e, 0, policy).ID
				set := api.SetSession{SessionSettings: api.SessionSettings{System: &api.System{{Name: "s", Content: "You are terse."}}}}
				enginetest.Must(e.Sessions.Set(t.Context(), enginetest.Alice, s, set, []byte("{}")))(t)
				var have *held
				for i := range 3 * 6 {
					enginetest.Add(t, e, s, enginetest.Say(fmt.Sprint("question ", i, " ", enginetest.Text(400)), enginetest.Text(400)))
					if i%6 == 5 {
						r := api.RunCompaction{Policy: &api.Policy{Name: policy, Set: turns.Raw(`{"keep_tokens":50}`)}}
						_, _ = e.Compactions.Compact(t.Context(), enginetest.Alice, s, r, []byte("{}"))
					}
					if i%6 < 4 {
						continue
					}
					request := api.GetContext{Format: format}
					got, err := readAll(t.Context(), e, s, request, have)
					if err != nil {
						t.Fatal(err)
					}
					want, err := readAll(t.Context(), e, s, request, nil)
					if err != nil {
						t.Fatal(err)
					}
					if d := cmp.Diff(texts(want), texts(got)); d != "" {
						t.Fatalf("after turn %d, keeping %d (-whole, +put together):\n%.2000s", i, got.Keep, d)
					}
					have = &held{s, format, "", want}
				}
			})
		}
	}
}

func texts(c *api.Context) []string {
	out := []string{string(c.System), fmt.Sprint(c.Tools)}
	for _, m := range c.Messages {
		out = append(out, string(m))
	}
	return out
}

// A reply keeps all that a context begins with in common with the caller's, also across a
// compaction that leaves the beginning, and sends the rest alone.
func TestAReplyHoldsWhatIsNew(t *testing.T) {
	for _, format := range []string{"otel", "openai", "anthropic", "gemini"} {
		t.Run(format, func(t *testing.T) {
			e := enginetest.NewWorld().Engine(t)
			e.Limits.MaxPayload = 8 << 20
			s := enginetest.Create(t, e, 200_000, "nexus").ID
			set := api.SetSession{SessionSettings: api.SessionSettings{System: &api.System{{Name: "s", Content: enginetest.Text(40_000)}}}}
			enginetest.Must(e.Sessions.Set(t.Context(), enginetest.Alice, s, set, []byte("{}")))(t)
			get := func(have *api.Have) *api.Context {
				return enginetest.Must(e.Contexts.Context(t.Context(), enginetest.Alice, s, api.GetContext{Format: format, Have: have}))(t)
			}
			for i := range 40 {
				enginetest.Add(t, e, s, enginetest.Say(fmt.Sprint("question ", i, enginetest.Text(4000)), "answer"))
			}
			first := get(nil)
			if first.Keep != 0 || first.KeepPreamble || len(first.Sources) == 0 {
				t.Fatalf("a caller that has nothing keeps %d messages", first.Keep)
			}
			have := &api.Have{Fingerprint: first.Fingerprint}
			enginetest.Add(t, e, s, enginetest.Say("new question", "new answer"))
			next := get(have)
			if next.Keep != len(first.Messages) || len(next.Messages) != 2 || len(next.Sources) != 0 || next.KeepPreamble || string(next.System) != string(first.System) {
				t.Errorf("keeps %d of %d, sends %d messages and %d sources", next.Keep, len(first.Messages), len(next.Messages), len(next.Sources))
			}
			have.Preamble = first.PreambleDigest
			if p := get(have); !p.KeepPreamble || p.System != nil || p.Tools != nil {
				t.Error("the system part is sent again")
			}
			have.Fingerprint = next.Fingerprint
			enginetest.Must(e.Compactions.Compact(t.Context(), enginetest.Alice, s, api.RunCompaction{}, []byte("{}")))(t)
			after, whole := get(have), get(nil)
			common := 0
			for all := append(append([]turns.Raw{}, first.Messages...), next.Messages...); common < min(len(all), len(whole.Messages)) && string(all[common]) == string(whole.Messages[common]); common++ {
			}
			if after.Keep != common || len(after.Messages) != len(whole.Messages)-common {
				t.Errorf("after a compaction: keeps %d, sends %d; %d of %d are in common", after.Keep, len(after.Messages), common, len(whole.Messages))
			}
			if p := get(&api.Have{Fingerprint: "sha256:" + fmt.Sprintf("%064x", 7)}); p.Keep != 0 || len(p.Messages) != len(whole.Messages) {
				t.Errorf("a fingerprint that nobody was sent: keeps %d", p.Keep)
			}
			for field, bad := range map[string]*api.Have{"/have/fingerprint": {Fingerprint: "x"}, "/have/preamble_digest": {Fingerprint: whole.Fingerprint, Preamble: "x"}} {
				_, err := e.Contexts.Context(t.Context(), enginetest.Alice, s, api.GetContext{Format: format, Have: bad})
				if enginetest.Code(err) != api.Malformed || api.FromError(err).Details["field"] != field {
					t.Errorf("%+v: %v, want malformed at %s", bad, err, field)
				}
			}
		})
	}
}

// The caller of a fork names what it had of the session that it forked: the reply keeps it, until the settings of either
// change, and only what was said before the fork.
func TestAForkKeepsWhatItsSourceWasSent(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s := enginetest.Create(t, e, 200_000, "nexus").ID
	enginetest.Add(t, e, s, enginetest.Say("q1", "a1"))
	at := enginetest.Add(t, e, s, enginetest.Say("q2", "a2")).ID
	get := func(s turns.ID, have *api.Context) *api.Context {
		r := api.GetContext{Format: "openai"}
		if have != nil {
			r.Have = &api.Have{Fingerprint: have.Fingerprint, Preamble: have.PreambleDigest}
		}
		return enginetest.Must(e.Contexts.Context(t.Context(), enginetest.Alice, s, r))(t)
	}
	change := func(s turns.ID) {
		set := api.SetSession{SessionSettings: api.SessionSettings{System: &api.System{{Name: "s", Content: "new"}}}}
		enginetest.Must(e.Sessions.Set(t.Context(), enginetest.Alice, s, set, []byte("{}")))(t)
	}
	before := get(s, nil)
	f := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s, api.CreateFork{Turn: at}, []byte("{}")))(t).ID
	enginetest.Add(t, e, f, enginetest.Say("q3", "a3"))
	enginetest.Add(t, e, s, enginetest.Say("another q3", "a3"))
	if got := get(f, before); got.Keep != len(before.Messages) || len(got.Messages) != 2 || !got.KeepPreamble {
		t.Errorf("keeps %d of %d and sends %d", got.Keep, len(before.Messages), len(got.Messages))
	}
	if got := get(f, get(s, nil)); got.Keep != 0 {
		t.Errorf("of what the source said later it keeps %d", got.Keep)
	}
	change(s)
	if got := get(f, before); got.Keep != len(before.Messages) {
		t.Errorf("with new settings of the source alone it keeps %d", got.Keep)
	}
	change(f)
	if got := get(f, before); got.Keep != 0 {
		t.Errorf("under new settings it keeps %d", got.Keep)
	}
}

// Two sessions, or one that went back, may have the same messages under several system parts. What a caller is sent together is then never
// a mixture of two, whether it names the preamble or not.
func TestOneFingerprintUnderTwoSystemParts(t *testing.T) {
	for name, story := range map[string]func(t *testing.T, e *engine.Engine, set func(turns.ID, string), get func(turns.ID, bool)){
		"the source was set before the fork": func(t *testing.T, e *engine.Engine, set func(turns.ID, string), get func(turns.ID, bool)) {
			s := enginetest.Create(t, e, 0, "nexus").ID
			set(s, "old")
			at := enginetest.Add(t, e, s, enginetest.Say("q", "a")).ID
			get(s, true)
			set(s, "new")
			f := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s, api.CreateFork{Turn: at}, []byte("{}")))(t).ID
			get(f, false)
			get(f, true)
		},
		"and behind it": func(t *testing.T, e *engine.Engine, set func(turns.ID, string), get func(turns.ID, bool)) {
			s := enginetest.Create(t, e, 0, "nexus").ID
			set(s, "old")
			at := enginetest.Add(t, e, s, enginetest.Say("q", "a")).ID
			f := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s, api.CreateFork{Turn: at}, []byte("{}")))(t).ID
			set(s, "new")
			get(f, false)
			get(s, true)
			get(f, true)
		},
		"a session went back and said the same": func(t *testing.T, e *engine.Engine, set func(turns.ID, string), get func(turns.ID, bool)) {
			s := enginetest.Create(t, e, 0, "nexus").ID
			set(s, "old")
			to := enginetest.Add(t, e, s, enginetest.Say("q", "a")).ID
			enginetest.Add(t, e, s, enginetest.Say("q2", "a2"))
			get(s, true)
			set(s, "new")
			enginetest.Must(e.Sessions.Move(t.Context(), enginetest.Alice, s, api.MoveSession{To: &to}, nil))(t)
			enginetest.Add(t, e, s, enginetest.Say("q2", "a2"))
			get(s, false)
			get(s, true)
		},
	} {
		for _, named := range []bool{true, false} {
			if !named && name != "a session went back and said the same" {
				continue // a fingerprint alone is of a reply of the same session
			}
			t.Run(fmt.Sprintf("%s, the preamble is named: %t", name, named), func(t *testing.T) {
				e := enginetest.NewWorld().Engine(t)
				var has *api.Context // what the caller was sent, put together
				get := func(s turns.ID, callers bool) {
					ask := func(h *api.Have) *api.Context {
						return enginetest.Must(e.Contexts.Context(t.Context(), enginetest.Alice, s, api.GetContext{Format: "openai", Have: h}))(t)
					}
					if !callers || has == nil {
						if c := ask(nil); callers {
							has = c
						}
						return
					}
					h := &api.Have{Fingerprint: has.Fingerprint}
					if named {
						h.Preamble = has.PreambleDigest
					}
					got := ask(h)
					got.Messages = append(append([]turns.Raw{}, has.Messages[:got.Keep]...), got.Messages...)
					if want := ask(nil); !cmp.Equal(want.Messages, got.Messages) {
						t.Errorf("keeping %d: %s\nwant %s", got.Keep, got.Messages, want.Messages)
					}
					has = got
				}
				set := func(s turns.ID, system string) {
					r := api.SetSession{SessionSettings: api.SessionSettings{System: &api.System{{Name: "s", Content: system}}}}
					enginetest.Must(e.Sessions.Set(t.Context(), enginetest.Alice, s, r, []byte("{}")))(t)
				}
				story(t, e, set, get)
			})
		}
	}
}

// OpenAI's messages begin with the system part, which no fingerprint tells. So a daemon that
// sent one under settings that changed at the same head keeps nothing by it.
func TestNothingIsKeptAcrossSettingsOfOneHead(t *testing.T) {
	for _, inherited := range []bool{false, true} {
		t.Run(fmt.Sprintf("the head is of a fork: %t", inherited), func(t *testing.T) { nothingIsKept(t, inherited) })
	}
}

func nothingIsKept(t *testing.T, inherited bool) {
	w := enginetest.NewWorld()
	first, second := w.Engine(t), w.Engine(t)
	s := enginetest.Create(t, first, 0, "nexus").ID
	at := enginetest.Add(t, first, s, enginetest.Say("q", "a")).ID
	if inherited {
		s = enginetest.Must(first.Forks.Fork(t.Context(), enginetest.Alice, s, api.CreateFork{Turn: at}, []byte("{}")))(t).ID
	}
	get := func(e *engine.Engine, have string) *api.Context {
		r := api.GetContext{Format: "openai"}
		if have != "" {
			r.Have = &api.Have{Fingerprint: have}
		}
		return enginetest.Must(e.Contexts.Context(t.Context(), enginetest.Alice, s, r))(t)
	}
	old := get(first, "")
	set := api.SetSession{SessionSettings: api.SessionSettings{System: &api.System{{Name: "s", Content: "other"}}}}
	enginetest.Must(first.Sessions.Set(t.Context(), enginetest.Alice, s, set, []byte("{}")))(t)
	if now := get(second, ""); now.Fingerprint != old.Fingerprint || string(now.Messages[0]) == string(old.Messages[0]) {
		t.Fatalf("fingerprints %s, %s; the first messages %s, %s", old.Fingerprint, now.Fingerprint, old.Messages[0], now.Messages[0])
	}
	for i, e := range []*engine.Engine{first, second} {
		if got := get(e, old.Fingerprint); got.Keep != 0 {
			t.Errorf("daemon %d keeps %d messages", i+1, got.Keep)
		}
	}
	enginetest.Add(t, first, s, enginetest.Say("q2", "a2"))
	if got := get(second, old.Fingerprint); got.Keep != 0 {
		t.Errorf("after a turn %d messages are kept", got.Keep)
	}
}

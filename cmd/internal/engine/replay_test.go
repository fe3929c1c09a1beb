package engine_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/engine/writer"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/tokens"
)

// kept is contexts that were served, to be asked for again.
type kept struct {
	session  turns.ID
	contexts []*api.Context
}

// serve asks for a context and keeps it.
func (k *kept) serve(t *testing.T, e *Engine, req api.GetContext) *api.Context {
	t.Helper()
	cx := must(e.Contexts.Context(t.Context(), alice, k.session, req))(t)
	k.contexts = append(k.contexts, cx)
	return cx
}

// shown returns what a model sees of a context, and all that says how it was made.
func shown(cx *api.Context) []byte {
	return canon([]any{cx.Messages, cx.System, cx.Tools, cx.Tokens, cx.Overhead, cx.Budget, cx.Fingerprint, cx.Recipe, cx.Sources})
}

// again asks an engine for all of them, by their recipes.
func (k *kept) again(t *testing.T, e *Engine) {
	t.Helper()
	for i, was := range k.contexts {
		cx := must(e.Contexts.Context(t.Context(), alice, k.session, api.GetContext{Recipe: was.Recipe}))(t)
		if !bytes.Equal(shown(cx), shown(was)) {
			t.Errorf("context %d has now %d tokens by %s, served were %d by %s", i, cx.Tokens, cx.Recipe, was.Tokens, was.Recipe)
		}
	}
}

// with returns a turn that says which context its call was made with.
func with(r api.AppendTurn, cx *api.Context) api.AppendTurn {
	r.Context = &api.ContextUsed{Recipe: cx.Recipe, Fingerprint: cx.Fingerprint}
	return r
}

// usesTools returns a session with large results of tools, old enough that a view prunes them.
func usesTools(t *testing.T, e *Engine, policy *api.Policy) turns.ID {
	t.Helper()
	r := api.CreateSession{}
	r.Policy = policy
	s := must(e.Sessions.Create(t.Context(), alice, r, canon(r)))(t).ID
	for i := range 8 {
		id := fmt.Sprintf("call-%d", i)
		ask := say("question", "")
		ask.Response = &turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: id, Name: "run", Arguments: turns.Raw(`{}`)}}}
		add(t, e, s, ask)
		answer := turns.TextMessage(turns.Assistant, "answer")
		add(t, e, s, api.AppendTurn{Messages: []turns.Message{result(id, long(6000))}, Response: &answer})
	}
	return s
}

// whenCold returns a policy with a view that depends on the clock.
func whenCold() *api.Policy {
	return &api.Policy{Name: "spec-008", Set: turns.Raw(`{"prune":{"when":"cache_cold"}}`)}
}

func head(t *testing.T, e *Engine, s turns.ID) turns.ID {
	t.Helper()
	return *must(e.Reader.Get(t.Context(), alice, s, api.Read{}))(t).Head
}

// A view that depends on the clock is shown again as it was, whatever the clock says
// by then: by its recipe, and at its turn if that has the recipe.
func TestRecipeOfAColdViewIsServedAgain(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	c := new(clock)
	e.Reader.Now = c.Now
	k := &kept{session: usesTools(t, e, whenCold())}
	first := head(t, e, k.session)
	warm := k.serve(t, e, api.GetContext{})
	c.pass(time.Hour)
	cold := k.serve(t, e, api.GetContext{})
	if cold.Tokens >= warm.Tokens {
		t.Fatalf("the cold view has %d tokens, the warm one %d", cold.Tokens, warm.Tokens)
	}
	second := add(t, e, k.session, with(say("with the cold one", "a"), cold)).ID
	k.serve(t, e, api.GetContext{})
	third := add(t, e, k.session, say("at once, without a recipe", "a")).ID
	c.pass(time.Hour)
	add(t, e, k.session, say("after an hour, without one", "a"))
	other := w.Engine(t)
	for name, by := range map[string]*Engine{"as it is": e, "a second daemon": other} {
		k.again(t, by)
		for at, tokens := range map[turns.ID]uint64{first: cold.Tokens, second: k.contexts[2].Tokens} {
			if cx := must(by.Contexts.Context(t.Context(), alice, k.session, api.GetContext{At: at}))(t); cx.Tokens != tokens {
				t.Errorf("%s, at %s: %d tokens, served were %d", name, at, cx.Tokens, tokens)
			}
		}
		cx := must(by.Contexts.Context(t.Context(), alice, k.session, api.GetContext{At: third}))(t)
		if r := must(view.ParseRecipe(cx.Recipe))(t); r.Cache != "cold" {
			t.Errorf("%s: the context of a turn that came after an hour was %s", name, r.Cache)
		}
	}
}

// pin gives a session a policy in the version that a digest pins, as another
// build wrote it.
func pin(t *testing.T, e *Engine, s turns.ID, ref turns.PolicyRef) {
	t.Helper()
	err := e.Writer.Mutate(t.Context(), alice, s, func(_ *writer.Chain, f *ledger.Session) (*writer.Draft, error) {
		ev, _, err := e.Writer.BeginEvent(f, writer.Request{Verb: "session.set"}, turns.KindChanged)
		if err != nil {
			return nil, err
		}
		label, set, err := e.Reader.SettingsInForce(t.Context(), f)
		set.Policy = ref
		return &writer.Draft{Event: ev, Body: &turns.ChangedBody{Label: label, Settings: set}}, err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// withoutFlush returns a policy with settings of its own, pinned by digest.
func withoutFlush(t *testing.T) turns.PolicyRef {
	t.Helper()
	ref := turns.PolicyRef{Name: "spec-008", Set: turns.Raw(`{"flush":{"threshold":0,"prompt":"","silent_token":"","lease_seconds":0}}`)}
	ref.Digest = must(policy.Resolve(ref))(t).Digest()
	return ref
}

// NXS-5: Every context that was served is served again by its recipe, byte for byte: on
// this daemon, on one that knows other models, and in another ledger; whatever
// was set, moved, forked, compacted or reset since.
func TestServedContextsAreServedAgain(t *testing.T) {
	set := func(t *testing.T, e *Engine, s turns.ID, x api.SessionSettings) {
		t.Helper()
		r := api.SetSession{SessionSettings: x}
		must(e.Sessions.Set(t.Context(), alice, s, r, canon(r)))(t)
	}
	talk := func(t *testing.T, e *Engine, k *kept, n int) (ids []turns.ID) {
		t.Helper()
		for i := range n {
			ids = append(ids, add(t, e, k.session, say(fmt.Sprintf("question %d %s", i, long(3000)), "answer")).ID)
			k.serve(t, e, api.GetContext{})
		}
		return ids
	}
	policy := func(name string) api.SessionSettings { return api.SessionSettings{Policy: &api.Policy{Name: name}} }
	system := func(s string) api.SessionSettings {
		return api.SessionSettings{System: &api.System{{Content: s}}}
	}
	// at says for turns which of the contexts that were served is given there.
	for name, story := range map[string]func(t *testing.T, e *Engine, k *kept) (at map[turns.ID]int){
		"a head moved back, and other settings": func(t *testing.T, e *Engine, k *kept) map[turns.ID]int {
			ids := talk(t, e, k, 8)
			must(e.Sessions.Move(t.Context(), alice, k.session, api.MoveSession{To: &ids[3]}, nil))(t)
			set(t, e, k.session, policy("autobyteus"))
			set(t, e, k.session, system("be brief"))
			model := "large-model"
			set(t, e, k.session, api.SessionSettings{Model: &model, Limits: &turns.Limits{}})
			back := k.serve(t, e, api.GetContext{})
			add(t, e, k.session, with(say("another way", "a"), back))
			k.serve(t, e, api.GetContext{})
			return map[turns.ID]int{ids[3]: 3, ids[6]: 6}
		},
		"settings changed twice between turns": func(t *testing.T, e *Engine, k *kept) map[turns.ID]int {
			ids := talk(t, e, k, 6)
			set(t, e, k.session, policy("gsv"))
			k.serve(t, e, api.GetContext{})
			set(t, e, k.session, policy("wolffish"))
			set(t, e, k.session, system("the last word"))
			k.serve(t, e, api.GetContext{})
			add(t, e, k.session, say("next", "a"))
			set(t, e, k.session, policy("nexus"))
			return map[turns.ID]int{ids[4]: 4, ids[5]: 7}
		},
		"limits, and a model that another daemon does not know": func(t *testing.T, e *Engine, k *kept) map[turns.ID]int {
			talk(t, e, k, 12)
			set(t, e, k.session, api.SessionSettings{Limits: &turns.Limits{ContextWindow: 9000}})
			k.serve(t, e, api.GetContext{Budget: 6000})
			model := "small-model"
			set(t, e, k.session, api.SessionSettings{Limits: &turns.Limits{}, Model: &model})
			cx := k.serve(t, e, api.GetContext{})
			at := head(t, e, k.session) // a compaction that it made
			add(t, e, k.session, with(say("next", "a"), cx))
			return map[turns.ID]int{at: 13}
		},
		"another policy and budget": func(t *testing.T, e *Engine, k *kept) map[turns.ID]int {
			ids := talk(t, e, k, 8)
			k.serve(t, e, api.GetContext{Policy: &api.Policy{Name: "spec-008"}})
			k.serve(t, e, api.GetContext{Policy: &api.Policy{Name: "autobyteus"}})
			view := api.GetContext{Policy: &api.Policy{Name: "nexus", Set: turns.Raw(`{"keep_tokens":900}`)}, Budget: 4000}
			add(t, e, k.session, with(say("with a view", "a"), k.serve(t, e, view)))
			return map[turns.ID]int{ids[7]: 10}
		},
		"a policy that was pinned, with settings": func(t *testing.T, e *Engine, k *kept) map[turns.ID]int {
			pin(t, e, k.session, withoutFlush(t))
			ids := talk(t, e, k, 8)
			set(t, e, k.session, policy("spec-008"))
			k.serve(t, e, api.GetContext{})
			return map[turns.ID]int{ids[2]: 2}
		},
		"an answer that came later": func(t *testing.T, e *Engine, k *kept) map[turns.ID]int {
			ask := say("call", "")
			ask.Response = &turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "c", Name: "run", Arguments: turns.Raw(`{}`)}}}
			called := add(t, e, k.session, ask).ID
			k.serve(t, e, api.GetContext{})
			pending := add(t, e, k.session, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "never mind")}}).ID
			k.serve(t, e, api.GetContext{})
			answer := turns.TextMessage(turns.Assistant, "well")
			add(t, e, k.session, api.AppendTurn{Parent: pending, Messages: []turns.Message{}, Response: &answer})
			k.serve(t, e, api.GetContext{})
			late := add(t, e, k.session, api.AppendTurn{Messages: []turns.Message{result("c", "late")}}).ID
			k.serve(t, e, api.GetContext{})
			return map[turns.ID]int{called: 0, pending: 1, late: 3}
		},
		"compactions in between": func(t *testing.T, e *Engine, k *kept) map[turns.ID]int {
			set(t, e, k.session, api.SessionSettings{Limits: &turns.Limits{ContextWindow: 14_000}})
			ids := talk(t, e, k, 10)
			r := api.RunCompaction{}
			made := must(e.Compactions.Compact(t.Context(), alice, k.session, r, canon(r)))(t).Compaction.ID
			k.serve(t, e, api.GetContext{})
			add(t, e, k.session, with(say("on a compaction", "a"), k.contexts[10]))
			return map[turns.ID]int{ids[9]: 9, made: 10}
		},
		"a fork, and a reset": func(t *testing.T, e *Engine, k *kept) map[turns.ID]int {
			ids := talk(t, e, k, 8)
			r := api.CreateFork{Turn: ids[5]}
			k.session, k.contexts = must(e.Forks.Fork(t.Context(), alice, k.session, r, canon(r)))(t).ID, nil
			set(t, e, k.session, system("a fork"))
			k.serve(t, e, api.GetContext{})
			own := talk(t, e, k, 3)
			must(e.Sessions.Reset(t.Context(), alice, k.session, api.ResetSession{}, []byte("{}")))(t)
			return map[turns.ID]int{ids[5]: 0, own[0]: 1, own[2]: 3}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			e := w.Engine(t)
			e.Reader.Models = tokens.Models{}.With(tokens.Model{Name: "small-model", ContextWindow: 12_000, OutputReserve: 1000}, tokens.Model{Name: "large-model", ContextWindow: 400_000})
			k := &kept{session: create(t, e, 60_000, "nexus").ID}
			before := &kept{session: k.session}
			before.serve(t, e, api.GetContext{})
			at := story(t, e, k)
			before.again(t, e)
			other, elsewhere := w.Engine(t), newWorld().Engine(t)
			must(elsewhere.Transfer.Import(t.Context(), alice, api.ImportRecords{Records: exports(t, e, k.session)}))(t)
			for name, by := range map[string]*Engine{"here": e, "on another daemon": other, "in another ledger": elsewhere} {
				k.again(t, by)
				for turn, i := range at {
					cx := must(by.Contexts.Context(t.Context(), alice, k.session, api.GetContext{At: turn}))(t)
					if !bytes.Equal(shown(cx), shown(k.contexts[i])) {
						t.Errorf("%s, at %s: %d tokens by %s, served as context %d were %d by %s", name, turn, cx.Tokens, cx.Recipe, i, k.contexts[i].Tokens, k.contexts[i].Recipe)
					}
				}
			}
		})
	}
}

// A recipe that is not of this session, or says what can't be made, is refused.
func TestRecipesThatCannotBeMade(t *testing.T) {
	e := newWorld().Engine(t)
	s, other := create(t, e, 60_000, "nexus").ID, create(t, e, 60_000, "nexus").ID
	at := add(t, e, s, say("q", "a")).ID
	cx := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t)
	r := must(view.ParseRecipe(cx.Recipe))(t)
	changed := func(f func(*view.Recipe)) turns.Raw {
		x := r
		f(&x)
		return must(x.JSON())(t)
	}
	for name, tc := range map[string]struct {
		session turns.ID
		req     api.GetContext
		want    api.Code
	}{
		"another session":     {other, api.GetContext{Recipe: cx.Recipe}, api.Malformed},
		"no recipe":           {s, api.GetContext{Recipe: turns.Raw(`"r"`)}, api.Malformed},
		"with a turn":         {s, api.GetContext{Recipe: cx.Recipe, At: at}, api.Malformed},
		"with a budget":       {s, api.GetContext{Recipe: cx.Recipe, Budget: 5000}, api.Malformed},
		"another renderer":    {s, api.GetContext{Recipe: changed(func(r *view.Recipe) { r.Renderer = "render-0" })}, api.Unsupported},
		"no settings":         {s, api.GetContext{Recipe: changed(func(r *view.Recipe) { r.Settings = turns.ID{} })}, api.Unsupported},
		"settings of a turn":  {s, api.GetContext{Recipe: changed(func(r *view.Recipe) { r.Settings = at })}, api.Malformed},
		"settings of another": {s, api.GetContext{Recipe: changed(func(r *view.Recipe) { r.Settings = other })}, api.Malformed},
		"an unknown policy":   {s, api.GetContext{Recipe: changed(func(r *view.Recipe) { r.Policy[0]++ })}, api.Unsupported},
		"an unknown turn":     {s, api.GetContext{Recipe: changed(func(r *view.Recipe) { r.Head.Turn = other })}, api.NotFound},
		"a turn of another":   {s, api.GetContext{Recipe: changed(func(r *view.Recipe) { r.Head.Session = other })}, api.Unsupported},
		"another compaction":  {s, api.GetContext{Recipe: changed(func(r *view.Recipe) { r.Compaction = r.Head })}, api.Unsupported},
		"itself":              {s, api.GetContext{Recipe: cx.Recipe}, ""},
	} {
		if _, err := e.Contexts.Context(t.Context(), alice, tc.session, tc.req); code(err) != tc.want {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// A head that went back to a turn that the session inherits, above its fork point,
// and on from there under other settings: the context there is that of the call
// that was made there.
func TestAnInheritedTurnIsServedAsTheCallThere(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 16_000, "nexus")
	var ids []turns.ID
	add(t, e, s.ID, say("look", ""))
	add(t, e, s.ID, api.AppendTurn{Response: callsOf("read", "c1")})
	answer := turns.TextMessage(turns.Assistant, "I see")
	add(t, e, s.ID, api.AppendTurn{Messages: []turns.Message{resultOf("c1", long(2000))}, Response: &answer})
	for i := range 6 {
		ids = append(ids, add(t, e, s.ID, say(fmt.Sprintf("question %d", i), "answer")).ID)
	}
	r := api.CreateFork{Turn: ids[5]}
	f := must(e.Forks.Fork(t.Context(), alice, s.ID, r, canon(r)))(t).ID
	at := func() string {
		return must(e.Contexts.Context(t.Context(), alice, f, api.GetContext{At: ids[2]}))(t).Fingerprint
	}
	before := at()
	must(e.Sessions.Move(t.Context(), alice, f, api.MoveSession{To: &ids[2]}, nil))(t)
	set := api.SetSession{SessionSettings: api.SessionSettings{Policy: &api.Policy{Name: "spec-008", Set: turns.Raw(`{"prune":{"when":"always","soft_trim_chars":100,"head_chars":20,"tail_chars":20}}`)},
		Limits: &turns.Limits{ContextWindow: 4_000}}}
	must(e.Sessions.Set(t.Context(), alice, f, set, canon(set)))(t)
	served := must(e.Contexts.Context(t.Context(), alice, f, api.GetContext{}))(t).Fingerprint
	add(t, e, f, say("and so?", "so"))
	if got := at(); got != served || got == before {
		t.Errorf("at the turn the context is %s, %s was served there, %s before it went back", got, served, before)
	}
}

// A turn behind which a compaction was made before the next call, and to which the
// head came back later: the context there is that of the call from the turn
// itself, not that of the call from the compaction.
func TestATurnBeforeACompactionIsServedAsTheCallThere(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 16_000, "nexus")
	var last turns.ID
	for i := range 8 {
		last = add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(2500)), long(400))).ID
	}
	at := func() string {
		return must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{At: last}))(t).Fingerprint
	}
	must(e.Compactions.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, nil))(t)
	add(t, e, s.ID, say("on", "yes"))
	there := at()
	must(e.Sessions.Move(t.Context(), alice, s.ID, api.MoveSession{To: &last}, nil))(t)
	set := api.SetSession{SessionSettings: api.SessionSettings{Policy: &api.Policy{Name: "gsv", Set: turns.Raw(`{"mode":"manual"}`)}, Limits: &turns.Limits{ContextWindow: 5_000}}}
	must(e.Sessions.Set(t.Context(), alice, s.ID, set, canon(set)))(t)
	served := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t).Fingerprint
	add(t, e, s.ID, say("otherwise", "so"))
	if got := at(); got != served || served == there {
		t.Errorf("at the turn the context is %s, %s was served there; from the compaction it was %s", got, served, there)
	}
}

// A view that its budget squeezed has a summary that is made again. Its recipe says who
// wrote it, and a build whose summarizer writes another text refuses it. Other recipes are
// served by both.
func TestARecipeNamesTheSummaryThatSqueezedItsView(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	e.Loader.Tiers[0].Version = "1"
	k := &kept{session: create(t, e, 20_000, "nexus").ID}
	for range 8 {
		add(t, e, k.session, say(long(4000), long(2000)))
	}
	whole := k.serve(t, e, api.GetContext{})
	squeezed := k.serve(t, e, api.GetContext{Budget: 4000})
	if r := must(view.ParseRecipe(squeezed.Recipe))(t); r.Summary != "first-words-1" {
		t.Fatalf("the recipe is %s", squeezed.Recipe)
	}
	if r := must(view.ParseRecipe(whole.Recipe))(t); r.Summary != "" {
		t.Fatalf("a context as it is has the recipe %s", whole.Recipe)
	}
	k.again(t, e)
	later := w.Engine(t)
	later.Loader.Tiers[0].Version = "2"
	if cx := must(later.Contexts.Context(t.Context(), alice, k.session, api.GetContext{Recipe: whole.Recipe}))(t); !bytes.Equal(shown(cx), shown(whole)) {
		t.Errorf("by a later build it is %s", cx.Recipe)
	}
	_, err := later.Contexts.Context(t.Context(), alice, k.session, api.GetContext{Recipe: squeezed.Recipe})
	if code(err) != api.Unsupported || !strings.Contains(err.Error(), "/recipe/summary") {
		t.Errorf("the squeezed view by a later build: %v", err)
	}
}

// An agent may store any recipe with a turn. One that names what is not there is no recipe
// of a context: the turn's context is made as without one. In a request it is refused.
func TestStoredRecipeThatNamesNothingIsLeftAside(t *testing.T) {
	e := newWorld().Engine(t)
	s, _, _ := nexusSession(t, e)
	for name, change := range map[string][2]string{
		"a piece of no turn":         {`"turn":"[^"]*","half":"messages","message"`, `"turn":"` + newID(t).String() + `","half":"messages","message"`},
		"a piece beyond the text":    {`"to":`, `"to":9`},
		"settings of no event":       {`"settings":"[^"]*"`, `"settings":"` + newID(t).String() + `"`},
		"another counter":            {`"counter":"[^"]*"`, `"counter":"fingers"`},
		"a policy that is not there": {`"policy":"[^"]*"`, `"policy":"` + turns.HashEvent([]byte("x")).String() + `"`},
		"a budget that fits nothing": {`"budget":[0-9]*`, `"budget":1`},
	} {
		at := *must(e.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t).Head
		plain := contextOf(t, e, s.ID, api.GetContext{})
		asked := contextOf(t, e, s.ID, api.GetContext{Query: "question 1"})
		if found, _ := recalled(asked); len(found) == 0 {
			t.Fatalf("%s: nothing is brought back", name)
		}
		forged := turns.Raw(regexp.MustCompile(change[0]).ReplaceAllString(string(asked.Recipe), change[1]))
		if bytes.Equal(forged, asked.Recipe) {
			t.Fatalf("%s: the recipe is the same: %s", name, forged)
		}
		if _, err := e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{Recipe: forged}); err == nil {
			t.Errorf("%s: the recipe of a request is served", name)
		}
		next := say("and then "+name, "ok")
		next.Context = &api.ContextUsed{Recipe: forged, Fingerprint: asked.Fingerprint}
		add(t, e, s.ID, next)
		if got, err := e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{At: at}); err != nil || got.Fingerprint != plain.Fingerprint {
			t.Errorf("%s: the context at the turn: %v", name, err)
		}
	}
	verified(t, e)
}

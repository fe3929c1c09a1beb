package contexts_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/turns"
)

// caller is what one client has of a session's contexts in one format and for one model, as API.md tells it to keep
// it: its last reply, put together.
type caller struct {
	session       turns.ID
	format, model string
}

// haveLife is a random life of a ledger with clients that name what they have.
type haveLife struct {
	t        *rapid.T
	w        *enginetest.World
	engines  []*engine.Engine
	whole    *engine.Engine // answers without have, and keeps nothing from one answer to the next
	now      time.Time
	sessions []turns.ID
	source   map[turns.ID]turns.ID
	clients  []map[caller]*api.Context
	formats  []string // that the clients of this life ask in
	n        int
	kept     *int
	steps    []string // what was done, for a failure
}

var haveFormats = []string{"", "otel", "openai", "anthropic", "gemini"}

// start starts a daemon with nothing in memory.
func (l *haveLife) start(t *testing.T) *engine.Engine {
	e := l.w.Engine(t)
	e.Reader.Now = func() time.Time { return l.now }
	e.Limits.MaxPayload = rapid.SampledFrom([]int{1 << 20, 48 << 10, 16 << 10}).Draw(l.t, "max payload")
	return e
}

func (l *haveLife) engine() *engine.Engine { return rapid.SampledFrom(l.engines).Draw(l.t, "daemon") }

func (l *haveLife) session() turns.ID { return rapid.SampledFrom(l.sessions).Draw(l.t, "session") }

func (l *haveLife) text() string {
	l.n++
	return fmt.Sprintf("text%d %s", l.n, enginetest.Text(rapid.SampledFrom([]int{1, 60, 900, 4000}).Draw(l.t, "length")))
}

// may fails for an error that no request of a life may have: what is refused changes nothing.
func (l *haveLife) may(err error) {
	if c := enginetest.Code(err); c == api.Internal || c == api.Corrupt {
		l.t.Fatal(err)
	}
}

// at returns a turn of a session's path, the zero id if it has none.
func (l *haveLife) at(s turns.ID) turns.ID {
	list, err := l.engines[0].History.ListTurns(l.t.Context(), enginetest.Alice, s, api.ListTurns{Page: api.Page{Limit: 500}})
	if err != nil || len(list.Turns) == 0 {
		return turns.ID{}
	}
	return rapid.SampledFrom(list.Turns).Draw(l.t, "turn").ID
}

func (l *haveLife) append(s turns.ID, r api.AppendTurn) {
	r.Model = rapid.SampledFrom([]string{"", "claude-opus-4-7", "claude-opus-4-8", "gemini-3-pro", "gpt-5.1"}).Draw(l.t, "model")
	_, err := l.engine().Sessions.Append(l.t.Context(), enginetest.Alice, s, r, enginetest.JSON(r))
	l.may(err)
}

// response is an answer with what providers sign.
func (l *haveLife) response() *turns.Message {
	m := turns.Message{Role: turns.Assistant}
	if rapid.Bool().Draw(l.t, "reasons") {
		ext := rapid.SampledFrom([]string{`{"anthropic":{"signature":"c2ln"}}`, `{"gemini":{"thoughtSignature":"c2ln"}}`, `{"openai":{"encrypted_content":"x"}}`, `{}`}).Draw(l.t, "signature")
		m.Parts = append(m.Parts, turns.Part{Type: turns.Reasoning, Content: l.text(), Ext: turns.Raw(ext)})
	}
	m.Parts = append(m.Parts, turns.TextPart(l.text()))
	return &m
}

func (l *haveLife) policy() *api.Policy {
	p := &api.Policy{Name: rapid.SampledFrom(policy.Names()).Draw(l.t, "policy")}
	switch rapid.IntRange(0, 4).Draw(l.t, "set") {
	case 0:
		p.Set = turns.Raw(`{"keep_tokens":50}`) // so that a second compaction follows
	case 1:
		p.Set = turns.Raw(`{"prune":{"when":"cache_cold","keep_last_assistants":1,"soft_trim_chars":100,"head_chars":20,"tail_chars":20}}`)
	}
	return p
}

func (l *haveLife) settings() (r api.SessionSettings) {
	switch rapid.SampledFrom([]string{"system", "no system", "old system", "model", "tools", "no tools", "policy", "window"}).Draw(l.t, "setting") {
	case "system":
		r.System = &api.System{{Name: "a", Content: l.text()}, {Name: "b", Content: l.text()}}
	case "old system":
		r.System = &api.System{{Name: "a", Content: "You are terse."}}
	case "no system":
		r.System = &api.System{}
	case "model":
		m := rapid.SampledFrom([]string{"", "claude-opus-4-7", "gemini-3-pro"}).Draw(l.t, "model")
		r.Model = &m
	case "tools":
		r.Tools = &[]turns.Raw{turns.Raw(fmt.Sprintf(`{"name":"t%d"}`, rapid.IntRange(0, 2).Draw(l.t, "tool")))}
	case "no tools":
		r.Tools = &[]turns.Raw{}
	case "policy":
		r.Policy = l.policy()
	case "window":
		r.Limits = &turns.Limits{ContextWindow: rapid.SampledFrom([]uint64{0, 5000, 9000, 30_000}).Draw(l.t, "window")}
	}
	return r
}

// step does one thing to a session.
func (l *haveLife) step(t *testing.T) {
	ctx, e, s := l.t.Context(), l.engine(), l.session()
	l.now = l.now.Add(time.Second)
	l.n++
	canonical := []byte(fmt.Sprint(l.n))
	var err error
	step := rapid.SampledFrom([]string{"say", "say", "say", "say", "grow", "grow", "ask", "answer", "call", "results", "get", "get", "get", "compact", "record", "summarize", "overflow",
		"move", "fork", "set", "set", "memory", "rare", "rare"}).Draw(l.t, "step")
	if step == "rare" { // some of these make the daemons forget what they sent
		step = rapid.SampledFrom([]string{"reset", "document", "withdraw", "hide", "describe", "note", "wait", "wait", "redact", "erase", "restart"}).Draw(l.t, "rare step")
	}
	switch step {
	case "say":
		r := enginetest.Say(l.text(), "")
		if rapid.IntRange(0, 3).Draw(l.t, "several") == 0 {
			r.Messages = append(r.Messages, turns.Message{Role: turns.System, Parts: []turns.Part{turns.TextPart(l.text())}},
				turns.Message{Role: turns.User, Name: "bob", Parts: []turns.Part{turns.TextPart("look"), {Type: turns.Blob, Modality: "image", MimeType: "image/png", Data: []byte(l.text())}}})
		}
		r.Response = l.response()
		l.append(s, r)
	case "grow": // until there is something to summarize, mostly anew
		for range 4 {
			_, err := e.Sessions.Append(ctx, enginetest.Alice, s, enginetest.Say(l.text(), l.text()), nil)
			l.may(err)
		}
		p := api.Policy{Name: "nexus", Set: turns.Raw(`{"keep_tokens":50}`)}
		if is, gerr := e.Reader.Get(ctx, enginetest.Alice, s, api.Read{}); gerr == nil {
			p.Name = is.Policy.Name
		}
		_, err = e.Compactions.Compact(ctx, enginetest.Alice, s, api.RunCompaction{Policy: &p}, canonical)
	case "ask":
		l.append(s, enginetest.Say(l.text(), ""))
	case "answer":
		l.append(s, api.AppendTurn{Messages: []turns.Message{}, Response: l.response()})
	case "call":
		r := enginetest.Say(l.text(), "")
		r.Response = l.response()
		for _, id := range []string{"a", strings.Repeat("long", 20), fmt.Sprint("functions.x:", l.n)}[:rapid.IntRange(1, 3).Draw(l.t, "calls")] {
			r.Response.Parts = append(r.Response.Parts, turns.Part{Type: turns.ToolCall, ID: id, Name: rapid.SampledFrom([]string{"t1", "a.b c"}).Draw(l.t, "tool"), Arguments: turns.Raw(`{"x": 1.50}`)})
		}
		l.append(s, r)
	case "results":
		r := api.AppendTurn{}
		if list, lerr := e.History.ListTurns(ctx, enginetest.Alice, s, api.ListTurns{Full: true, Order: "desc", Page: api.Page{Limit: 1}}); lerr == nil && len(list.Turns) == 1 && list.Turns[0].Response != nil {
			for _, id := range list.Turns[0].Response.Calls(nil) {
				r.Messages = append(r.Messages, turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: id, Response: turns.RawText(l.text())}}})
			}
			if len(r.Messages) > 0 && rapid.Bool().Draw(l.t, "all") {
				r.Response = l.response()
			} else if len(r.Messages) > 1 {
				r.Messages = r.Messages[1:]
			}
		}
		if len(r.Messages) > 0 {
			l.append(s, r)
		}
	case "get": // once more, below
	case "compact":
		r := api.RunCompaction{FromOriginals: rapid.Bool().Draw(l.t, "from originals")}
		if rapid.Bool().Draw(l.t, "by another policy") {
			r.Policy = l.policy()
		}
		_, err = e.Compactions.Compact(ctx, enginetest.Alice, s, r, canonical)
	case "record":
		if at := l.at(s); !at.IsZero() {
			r := api.RecordCompaction{FirstKept: at, Summary: l.text()}
			if rapid.Bool().Draw(l.t, "replacement") {
				r.Summary, r.Replacement = "", []turns.Message{turns.TextMessage(turns.User, l.text()), turns.TextMessage(turns.Assistant, "yes")}
			}
			_, err = e.Compactions.Record(ctx, enginetest.Alice, s, r, canonical)
		}
	case "summarize":
		var offer *api.TakenCompaction
		if offer, err = e.Compactions.Take(ctx, enginetest.Alice, s, api.TakeCompaction{}); err == nil {
			_, err = e.Compactions.Submit(ctx, enginetest.Alice, s, api.SubmitCompaction{Plan: offer.Plan, Text: l.text()}, canonical)
		}
	case "overflow":
		_, err = e.Contexts.Overflow(ctx, enginetest.Alice, s, api.Overflow{Error: "context_length_exceeded", Status: 400, Format: rapid.SampledFrom(haveFormats).Draw(l.t, "format")}, canonical)
	case "move":
		if at := l.at(s); !at.IsZero() {
			_, err = e.Sessions.Move(ctx, enginetest.Alice, s, api.MoveSession{To: &at}, canonical)
		}
	case "fork":
		if at := l.at(s); !at.IsZero() && len(l.sessions) < 6 {
			var f *api.Session
			if f, err = e.Forks.Fork(ctx, enginetest.Alice, s, api.CreateFork{Turn: at, Mode: rapid.SampledFrom([]string{"as_seen", "full", "summary"}).Draw(l.t, "mode")}, canonical); err == nil {
				l.sessions, l.source[f.ID] = append(l.sessions, f.ID), s
			}
		}
	case "set":
		_, err = e.Sessions.Set(ctx, enginetest.Alice, s, api.SetSession{SessionSettings: l.settings()}, canonical)
	case "reset":
		if rapid.IntRange(0, 3).Draw(l.t, "really") == 0 && len(l.sessions) < 6 {
			var next *api.Session
			if next, err = e.Sessions.Reset(ctx, enginetest.Alice, s, api.ResetSession{}, canonical); err == nil {
				l.sessions = append(l.sessions, next.ID)
			}
		}
	case "memory":
		_, err = e.Memories.Save(ctx, enginetest.Alice, api.SaveMemory{Kind: rapid.SampledFrom([]string{"daily", "long_term", "semantic", "episodic"}).Draw(l.t, "kind"), Text: l.text(), Visibility: "all", Session: s}, canonical)
	case "document":
		text := l.text()
		_, err = e.Memories.Document(ctx, enginetest.Alice, api.MemoryDocument{Text: &text, If: rapid.SampledFrom([]string{"0", "1", "2"}).Draw(l.t, "version")}, canonical)
	case "withdraw":
		if list, lerr := e.Memories.List(ctx, enginetest.Alice, api.ListMemories{}); lerr == nil && len(list.Memories) > 0 {
			_, err = e.Memories.Withdraw(ctx, enginetest.Alice, api.WithdrawMemory{Memory: list.Memories[0].ID}, canonical)
		}
	case "hide":
		_, err = e.Sessions.Hide(ctx, enginetest.Alice, s, rapid.Bool().Draw(l.t, "hidden"), api.HideSession{}, canonical)
	case "describe":
		title := fmt.Sprint("title ", l.n)
		_, err = e.Sessions.Describe(ctx, enginetest.Alice, s, api.DescribeSession{Title: &title}, canonical)
	case "note":
		if at := l.at(s); !at.IsZero() {
			_, err = e.Sessions.Note(ctx, enginetest.Alice, s, api.NoteTurn{Turn: at, Text: "note"}, canonical)
		}
	case "redact":
		r := api.RedactTurn{Text: fmt.Sprintf("text%d ", rapid.IntRange(1, l.n).Draw(l.t, "text"))}
		if rapid.Bool().Draw(l.t, "a turn") {
			r = api.RedactTurn{Turn: l.at(s)}
		}
		if !r.Turn.IsZero() || r.Text != "" {
			_, err = e.Erasure.Redact(ctx, enginetest.Operator, s, r, canonical)
		}
	case "erase":
		if rapid.IntRange(0, 3).Draw(l.t, "really") == 0 && len(l.sessions) > 1 {
			_, err = e.Erasure.Erase(ctx, enginetest.Operator, s, api.EraseSession{})
		}
	case "wait":
		l.now = l.now.Add(time.Duration(rapid.IntRange(1, 20).Draw(l.t, "minutes")) * time.Minute)
	case "restart":
		l.engines[rapid.IntRange(0, len(l.engines)-1).Draw(l.t, "daemon that starts")] = l.start(t)
	}
	l.may(err)
	if step == "redact" || step == "erase" { // where that is possible there is one daemon: its projections have it by then
		st, serr := l.w.Log.State(ctx)
		l.may(serr)
		for _, e := range append(l.engines, l.whole) {
			l.may(e.Reader.Projections.WaitFor(ctx, st.Last))
		}
	}
	l.steps = append(l.steps, fmt.Sprint(step, " ", s, " ", err))
	if step != "erase" {
		l.get(s)
	}
}

// get asks for a context as a client that has one, and as one that has none, and compares.
func (l *haveLife) get(s turns.ID) {
	name := caller{s, rapid.SampledFrom(l.formats).Draw(l.t, "format"), rapid.SampledFrom([]string{"", "", "", "", "", "claude-opus-4-7", "gemini-3-pro"}).Draw(l.t, "called model")}
	client := rapid.SampledFrom(l.clients).Draw(l.t, "client")
	r := api.GetContext{Format: name.format, Model: name.model, Explain: rapid.IntRange(0, 5).Draw(l.t, "explain") == 0}
	switch rapid.IntRange(0, 7).Draw(l.t, "asked for") {
	case 0:
		r.Policy = l.policy()
	case 1:
		r.Budget = rapid.SampledFrom([]uint64{3000, 6000}).Draw(l.t, "budget")
	case 2:
		r.At = l.at(s)
	case 3:
		r.Query = fmt.Sprintf("text%d", rapid.IntRange(1, l.n).Draw(l.t, "query"))
	}
	if rapid.IntRange(0, 3).Draw(l.t, "short pages") == 0 {
		r.Limit = rapid.IntRange(1, 3).Draw(l.t, "limit")
	}
	had := client[name]
	if of, forked := l.source[s]; forked && (had == nil || rapid.IntRange(0, 3).Draw(l.t, "names the source's") == 0) {
		had = client[caller{of, name.format, name.model}]
	}
	if had != nil {
		r.Have = &api.Have{Fingerprint: had.Fingerprint, Preamble: had.PreambleDigest}
		if client[name] == had && rapid.IntRange(0, 4).Draw(l.t, "names no preamble") == 0 {
			r.Have.Preamble = ""
		}
	}
	got, want, err := l.read(s, r, had)
	if l.may(err); err != nil {
		return
	}
	if got.Keep > 0 {
		*l.kept++
	}
	if d := cmp.Diff(texts(want), texts(got)); d != "" || got.Fingerprint != want.Fingerprint || got.PreambleDigest != want.PreambleDigest {
		l.t.Fatalf("%+v keeping %d, fingerprint %s, whole %s (-whole, +put together):\n%s\nsession %s after\n%s", r, got.Keep, got.Fingerprint, want.Fingerprint, d, s, strings.Join(l.steps, "\n"))
	}
	client[name] = got
}

// read reads all pages of a context, each from any daemon, and puts them behind what the client had. Settings may change
// between two pages: then a page may be a conflict. want is the context as it was at the first page.
func (l *haveLife) read(s turns.ID, r api.GetContext, had *api.Context) (out, want *api.Context, err error) {
	partial := ""
	for {
		e := l.engine()
		if out != nil && rapid.IntRange(0, 9).Draw(l.t, "settings change between pages") == 0 {
			l.n++
			_, err := e.Sessions.Set(l.t.Context(), enginetest.Alice, s, api.SetSession{SessionSettings: l.settings()}, []byte(fmt.Sprint(l.n)))
			l.may(err)
		}
		p, err := e.Contexts.Context(l.t.Context(), enginetest.Alice, s, r)
		if out == nil {
			l.whole.Caches.Clear()
			whole := r
			whole.Limit, whole.Have = 0, nil
			var werr error
			if want, werr = l.whole.Contexts.Context(l.t.Context(), enginetest.Alice, s, whole); enginetest.Code(err) != enginetest.Code(werr) {
				l.t.Fatalf("with have %v, without %v", err, werr)
			}
		}
		if err != nil {
			return nil, nil, err
		}
		if partial += p.Partial; p.PartialEnd {
			p.Messages, partial = append(p.Messages, turns.Raw(partial)), ""
		}
		if out == nil {
			out = p
			if p.Keep > 0 {
				out.Messages = append(append([]turns.Raw{}, had.Messages[:p.Keep]...), p.Messages...)
			}
			if p.KeepPreamble {
				out.System, out.Tools = had.System, had.Tools
			}
		} else {
			out.Messages = append(out.Messages, p.Messages...)
			out.Fingerprint, out.PreambleDigest = p.Fingerprint, p.PreambleDigest // of any page: all have one
		}
		if r.After = p.Next; p.Next == "" {
			return out, want, nil
		}
	}
}

// Whatever an agent, its tools and its operator do, a client that keeps its last reply as API.md says has the whole
// context, as a daemon makes it that remembers nothing: under all policies, in all formats, with compactions of each
// kind, settings, forks, memories, redactions and erasures, by several clients and daemons, also where one starts anew
// and where settings change between two pages.
func TestAClientThatKeepsItsLastReplyHasTheWholeContext(t *testing.T) {
	kept, lives := 0, "30" // more need an explicit -rapid.checks
	flag.Visit(func(f *flag.Flag) {
		if f.Name == "rapid.checks" {
			lives = f.Value.String()
		}
	})
	defer flag.Set("rapid.checks", flag.Lookup("rapid.checks").Value.String())
	if err := flag.Set("rapid.checks", lives); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		l := &haveLife{t: rt, w: enginetest.NewWorld(), now: time.Now(), source: make(map[turns.ID]turns.ID), kept: &kept}
		l.engines = []*engine.Engine{l.start(t), l.start(t)}
		l.whole = l.start(t)
		l.whole.Limits.MaxPayload = 8 << 20
		l.formats = rapid.SliceOfN(rapid.SampledFrom(haveFormats), 1, 2).Draw(rt, "formats")
		l.clients = []map[caller]*api.Context{{}, {}}
		r := api.CreateSession{SessionSettings: l.settings()}
		if r.Policy == nil {
			r.Policy = l.policy()
		}
		if r.Limits == nil {
			r.Limits = &turns.Limits{ContextWindow: 9000}
		}
		s, err := l.engines[0].Sessions.Create(rt.Context(), enginetest.Alice, r, []byte("{}"))
		if err != nil {
			rt.Fatal(err)
		}
		l.sessions = []turns.ID{s.ID}
		for range rapid.IntRange(20, 50).Draw(rt, "steps") {
			l.step(t)
		}
	})
	if kept == 0 {
		t.Error("no reply kept anything")
	}
}

package engine_test

import (
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/extraction"
	"nexus/cmd/internal/files"
	"nexus/compactor"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/ledgertest"
	"nexus/turns"
)

var month = flag.Bool("month", false, "TestAMonthOfAnAgent: 31 days instead of a week")

// agentLife is what an agent did with two daemons, of which one dies now and then and both lose
// answers, and what it was told.
type agentLife struct {
	t       *testing.T
	w       *world
	clock   *resetClock
	rand    *rand.Rand
	model   *rememberer
	daemons [2]*engine.Engine
	faults  [2]ledgertest.Faults

	facts  map[string]string     // each fact that was stated, and under which policy: its label
	stored map[turns.ID]turns.ID // each acknowledged turn → its session
	texts  map[turns.ID]string   // its text
	events []turns.ID            // acknowledged external events, in order
	saved  map[string]turns.ID   // memories in force that the agent saved, by text
	doc    int                   // versions of the document
	kills  int
	lost   int // answers that were lost
}

// start starts a daemon anew: what it had in memory and its projections are gone.
func (l *agentLife) start(i int) {
	e := timedDaemons(l.t, l.w, l.clock, 1)[0]
	// The model answers in the request (as the local tier) and in an extraction.
	e.Loader.Tiers = []compactor.Tier{{Name: "llm", Summarizer: l.model, Model: "m"}, {Name: "extractive", Summarizer: l.model, Local: true}}
	e.Reader.Log = ledgertest.Flaky(l.w.Log, &l.faults[i])
	l.daemons[i] = e
}

// do repeats a request under one id, on any daemon, until it is answered. Before each try a
// daemon may die, and the answer of the try may be lost, whether it was stored or not.
func (l *agentLife) do(what string, request func(*engine.Engine) error) error {
	l.t.Helper()
	for range 50 {
		i := l.rand.IntN(2)
		if l.rand.IntN(150) == 0 {
			l.start(i)
			l.kills++
		}
		if l.rand.IntN(6) == 0 {
			script := make([]ledgertest.Fault, l.rand.IntN(3), 4) // let some appends pass
			l.faults[i].Script(append(script, []ledgertest.Fault{ledgertest.Persisted, ledgertest.Lost}[l.rand.IntN(2)])...)
			l.lost++
		}
		err := request(l.daemons[i])
		l.faults[i].Script()
		if c := code(err); c != api.Indeterminate && c != api.Unavailable && c != api.Busy && !errors.Is(err, ledgertest.ErrInjected) {
			return err
		}
	}
	l.t.Fatalf("%s: never answered", what)
	return nil
}

// must is do for a request that has to succeed.
func (l *agentLife) must(what string, request func(*engine.Engine) error) {
	l.t.Helper()
	if err := l.do(what, request); err != nil {
		l.t.Fatalf("%s: %v", what, err)
	}
}

// say appends a turn to the session of a label, or to a fork of it.
func (l *agentLife) say(label, text string, fork bool) {
	l.t.Helper()
	r := say(text, "noted, and here is an answer of some words "+strings.Repeat("with more of them ", 8))
	r.ID = newID(l.t)
	if n := len(l.events); n > 0 {
		r.Meta = turns.Raw(fmt.Sprintf(`{"event":{"channel":"mail","id":"%s"}}`, l.events[n-1]))
	}
	f := api.CreateFork{ID: newID(l.t)}
	for {
		var s *api.Session
		l.must("resolve", func(e *engine.Engine) (err error) {
			s, err = e.Sessions.Resolve(l.t.Context(), alice, label)
			return err
		})
		if fork && s.Head != nil {
			f.Turn = *s.Head
			parent := s.ID
			l.must("fork", func(e *engine.Engine) (err error) {
				s, err = e.Forks.Fork(l.t.Context(), alice, parent, f, canon(api.CreateFork{Turn: f.Turn}))
				return err
			})
		}
		anonymous := r
		anonymous.ID = turns.ID{}
		l.must("context", func(e *engine.Engine) error {
			_, err := e.Contexts.Context(l.t.Context(), alice, s.ID, api.GetContext{})
			return err
		})
		err := l.do("append", func(e *engine.Engine) error {
			_, err := e.Sessions.Append(l.t.Context(), alice, s.ID, r, canon(anonymous))
			return err
		})
		if errors.Is(err, ledger.ErrClosed) || code(err) == api.Closed {
			f.ID = newID(l.t)
			continue // it was reset meanwhile; the turn is not in it
		}
		if err != nil {
			l.t.Fatal(err)
		}
		l.stored[r.ID], l.texts[r.ID] = s.ID, text
		return
	}
}

// remember saves a memory, which may supersede one, or withdraws one.
func (l *agentLife) remember(day int) {
	r := api.SaveMemory{ID: newID(l.t), Kind: "semantic", Text: fmt.Sprintf("note of day %d %x", day, l.rand.Uint32()), Visibility: "all"}
	old := ""
	for text := range l.saved {
		if old == "" || text < old {
			old = text
		}
	}
	if old != "" && l.rand.IntN(3) == 0 {
		id := newID(l.t)
		l.must("withdraw", func(e *engine.Engine) error {
			_, err := withdraw(l.t, e, alice, api.WithdrawMemory{ID: id, Memory: l.saved[old]})
			return err
		})
		delete(l.saved, old)
		return
	}
	if old != "" && l.rand.IntN(2) == 0 {
		r.Supersedes = l.saved[old]
		delete(l.saved, old)
	}
	l.must("save", func(e *engine.Engine) error {
		m, err := trySave(l.t, e, alice, r)
		if err == nil {
			l.saved[r.Text] = m.ID
		}
		return err
	})
}

// doAnotherThing does what is not a turn: an event from outside, a memory, the document.
func (l *agentLife) doAnotherThing(day int) {
	switch l.rand.IntN(4) {
	case 0:
		r := api.AppendEvent{ID: newID(l.t), Channel: "mail", Kind: "mail", Body: turns.Raw(fmt.Sprintf(`{"n":%d}`, len(l.events)))}
		anonymous := r
		anonymous.ID = turns.ID{}
		l.must("event", func(e *engine.Engine) error {
			_, err := e.Events.AppendEvent(l.t.Context(), alice, r, canon(anonymous))
			return err
		})
		l.events = append(l.events, r.ID)
	case 1:
		l.doc++
		r := api.MemoryDocument{ID: newID(l.t), Text: text(fmt.Sprintf("version %d", l.doc)), If: fmt.Sprint(l.doc - 1)}
		l.must("document", func(e *engine.Engine) error { _, err := document(l.t, e, alice, r); return err })
	case 2:
		l.remember(day)
	}
}

// timers lets both daemons look at their timers and at extractions. A try that fails is made
// again at the next look.
func (l *agentLife) timers() {
	for i, e := range l.daemons {
		if l.rand.IntN(8) == 0 {
			l.faults[i].Script(append(make([]ledgertest.Fault, l.rand.IntN(2), 3), ledgertest.Persisted)...)
			l.lost++
		}
		_, _ = e.Resets.FireDue(l.t.Context())
		_ = e.Extraction.ExtractDue(l.t.Context())
		l.faults[i].Script()
	}
}

// A month of an agent on two daemons: resets each day and after idle time, compactions under
// gsv and balanced, forks, memories, documents, external events; daemons die and answers are
// lost. Afterwards nothing that was acknowledged is missing or there twice, each fact is
// found, and each due reset happened once.
func TestAMonthOfAnAgent(t *testing.T) {
	days := 7
	if *month {
		days = 31
	}
	l := &agentLife{t: t, w: newWorld(), clock: new(resetClock), rand: rand.New(rand.NewPCG(37, uint64(days))), model: new(rememberer),
		facts: map[string]string{}, stored: map[turns.ID]turns.ID{}, texts: map[turns.ID]string{}, saved: map[string]turns.ID{}}
	began := utc(t, "2026-03-01T08:00:00Z")
	l.clock.set(began)
	l.start(0)
	l.start(1)
	first := map[string]turns.ID{}
	for label, p := range map[string]*api.Policy{
		"gsv":      {Name: "gsv", Set: turns.Raw(`{"keep_tokens":400,"reserve_tokens":300,"reset":{"mode":"daily"}}`)},
		"balanced": {Name: "balanced", Set: turns.Raw(`{"mode":"before_call","reset":{"mode":"idle","idle_minutes":600}}`)},
	} {
		r := api.CreateSession{}
		r.Label, r.Policy, r.Limits = &label, p, &turns.Limits{ContextWindow: 6000, MaxOutputTokens: 500}
		first[label] = must(l.daemons[0].Sessions.Create(t.Context(), alice, r, canon(r)))(t).ID
	}
	for day := range days {
		for hour := range 24 {
			l.clock.set(began.Add(time.Duration(24*day+hour) * time.Hour))
			if at := l.clock.now().UTC().Hour(); at >= 8 && at < 22 {
				for n := range 2 {
					for _, label := range []string{"gsv", "balanced"} {
						fact := fmt.Sprintf("fact %s %d-%d-%d %08x", label, day, hour, n, l.rand.Uint32())
						l.facts[fact] = label
						l.say(label, fact+"; "+strings.Repeat("and there was more to say ", 40), l.rand.IntN(30) == 0)
					}
					l.doAnotherThing(day)
					l.clock.add(20 * time.Minute)
				}
			}
			l.timers()
		}
	}
	l.clock.add(48 * time.Hour) // all is reset, and all is extracted
	for range extraction.Tries + 2 {
		l.timers()
		l.clock.add(extraction.Lease)
	}
	for _, e := range l.daemons {
		if err := e.Reader.Projections.WaitFor(t.Context(), must(l.w.Log.State(t.Context()))(t).Last); err != nil {
			t.Fatal(err)
		}
	}
	l.check(first)
}

// check compares the ledger with what the agent was told.
func (l *agentLife) check(first map[string]turns.ID) {
	t, e := l.t, l.daemons[0]
	dir := t.TempDir()
	x := must(files.Open(files.Config{Dir: dir, Source: e.Archive}))(t)
	wrote := x.Pass(t.Context(), true)
	if again := x.Pass(t.Context(), true); again != 0 {
		t.Errorf("a second pass wrote %d files", again)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}

	// Each acknowledged turn is stored once, and no other is.
	sessions := map[turns.ID]*api.Session{}
	seen, compactions := map[turns.ID]bool{}, 0
	read := map[string]bool{} // texts of turns that turn.list gives
	for after := ""; ; {
		page := must(e.History.List(t.Context(), alice, api.ListSessions{Page: api.Page{After: after}}))(t)
		for i := range page.Sessions {
			sessions[page.Sessions[i].ID] = &page.Sessions[i]
		}
		if after = page.Next; after == "" {
			break
		}
	}
	for id := range sessions {
		for payload, err := range e.Reader.Projections.Events(id, 0) {
			ev := must(turns.Decode(must(payload, err)(t)))(t)
			switch {
			case ev.Kind == turns.KindCompaction:
				compactions++
			case ev.Kind != turns.KindTurn:
			case seen[ev.ID] || l.stored[ev.ID] != id:
				t.Errorf("turn %s of session %s was stored twice, or was never acknowledged", ev.ID, id)
			default:
				seen[ev.ID] = true
				got := must(e.Reader.GetTurn(t.Context(), alice, id, api.GetTurn{ID: ev.ID}))(t)
				if text := got.Messages[0].Parts[0].Content; text != l.texts[ev.ID] {
					t.Errorf("turn %s says %q", ev.ID, text)
				} else {
					read[text[:strings.Index(text, ";")]] = true
				}
			}
		}
	}
	if len(seen) != len(l.stored) {
		t.Errorf("%d of %d acknowledged turns are stored", len(seen), len(l.stored))
	}

	// Each reset happened at the instant that follows from the turns, and once.
	resets := map[string]int{}
	for label, id := range first {
		for s := sessions[id]; s.State == "reset"; s = sessions[s.Successor] {
			resets[label]++
			row := must(e.Reader.Projections.Session(s.ID))(t)
			due := time.Unix(0, row.Latest).Add(600 * time.Minute)
			if label == "gsv" {
				due = time.Unix(0, row.First).UTC().Truncate(24 * time.Hour).Add(4 * time.Hour)
				if !due.After(time.Unix(0, row.First)) {
					due = due.Add(24 * time.Hour)
				}
			}
			if s.Ended.Due == nil || !time.Time(*s.Ended.Due).Equal(due) || row.Latest >= due.UnixNano() {
				t.Errorf("session %s of %s ended %+v, want due at %v", s.ID, label, s.Ended, due)
			}
			if sessions[s.Successor] == nil {
				t.Fatalf("session %s has no successor", s.ID)
			}
		}
	}

	// Memories: each text is said once, what the agent withdrew or superseded is not in force.
	inForce, said := map[string]int{}, map[string]bool{}
	for _, m := range list(t, e, alice, api.ListMemories{State: "accepted"}) {
		inForce[m.Text]++
		if of := m.Visibility + " " + m.Text; said[of] && m.Visibility != "branch" { // two branches may say the same
			t.Errorf("a memory is said twice: %q", of)
		} else {
			said[of] = true
		}
		if len(m.Sources) == 0 && strings.HasPrefix(m.Text, "fact") && m.Compaction == nil {
			t.Errorf("memory %q has no source", m.Text)
		}
	}
	for text := range l.saved {
		if inForce[text] != 1 {
			t.Errorf("a memory that was saved is lost: %q", text)
		}
		delete(inForce, text)
	}
	for text := range inForce {
		if !strings.HasPrefix(text, "fact") {
			t.Errorf("a memory that was withdrawn or superseded is in force: %q", text)
		}
	}
	if d := must(document(t, e, alice, api.MemoryDocument{}))(t); int(d.Version) != l.doc {
		t.Errorf("the document has version %d of %d", d.Version, l.doc)
	}
	var events []turns.ID
	for r := (api.ListEvents{Channel: "mail"}); ; {
		page := must(e.Events.ListEvents(t.Context(), alice, r))(t)
		for _, ev := range page.Events {
			events = append(events, ev.ID)
		}
		if r.After = page.Next; r.After == "" {
			break
		}
	}
	if !slices.Equal(events, l.events) {
		t.Errorf("%d of %d external events, or another order", len(events), len(l.events))
	}

	// Each fact is found: under gsv as a memory, in a context or in an archive; under balanced,
	// which keeps no memories, in a context or in the history.
	var archives strings.Builder
	whole := l.archives(dir, &archives, sessions)
	var contexts strings.Builder
	for _, s := range sessions {
		if s.State == "open" && s.Turns > 0 {
			contexts.Write(canon(must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)))
		}
	}
	found := map[string]int{}
	for _, fact := range slices.Sorted(maps.Keys(l.facts)) {
		label := l.facts[fact]
		hits := must(e.Memories.Search(t.Context(), alice, api.SearchMemories{Text: fact, Limit: 3}))(t).Hits
		if n := len(slices.DeleteFunc(hitTexts(hits), func(s string) bool { return s != fact })); n > 1 {
			t.Errorf("a search says %d times %q", n, fact)
		}
		switch {
		case len(hits) > 0 && hits[0].Text == fact:
			found["memory.search"]++
		case inForce[fact] > 0:
			found["memory.list"]++
		case strings.Contains(contexts.String(), fact):
			found["context"]++
		case strings.Contains(archives.String(), fact):
			found["archive"]++
		case label == "balanced" && read[fact]:
			found["history of balanced"]++
		default:
			t.Errorf("%q is found nowhere", fact)
		}
	}
	events0 := must(l.w.Log.State(t.Context()))(t).Last
	verified(t, e)

	// Projections that are made again answer the same.
	other := timedDaemons(t, l.w, l.clock, 1)[0]
	if err := other.Reader.Projections.WaitFor(t.Context(), events0); err != nil {
		t.Fatal(err)
	}
	for id := range sessions {
		if a, b := canon(must(e.Reader.Get(t.Context(), alice, id, api.Read{}))(t)), canon(must(other.Reader.Get(t.Context(), alice, id, api.Read{}))(t)); string(a) != string(b) {
			t.Errorf("after a rebuild session %s is\n%s, it was\n%s", id, b, a)
		}
	}
	if a, b := canon(list(t, e, alice, api.ListMemories{})), canon(list(t, other, alice, api.ListMemories{})); string(a) != string(b) {
		t.Error("after a rebuild the memories differ")
	}
	t.Logf("%d events, %d turns, %d sessions, resets %v, %d compactions, %d memories in force, %d external events, %d versions of the document, %d kills, %d faults, %d files (%d whole sessions restored), model calls %d; facts %v",
		events0, len(seen), len(sessions), resets, compactions, len(list(t, e, alice, api.ListMemories{State: "accepted"})), len(l.events), l.doc, l.kills, l.lost, wrote, whole, l.model.calls, found)
}

// archives reads all archives, and restores those of whole sessions in another ledger, where
// each event has the same hash. It returns how many.
func (l *agentLife) archives(dir string, all io.Writer, sessions map[turns.ID]*api.Session) (whole int) {
	t, e := l.t, l.daemons[0]
	operator := alice
	operator.Agent = "_"
	other := newWorld().Engine(t)
	for id, s := range sessions {
		if s.State != "reset" || s.Policy.Name != "gsv" {
			continue
		}
		f := must(os.Open(filepath.Join(dir, "agents", "alice", "sessions", id.String()+".jsonl.gz")))(t)
		text := must(io.ReadAll(must(gzip.NewReader(f))(t)))(t)
		_ = f.Close()
		_, _ = all.Write(text)
		var records []api.ExportRecord
		for _, r := range must(e.Transfer.Export(t.Context(), operator, id, api.ExportSession{}))(t).Records {
			if r.Key != nil {
				records = append(records, r)
			}
		}
		for line := range strings.Lines(string(text)) {
			var r struct {
				api.ExportRecord
				Turn turns.Raw `json:"turn,omitempty"`
			}
			if err := turns.DecodeJSON([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			records = append(records, r.ExportRecord)
		}
		must(other.Transfer.Import(t.Context(), operator, api.ImportRecords{Records: records}))(t)
		a, b := must(e.Reader.Projections.Session(id))(t), must(other.Reader.Projections.Session(id))(t)
		if a.Tail.Hash != b.Tail.Hash || a.Tail.Index != b.Tail.Index {
			t.Errorf("session %s ends with %v in its archive, with %v here", id, b.Tail, a.Tail)
		}
		whole++
	}
	verified(t, other)
	return whole
}

func hitTexts(hits []api.MemoryHit) (out []string) {
	for _, h := range hits {
		out = append(out, h.Text)
	}
	return out
}

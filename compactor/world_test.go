package compactor

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// world is one session in memory: a forest that checks every event as the
// ledger would, and the halves and bodies that the forest has not.
type world struct {
	forest   lineage.Forest
	session  turns.ID
	head     lineage.Node
	halves   []summary.HalfTurn // of normal turns, all of them, path order
	spans    map[turns.Ref]turns.Span
	bodies   map[turns.Ref]turns.CompactionBody
	names    map[turns.Ref]string
	n        uint64
	limits   turns.Limits
	overhead uint64        // tokens of system and tools
	policy   policy.Policy // whose counter and view the path has; the zero one's are the ledger's
}

var approx = tokens.Approx{}

func newWorld() *world {
	return &world{
		session: testID(1 << 40), spans: map[turns.Ref]turns.Span{}, bodies: map[turns.Ref]turns.CompactionBody{},
		names: map[turns.Ref]string{{}: "none"},
	}
}

func testID(n uint64) (id turns.ID) {
	binary.BigEndian.PutUint64(id[8:], n)
	id[0] = 1
	return id
}

func (w *world) event(kind turns.Kind) *turns.Event {
	w.n++
	e := &turns.Event{
		Version: turns.Version, Kind: kind, ID: testID(w.n), Chain: turns.SessionChain(w.session), Index: w.n,
		Prev: turns.Hash{1}, Recorded: 1, Parent: w.head.Ref, Depth: w.head.Depth + 1, Segment: w.head.Segment,
	}
	if w.head.Ref.IsZero() {
		e.Segment = e.ID
	}
	return e
}

func (w *world) add(e *turns.Event) error {
	if err := e.Validate(); err != nil {
		return err
	}
	n, err := w.forest.AddEvent(e, false)
	if err == nil {
		w.head = n
	}
	return err
}

// turn appends a normal turn; a nil response leaves it pending.
func (w *world) turn(ms []turns.Message, response *turns.Message) error {
	e := w.event(turns.KindTurn)
	var halves []summary.HalfTurn
	e.Tokens = turns.Tokens{Counter: approx.Name(), Messages: tokens.Messages(approx, ms)}
	if len(ms) > 0 {
		e.Halves |= turns.Halves(turns.MessagesHalf)
		e.UserTexts = turns.CountUserTexts(ms)
		halves = append(halves, summary.HalfTurn{Ref: e.Ref(), Depth: e.Depth, Half: turns.MessagesHalf, Messages: ms, Tokens: e.Tokens.Messages})
	}
	if response != nil {
		e.Halves |= turns.Halves(turns.ResponseHalf)
		e.Tokens.Response = approx.Message(response)
		halves = append(halves, summary.HalfTurn{Ref: e.Ref(), Depth: e.Depth, Half: turns.ResponseHalf, Messages: []turns.Message{*response}, Tokens: e.Tokens.Response})
	}
	if err := w.add(e); err != nil {
		return err
	}
	w.halves = append(w.halves, halves...)
	return nil
}

// compaction commits r at the head.
func (w *world) compaction(r Result) error {
	e := w.event(turns.KindCompaction)
	span := r.Span
	e.Span = &span
	e.Tokens = turns.Tokens{Counter: approx.Name(), Messages: tokens.Messages(approx, r.Body.Replacement) + tokens.Messages(approx, r.Body.Nudge), Response: w.path().Saves(r.Span, &r.Body, approx)}
	if err := w.add(e); err != nil {
		return err
	}
	w.spans[e.Ref()], w.bodies[e.Ref()] = span, r.Body
	return w.check()
}

// path is what the daemon would load at the head.
func (w *world) path() view.Path {
	p := view.Path{Session: w.session, Head: w.head, Overhead: w.overhead, Limits: w.limits, View: w.policy.Prune}
	var cut lineage.Cut
	if c := w.head.Compaction; !c.IsZero() {
		n := w.node(c)
		p.InForce = &view.InForce{Node: n, Span: w.spans[c], Body: w.bodies[c]}
		cut = n.Cut
	}
	for _, h := range w.halves {
		if lineage.CutBefore(h.Depth, h.Half) >= cut {
			p.Halves = append(p.Halves, h)
		}
	}
	c := w.policy.CounterOf()
	return p.Settled(c, c.Name() != approx.Name())
}

func (w *world) node(r turns.Ref) lineage.Node {
	ns, err := w.forest.Nodes(r)
	if err != nil {
		panic(err)
	}
	return ns[0]
}

// check is invariant 5, by package lineage: each half is in one state.
func (w *world) check() error {
	path, err := lineage.Path(&w.forest, w.head, 1)
	if err != nil {
		return err
	}
	chain, err := lineage.Chain(&w.forest, w.head)
	if err != nil {
		return err
	}
	return lineage.CheckCoverage(path, chain, w.spans[w.head.Compaction].Elisions)
}

// stub is a summarizer that quotes as much as it may of what it is given.
type stub struct{}

func (stub) Summarize(_ context.Context, in summary.Input) (summary.Output, error) {
	text := in.Previous
	for _, h := range in.Halves {
		for i := range h.Messages {
			if s := summary.TextOf(&h.Messages[i]); s != "" {
				text += "\n" + s
			}
		}
	}
	for approx.Text(summary.Escape(text)) > in.MaxTokens {
		text = strings.ToValidUTF8(text[:len(text)*9/10], "")
	}
	if strings.TrimSpace(text) == "" {
		text = "nothing"
	}
	return summary.Output{Text: text}, nil
}

var stubTiers = []Tier{{Name: "stub", Summarizer: stub{}}}

// compact plans, runs and commits.
func (w *world) compact(pol policy.Policy, trigger string, opt plan.Options) (*plan.Plan, error) {
	pl, err := plan.New(w.path(), pol, turns.Trigger{Kind: trigger}, opt)
	if err != nil {
		return nil, err
	}
	r, err := Run(context.Background(), pl, stubTiers, pl.Path.Counter, nil)
	if err != nil {
		return nil, err
	}
	if err := w.compaction(r); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	return pl, nil
}

func user(s string) []turns.Message { return []turns.Message{turns.TextMessage(turns.User, s)} }

func says(s string, calls ...string) *turns.Message {
	m := turns.Message{Role: turns.Assistant}
	if s != "" {
		m.Parts = append(m.Parts, turns.TextPart(s))
	}
	for _, id := range calls {
		m.Parts = append(m.Parts, turns.Part{Type: turns.ToolCall, ID: id, Name: "run", Arguments: turns.Raw(`{"command":"make ` + id + `"}`)})
	}
	return &m
}

func result(id, text string) turns.Part {
	return turns.Part{Type: turns.ToolCallResponse, ID: id, Response: turns.RawText(text)}
}

func tool(parts ...turns.Part) turns.Message { return turns.Message{Role: turns.Tool, Parts: parts} }

// words is text of about n tokens.
func words(n int) string { return strings.Repeat("abc ", n*37/40+1) }

// checkPairs is the rule that providers hold a context to, written down from
// their documents and from nothing in this package: an assistant message with
// calls is followed at once by results, in tool messages or at the start of a
// user message, one for each call; no result stands anywhere else.
func checkPairs(ms []turns.Message) error {
	want := map[string]int{}
	for i, m := range ms {
		if len(m.Parts) == 0 {
			return fmt.Errorf("message %d is empty", i)
		}
		for j, p := range m.Parts {
			switch {
			case p.Type == turns.ToolCallResponse:
				if want[p.ID] != 1 {
					return fmt.Errorf("message %d part %d: a result of %q, which no call waits for", i, j, p.ID)
				}
				delete(want, p.ID)
			case m.Role == turns.Assistant && p.Type == turns.ToolCall && j > 0 && m.Parts[j-1].Type == turns.ToolCall:
				want[p.ID]++
			case len(want) > 0 && !(m.Role == turns.Assistant && calledIn(m, want)):
				return fmt.Errorf("message %d part %d: %s by %s while %v wait", i, j, p.Type, m.Role, want)
			case p.Type == turns.ToolCall:
				want[p.ID]++
			case m.Role == turns.Tool:
				return fmt.Errorf("message %d part %d: %s in a tool message", i, j, p.Type)
			}
		}
	}
	if len(want) > 0 {
		return fmt.Errorf("%v have no result", want)
	}
	return nil
}

// calledIn reports whether m made all the calls that wait: text and calls of
// one message may stand in any order.
func calledIn(m turns.Message, want map[string]int) bool {
	made := map[string]bool{}
	for _, id := range m.Calls(nil) {
		made[id] = true
	}
	for id := range want {
		if !made[id] {
			return false
		}
	}
	return true
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// builtin is the newest version of a built-in policy.
func builtin(name string) policy.Policy {
	p, ok := policy.Builtin(name)
	if !ok {
		panic("no policy " + name)
	}
	return p
}

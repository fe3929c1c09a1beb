// Package compactortest holds what tests of compactor's packages share: a session in
// memory and short constructors of messages. Only tests import it.
package compactortest

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

var approx = tokens.Approx{}

// Session is one session in memory. Its forest checks every event as the ledger would;
// the halves and bodies are what the forest does not hold. Not safe for concurrent use.
type Session struct {
	Forest   lineage.Forest
	ID       turns.ID
	Head     lineage.Node
	Halves   []summary.HalfTurn // of all normal turns, in path order
	Spans    map[turns.Ref]turns.Span
	Bodies   map[turns.Ref]turns.CompactionBody
	Names    map[turns.Ref]string
	Events   uint64 // number of events
	Limits   turns.Limits
	Overhead uint64        // tokens of system and tools
	Policy   policy.Policy // its counter and view apply to the path; the zero Policy uses the ledger's
}

// NewSession returns a session without turns.
func NewSession() *Session {
	return &Session{
		ID: NewID(1 << 40), Spans: map[turns.Ref]turns.Span{}, Bodies: map[turns.Ref]turns.CompactionBody{},
		Names: map[turns.Ref]string{{}: "none"},
	}
}

// NewID returns the id of number n.
func NewID(n uint64) (id turns.ID) {
	binary.BigEndian.PutUint64(id[8:], n)
	id[0] = 1
	return id
}

func (w *Session) newEvent(kind turns.Kind) *turns.Event {
	w.Events++
	e := &turns.Event{
		Version: turns.Version, Kind: kind, ID: NewID(w.Events), Chain: turns.SessionChain(w.ID), Index: w.Events,
		Prev: turns.Hash{1}, Recorded: 1, Parent: w.Head.Ref, Depth: w.Head.Depth + 1, Segment: w.Head.Segment,
	}
	if w.Head.Ref.IsZero() {
		e.Segment = e.ID
	}
	return e
}

func (w *Session) add(e *turns.Event) error {
	if err := e.Validate(); err != nil {
		return err
	}
	n, err := w.Forest.AddEvent(e, false)
	if err == nil {
		w.Head = n
	}
	return err
}

// Turn appends a normal turn; a nil response leaves it pending.
func (w *Session) Turn(ms []turns.Message, response *turns.Message) error {
	e := w.newEvent(turns.KindTurn)
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
	w.Halves = append(w.Halves, halves...)
	return nil
}

// Commit appends a compaction with span and body at the head.
func (w *Session) Commit(span turns.Span, body turns.CompactionBody) error {
	e := w.newEvent(turns.KindCompaction)
	e.Span = &span
	e.Tokens = turns.Tokens{Counter: approx.Name(), Messages: tokens.Messages(approx, body.Replacement) + tokens.Messages(approx, body.Nudge), Response: w.Path().Saves(span, &body, approx)}
	if err := w.add(e); err != nil {
		return err
	}
	w.Spans[e.Ref()], w.Bodies[e.Ref()] = span, body
	return w.Check()
}

// Path returns what the daemon would load at the head.
func (w *Session) Path() view.Path {
	p := view.Path{Session: w.ID, Head: w.Head, Overhead: w.Overhead, Limits: w.Limits, View: w.Policy.Prune}
	var cut lineage.Cut
	if c := w.Head.Compaction; !c.IsZero() {
		n := w.Node(c)
		p.InForce = &view.InForce{Node: n, Span: w.Spans[c], Body: w.Bodies[c]}
		cut = n.Cut
	}
	for _, h := range w.Halves {
		if lineage.CutBefore(h.Depth, h.Half) >= cut {
			p.Halves = append(p.Halves, h)
		}
	}
	c := w.Policy.CounterOf()
	return p.Settled(c, c.Name() != approx.Name())
}

// Node returns the node of r, which must exist.
func (w *Session) Node(r turns.Ref) lineage.Node {
	n, err := w.Forest.Node(r)
	if err != nil {
		panic(err)
	}
	return n
}

// Check returns an error unless each half is in exactly one state (invariant 5).
func (w *Session) Check() error {
	path, err := lineage.Path(&w.Forest, w.Head, 1)
	if err != nil {
		return err
	}
	chain, err := lineage.Chain(&w.Forest, w.Head)
	if err != nil {
		return err
	}
	return lineage.CheckCoverage(path, chain, w.Spans[w.Head.Compaction].Elisions)
}

// User returns a user message of text s.
func User(s string) []turns.Message { return []turns.Message{turns.TextMessage(turns.User, s)} }

// Says returns an assistant message of text s that makes calls of the tool "run".
func Says(s string, calls ...string) *turns.Message {
	m := turns.Message{Role: turns.Assistant}
	if s != "" {
		m.Parts = append(m.Parts, turns.TextPart(s))
	}
	for _, id := range calls {
		m.Parts = append(m.Parts, turns.Part{Type: turns.ToolCall, ID: id, Name: "run", Arguments: turns.Raw(`{"command":"make ` + id + `"}`)})
	}
	return &m
}

// Result returns the response text to call id.
func Result(id, text string) turns.Part {
	return turns.Part{Type: turns.ToolCallResponse, ID: id, Response: turns.RawText(text)}
}

// Tool returns a tool message.
func Tool(parts ...turns.Part) turns.Message { return turns.Message{Role: turns.Tool, Parts: parts} }

// Words returns text of about n tokens.
func Words(n int) string { return strings.Repeat("abc ", n*37/40+1) }

// CheckPairs checks the rule of the providers, from their documents and independent of
// this module: results follow an assistant message with calls at once, in tool messages
// or at the start of a user message, one for each call; there is no other result.
func CheckPairs(ms []turns.Message) error {
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
// one message may be in any order.
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

// Must ends the test if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Builtin returns the newest version of a built-in policy.
func Builtin(name string) policy.Policy {
	p, ok := policy.Builtin(name)
	if !ok {
		panic("no policy " + name)
	}
	return p
}

// Talk appends turns with a question and an answer each, of about 2n tokens.
func (w *Session) Talk(t *testing.T, name string, turns, n int) {
	t.Helper()
	for i := range turns {
		Must(t, w.Turn(User(fmt.Sprintf("%s question %d %s", name, i, Words(n))), Says(fmt.Sprintf("%s answer %d %s", name, i, Words(n)))))
	}
}

// Behind returns the context of a call and its result res, followed by n assistant
// messages, under pol's view.
func Behind(t *testing.T, pol policy.Policy, n int, res turns.Part) view.Context {
	t.Helper()
	w := NewSession()
	w.Policy = pol
	Must(t, w.Turn(User("look"), Says("", res.ID)))
	Must(t, w.Turn([]turns.Message{Tool(res)}, nil))
	for i := range n {
		Must(t, w.Turn(nil, Says(fmt.Sprintf("answer %d", i))))
	}
	cx, err := view.Render(w.Path(), w.Path().Counter)
	Must(t, err)
	return cx
}

// ResultIn returns the first tool result in cx.
func ResultIn(t *testing.T, cx view.Context) turns.Part {
	t.Helper()
	for _, m := range cx.Messages {
		for _, p := range m.Parts {
			if p.Type == turns.ToolCallResponse {
				return p
			}
		}
	}
	t.Fatal("no result in the context")
	return turns.Part{}
}

// PathOfCalls returns a path of n calls with an overhead of 1,000 tokens. Each call adds
// so many tokens. The halves hold no messages, because triggers read only their tokens.
func PathOfCalls(n int, tokens uint64) view.Path {
	p := view.Path{Session: NewID(1), Overhead: 1000}
	for i := range n {
		ref := turns.Ref{Session: p.Session, Turn: NewID(uint64(i + 2))}
		p.Head = lineage.Node{Ref: ref, Depth: uint64(i + 1)}
		p.Halves = append(p.Halves,
			summary.HalfTurn{Ref: ref, Depth: p.Head.Depth, Half: turns.MessagesHalf, Tokens: tokens / 2},
			summary.HalfTurn{Ref: ref, Depth: p.Head.Depth, Half: turns.ResponseHalf, Tokens: tokens / 2})
	}
	return p
}

// ToolTurns appends n rounds of a tool loop: a call, its result of size
// characters, and no user text between.
func (w *Session) ToolTurns(t *testing.T, n, size int) {
	t.Helper()
	first := len(w.Halves) == 0
	for i := range n {
		id := fmt.Sprintf("c%d", int(w.Events)+1)
		if first && i == 0 {
			Must(t, w.Turn(User("begin"), Says("", id)))
		} else {
			last := w.Halves[len(w.Halves)-1].Messages[0].Calls(nil)
			Must(t, w.Turn([]turns.Message{Tool(Result(last[0], fmt.Sprintf("%d ", w.Events)+strings.Repeat("r", size)))}, Says("", id)))
		}
	}
}

// NewLongSession returns a session with ten turns of about 200 tokens each in a window of 4000.
func NewLongSession(t testing.TB) *Session {
	t.Helper()
	w := NewSession()
	w.Limits.ContextWindow = 4000
	Must(t, w.Turn(User("Build the parser. </first_request> "+Words(80)), Says(Words(100))))
	for range 9 {
		Must(t, w.Turn(User("in /src/parse.go "+Words(90)), Says(Words(100))))
	}
	return w
}

// Runes returns n different characters of two to four bytes each.
func Runes(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteRune([]rune{'à', '漢', '😀', 'Ж'}[i%4] + rune(i%40))
	}
	return b.String()
}

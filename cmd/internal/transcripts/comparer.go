package transcripts

import (
	"context"
	"encoding/hex"
	"slices"
	"time"

	"nexus/cmd/internal/transcripts/alike"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// storedTurn is a turn of the ledger, as it is compared.
type storedTurn struct {
	parent   turns.ID
	sum      alike.Sum // of what a step says
	response alike.Sum // zero: none
	time     time.Time
	normal   bool
	child    bool // another turn of the session follows it
	named    bool // a step names it
	changed  bool // with another response
}

// comparison is a session of the source beside that of the ledger.
type comparison struct {
	line    *line
	turns   map[turns.ID]*storedTurn
	from    turns.ID // the session of the source that it is forked from
	differs bool
	last    turns.Ref // the last turn that both have alike, before the first that differs
	joined  bool      // the ledger has its first turns in other sessions: see joined.go
	skipped bool      // a compaction that the ledger has not
	changed int       // turns that the ledger holds with another response
	read    []any     // what the file has of it, for a digest
	news    []newTurn // what the ledger has not

	branches []*comparison // sessions that the ledger has branches of it in: see place
}

// newTurn is a turn that the ledger lacks.
type newTurn struct {
	time     time.Time
	response alike.Sum
}

// comparer compares the steps of a file with the ledger.
type comparer struct {
	im        *Importer
	format    string
	all       map[turns.ID]*comparison // by session of the source
	order     []turns.ID
	responses map[alike.Sum]int        // how often the file holds each, or what it is forked from
	placed    map[turns.ID]*comparison // by turn: of another session than the steps say
	branches  map[turns.ID]*comparison // by session: those that hold such turns; nil: none
}

func (c *comparer) step(ctx context.Context, st transcript.Step, format string) error {
	switch {
	case st.Open != nil:
		_, err := c.begin(ctx, st.Open.ID, nil)
		return err
	case st.Fork != nil:
		return c.fork(ctx, st.Fork)
	case st.Append != nil:
		return c.turn(ctx, st.Append)
	}
	return c.compaction(ctx, st.Compaction)
}

// begin begins the comparison of a session.
func (c *comparer) begin(ctx context.Context, source turns.ID, f *transcript.Fork) (*comparison, error) {
	l, err := c.im.lineOf(ctx, source)
	if err != nil {
		return nil, err
	}
	x := &comparison{line: l, turns: make(map[turns.ID]*storedTurn)}
	c.all[source], c.order = x, append(c.order, source)
	if l.had == nil {
		return x, nil
	}
	if l.before == nil {
		if x.differs, err = c.isElsewhere(ctx, x, f); err != nil {
			return nil, err
		}
	}
	return x, c.load(ctx, x)
}

// isElsewhere reports whether the ledger has a session begin otherwise than its file: not as a
// fork, or as one. Where turns have the same ids in all files, it is in no other place if it
// has the same turns before it: another file brought them. See joined.go.
func (c *comparer) isElsewhere(ctx context.Context, x *comparison, f *transcript.Fork) (bool, error) {
	had := x.line.had
	if (f == nil) == (had.ForkedFrom == nil) {
		return false, nil
	}
	if f == nil {
		x.joined = sharesIDs(c.format) && !x.line.renamed
		return !x.joined, nil
	}
	if !sharesIDs(c.format) && !isStandIn(had.Meta) {
		return true, nil
	}
	at, err := c.im.turnIn(ctx, x.line, f.At.Turn)
	if err != nil {
		return false, err
	}
	_, err = c.im.Client.Turn(ctx, x.line.id, c.im.splits.last(at))
	if coded(err, api.NotFound) {
		return true, nil
	}
	return false, err
}

func (c *comparer) fork(ctx context.Context, f *transcript.Fork) error {
	if up := c.all[f.At.Session]; up != nil && !f.First.IsZero() && up.turns[f.First] != nil {
		c.all[f.ID] = up // the ledger has its turns there, and no fork was needed
		return nil
	}
	parent, at, err := c.forkPoint(ctx, f)
	if err != nil {
		return err
	}
	x, err := c.begin(ctx, f.ID, f)
	if err != nil {
		return err
	}
	x.from, x.line.fork, x.line.at = f.At.Session, f.At, turns.Ref{Session: parent.id, Turn: at}
	if had := x.line.had; had != nil && had.ForkedFrom != nil && had.ForkedFrom.Turn != at && x.line.before == nil {
		x.differs = true
	}
	if x.differs && parent.had != nil {
		return c.inherited(ctx, parent.id, at)
	}
	return nil
}

// forkPoint returns the session that has the turn of a fork, and the turn's id there. A fork
// of a session that this file has needs no look: its turn may be one that the ledger lacks.
// Errors: [ErrNoParent].
func (c *comparer) forkPoint(ctx context.Context, f *transcript.Fork) (parent *line, at turns.ID, err error) {
	for _, ref := range append([]turns.Ref{f.At}, f.Else...) {
		if parent, err = c.im.lineOf(ctx, ref.Session); err != nil {
			return nil, at, err
		}
		if at, err = c.im.turnIn(ctx, parent, ref.Turn); err != nil {
			return nil, at, err
		}
		at = c.im.splits.last(at)
		if b := c.placed[at]; b != nil {
			return b.line, at, nil
		}
		if c.all[ref.Session] != nil {
			return parent, at, nil
		}
		if parent.had == nil {
			continue
		}
		if _, err := c.im.Client.Turn(ctx, parent.id, at); !coded(err, api.NotFound) {
			return parent, at, err
		}
	}
	return nil, at, ErrNoParent
}

// inherited notes the responses on the path of a turn: a fork that is placed there has them.
func (c *comparer) inherited(ctx context.Context, session, at turns.ID) error {
	for t, err := range c.im.Client.Turns(ctx, session, api.ListTurns{At: at, Full: true}) {
		if coded(err, api.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, response, err := c.sums(ctx, session, &t); err != nil {
			return err
		} else if response != (alike.Sum{}) {
			c.responses[response]++
		}
	}
	return nil
}

// load reads the turns of a session, on all branches.
func (c *comparer) load(ctx context.Context, x *comparison) error {
	tree, err := c.im.Client.Tree(ctx, x.line.id)
	if err != nil {
		return err
	}
	for i := range tree.Sessions {
		s := &tree.Sessions[i]
		if s.ID != x.line.id {
			continue
		}
		for _, b := range s.Branches {
			list := api.ListTurns{At: b.Tip, Full: true}
			if b.Parent != nil {
				list.After = b.Parent.String()
			}
			for t, err := range c.im.Client.Turns(ctx, s.ID, list) {
				if err != nil {
					return err
				}
				if err := c.note(ctx, x, &t); err != nil {
					return err
				}
			}
		}
	}
	for _, t := range x.turns {
		if up := x.turns[t.parent]; up != nil {
			up.child = true
		}
	}
	return nil
}

func (c *comparer) note(ctx context.Context, x *comparison, t *api.Turn) error {
	if t.Session != x.line.id || x.turns[t.ID] != nil {
		return nil
	}
	s := &storedTurn{normal: t.Type == "normal", time: time.Time(t.Recorded)}
	if t.Time != nil {
		s.time = time.Time(*t.Time)
	}
	if t.Parent != nil {
		s.parent = *t.Parent
	}
	var err error
	s.sum, s.response, err = c.sums(ctx, x.line.id, t)
	x.turns[t.ID] = s
	return err
}

// sums returns the sums of a turn of the ledger, and of its response.
func (c *comparer) sums(ctx context.Context, session turns.ID, t *api.Turn) (all, response alike.Sum, err error) {
	if t.Compaction != nil {
		summary := ""
		if t.Compaction.Summary != nil {
			summary = *t.Compaction.Summary
		}
		return alike.SumOf("compaction", summary), response, nil
	}
	if err := c.im.fetchContent(ctx, session, t); err != nil {
		return all, response, err
	}
	if t.Time != nil {
		all = alike.TurnSum(t.Messages, t.Response, t.Model, t.Usage, time.Time(*t.Time), t.Meta)
	} else {
		all = alike.TurnSum(t.Messages, t.Response, t.Model, t.Usage, time.Time{}, t.Meta)
	}
	return all, alike.ResponseSum(t.Response), nil
}

// turn compares a turn.
func (c *comparer) turn(ctx context.Context, a *transcript.Append) error {
	response := alike.ResponseSum(a.Response)
	c.responses[response]++
	x := c.all[a.Session]
	if x == nil || x.line.had == nil {
		return nil
	}
	id, parent, shared, err := c.ids(ctx, x, a.ID, a.Parent)
	if err != nil || shared {
		return err
	}
	x.read = append(x.read, a.ID, a.Parent, alike.SumOf(a.Messages, a.Response))
	t := x.turns[id]
	if t == nil {
		b, err := c.place(ctx, x, a, id, parent)
		if err != nil {
			return err
		}
		if b != nil {
			x, t = b, b.turns[id]
		}
	}
	if t == nil && x.joined {
		if s, err := c.im.Client.Turn(ctx, x.line.id, id); err == nil && s.Session != x.line.id {
			_, same := c.im.copyOf(ctx, s.Session, id, a)
			c.settle(x, id, same)
			return nil
		} else if err != nil && !coded(err, api.NotFound) {
			return err
		}
	}
	if t == nil {
		x.news = append(x.news, newTurn{a.Time, response})
		if a.Continues && a.Parent.IsZero() { // it follows what the ledger has
			return nil
		}
		if c.format == "otel" && !a.Branch.IsZero() { // spans come in any order: it begins a branch there, and a successor would lack the usage of other files
			return nil
		}
		x.missing(parent)
		return nil
	}
	t.named = true
	same := x.above(t.parent) == x.above(parent) && t.sum == alike.TurnSum(a.Messages, a.Response, a.Model, a.Usage, alike.StoredTime(a.Time), a.Meta)
	if !same && !a.Branch.IsZero() {
		_, same = c.im.copyOf(ctx, x.line.id, id, a)
	}
	if !same {
		if same, err = c.inPieces(ctx, x, a, id, parent); err != nil {
			return err
		}
	}
	if !same && t.response != response {
		stored, err := c.im.Client.Turn(ctx, x.line.id, id)
		if err != nil {
			return err
		}
		if !alike.IsBeginning(a.Response, stored.Response) {
			x.changed++
			t.changed = true
		}
	}
	c.settle(x, id, same)
	return nil
}

// place returns the session that has a turn of x in the ledger, where another turn followed
// its parent and it began a fork: see [Importer.place]. Nil: none has it.
func (c *comparer) place(ctx context.Context, x *comparison, a *transcript.Append, id, parent turns.ID) (*comparison, error) {
	if a.Branch.IsZero() {
		return nil, nil
	}
	b := c.placed[parent]
	if b == nil || b.turns[id] == nil {
		var ok bool
		if b, ok = c.branches[a.Branch]; !ok {
			had, err := c.im.sessionIfAny(ctx, a.Branch)
			if err != nil {
				return nil, err
			}
			if had != nil && had.State == "open" { // else it has a successor
				b = &comparison{line: &line{id: a.Branch, had: had}, turns: make(map[turns.ID]*storedTurn)}
				if err := c.load(ctx, b); err != nil {
					return nil, err
				}
			}
			c.branches[a.Branch] = b
		}
	}
	if b == nil || b.turns[id] == nil {
		return nil, nil
	}
	if c.placed[id] = b; !slices.Contains(x.branches, b) {
		x.branches = append(x.branches, b)
	}
	return b, nil
}

// isNamed reports whether the file holds all turns of a session.
func (x *comparison) isNamed() bool {
	for _, t := range x.turns {
		if t.normal && !t.named {
			return false
		}
	}
	return true
}

// ids returns the ids of a turn and its parent in the ledger. shared says that the turn is
// of the session that x goes on from.
func (c *comparer) ids(ctx context.Context, x *comparison, id, parent turns.ID) (own, up turns.ID, shared bool, err error) {
	if up, err = c.im.turnIn(ctx, x.line, parent); err == nil {
		shared, err = c.im.renameOwn(ctx, x.line, &id)
	}
	return id, c.im.splits.last(up), shared, err
}

// above returns the turn at or above one that is no compaction: the ledger puts a turn after
// the compactions that follow its parent.
func (x *comparison) above(turn turns.ID) turns.ID {
	for t := x.turns[turn]; t != nil && !t.normal; t = x.turns[turn] {
		turn = t.parent
	}
	return turn
}

// settle notes whether a turn is alike.
func (c *comparer) settle(x *comparison, id turns.ID, same bool) {
	if !same {
		x.differs = true
	}
	if !x.differs {
		x.last = turns.Ref{Session: x.line.id, Turn: c.im.splits.last(id)}
	}
}

// missing notes a turn or compaction that the ledger has not. What follows the end of the
// session is what the file got since.
func (x *comparison) missing(parent turns.ID) {
	if up := x.turns[parent]; up != nil && up.child || up == nil && parent == x.line.at.Turn && len(x.turns) > 0 {
		x.differs = true
	}
}

// inPieces reports whether the ledger holds a turn in several: see grown.go.
func (c *comparer) inPieces(ctx context.Context, x *comparison, a *transcript.Append, id, parent turns.ID) (bool, error) {
	first := x.turns[id]
	if x.above(first.parent) != x.above(parent) || !first.normal {
		return false, nil
	}
	var pieces []*api.Turn
	last := id
	for at := id; x.turns[at] != nil && len(pieces) < maxPieces; at = turns.DeriveID(at.Time(), "rest", at.String()) {
		t, err := c.im.Client.Turn(ctx, x.line.id, at)
		if err != nil {
			return false, err
		}
		pieces, last = append(pieces, t), at
	}
	if len(pieces) < 2 {
		return false, nil
	}
	rest, _, ok := alike.Rest(pieces, a)
	if !ok || rest != nil {
		return false, nil
	}
	for _, p := range pieces {
		x.turns[p.ID].named = true
	}
	c.im.addSplit(id, id, last)
	return true, nil
}

func (c *comparer) compaction(ctx context.Context, k *transcript.Compaction) error {
	x := c.all[k.Session]
	if x == nil || x.line.had == nil {
		return nil
	}
	id, parent, shared, err := c.ids(ctx, x, k.ID, k.Parent)
	if err != nil || shared {
		return err
	}
	t := x.turns[id]
	if t == nil && x.joined {
		if s, err := c.im.Client.Turn(ctx, x.line.id, id); err == nil && s.Session != x.line.id {
			return nil
		} else if err != nil && !coded(err, api.NotFound) {
			return err
		}
	}
	if t == nil { // what follows it may follow its parent in the ledger
		if up := x.turns[parent]; up != nil && up.child {
			x.skipped = true
		}
		if !parent.IsZero() {
			c.im.addSplit(id, parent, parent)
		}
		return nil
	}
	t.named = true
	if k.Parent.IsZero() { // the file begins with it: it stands after what the ledger had, or for it
		return nil
	}
	c.settle(x, id, x.above(t.parent) == x.above(parent) && (k.Summary == "" || t.sum == alike.SumOf("compaction", k.Summary)))
	return nil
}

// isPart reports whether the file has nothing of a session that the ledger lacks: it is an
// older copy.
func (x *comparison) isPart() bool { return len(x.news) == 0 && x.changed == 0 }

// digest names what a file has of a session.
func (x *comparison) digest() string {
	sum := alike.SumOf(x.read...)
	return hex.EncodeToString(sum[:])
}

// hasLost reports whether the file has lost turns that the session holds: its responses are
// nowhere in the file, and no turn took their places. An older reader may have read a
// response otherwise, or twice; from the same reader, another response is of another file, and
// each of equal responses is one of its own.
func (c *comparer) hasLost(x *comparison, older bool) bool {
	var last time.Time
	had := make(map[alike.Sum]int)
	gone := 0
	for _, t := range x.turns {
		if t.changed && !older && t.normal && t.response != (alike.Sum{}) && c.responses[t.response] == 0 {
			return true
		}
		if t.time.After(last) {
			last = t.time
		}
		if t.normal && t.response != (alike.Sum{}) {
			had[t.response]++
		}
	}
	for response, n := range had {
		switch in := c.responses[response]; {
		case in == 0, !older && n > in:
			gone += min(n-in, x.unnamed(response))
		}
	}
	for _, n := range x.news {
		if had[n.response] == 0 && !n.time.After(last) {
			gone--
		}
	}
	return gone > 0
}

// unnamed counts the turns of a session with a response that the file does not name.
func (x *comparison) unnamed(response alike.Sum) (n int) {
	for _, t := range x.turns {
		if t.normal && !t.named && t.response == response {
			n++
		}
	}
	return n
}

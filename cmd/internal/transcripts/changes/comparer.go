package changes

import (
	"context"
	"slices"

	"nexus/cmd/internal/transcripts/alike"
	"nexus/cmd/internal/transcripts/sessionmeta"
	"nexus/cmd/internal/transcripts/steps"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// step compares a step.
func (c *comparer) step(ctx context.Context, st transcript.Step) error {
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
	l, err := c.w.LineOf(ctx, source)
	if err != nil {
		return nil, err
	}
	x := &comparison{line: l, turns: make(map[turns.ID]*storedTurn)}
	c.all[source], c.order = x, append(c.order, source)
	if l.Had == nil {
		return x, nil
	}
	if l.Before == nil {
		if x.differs, err = c.isElsewhere(ctx, x, f); err != nil {
			return nil, err
		}
	}
	return x, c.load(ctx, x)
}

// isElsewhere reports whether the ledger has a session begin otherwise than its file: not as a
// fork, or as one. Where turns have the same ids in all files, it is in no other place if it
// has the same turns before it: another file brought them. See steps/joined.go.
func (c *comparer) isElsewhere(ctx context.Context, x *comparison, f *transcript.Fork) (bool, error) {
	had := x.line.Had
	if (f == nil) == (had.ForkedFrom == nil) {
		return false, nil
	}
	if f == nil {
		x.joined = steps.SharesIDs(c.format) && !x.line.Renamed
		return !x.joined, nil
	}
	if !steps.SharesIDs(c.format) && !sessionmeta.IsStandIn(had.Meta) {
		return true, nil
	}
	at, err := c.w.TurnIn(ctx, x.line, f.At.Turn)
	if err != nil {
		return false, err
	}
	_, err = c.w.Client.Turn(ctx, x.line.ID, c.w.LastTurn(at))
	if api.HasCode(err, api.NotFound) {
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
	x.from, x.line.Fork, x.line.At = f.At.Session, f.At, turns.Ref{Session: parent.ID, Turn: at}
	if had := x.line.Had; had != nil && had.ForkedFrom != nil && had.ForkedFrom.Turn != at && x.line.Before == nil {
		x.differs = true
	}
	if x.differs && parent.Had != nil {
		return c.inherited(ctx, parent.ID, at)
	}
	return nil
}

// forkPoint returns the session that has the turn of a fork, and the turn's id there. A fork
// of a session that this file has needs no look: its turn may be one that the ledger lacks.
// Errors: [steps.ErrNoParent].
func (c *comparer) forkPoint(ctx context.Context, f *transcript.Fork) (parent *steps.Line, at turns.ID, err error) {
	for _, ref := range append([]turns.Ref{f.At}, f.Else...) {
		if parent, err = c.w.LineOf(ctx, ref.Session); err != nil {
			return nil, at, err
		}
		if at, err = c.w.TurnIn(ctx, parent, ref.Turn); err != nil {
			return nil, at, err
		}
		at = c.w.LastTurn(at)
		if b := c.placed[at]; b != nil {
			return b.line, at, nil
		}
		if c.all[ref.Session] != nil {
			return parent, at, nil
		}
		if parent.Had == nil {
			continue
		}
		if _, err := c.w.Client.Turn(ctx, parent.ID, at); !api.HasCode(err, api.NotFound) {
			return parent, at, err
		}
	}
	return nil, at, steps.ErrNoParent
}

// turn compares a turn.
func (c *comparer) turn(ctx context.Context, a *transcript.Append) error {
	response := alike.ResponseSum(a.Response)
	c.responses[response]++
	x := c.all[a.Session]
	if x == nil || x.line.Had == nil {
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
		if s, err := c.w.Client.Turn(ctx, x.line.ID, id); err == nil && s.Session != x.line.ID {
			_, same := c.w.CopyOf(ctx, s.Session, id, a)
			c.settle(x, id, same)
			return nil
		} else if err != nil && !api.HasCode(err, api.NotFound) {
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
		_, same = c.w.CopyOf(ctx, x.line.ID, id, a)
	}
	if !same {
		if same, err = c.inPieces(ctx, x, a, id, parent); err != nil {
			return err
		}
	}
	if !same && t.response != response {
		stored, err := c.w.Client.Turn(ctx, x.line.ID, id)
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
// its parent and it began a fork: see steps/placed.go. Nil: none has it.
func (c *comparer) place(ctx context.Context, x *comparison, a *transcript.Append, id, parent turns.ID) (*comparison, error) {
	if a.Branch.IsZero() {
		return nil, nil
	}
	b := c.placed[parent]
	if b == nil || b.turns[id] == nil {
		var ok bool
		if b, ok = c.branches[a.Branch]; !ok {
			had, err := c.w.SessionIfAny(ctx, a.Branch)
			if err != nil {
				return nil, err
			}
			if had != nil && had.State == "open" { // else it has a successor
				b = &comparison{line: &steps.Line{ID: a.Branch, Had: had}, turns: make(map[turns.ID]*storedTurn)}
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

// ids returns the ids of a turn and its parent in the ledger. shared says that the turn is
// of the session that x goes on from.
func (c *comparer) ids(ctx context.Context, x *comparison, id, parent turns.ID) (own, up turns.ID, shared bool, err error) {
	if up, err = c.w.TurnIn(ctx, x.line, parent); err == nil {
		shared, err = c.w.RenameOwn(ctx, x.line, &id)
	}
	return id, c.w.LastTurn(up), shared, err
}

// settle notes whether a turn is alike.
func (c *comparer) settle(x *comparison, id turns.ID, same bool) {
	if !same {
		x.differs = true
	}
	if !x.differs {
		x.last = turns.Ref{Session: x.line.ID, Turn: c.w.LastTurn(id)}
	}
}

// inPieces reports whether the ledger holds a turn in several: see steps/grown.go.
func (c *comparer) inPieces(ctx context.Context, x *comparison, a *transcript.Append, id, parent turns.ID) (bool, error) {
	first := x.turns[id]
	if x.above(first.parent) != x.above(parent) || !first.normal {
		return false, nil
	}
	var pieces []*api.Turn
	last := id
	for at := id; x.turns[at] != nil && len(pieces) < steps.MaxPieces; at = turns.DeriveID(at.Time(), "rest", at.String()) {
		t, err := c.w.Client.Turn(ctx, x.line.ID, at)
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
	c.w.AddSplit(id, id, last)
	return true, nil
}

func (c *comparer) compaction(ctx context.Context, k *transcript.Compaction) error {
	x := c.all[k.Session]
	if x == nil || x.line.Had == nil {
		return nil
	}
	id, parent, shared, err := c.ids(ctx, x, k.ID, k.Parent)
	if err != nil || shared {
		return err
	}
	t := x.turns[id]
	if t == nil && x.joined {
		if s, err := c.w.Client.Turn(ctx, x.line.ID, id); err == nil && s.Session != x.line.ID {
			return nil
		} else if err != nil && !api.HasCode(err, api.NotFound) {
			return err
		}
	}
	if t == nil { // what follows it may follow its parent in the ledger
		if up := x.turns[parent]; up != nil && up.child {
			x.skipped = true
		}
		if !parent.IsZero() {
			c.w.AddSplit(id, parent, parent)
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

package changes

import (
	"context"
	"iter"
	"strconv"

	"nexus/cmd/internal/transcripts/alike"
	"nexus/cmd/internal/transcripts/sessionmeta"
	"nexus/cmd/internal/transcripts/steps"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/transcript"
)

// Find compares the steps of a file with the ledger, and says what gets a successor. format is the
// name of the file's format; all, that an export of this ledger counts as any transcript. The plan
// is empty for a transcript that this ledger wrote. It stores nothing. Errors: those of the steps
// and of the ledger, and [steps.ErrNoParent].
func Find(ctx context.Context, c *client.Client, file iter.Seq2[transcript.Step, error], format string, all bool) (*steps.Plan, error) {
	probe := steps.Writer{Client: c}
	x := comparer{w: &probe, format: format, all: make(map[turns.ID]*comparison), responses: make(map[alike.Sum]int),
		placed: make(map[turns.ID]*comparison), branches: make(map[turns.ID]*comparison)}
	first := true
	for st, err := range file {
		if err != nil {
			return nil, err
		}
		if first {
			first = false
			in := steps.Intake{Writer: &probe, Report: &tally.Report{Format: format}, All: all}
			if isOurs, err := in.IsOurs(ctx, st); isOurs || err != nil {
				return new(steps.Plan), err
			}
		}
		st, _ = steps.WithoutExcess(st)
		if err := x.step(ctx, probe.BoundTime(st)); err != nil {
			return nil, err
		}
	}
	return x.plan(ctx)
}

// plan decides what gets a successor.
func (c *comparer) plan(ctx context.Context) (*steps.Plan, error) {
	p := &steps.Plan{Successors: make(map[turns.ID]*steps.Renewal)}
	for _, source := range c.order { // a parent before its forks
		x := c.all[source]
		old := x.line.Had
		if old == nil {
			continue
		}
		older := sessionmeta.IsOlder(old, c.format)
		if p.Successors[x.from] != nil && !p.Successors[x.from].Lost || x.skipped && older {
			x.differs = true
		}
		for _, b := range x.branches {
			x.differs = x.differs || b.differs
		}
		if !x.differs {
			p.Same = append(p.Same, old)
			continue
		}
		r := &steps.Renewal{ID: successorID(old.ID, c.format), Old: old, Lost: c.hasLost(x, older)}
		if r.Lost && x.isPart() {
			p.Less = append(p.Less, old.ID)
			continue
		}
		if !older { // the reader is the same, and the file is another: once for each that it can be
			r.ID = turns.DeriveID(old.ID.Time(), "refresh", successorID(source, c.format).String(), x.digest())
			had, err := c.w.SessionIfAny(ctx, r.ID)
			if err != nil {
				return nil, err
			}
			if r.ID == old.ID || had != nil && !sessionmeta.Successor(had.Meta).IsZero() {
				p.Less = append(p.Less, old.ID)
				continue
			}
		}
		if r.Lost && x.from.IsZero() {
			r.Point = x.last
		}
		for _, b := range x.branches {
			if b.isNamed() {
				r.Also = append(r.Also, b.line.Had)
			}
		}
		p.Successors[source] = r
	}
	return p, nil
}

// successorID returns the id of a session's successor that the present reader makes.
func successorID(session turns.ID, format string) turns.ID {
	return turns.DeriveID(session.Time(), "refresh", session.String(), format, strconv.Itoa(sessionmeta.ReaderVersion(format)))
}

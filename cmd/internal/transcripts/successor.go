package transcripts

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json"

	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// A session that an import stored may have a successor, which holds what a later reading
// of the transcript found: see refresh.go. The steps of a transcript name the session by
// the id that its reader derives. This file maps that to the session of the ledger that
// takes them.

// line is a session of a source, as the ledger has it.
type line struct {
	id      turns.ID     // in the ledger
	renamed bool         // a successor: its turns have ids of their own
	before  *line        // what it goes on from, sharing the turns up to a fork; nil: nothing
	had     *api.Session // nil: the ledger lacks it
	fork    turns.Ref    // where the source has it forked; zero: nowhere
	at      turns.Ref    // the same, in the ledger
}

// links are the members of a session's meta that lead to its successor.
type links struct {
	SupersededBy turns.Raw `json:"superseded_by"` // it holds all that this one holds
	ContinuedBy  turns.Raw `json:"continued_by"`  // the file has lost what this one holds
	Reader       struct {
		Version int `json:"version"`
	} `json:"reader"`
}

func linksOf(meta turns.Raw) (l links) {
	_ = json.Unmarshal(meta, &l) // the client's meta may be anything
	return l
}

// next returns the successor; zero: there is none.
func (l *links) next() turns.ID {
	for _, raw := range []turns.Raw{l.SupersededBy, l.ContinuedBy} {
		s, _ := raw.Text()
		if id, err := turns.ParseID(s); err == nil {
			return id
		}
	}
	return turns.ID{}
}

// maxSuccessors bounds how many times a session was read anew.
const maxSuccessors = 1000

// lineOf returns the session of the ledger that takes the steps of a session of the source.
func (im *Importer) lineOf(ctx context.Context, source turns.ID) (*line, error) {
	if l := im.lines[source]; l != nil {
		return l, nil
	}
	l, err := im.lookUp(ctx, source)
	if err != nil {
		return nil, err
	}
	if r := im.renewing[source]; r != nil {
		had, err := im.sessionIfAny(ctx, r.id)
		if err != nil {
			return nil, err
		}
		next := &line{id: r.id, renamed: true, had: had}
		if !r.point.IsZero() {
			next.before = l
		}
		l = next
	}
	im.keep(source, l)
	return l, nil
}

func (im *Importer) keep(source turns.ID, l *line) {
	if im.lines == nil {
		im.lines, im.byID = make(map[turns.ID]*line), make(map[turns.ID]*line)
	}
	im.lines[source], im.byID[l.id] = l, l
}

// lookUp follows the successors of a session.
func (im *Importer) lookUp(ctx context.Context, source turns.ID) (*line, error) {
	had, err := im.sessionIfAny(ctx, source)
	l := &line{id: source, had: had}
	for n := 0; err == nil && had != nil && n < maxSuccessors; n++ {
		was := linksOf(had.Meta)
		next := was.next()
		if next.IsZero() {
			break
		}
		if had, err = im.sessionIfAny(ctx, next); err != nil || had == nil {
			break // of another agent, or not there: the meta is the client's
		}
		to := &line{id: next, renamed: true, had: had}
		if f := had.ForkedFrom; f != nil && f.Session == l.id {
			to.before = l
		}
		l = to
	}
	if err == nil && l.had != nil && l.had.ForkedFrom == nil && isStandIn(l.had.Meta) {
		own, err := im.sessionIfAny(ctx, ownOf(l.id))
		if own != nil || err != nil {
			return &line{id: ownOf(l.id), had: own}, err
		}
	}
	return l, err
}

// sessionIfAny returns a session of the agent, nil if there is none.
func (im *Importer) sessionIfAny(ctx context.Context, id turns.ID) (*api.Session, error) {
	s, err := im.Client.Session(ctx, id)
	if coded(err, api.NotFound) {
		return nil, nil
	}
	return s, err
}

// turnIn returns the id of a turn of the source's in line l: one of its own, or one that it
// inherits.
func (im *Importer) turnIn(ctx context.Context, l *line, turn turns.ID) (turns.ID, error) {
	if turn.IsZero() {
		return turn, nil
	}
	if id, ok := im.renamed[turn]; ok {
		return id, nil
	}
	if turn == l.fork.Turn {
		return l.at.Turn, nil
	}
	return im.ownTurn(ctx, l, turn)
}

// ownTurn returns the id of a turn of l's own.
func (im *Importer) ownTurn(ctx context.Context, l *line, turn turns.ID) (turns.ID, error) {
	if !l.renamed {
		return turn, nil
	}
	if l.before != nil && l.had != nil { // it may be one that the fork shares
		id, err := im.ownTurn(ctx, l.before, turn)
		if err != nil {
			return id, err
		}
		t, err := im.Client.Turn(ctx, l.id, id)
		if err == nil && t.Session != l.id {
			return id, nil
		}
		if err != nil && !coded(err, api.NotFound) {
			return id, err
		}
	}
	return turns.DeriveID(turn.Time(), "refresh", l.id.String(), turn.String()), nil
}

// refIn returns a turn of another session of the source, as the ledger has it.
func (im *Importer) refIn(ctx context.Context, r turns.Ref) (turns.Ref, error) {
	if r.IsZero() {
		return r, nil
	}
	l, err := im.lineOf(ctx, r.Session)
	if err != nil {
		return r, err
	}
	t, err := im.turnIn(ctx, l, r.Turn)
	return turns.Ref{Session: l.id, Turn: t}, err
}

// ErrSuperseded: the session that took the steps has a successor since.
var ErrSuperseded = errors.New("another import has read the transcript anew meanwhile")

// rename returns a step with the ids that its session and turns have in the ledger. shared
// says that the turn of the step is one that a successor shares with the session before it.
func (im *Importer) rename(ctx context.Context, st transcript.Step) (out transcript.Step, shared bool, err error) {
	st = im.intoOwn(st)
	switch {
	case st.Open != nil:
		o := *st.Open
		l, err := im.lineOf(ctx, o.ID)
		if err != nil {
			return st, false, err
		}
		o.ID = l.id
		o.SpawnedBy, err = im.refIn(ctx, o.SpawnedBy)
		return transcript.Step{Open: &o}, false, err
	case st.Fork != nil:
		f, err := im.renameFork(ctx, st.Fork)
		return transcript.Step{Fork: f}, false, err
	case st.Append != nil:
		a := *st.Append
		l, err := im.lineOf(ctx, a.Session)
		if err != nil {
			return st, false, err
		}
		if a.Parent, err = im.turnIn(ctx, l, a.Parent); err == nil {
			shared, err = im.renameOwn(ctx, l, &a.ID)
		}
		a.Session = l.id
		return transcript.Step{Append: &a}, shared, err
	}
	k := *st.Compaction
	l, err := im.lineOf(ctx, k.Session)
	if err != nil {
		return st, false, err
	}
	if k.Parent, err = im.turnIn(ctx, l, k.Parent); err == nil {
		k.FirstKept, err = im.turnIn(ctx, l, k.FirstKept)
	}
	k.Cleared = append([]transcript.ClearedResult(nil), k.Cleared...)
	for i := range k.Cleared {
		if err == nil {
			k.Cleared[i].Turn, err = im.turnIn(ctx, l, k.Cleared[i].Turn)
		}
	}
	if err == nil {
		shared, err = im.renameOwn(ctx, l, &k.ID)
	}
	k.Session = l.id
	return transcript.Step{Compaction: &k}, shared, err
}

// renameOwn replaces the id of a turn of l. shared says that the turn is not l's, but of
// the session that l goes on from.
func (im *Importer) renameOwn(ctx context.Context, l *line, id *turns.ID) (shared bool, err error) {
	if !l.renamed {
		return false, nil
	}
	to, err := im.ownTurn(ctx, l, *id)
	if err != nil {
		return false, err
	}
	if im.renamed == nil {
		im.renamed = make(map[turns.ID]turns.ID)
	}
	im.renamed[*id] = to
	shared = l.before != nil && to != turns.DeriveID(id.Time(), "refresh", l.id.String(), id.String())
	*id = to
	return shared, nil
}

// renameFork returns a fork as the ledger has it. One that the ledger has stays where it is,
// though its parent has a successor since.
func (im *Importer) renameFork(ctx context.Context, f *transcript.Fork) (*transcript.Fork, error) {
	l, err := im.lineOf(ctx, f.ID)
	if err != nil {
		return nil, err
	}
	if f.At.Session == f.ID { // see intoOwn
		out := *f
		out.ID, out.At.Session = l.id, l.id
		return &out, nil
	}
	if err := im.noteShortCopy(ctx, l, f); err != nil {
		return nil, err
	}
	at, err := im.refIn(ctx, f.At)
	if err != nil {
		return nil, err
	}
	if l.had != nil && l.had.ForkedFrom == nil && isStandIn(l.had.Meta) {
		_, err := im.Client.Turn(ctx, l.id, f.At.Turn)
		if coded(err, api.NotFound) { // the fork's copy ends before; else the file goes on there
			own := ownOf(l.id)
			had, err := im.sessionIfAny(ctx, own)
			if err != nil {
				return nil, err
			}
			l = &line{id: own, had: had}
			im.keep(f.ID, l)
		}
	}
	if l.had != nil && l.had.ForkedFrom != nil && l.had.ForkedFrom.Turn == im.splits.last(f.At.Turn) {
		at = turns.Ref{Session: l.had.ForkedFrom.Session, Turn: f.At.Turn}
	}
	l.fork, l.at = f.At, at
	out := *f
	out.ID, out.At = l.id, at
	out.SpawnedBy, err = im.refIn(ctx, f.SpawnedBy)
	return &out, err
}

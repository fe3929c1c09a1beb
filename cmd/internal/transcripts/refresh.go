package transcripts

import (
	"context"
	"errors"
	"strconv"

	"nexus/cmd/internal/transcripts/alike"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// An import with Refresh compares what the present reader reads in a file with what the
// ledger holds of it. A session that reads differently gets a successor, which holds what is
// read now: a session of its own, whose ids are derived from those of the session and the
// version of the reader, so that the same refresh again changes nothing. The old session is
// closed, and its meta names the successor. Lists and costs leave it out.
//
// Nothing is hidden that the file does not hold. Where the reader is the one that read the
// session before, another response is of another file: one that was written anew, or that
// names the same session. A file that has nothing which the ledger lacks is an older copy:
// nothing is made of it. And no content of a file is made a successor twice.
//
// Where the file has lost turns that the old session holds, the successor is a fork at the last turn that both have, or a session of its own if
// there is none, and the old session stays in lists and costs: nothing else has those turns.
//
// Crash states: after the successor is opened, before the old session is marked: the next
// refresh makes the same successor, and marks it.

// renewal is a successor in the making.
type renewal struct {
	id    turns.ID
	old   *api.Session
	point turns.Ref      // the last turn that both have, where the file has lost others; zero: none
	lost  bool           // the file has lost turns that the old session holds
	also  []*api.Session // branches of the old session that the successor holds
}

// findChanged compares a file with the ledger and notes in im.renewing what gets a
// successor. current are the sessions that read the same, by the present reader or not.
func (im *Importer) findChanged(ctx context.Context, how transcriptSource, format string) (current []*api.Session, err error) {
	in, err := transcriptfile.Open(how.name, im.Stdin, im.Format, nil)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	probe := Importer{Client: im.Client}
	c := comparer{im: &probe, format: format, all: make(map[turns.ID]*comparison), responses: make(map[alike.Sum]int),
		placed: make(map[turns.ID]*comparison), branches: make(map[turns.ID]*comparison)}
	first := true
	for st, err := range in.Format.Open(in, transcriptfile.ReadOptions(how.name, in.Format.Name, transcript.Options{Final: how.final, Copied: how.copied})).Steps() {
		if err != nil {
			return nil, err
		}
		if first {
			first = false
			x := Intake{Importer: &probe, Report: &Report{Format: in.Format.Name}, All: how.grown}
			if err := x.findJoint(ctx, st); err != nil || x.joint != nil || x.fork != nil {
				return nil, err // what "continue" or "export" wrote
			}
			if st.Open != nil && !how.grown {
				if own, err := probe.exportedSession(ctx, st.Open.Meta); err != nil || !own.IsZero() {
					return nil, err
				}
			}
		}
		st, _ = withoutExcess(st)
		if err := c.step(ctx, probe.boundTime(st), in.Format.Name); err != nil {
			return nil, err
		}
	}
	return im.plan(ctx, &c, format)
}

// plan decides what gets a successor.
func (im *Importer) plan(ctx context.Context, c *comparer, format string) (current []*api.Session, err error) {
	im.renewing = make(map[turns.ID]*renewal)
	for _, source := range c.order { // a parent before its forks
		x := c.all[source]
		old := x.line.had
		if old == nil {
			continue
		}
		if im.renewing[x.from] != nil && !im.renewing[x.from].lost || x.skipped && isOlder(old, format) {
			x.differs = true
		}
		for _, b := range x.branches {
			x.differs = x.differs || b.differs
		}
		if !x.differs {
			current = append(current, old)
			continue
		}
		older := isOlder(old, format)
		r := &renewal{id: successorID(old.ID, format), old: old, lost: c.hasLost(x, older)}
		if r.lost && x.isPart() {
			im.lacking = append(im.lacking, old.ID)
			continue
		}
		if !older { // the reader is the same, and the file is another: once for each that it can be
			r.id = turns.DeriveID(old.ID.Time(), "refresh", successorID(source, format).String(), x.digest())
			had, err := im.sessionIfAny(ctx, r.id)
			if err != nil {
				return nil, err
			}
			if r.id == old.ID || had != nil && hasNext(had) {
				im.lacking = append(im.lacking, old.ID)
				continue
			}
		}
		if r.lost && x.from.IsZero() {
			r.point = x.last
		}
		for _, b := range x.branches {
			if b.isNamed() {
				r.also = append(r.also, b.line.had)
			}
		}
		im.renewing[source] = r
	}
	return current, nil
}

// successorID returns the id of a session's successor that the present reader makes.
func successorID(session turns.ID, format string) turns.ID {
	return turns.DeriveID(session.Time(), "refresh", session.String(), format, strconv.Itoa(versionOf(format)))
}

// hasNext reports whether a session has a successor.
func hasNext(s *api.Session) bool {
	l := linksOf(s.Meta)
	return !l.next().IsZero()
}

// renew marks what a refresh found: the sessions that have a successor now, and those that
// read the same.
func (im *Importer) renew(ctx context.Context, rep *Report, current []*api.Session) error {
	for _, s := range current {
		if !isOlder(s, rep.Format) {
			continue
		}
		now, err := im.Client.Session(ctx, s.ID)
		if err != nil {
			return err
		}
		if err := im.setMeta(ctx, now, "read again", map[string]turns.Raw{"reader": readerMark(rep.Format)}); err != nil {
			return err
		}
		rep.Same++
	}
	for _, id := range im.lacking {
		rep.lose(transcript.Loss{Kind: "kept_first", Reason: "the file has less of this session than the ledger, or what another file replaced; nothing was made of it", Record: id.String()})
	}
	for source, r := range im.renewing {
		for _, old := range append([]*api.Session{r.old}, r.also...) {
			if err := im.supersede(ctx, r, old, im.lines[source]); err != nil {
				return err
			}
		}
		rep.Renewed++
	}
	return nil
}

// supersede marks the session that a successor took the place of, and closes it.
func (im *Importer) supersede(ctx context.Context, r *renewal, old *api.Session, next *line) error {
	if next == nil || next.id != r.id {
		return errors.New("internal error: a session was read anew, and nothing was stored")
	}
	s, err := im.Client.Session(ctx, old.ID)
	if err != nil {
		return err
	}
	name := "superseded_by"
	if r.lost && old == r.old {
		name = "continued_by"
	}
	if err := im.setMeta(ctx, s, "successor", map[string]turns.Raw{name: turns.RawText(r.id.String())}); err != nil {
		return err
	}
	if s.State != "open" {
		return nil
	}
	id := turns.DeriveID(s.ID.Time(), "import", "superseded", s.ID.String(), r.id.String())
	if _, err := im.Client.Close(ctx, s.ID, api.CloseSession{ID: id, Cause: "session " + r.id.String() + " holds what its transcript reads as now"}); err != nil {
		return err
	}
	if s.Label == "" {
		return nil
	}
	set := api.SetSession{ID: turns.DeriveID(s.ID.Time(), "import", "label", s.ID.String(), r.id.String())}
	set.Label = &s.Label
	_, err = im.Client.Set(ctx, r.id, set)
	if coded(err, api.IDReused) {
		return nil
	}
	return err
}

// openRenewed makes the session of a step the fork that goes on from the old one, where the
// file has lost turns; ok is false for another step.
func (im *Importer) openRenewed(ctx context.Context, o *transcript.Open, format string) (had, ok bool, err error) {
	for _, r := range im.renewing {
		if r.id != o.ID || r.point.IsZero() {
			continue
		}
		l := im.byID[r.id]
		if l != nil && l.had != nil {
			return true, true, nil
		}
		meta := withMember(im.opening(ctx, r.id, o.Meta, format), "continues", turns.RawText(r.old.ID.String()))
		s, err := im.Client.Fork(ctx, r.point.Session, api.CreateFork{ID: r.id, Turn: r.point.Turn, Meta: meta})
		if err == nil && l != nil {
			l.had = s
		}
		return false, true, err
	}
	return false, false, nil
}

// ofRenewal returns the meta of a successor, which names the session before it; meta itself
// for any other session.
func (im *Importer) ofRenewal(id turns.ID, meta turns.Raw) turns.Raw {
	for _, r := range im.renewing {
		if r.id == id {
			name := map[bool]string{true: "continues", false: "supersedes"}[r.lost]
			return withMember(meta, name, turns.RawText(r.old.ID.String()))
		}
	}
	return meta
}

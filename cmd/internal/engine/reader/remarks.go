package reader

import (
	"cmp"
	"errors"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// Description returns what a person said last of a session; zero if nobody said anything.
func (rd *Reader) Description(s *ledger.Session) (b turns.DescribedBody, err error) {
	if s.Described == 0 {
		return b, nil
	}
	return b, rd.remark(s.ID, s.Described, &b)
}

// remark opens the body of an event of a session's chain.
func (rd *Reader) remark(session turns.ID, index uint64, body any) error {
	payload, err := rd.Projections.EventAt(session, index)
	if err != nil {
		return err
	}
	ev, err := turns.Decode(payload)
	if err != nil {
		return err
	}
	return rd.content.Open(ev, body)
}

// maxProjectForks is how many forks up a session's project is looked for.
const maxProjectForks = 8

// ProjectOf returns the project of a session, and its name: said, if a person named one; else that
// of its meta. A fork that states none is of the project of the session that it was forked from.
func (rd *Reader) ProjectOf(s *ledger.Session, set *turns.Settings, said string) (p turns.Project, name string) {
	p = turns.ProjectOf(set.Meta)
	for range maxProjectForks {
		if p.Name() != "" || s.ForkOf == nil {
			break
		}
		up, err := rd.Projections.Session(s.ForkOf.At.Session)
		if err != nil {
			break
		}
		_, _, above, err := rd.StoredSettings(&up)
		if err != nil {
			break
		}
		if d, err := rd.Description(&up); err == nil && d.Project != "" && said == "" {
			said = d.Project
		}
		s, p = &up, turns.ProjectOf(above.Meta)
	}
	return p, cmp.Or(said, p.Name())
}

// NoteOn returns the note of a session on a turn, nil if there is none, or it was taken back.
func (rd *Reader) NoteOn(s *ledger.Session, turn turns.Ref) (*api.Note, error) {
	if s.Notes == 0 {
		return nil, nil
	}
	index, err := rd.Projections.NoteOn(s.ID, turn)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return rd.noteAt(s.ID, index)
}

func (rd *Reader) noteAt(session turns.ID, index uint64) (*api.Note, error) {
	payload, err := rd.Projections.EventAt(session, index)
	if err != nil {
		return nil, err
	}
	ev, err := turns.Decode(payload)
	if err != nil {
		return nil, err
	}
	var b turns.NotedBody
	if err := rd.content.Open(ev, &b); err != nil || b.Text == "" {
		return nil, err
	}
	return &api.Note{Text: b.Text, Time: api.UnixTime(ev.Recorded)}, nil
}

// AddNote fills in the note of a session on a turn. What can't be read is left out: the turn
// itself says why.
func (rd *Reader) AddNote(s *ledger.Session, t *api.Turn) error {
	note, err := rd.NoteOn(s, turns.Ref{Session: t.Session, Turn: t.ID})
	if err != nil && !errors.Is(err, turns.ErrErased) && !errors.Is(err, ledger.ErrCorrupt) {
		return err
	}
	t.Note = note
	return nil
}

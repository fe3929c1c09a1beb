package projections

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"nexus/ledger"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// Change is the place of a session in the order of changes: the latest first, of one time the
// greatest id.
type Change struct {
	Updated int64 // Unix ns
	Session turns.ID
}

// Compare orders places.
func (c Change) Compare(o Change) int {
	return cmp.Or(cmp.Compare(o.Updated, c.Updated), o.Session.Compare(c.Session))
}

// Changed is a session as it is now, and its place at a position of the log.
type Changed struct {
	Session ledger.Session
	Place   Change
}

// SessionsAt yields the sessions of an agent ("": of all agents of the tenant) in the order
// of their changes up to position seq of the log. It begins behind a place (zero: at the
// first). Sessions that were opened later are left out. So several calls with one position
// have each session once, whatever changes meanwhile.
//
// It reads what it yields, the sessions that changed in the same second as the last of them,
// and the places of the records behind seq, whose number the caller bounds. It ends with ctx.
func (s *Store) SessionsAt(ctx context.Context, tenant, agent string, seq uint64, after Change) iter.Seq2[Changed, error] {
	return func(yield func(Changed, error) bool) {
		w := changesWalk{ctx: ctx.Err, s: s, seq: seq, read: seq, later: make(map[turns.ID]Change)}
		moved := []Changed(nil) // are elsewhere in the order by now
		inMoved := make(map[turns.ID]bool)
		begun := false
		begin := func() error {
			if begun {
				return nil
			}
			begun = true
			if err := w.readLater(); err != nil {
				return err
			}
			for id, c := range w.later {
				inMoved[id] = true
				row, err := s.Session(id)
				if err != nil && !errors.Is(err, ledger.ErrNotFound) {
					return err
				}
				if err == nil && row.Tenant == tenant && (agent == "" || row.Agent == agent) && !c.Session.IsZero() {
					moved = append(moved, Changed{row, c})
				}
			}
			slices.SortFunc(moved, byPlace)
			return nil
		}
		emit := func(list []Changed) bool {
			for _, c := range list {
				if (after == Change{} || after.Compare(c.Place) < 0) && !yield(c, nil) {
					return false
				}
			}
			return true
		}
		var same []Changed // changed in one second
		flush := func() bool {
			if len(same) == 0 {
				return true
			}
			slices.SortFunc(same, byPlace)
			last := same[len(same)-1]
			n, _ := slices.BinarySearchFunc(moved, last, byPlace)
			same = append(same, moved[:n]...)
			moved = moved[n:]
			slices.SortFunc(same, byPlace)
			ok := emit(same)
			same = same[:0]
			return ok
		}
		prefix := rows.ByTime.TextKey(tenant, agent)
		hi := rows.End(prefix)
		if after != (Change{}) {
			hi = rows.End(rows.ByTimeKey(tenant, agent, after.Updated))
		}
		var second []byte
		for k, err := range db.ScanBack(s.db(), prefix, hi) {
			// The scan has the order of when it began. The records behind seq are read now, so
			// what they changed is in moved, and what changes from now on is in the scan where
			// it was before.
			if err = cmp.Or(err, ctx.Err()); err == nil {
				err = begin()
			}
			if err != nil {
				yield(Changed{}, err)
				return
			}
			id := rows.IDAt(k.Key, len(k.Key)-16)
			if inMoved[id] {
				continue
			}
			row, err := s.Session(id)
			if errors.Is(err, ledger.ErrNotFound) {
				continue
			}
			c := Changed{row, Change{row.Updated, id}}
			if err == nil && row.Tail.Seq > seq {
				if err = w.readLater(); err == nil {
					c.Place = w.later[id]
				}
			}
			if err != nil {
				yield(Changed{}, err)
				return
			}
			if at := k.Key[:len(k.Key)-16]; !bytes.Equal(at, second) {
				if !flush() {
					return
				}
				second = at
			}
			if !c.Place.Session.IsZero() {
				same = append(same, c)
			}
		}
		if err := begin(); err != nil {
			yield(Changed{}, err)
			return
		}
		if flush() {
			emit(moved)
		}
	}
}

func byPlace(a, b Changed) int { return a.Place.Compare(b.Place) }

// changesWalk knows where the sessions were that changed behind a position.
type changesWalk struct {
	ctx   func() error // why the walk is to end, nil if it is not
	s     *Store
	seq   uint64
	read  uint64              // the last record that was read
	later map[turns.ID]Change // zero: opened later
}

// readLater reads the places of the records that were stored since.
func (w *changesWalk) readLater() error {
	for k, err := range db.Scan(w.s.db(), rows.Number(rows.Records.Key(), w.read+1), rows.End(rows.Records.Key())) {
		if err = cmp.Or(err, w.ctx()); err != nil {
			return err
		}
		w.read = rows.NumberAt(k.Key, len(k.Key)-8)
		p, err := rows.DecodePlace(w.read, k.Value)
		if err != nil {
			return &db.ReadError{Err: err}
		}
		if _, ok := w.later[p.Session]; ok || p.Subject != "" {
			continue
		}
		if p.Index == 0 {
			w.later[p.Session] = Change{}
			continue
		}
		b, err := w.s.EventAt(p.Session, p.Index-1)
		if err != nil {
			return err
		}
		ev, err := turns.Decode(b)
		if err != nil {
			return err
		}
		w.later[p.Session] = Change{ev.Recorded, p.Session}
	}
	return nil
}

// UpdatedSince yields the sessions of all tenants whose last event is of the second of since
// or later, each once, in no order. What an event changes while it runs is there, or is behind
// the position that [Store.Applied] gave before. It reads what it yields, however long the log is.
func (s *Store) UpdatedSince(since time.Time) iter.Seq2[turns.ID, error] {
	return func(yield func(turns.ID, error) bool) {
		for lo := rows.ByTime.Key(); lo != nil; {
			tenant, err := s.tenantFrom(lo)
			if err != nil {
				yield(turns.ID{}, err)
			}
			if tenant == nil {
				return
			}
			prefix := rows.ByTime.TextKey(string(tenant), "")
			for k, err := range db.Scan(s.db(), rows.ByTimeKey(string(tenant), "", since.UnixNano()), rows.End(prefix)) {
				if err != nil {
					yield(turns.ID{}, err)
					return
				}
				if !yield(rows.IDAt(k.Key, len(k.Key)-16), nil) {
					return
				}
			}
			lo = rows.End(rows.ByTime.TextKey(string(tenant)))
		}
	}
}

// tenantFrom returns the first tenant whose sessions are in the order of their changes at lo
// or behind, nil if there is none.
func (s *Store) tenantFrom(lo []byte) ([]byte, error) {
	for k, err := range db.Scan(s.db(), lo, rows.End(rows.ByTime.Key())) {
		if err != nil {
			return nil, err
		}
		tenant, _, _ := bytes.Cut(k.Key[1:], []byte{0})
		return tenant, nil
	}
	return nil, nil
}

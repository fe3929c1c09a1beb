package history

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/projections"
	"nexus/turns"
)

// GetAbout is session.get. It adds the title and the last time if the request asks.
func (hs *History) GetAbout(ctx context.Context, c reader.Caller, id turns.ID, r api.GetSession) (*api.Session, error) {
	out, err := hs.reader.Get(ctx, c, id, r.Read)
	if err != nil || !r.About.About {
		return out, err
	}
	s, err := hs.reader.FindSession(ctx, c, id, false)
	if err != nil {
		return nil, err
	}
	hs.fillAbout(ctx, s, out)
	return out, nil
}

// List is session.list. Sessions are sorted by id, which is by claimed time, or by their
// last changes. A page may have few sessions, or none, and still a next one.
func (hs *History) List(ctx context.Context, c reader.Caller, req api.ListSessions) (*api.SessionList, error) {
	if err := hs.reader.WaitLog(ctx, req.Read); err != nil {
		return nil, err
	}
	limit, err := req.LimitOf(100, 1000)
	if err != nil {
		return nil, err
	}
	var list iter.Seq2[ledger.Session, error]
	next := func(last turns.ID) string { return last.String() }
	kin := len(req.SpawnedBy)+len(req.ForkedFrom) > 0
	switch req.Order {
	case "", "id":
		if kin {
			list, err = hs.kin(ctx, c, &req)
			break
		}
		list, err = hs.byID(ctx, c, req.After)
	case "updated":
		if kin {
			return nil, api.FieldErrorf("/order", "those that come from other sessions are listed in the order of ids")
		}
		list, next, err = hs.byChange(ctx, c, req.After)
	default:
		return nil, api.FieldErrorf("/order", "%.40q is neither id nor updated", req.Order)
	}
	if err != nil {
		return nil, err
	}
	out := &api.SessionList{Sessions: []api.Session{}}
	size, looked := 0, 0
	var last turns.ID // session that was looked at
	for s, err := range list {
		if ctx.Err() != nil { // what is left out may be many
			err = fmt.Errorf("%w: listed sessions: %w", ledger.ErrUnavailable, ctx.Err())
		}
		if err != nil {
			return nil, err
		}
		if len(out.Sessions) == limit {
			out.Next = next(out.Sessions[limit-1].ID)
			break
		}
		if looked == hs.PageSessions {
			out.Next = next(last)
			break
		}
		last = s.ID
		looked++
		if s.Hidden && !req.Hidden || len(req.SpawnedBy) > 0 && !hs.serves(&s, req.SpawnedBy) {
			continue
		}
		v := hs.reader.DescribeListed(ctx, &s)
		if !v.SupersededBy.IsZero() && !req.Superseded || req.Tag != "" && !slices.Contains(v.Tags, req.Tag) || req.Project != "" && !turns.ProjectOf(v.Meta).Has(v.Project, req.Project) {
			continue
		}
		if req.About.About && v.Error == "" {
			hs.fillAbout(ctx, &s, v)
		}
		n, err := page.EncodedSize(v)
		if err != nil {
			return nil, err
		}
		if n > hs.page.ItemBytes() {
			v, n = hs.reader.ListedOutline(&s), page.OutlineBytes
			v.Error = api.TooLarge
		}
		if size += n; len(out.Sessions) > 0 && size > hs.page.PageBytes() {
			out.Next = next(out.Sessions[len(out.Sessions)-1].ID)
			break
		}
		out.Sessions = append(out.Sessions, *v)
	}
	return out, nil
}

// agentOf returns whose sessions a caller lists; "" means all agents of the tenant.
func agentOf(c reader.Caller) string {
	if c.Operator() {
		return ""
	}
	return c.Agent
}

// byID returns the sessions behind one, by their ids.
func (hs *History) byID(ctx context.Context, c reader.Caller, after string) (iter.Seq2[ledger.Session, error], error) {
	id, err := page.OptionalID("/after", after)
	if err != nil {
		return nil, err
	}
	if !id.IsZero() {
		if _, err := hs.reader.FindSession(ctx, c, id, false); err != nil {
			return nil, api.FieldErrorf("/after", "not a session of this list")
		}
	}
	return hs.reader.Projections.Sessions(c.Tenant, agentOf(c), id), nil
}

// byChange returns the sessions in the order of their changes, behind a cursor. The cursor has
// the position of the first page, and later pages walk the order of that position. A page reads
// the records behind it, so a cursor behind which too many were stored is a conflict. next makes
// the cursor behind the last session that was yielded before one.
func (hs *History) byChange(ctx context.Context, c reader.Caller, after string) (list iter.Seq2[ledger.Session, error], next func(turns.ID) string, err error) {
	at := hs.reader.Projections.Applied().Seq
	var from projections.Change
	if after != "" {
		if at, from, err = parseChange(after); err != nil {
			return nil, nil, err
		}
		if err := hs.reader.Projections.WaitFor(ctx, at); err != nil { // another daemon may be behind
			return nil, nil, err
		}
		if hs.page.IsTooOld(at, hs.reader.Projections.Applied().Seq) {
			return nil, nil, page.StaleCursor("order of changes")
		}
	}
	places := make(map[turns.ID]projections.Change)
	next = func(id turns.ID) string {
		return fmt.Sprintf("%s~%d~%s", page.FormatPosition(at), places[id].Updated, id)
	}
	list = func(yield func(ledger.Session, error) bool) {
		for s, err := range hs.reader.Projections.SessionsAt(ctx, c.Tenant, agentOf(c), at, from) {
			places[s.Place.Session] = s.Place
			if !yield(s.Session, err) || err != nil {
				return
			}
		}
	}
	return list, next, nil
}

// parseChange reads a cursor of the order of changes.
func parseChange(after string) (at uint64, from projections.Change, err error) {
	p := strings.Split(after, "~")
	if len(p) == 3 {
		at, err = page.ParsePosition(p[0])
		var err1, err2 error
		from.Updated, err1 = strconv.ParseInt(p[1], 10, 64)
		from.Session, err2 = turns.ParseID(p[2])
		if err == nil && err1 == nil && err2 == nil {
			return at, from, nil
		}
	}
	return 0, from, api.FieldErrorf("/after", "not what a page of this list gave as next")
}

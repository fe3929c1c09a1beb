package history

import (
	"context"

	"nexus/cmd/nexusd/daemon/engine/page"
	"nexus/cmd/nexusd/daemon/engine/reader"
	"nexus/ledger/api"
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
// last changes.
func (hs *History) List(ctx context.Context, c reader.Caller, req api.ListSessions) (*api.SessionList, error) {
	p := req.Page
	if err := hs.reader.WaitPosition(ctx, req.Read); err != nil {
		return nil, err
	}
	after, err := page.OptionalID("/after", p.After)
	if err != nil {
		return nil, err
	}
	if !after.IsZero() {
		if _, err := hs.reader.FindSession(ctx, c, after, false); err != nil {
			return nil, api.FieldErrorf("/after", "not a session of this list")
		}
	}
	limit, err := p.LimitOf(100, 1000)
	if err != nil {
		return nil, err
	}
	agent := c.Agent
	if c.Operator() {
		agent = ""
	}
	list := hs.reader.Projections.Sessions
	switch req.Order {
	case "", "id":
	case "updated":
		list = hs.reader.Projections.NewestSessions
	default:
		return nil, api.FieldErrorf("/order", "%.40q is neither id nor updated", req.Order)
	}
	out := &api.SessionList{Sessions: []api.Session{}}
	size := 0
	for s, err := range list(c.Tenant, agent, after) {
		if err != nil {
			return nil, err
		}
		if len(out.Sessions) == limit {
			out.Next = out.Sessions[limit-1].ID.String()
			break
		}
		v := hs.reader.DescribeListed(ctx, &s)
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
			out.Next = out.Sessions[len(out.Sessions)-1].ID.String()
			break
		}
		out.Sessions = append(out.Sessions, *v)
	}
	return out, nil
}

package history

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/projections"
	"nexus/turns"
)

// kinOf is one of the lists that kin joins: the sessions of an agent that come from a session. The
// zero session is behind all others: sessions that may be sub-agents by their settings.
type kinOf struct {
	agent   string
	session turns.ID
}

func (k kinOf) compare(o kinOf) int {
	return cmp.Or(cmp.Compare(k.agent, o.agent), cmp.Compare(isLast(k.session), isLast(o.session)), k.session.Compare(o.session))
}

func isLast(id turns.ID) int {
	if id.IsZero() {
		return 1
	}
	return 0
}

// kin returns the sub-agents of the sessions that a request names, or their forks, behind its
// cursor. Sessions that may be no sub-agents of these are among them: see [History.serves].
func (hs *History) kin(ctx context.Context, c reader.Caller, req *api.ListSessions) (iter.Seq2[ledger.Session, error], error) {
	of, field, forks := req.SpawnedBy, "/spawned_by", false
	if len(req.ForkedFrom) > 0 {
		if len(of) > 0 {
			return nil, api.FieldErrorf("/forked_from", "a request has one of spawned_by and forked_from")
		}
		of, field, forks = req.ForkedFrom, "/forked_from", true
	}
	if len(of) > api.MaxKin {
		return nil, api.FieldErrorf(field, "more than %d sessions", api.MaxKin)
	}
	var lists []kinOf
	for _, id := range of {
		s, err := hs.reader.FindSession(ctx, c, id, false)
		if err != nil {
			return nil, err
		}
		if lists = append(lists, kinOf{s.Agent, id}); !forks {
			lists = append(lists, kinOf{s.Agent, turns.ID{}})
		}
	}
	slices.SortFunc(lists, kinOf.compare)
	lists = slices.Compact(lists)
	after, err := page.OptionalID("/after", req.After)
	if err != nil {
		return nil, err
	}
	var last *ledger.Session
	if !after.IsZero() {
		last, err = hs.reader.FindSession(ctx, c, after, false)
		at := kinOf{}
		if err == nil {
			at = kinOf{last.Agent, last.Spawned.Session}
		}
		if err == nil && forks {
			if at.session = (turns.ID{}); last.ForkOf != nil {
				at.session = last.ForkOf.At.Session
			}
		}
		n := slices.Index(lists, at)
		if err != nil || n < 0 {
			return nil, api.FieldErrorf("/after", "not a session of this list")
		}
		lists = lists[n:]
	}
	return func(yield func(ledger.Session, error) bool) {
		for i, l := range lists {
			from := last
			if i > 0 {
				from = nil
			}
			list := hs.subAgents(c.Tenant, l, from)
			if forks {
				list = hs.forks(l, from)
			}
			for s, err := range list {
				if !yield(s, err) || err != nil {
					return
				}
			}
		}
	}, nil
}

func (hs *History) subAgents(tenant string, l kinOf, last *ledger.Session) iter.Seq2[ledger.Session, error] {
	var after turns.ID
	if last != nil {
		after = last.ID
	}
	return hs.reader.Projections.SubAgents(tenant, l.agent, l.session, after)
}

// forks yields the forks of a session that its agent has, by fork point and id.
func (hs *History) forks(l kinOf, last *ledger.Session) iter.Seq2[ledger.Session, error] {
	var f projections.Fork
	if last != nil {
		f = projections.Fork{At: last.ForkOf.At.Turn, Session: last.ID}
	}
	return func(yield func(ledger.Session, error) bool) {
		for {
			var s ledger.Session
			var err error
			if f, err = hs.reader.Projections.NextFork(l.session, f); err == nil {
				if f.Session.IsZero() {
					return
				}
				if s, err = hs.reader.Projections.Session(f.Session); err == nil && s.Agent != l.agent {
					continue
				}
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// serves reports whether a session serves one of some: by its opening, else by its settings. Those
// that can't be read name none.
func (hs *History) serves(s *ledger.Session, of []turns.ID) bool {
	if !s.Spawned.IsZero() {
		return slices.Contains(of, s.Spawned.Session)
	}
	_, _, set, err := hs.reader.StoredSettings(s)
	if err != nil || !slices.Contains(of, set.SpawnedBy.Session) {
		return false
	}
	by, err := hs.reader.Projections.Session(set.SpawnedBy.Session) // it may be another agent's, which no session serves
	return err == nil && by.Agent == s.Agent && by.Tenant == s.Tenant
}

package mcp

import (
	"context"
	"iter"
	"strconv"
	"strings"

	"nexus/ledger/api"
	"nexus/turns"
)

// maxSteps bounds how far from an end of a path a turn is named by its number: each
// thousand is a request. One that is farther away is named by its id.
const maxSteps = 10_000

// handle names a turn of a session, for expand, fork and the sources of a memory.
func handle(session, turn turns.ID) string { return session.String() + "/" + turn.String() }

// session finds a session by its id or its label.
func (c *call) session(ctx context.Context, field, name string) (*api.Session, error) {
	if name == "" {
		return nil, api.FieldErrorf(field, "missing: name a session by its id or its label")
	}
	if id, err := turns.ParseID(name); err == nil {
		return c.GetSession(ctx, id, api.GetSession{About: api.About{About: true}})
	}
	s, err := c.Resolve(ctx, name)
	if err != nil {
		return nil, err
	}
	return c.GetSession(ctx, s.ID, api.GetSession{About: api.About{About: true}})
}

// turn finds the turn that a handle names: SESSION/TURN, SESSION@head, or SESSION@N with
// the number of a turn on the path of the session's head.
func (c *call) turn(ctx context.Context, field, name string) (session, turn turns.ID, err error) {
	if s, t, ok := strings.Cut(name, "/"); ok {
		if session, err = turns.ParseID(s); err == nil {
			turn, err = turns.ParseID(t)
		}
		if err != nil {
			return session, turn, api.FieldErrorf(field, "%q is not SESSION/TURN, two ids of 26 characters", head(name, 80))
		}
		return session, turn, nil
	}
	of, at, ok := cutLast(name, "@")
	if !ok {
		return session, turn, api.FieldErrorf(field, "%q names no turn: SESSION/TURN, as search returns it, SESSION@head, or SESSION@N", head(name, 80))
	}
	s, err := c.session(ctx, field, of)
	if err != nil {
		return session, turn, err
	}
	if at == "head" {
		if s.Head == nil {
			return s.ID, turn, api.Errorf(api.NotFound, nil, "session %s has no turn yet", s.ID)
		}
		return s.ID, *s.Head, nil
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(at, "t"), 10, 64)
	if err != nil {
		return s.ID, turn, api.FieldErrorf(field, "%q is neither head nor the number of a turn", head(at, 40))
	}
	turn, err = c.numbered(ctx, field, s, n)
	return s.ID, turn, err
}

// numbered finds turn n on the path of a session's head, from the nearer end.
func (c *call) numbered(ctx context.Context, field string, s *api.Session, n uint64) (turns.ID, error) {
	if n < 1 || n > s.Depth {
		return turns.ID{}, api.Errorf(api.NotFound, nil, "session %s has the turns 1 to %d, not %d", s.ID, s.Depth, n)
	}
	order, steps := "asc", n-1
	if s.Depth-n < steps {
		order, steps = "desc", s.Depth-n
	}
	if steps > maxSteps {
		return turns.ID{}, api.FieldErrorf(field, "turn %d is more than %d turns from both ends: name it by its id, SESSION/TURN", n, maxSteps)
	}
	id, err := atDepth(c.Turns(ctx, s.ID, api.ListTurns{Order: order, Page: api.Page{Limit: int(min(steps+1, 1000))}}), n, steps)
	if err == nil && id.IsZero() {
		err = api.Errorf(api.NotFound, nil, "session %s has no turn %d any more: its head moved", s.ID, n)
	}
	return id, err
}

// atDepth finds the turn of a depth among those of a path, which should be after so many
// others; zero if it is not there: the head moved, and the path has other turns.
func atDepth(path iter.Seq2[api.Turn, error], depth, steps uint64) (turns.ID, error) {
	for t, err := range path {
		if err != nil {
			return turns.ID{}, err
		}
		if t.Depth == depth {
			return t.ID, nil
		}
		if steps == 0 {
			break
		}
		steps--
	}
	return turns.ID{}, nil
}

// cutLast is strings.Cut at the last sep: a label may hold one.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// keyed returns the id of a request with a key: that of another request of the agent with
// the same key, so that the ledger stores one of them. Without a key it is the zero id, and
// the client makes one. The id has the time of the id at.
func (c *call) keyed(tool, key string, at turns.ID) (turns.ID, error) {
	if key == "" {
		return turns.ID{}, nil
	}
	if err := turns.ValidateWord("/key", key); err != nil {
		return turns.ID{}, err
	}
	return turns.DeriveID(at.Time(), "mcp", c.caller.Tenant, c.caller.Agent, tool, key), nil
}

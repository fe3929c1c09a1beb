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

// leastName is the length from which a name may be the beginning or the end of an id.
const leastName = 4

// session finds a session by its id, its label, or the beginning or end of its id.
func (c *call) session(ctx context.Context, field, name string) (*api.Session, error) {
	if name == "" {
		return nil, api.FieldErrorf(field, "missing: name a session by its id or its label")
	}
	if id, err := turns.ParseID(name); err == nil {
		return c.GetSession(ctx, id, api.GetSession{About: api.About{About: true}})
	}
	s, err := c.Resolve(ctx, name)
	if coded(err, api.NotFound) && len(name) >= leastName {
		s, err = c.shortNamed(ctx, field, name, err)
	}
	if err != nil {
		return nil, err
	}
	return c.GetSession(ctx, s.ID, api.GetSession{About: api.About{About: true}})
}

// shortNamed finds the session whose id begins or ends with a name. missing is the error
// if there is none.
func (c *call) shortNamed(ctx context.Context, field, name string, missing error) (*api.Session, error) {
	named, err := c.FindNames(ctx, api.FindNames{Name: name, Kind: "session", Limit: 2})
	switch {
	case err != nil:
		return nil, err
	case len(named.Sessions) == 0 && !named.Cut:
		return nil, missing
	case len(named.Sessions) != 1 || named.Cut:
		return nil, ambiguous(field, name, "sessions", named.Sessions, func(s api.NamedSession) turns.ID { return s.ID })
	}
	return &api.Session{ID: named.Sessions[0].ID}, nil
}

// ambiguous is the error of a name that stands for several sessions or turns.
func ambiguous[T any](field, name, what string, found []T, id func(T) turns.ID) error {
	if len(found) < 2 {
		return api.FieldErrorf(field, "%q may name several %s: give more characters of the id", head(name, 40), what)
	}
	return api.FieldErrorf(field, "%q names several %s: %s and %s are two", head(name, 40), what, id(found[0]), id(found[1]))
}

// turn finds the turn that a handle names: SESSION/TURN, SESSION@head, SESSION@head~N, or
// SESSION@N with the number of a turn on the path of the session's head. Ids may be short, as
// the tables of ledgerctl show them; a turn's id alone does, too.
func (c *call) turn(ctx context.Context, field, name string) (session, turn turns.ID, err error) {
	i := strings.LastIndexAny(name, "/@")
	if i < 0 {
		return c.bareTurn(ctx, field, name)
	}
	of, at := name[:i], name[i+1:]
	if name[i] == '/' {
		if session, err = turns.ParseID(of); err == nil {
			if turn, err = turns.ParseID(at); err == nil {
				return session, turn, nil // it may be on no path
			}
		}
	}
	s, err := c.session(ctx, field, of)
	if err != nil {
		return session, turn, err
	}
	if name[i] == '/' {
		turn, err = c.shortTurn(ctx, field, s, at)
		return s.ID, turn, err
	}
	number, isBack := strings.CutPrefix(at, "head~")
	switch {
	case at == "head" && s.Head == nil:
		return s.ID, turn, api.Errorf(api.NotFound, nil, "session %s has no turn yet", s.ID)
	case at == "head":
		return s.ID, *s.Head, nil
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(number, "t"), 10, 64)
	if err != nil {
		return s.ID, turn, api.FieldErrorf(field, "%q is neither head, head~N nor the number of a turn", head(at, 40))
	}
	if isBack {
		n = s.Depth - min(n, s.Depth)
	}
	turn, err = c.numbered(ctx, field, s, n)
	return s.ID, turn, err
}

// bareTurn finds the turn whose id is, begins or ends with a name.
func (c *call) bareTurn(ctx context.Context, field, name string) (session, turn turns.ID, err error) {
	wrong := api.FieldErrorf(field, "%q names no turn: SESSION/TURN, as search returns it, a turn's id, SESSION@head, SESSION@head~N or SESSION@N", head(name, 80))
	if len(name) < leastName || len(name) > len(turn.String()) {
		return session, turn, wrong
	}
	named, err := c.FindNames(ctx, api.FindNames{Name: name, Kind: "turn", Limit: 2})
	switch {
	case err != nil:
		return session, turn, err
	case len(named.Turns) == 0 && !named.Cut:
		return session, turn, wrong
	case len(named.Turns) != 1 || named.Cut:
		return session, turn, ambiguous(field, name, "turns", named.Turns, func(t api.NamedTurn) turns.ID { return t.ID })
	}
	return named.Turns[0].Session, named.Turns[0].ID, nil
}

// shortTurn finds the turn on the path of a session's head whose id is, begins or ends with a name.
func (c *call) shortTurn(ctx context.Context, field string, s *api.Session, name string) (found turns.ID, err error) {
	if id, err := turns.ParseID(strings.ToUpper(name)); err == nil {
		return id, nil
	}
	if len(name) >= leastName {
		named, err := c.FindNames(ctx, api.FindNames{Name: name, Kind: "turn", Session: s.ID, Limit: 2})
		switch {
		case err != nil:
			return found, err
		case len(named.Turns) == 1 && !named.Cut:
			return named.Turns[0].ID, nil
		case len(named.Turns) > 0 || named.Cut:
			return found, ambiguous(field, name, "turns of session "+s.ID.String(), named.Turns, func(t api.NamedTurn) turns.ID { return t.ID })
		}
	}
	return found, api.Errorf(api.NotFound, nil, "no turn on the path of session %s is called %q", s.ID, head(name, 40))
}

// coded reports whether err has a code.
func coded(err error, code api.Code) bool { return err != nil && api.FromError(err).Code == code }

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

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"nexus/ledger/api"
	"nexus/turns"
)

// session finds a session by id, unique prefix of one, or label, and a client
// that speaks for its agent.
func (e *env) session(ctx context.Context, name string) (*api.Client, *api.Session, error) {
	c, err := e.client(api.Operator)
	if err != nil {
		return nil, nil, err
	}
	if id, err := turns.ParseID(strings.ToUpper(name)); err == nil {
		s, err := c.Session(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		return c.As(s.Agent), s, nil
	}
	agent := e.agent
	if agent == "" {
		agent = "main"
	}
	if s, err := c.As(agent).Resolve(ctx, name); err == nil {
		return c.As(s.Agent), s, nil
	}
	var found []api.Session
	for s, err := range c.Sessions(ctx) {
		if err != nil {
			return nil, nil, err
		}
		if strings.HasPrefix(s.ID.String(), strings.ToUpper(name)) || s.Label == name {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return nil, nil, api.Errorf(api.NotFound, nil, "no session is called %q", name)
	case 1:
		return c.As(found[0].Agent), &found[0], nil
	}
	return nil, nil, usageError{fmt.Errorf("%d sessions begin with %q", len(found), name)}
}

// turn finds a turn: SESSION@head, SESSION@head~3, SESSION/TURN, or a turn's id
// or unique prefix, searched over all sessions.
func (e *env) turn(ctx context.Context, name string) (*api.Client, *api.Session, turns.ID, error) {
	if sess, at, ok := strings.Cut(name, "@"); ok {
		c, s, err := e.session(ctx, sess)
		if err != nil {
			return nil, nil, turns.ID{}, err
		}
		head, back, _ := strings.Cut(at, "~")
		n := 0
		if back != "" {
			n, err = strconv.Atoi(back)
		}
		if head != "head" || err != nil || n < 0 {
			return nil, nil, turns.ID{}, usageError{fmt.Errorf("%q is not SESSION@head or SESSION@head~N", name)}
		}
		for t, err := range c.Turns(ctx, s.ID, api.ListTurns{Order: "desc", Page: api.Page{Limit: min(n+1, 1000)}}) {
			if err != nil {
				return nil, nil, turns.ID{}, err
			}
			if n == 0 {
				return c, s, t.ID, nil
			}
			n--
		}
		return nil, nil, turns.ID{}, api.Errorf(api.NotFound, nil, "%s has no such turn", sess)
	}
	if sess, id, ok := strings.Cut(name, "/"); ok {
		c, s, err := e.session(ctx, sess)
		if err != nil {
			return nil, nil, turns.ID{}, err
		}
		return e.turnIn(ctx, c, s, id)
	}
	op, err := e.client(api.Operator)
	if err != nil {
		return nil, nil, turns.ID{}, err
	}
	for s, err := range op.Sessions(ctx) {
		if err != nil {
			return nil, nil, turns.ID{}, err
		}
		if c, x, id, err := e.turnIn(ctx, op.As(s.Agent), &s, name); err == nil {
			return c, x, id, nil
		}
	}
	return nil, nil, turns.ID{}, api.Errorf(api.NotFound, nil, "no turn is called %q", name)
}

func (e *env) turnIn(ctx context.Context, c *api.Client, s *api.Session, name string) (*api.Client, *api.Session, turns.ID, error) {
	if id, err := turns.ParseID(strings.ToUpper(name)); err == nil {
		_, err := c.Turn(ctx, s.ID, id)
		return c, s, id, err
	}
	var found []turns.ID
	for t, err := range c.Path(ctx, s.ID, api.GetPath{}) {
		if err != nil {
			return nil, nil, turns.ID{}, err
		}
		if strings.HasPrefix(t.ID.String(), strings.ToUpper(name)) || strings.HasSuffix(t.ID.String(), strings.ToUpper(name)) {
			found = append(found, t.ID)
		}
	}
	if len(found) != 1 {
		return nil, nil, turns.ID{}, api.Errorf(api.NotFound, nil, "%d turns of %s are called %q", len(found), s.ID, name)
	}
	return c, s, found[0], nil
}

// short is the end of an id, which tells apart what one millisecond made.
func short(id turns.ID) string { return id.String()[18:] }

// coded reports whether err is an answer with this code.
func coded(err error, c api.Code) bool {
	var x *api.Error
	return errors.As(err, &x) && x.Code == c
}

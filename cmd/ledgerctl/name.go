package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"nexus/ledger/api"
	"nexus/turns"
)

// session finds a session by its id, the beginning or end of one, its label, or the
// id that its transcript gives it, and a client that speaks for its agent. A session
// whose content can't be read comes as a list shows it, with its Error.
func (e *env) session(ctx context.Context, name string) (*api.Client, *api.Session, error) {
	c, err := e.client(api.Operator)
	if err != nil {
		return nil, nil, err
	}
	if id, err := turns.ParseID(strings.ToUpper(name)); err == nil {
		s, err := c.Session(ctx, id)
		if coded(err, api.Corrupt) {
			s, err = e.outline(ctx, c, id, err)
		}
		if coded(err, api.NotFound) {
			err = hinted{err, sessionHint}
		}
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
	var found, imported []api.Session
	unreadable := uint64(0)
	for s, err := range c.Sessions(ctx) {
		if err != nil {
			return nil, nil, err
		}
		switch {
		case named(s.ID, name) || s.Label == name:
			found = append(found, s)
		case namedByTranscript(s.Meta, name):
			imported = append(imported, s)
		case s.Error != "":
			unreadable++
		}
	}
	if len(found) == 0 {
		found = imported
	}
	switch len(found) {
	case 0:
		err := api.Errorf(api.NotFound, nil, "no session is called %q", name)
		if unreadable > 0 {
			return nil, nil, hinted{err, fmt.Sprintf("the labels of %s can't be read; ledgerctl sessions lists their ids", plural(unreadable, "session"))}
		}
		return nil, nil, hinted{err, sessionHint}
	case 1:
		return c.As(found[0].Agent), &found[0], nil
	}
	var list []string
	for _, s := range found {
		list = append(list, strings.TrimSpace(s.ID.String()+"  "+cut(printable(s.Label), 40)))
	}
	return nil, nil, manyNamed("sessions", name, list)
}

// outline returns a session whose content can't be read as the list shows it, or err if
// the list shows no such session.
func (e *env) outline(ctx context.Context, c *api.Client, id turns.ID, err error) (*api.Session, error) {
	for s, lerr := range c.Sessions(ctx) {
		if lerr != nil {
			return nil, lerr
		}
		if s.ID == id && s.Error != "" {
			return &s, nil
		}
	}
	return nil, err
}

// leastTranscriptID is the length from which a name can be the beginning or end of an
// id that a transcript gave, which may be short or a word.
const leastTranscriptID = 4

// namedByTranscript reports whether a name is the id that the transcript of an imported
// session gave it, or its beginning or end.
func namedByTranscript(meta turns.Raw, name string) bool {
	var m struct {
		Session turns.Raw `json:"session_id"`
	}
	_ = json.Unmarshal(meta, &m) // the client's meta may be anything
	id, _ := m.Session.Text()
	id, name = strings.ToLower(id), strings.ToLower(name)
	return id != "" && (id == name || len(name) >= leastTranscriptID && (strings.HasPrefix(id, name) || strings.HasSuffix(id, name)))
}

// named reports whether a name is an id's, or its beginning or end.
func named(id turns.ID, name string) bool {
	full, name := id.String(), strings.ToUpper(name)
	return strings.HasPrefix(full, name) || strings.HasSuffix(full, name)
}

// manyNamed returns the error for an ambiguous name.
func manyNamed(what, name string, list []string) error {
	const most = 8
	hint := "which of them?"
	for i, l := range list {
		if i == most {
			hint += "\n  …"
			break
		}
		hint += "\n  " + l
	}
	return hinted{usageError{fmt.Errorf("%d %s are called %q", len(list), what, name)}, hint}
}

// turnNumber reads the number of a turn on the path of its session as summaries
// cite it: t12 or [t12].
func turnNumber(name string) (n uint64, ok bool) {
	if in, bracketed := strings.CutPrefix(name, "["); bracketed {
		if name, bracketed = strings.CutSuffix(in, "]"); !bracketed {
			return 0, false
		}
	}
	digits, ok := strings.CutPrefix(strings.ToLower(name), "t")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

// at finds the turn of a session by the part after the @ in SESSION@head,
// SESSION@head~3, SESSION@30, SESSION@t30.
func (e *env) at(ctx context.Context, c *api.Client, s *api.Session, sess, at string) (turns.ID, error) {
	n, err := depthOf(s, at)
	if err != nil {
		return turns.ID{}, usageError{fmt.Errorf("%q is not SESSION@head, SESSION@head~N or SESSION@N, where N is a number that log shows", sess+"@"+at)}
	}
	if n < 1 || n > s.Depth {
		return turns.ID{}, hinted{api.Errorf(api.NotFound, nil, "%s has no turn %s: its head is at depth %d", sess, at, s.Depth), turnHint}
	}
	order, back := "asc", n-1
	if s.Depth-n < back { // from the nearer end
		order, back = "desc", s.Depth-n
	}
	for t, err := range c.Turns(ctx, s.ID, api.ListTurns{Order: order, Page: api.Page{Limit: int(min(back+1, 1000))}}) {
		if err != nil {
			return turns.ID{}, err
		}
		if t.Depth == n {
			return t.ID, nil
		}
	}
	return turns.ID{}, api.Errorf(api.NotFound, nil, "%s has no turn %s any more: its head moved", sess, at)
}

// depthOf is the depth that at names on the path of a session's head; 0 for one
// above its first turn.
func depthOf(s *api.Session, at string) (uint64, error) {
	if n, ok := turnNumber(at); ok {
		return n, nil
	}
	head, up, back := strings.Cut(at, "~")
	switch {
	case at == "head":
		return s.Depth, nil
	case back && head == "head":
		n, err := strconv.ParseUint(up, 10, 64)
		return s.Depth - min(n, s.Depth), err
	}
	return strconv.ParseUint(at, 10, 64)
}

// turn finds a turn: SESSION@head, SESSION@head~3, SESSION@30, SESSION/TURN, or a
// turn's id or the beginning or end of one, searched over all sessions. A label may have
// these characters too, so the last one parts the name.
func (e *env) turn(ctx context.Context, name string) (place, error) {
	last := strings.LastIndexAny(name, "@/")
	if sess, at, ok := cutAt(name, last); ok && name[last] == '@' {
		c, s, err := e.session(ctx, sess)
		if err != nil {
			return place{}, err
		}
		id, err := e.at(ctx, c, s, sess, at)
		return place{c: c, s: s, turn: id}, err
	}
	if sess, id, ok := cutAt(name, last); ok {
		c, s, err := e.session(ctx, sess)
		if err != nil {
			return place{}, err
		}
		return e.turnIn(ctx, c, s, id)
	}
	op, err := e.client(api.Operator)
	if err != nil {
		return place{}, err
	}
	var found []place
	for s, err := range op.Sessions(ctx) {
		if err != nil {
			return place{}, err
		}
		in, err := e.turnsIn(ctx, op.As(s.Agent), &s, name)
		if err != nil && !coded(err, api.NotFound) && s.Error == "" {
			return place{}, err
		}
		for _, f := range in { // forks share turns with their parents
			if !slices.ContainsFunc(found, func(g place) bool { return g.turn == f.turn }) {
				found = append(found, f)
			}
		}
		if len(found) == 1 && len(name) >= len(short(found[0].turn)) || len(found) > 100 {
			break // as long as what is shown: no other has it
		}
	}
	if _, ok := turnNumber(name); ok && len(found) == 0 {
		return place{}, usageError{fmt.Errorf("%s is a turn of which session? SESSION@%s", name, strings.Trim(name, "[]"))}
	}
	return oneTurn(found, name, "")
}

// cutAt parts s around the byte at i; ok is false for a negative i.
func cutAt(s string, i int) (before, after string, ok bool) {
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// place is a turn of a session, or the session itself.
type place struct {
	c     *api.Client // speaks for the session's agent
	s     *api.Session
	turn  turns.ID // zero: the session
	depth uint64
}

// turnIn finds a turn on the path of a session's head, or among what a tree shows of
// its other branches; by its whole id, wherever on them it is; by its number, t12.
func (e *env) turnIn(ctx context.Context, c *api.Client, s *api.Session, name string) (place, error) {
	if _, ok := turnNumber(name); ok {
		id, err := e.at(ctx, c, s, short(s.ID), name)
		return place{c: c, s: s, turn: id}, err
	}
	found, err := e.turnsIn(ctx, c, s, name)
	if err == nil && len(found) == 0 {
		found, err = e.branchesIn(ctx, c, s, name)
	}
	if coded(err, api.NotFound) {
		err = hinted{err, turnHint}
	}
	if err != nil {
		return place{}, err
	}
	return oneTurn(found, name, " in session "+short(s.ID))
}

const turnHint = "ledgerctl log SESSION lists the turns of one"

func oneTurn(found []place, name, where string) (place, error) {
	switch len(found) {
	case 0:
		return place{}, hinted{api.Errorf(api.NotFound, nil, "no turn is called %q%s", name, where), turnHint}
	case 1:
		return found[0], nil
	}
	var list []string
	for _, f := range found {
		list = append(list, fmt.Sprintf("%s/%s  depth %d", short(f.s.ID), short(f.turn), f.depth))
	}
	return place{}, manyNamed("turns", name, list)
}

func (e *env) turnsIn(ctx context.Context, c *api.Client, s *api.Session, name string) (found []place, err error) {
	if id, err := turns.ParseID(strings.ToUpper(name)); err == nil {
		for t, err := range c.Turns(ctx, s.ID, api.ListTurns{At: id, Order: "desc", Page: api.Page{Limit: 1}}) { // turn.get needs the content
			if coded(err, api.Corrupt) { // a turn that follows a lost one is on no path
				if t, terr := c.Turn(ctx, s.ID, id); terr == nil && t.AfterLoss {
					return []place{{c, s, id, t.Depth}}, nil
				}
			}
			if err != nil {
				return nil, err
			}
			return []place{{c, s, id, t.Depth}}, nil
		}
		return nil, nil
	}
	for t, err := range c.Path(ctx, s.ID, api.GetPath{}) {
		if err != nil {
			return nil, err
		}
		if named(t.ID, name) {
			found = append(found, place{c, s, t.ID, t.Depth})
		}
	}
	return found, nil
}

// branchesIn looks among the ends and compactions of a session's branches.
func (e *env) branchesIn(ctx context.Context, c *api.Client, s *api.Session, name string) (found []place, err error) {
	t, err := c.Tree(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	for _, x := range t.Sessions {
		if x.ID != s.ID {
			continue
		}
		for _, b := range x.Branches {
			for _, k := range append(b.Compactions, api.PathTurn{ID: b.Tip, Depth: b.To}) {
				if named(k.ID, name) && !slices.ContainsFunc(found, func(f place) bool { return f.turn == k.ID }) {
					found = append(found, place{c, s, k.ID, k.Depth})
				}
			}
		}
	}
	return found, nil
}

// whole returns an id. It highlights the end, by which other output names it.
func whole(id turns.ID) string {
	s := id.String()
	return faint.Render(s[:18]) + idStyle.Render(s[18:])
}

// short is the end of an id, which tells apart what one millisecond made.
func short(id turns.ID) string { return id.String()[18:] }

// coded reports whether err is an answer with this code.
func coded(err error, c api.Code) bool {
	var x *api.Error
	return errors.As(err, &x) && x.Code == c
}

package names

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// TurnNumber reads the number of a turn on the path of its session as summaries
// cite it: t12 or [t12].
func TurnNumber(name string) (n uint64, ok bool) {
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

// shownLength is how many characters of an id tables show: what is as long is an id.
const shownLength = 8

// IsPlace reports whether name says where on the path of a session a turn is, and is no
// id: t12, 12, head, head~3. An id's end of digits alone has all the characters that
// tables show, or a leading zero.
func IsPlace(name string) bool {
	if rest, ok := strings.CutPrefix(name, "head"); ok {
		return rest == "" || rest[0] == '~'
	}
	if len(name) >= shownLength && name[0] != '[' {
		return false
	}
	if _, ok := TurnNumber(name); ok {
		return true
	}
	n, err := strconv.ParseUint(name, 10, 64)
	return err == nil && strconv.FormatUint(n, 10) == name && n > 0
}

// depthOf is the depth that at names on the path of a session's head; 0 for one
// above its first turn.
func depthOf(s *api.Session, at string) (uint64, error) {
	if n, ok := TurnNumber(at); ok {
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

// cutAt parts s around the byte at i; ok is false for a negative i.
func cutAt(s string, i int) (before, after string, ok bool) {
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

const turnHint = "ledgerctl log SESSION lists the turns of one"

// one returns the only one of found; else the error for a name that no turn has, or several.
func one(found []Place, name, where string) (Place, error) {
	switch len(found) {
	case 0:
		return Place{}, fault.WithHint(api.Errorf(api.NotFound, nil, "no turn is called %q%s", name, where), turnHint)
	case 1:
		return found[0], nil
	}
	var list []string
	for _, f := range found {
		list = append(list, fmt.Sprintf("%s/%s  depth %d", prose.Short(f.Session.ID), prose.Short(f.Turn), f.Depth))
	}
	return Place{}, Ambiguous("turns", name, list)
}

// at finds the turn of a session by the part after the @ in SESSION@head,
// SESSION@head~3, SESSION@30, SESSION@t30.
func (f Finder) at(ctx context.Context, c *client.Client, s *api.Session, sess, at string) (turns.ID, error) {
	n, err := depthOf(s, at)
	if err != nil {
		return turns.ID{}, fault.Usage(fmt.Errorf("%q is not SESSION@head, SESSION@head~N or SESSION@N, where N is a number that log shows", sess+"@"+at))
	}
	if n < 1 || n > s.Depth {
		return turns.ID{}, fault.WithHint(api.Errorf(api.NotFound, nil, "%s has no turn %s: its head is at depth %d", sess, at, s.Depth), turnHint)
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

// Turn finds a turn: SESSION@head, SESSION@head~3, SESSION@30, SESSION/TURN, or a
// turn's id or the beginning or end of one, searched over all sessions. A label may have
// these characters too, so the last one parts the name.
func (f Finder) Turn(ctx context.Context, name string) (Place, error) {
	last := strings.LastIndexAny(name, "@/")
	if last == 0 {
		return Place{}, fault.Usage(fmt.Errorf("%s is a turn of which session? SESSION@%s", name, cmp.Or(name[1:], "head")))
	}
	if sess, at, ok := cutAt(name, last); ok && name[last] == '@' {
		c, s, err := f.Session(ctx, sess)
		if err != nil {
			return Place{}, err
		}
		id, err := f.at(ctx, c, s, sess, at)
		return Place{Client: c, Session: s, Turn: id}, err
	}
	if sess, id, ok := cutAt(name, last); ok {
		c, s, err := f.Session(ctx, sess)
		if err != nil {
			return Place{}, err
		}
		return f.TurnIn(ctx, c, s, id)
	}
	op, err := f.Client(api.Operator)
	if err != nil {
		return Place{}, err
	}
	if IsPlace(name) {
		return Place{}, fault.Usage(fmt.Errorf("%s is a turn of which session? SESSION@%s", name, strings.Trim(name, "[]")))
	}
	named, err := op.FindNames(ctx, api.FindNames{Name: name, Kind: "turn", Limit: maxListed})
	if err != nil {
		return Place{}, err
	}
	if len(named.Turns) == 0 && named.Cut {
		return Place{}, tooShort(name)
	}
	if s, serr := op.FindNames(ctx, api.FindNames{Name: name, Kind: "session", Limit: 1}); len(named.Turns) == 0 && serr == nil && len(s.Sessions) > 0 {
		return Place{}, fault.WithHint(fault.Usage(fmt.Errorf("%s is a session, and a turn is asked for", name)), "ledgerctl log "+prose.ShellWord(name)+" lists its turns; the newest is "+prose.ShellWord(name+"@head"))
	}
	found, err := f.places(ctx, op, named.Turns)
	if id, perr := turns.ParseID(strings.ToUpper(name)); err == nil && len(found) == 0 && perr == nil {
		found, err = f.afterLoss(ctx, op, id)
	}
	if err != nil {
		return Place{}, err
	}
	return one(found, name, "")
}

// afterLoss finds a turn that follows a lost one, which only its session's chain has: it
// asks every session.
func (f Finder) afterLoss(ctx context.Context, op *client.Client, id turns.ID) ([]Place, error) {
	for s, err := range op.Sessions(ctx) {
		if err != nil {
			return nil, err
		}
		if t, err := op.Turn(ctx, s.ID, id); err == nil && t.AfterLoss {
			return []Place{{op.As(s.Agent), &s, id, t.Depth}}, nil
		}
	}
	return nil, nil
}

// places returns turns with the sessions whose own they are.
func (f Finder) places(ctx context.Context, op *client.Client, list []api.NamedTurn) (found []Place, err error) {
	for _, t := range list {
		s, err := op.Session(ctx, t.Session)
		if api.HasCode(err, api.Corrupt) {
			s, err = f.outline(ctx, op, t.Session, err)
		}
		if err != nil {
			return nil, err
		}
		found = append(found, Place{op.As(t.Agent), s, t.ID, t.Depth})
	}
	return found, nil
}

// Pair returns the names of two places, each for [Finder.Find]. The second may say only
// where on the path of the first one's session it is: 12, t12, @12, head~3. A session that
// has the second as its label stays what is meant.
func (f Finder) Pair(ctx context.Context, first, second string) ([]string, error) {
	at, marked := strings.CutPrefix(second, "@")
	if !marked && !IsPlace(second) {
		return []string{first, second}, nil
	}
	p, err := f.Find(ctx, first)
	if err != nil {
		return nil, err
	}
	if _, err := p.Client.Resolve(ctx, second); !api.HasCode(err, api.NotFound) {
		return []string{first, second}, err
	}
	sess := prose.Short(p.Session.ID)
	switch i := strings.LastIndexAny(first, "@/"); {
	case p.Turn.IsZero():
		sess = first
	case i > 0:
		sess = first[:i]
	}
	return []string{first, sess + "@" + at}, nil
}

// Joined is the name of what one argument names, a session or a turn, or two: a session, and a
// turn of it by its number, by head~3 or by its id. The turn may also be that of a flag, at.
func Joined(args []string, at string) (string, error) {
	switch {
	case len(args) > 1 && at != "":
		return "", fault.Usage(fmt.Errorf("%s and --at %s name two turns", prose.Printable(args[1]), prose.Printable(at)))
	case at != "":
		args = []string{args[0], at}
	case len(args) < 2:
		return args[0], nil
	}
	name, turn := args[0], strings.TrimPrefix(args[1], "@")
	if strings.ContainsAny(name, "@/") {
		return "", fault.Usage(fmt.Errorf("%s names a turn already, and %s another one", prose.Printable(name), prose.Printable(turn)))
	}
	if IsPlace(turn) {
		return name + "@" + turn, nil
	}
	return name + "/" + turn, nil
}

// TurnIn finds a turn on the path of a session's head, or among what a tree shows of
// its other branches; by its whole id, wherever on them it is; by its number, 12 or t12, or
// as head~3, on the path of the head.
func (f Finder) TurnIn(ctx context.Context, c *client.Client, s *api.Session, name string) (Place, error) {
	if name == "" { // the beginning of every id
		return Place{}, fault.WithHint(fault.Usage(errors.New("the name of the turn is empty")), turnHint)
	}
	if at, marked := strings.CutPrefix(name, "@"); marked || IsPlace(name) {
		id, err := f.at(ctx, c, s, prose.Short(s.ID), at)
		return Place{Client: c, Session: s, Turn: id}, err
	}
	found, err := f.turnsIn(ctx, c, s, name)
	if api.HasCode(err, api.NotFound) {
		err = fault.WithHint(err, turnHint)
	}
	if err != nil {
		return Place{}, err
	}
	return one(found, name, " in session "+prose.Short(s.ID))
}

// turnsIn finds turns of a session, its own and those on the path of its head, by the id or
// a piece of it.
func (f Finder) turnsIn(ctx context.Context, c *client.Client, s *api.Session, name string) (found []Place, err error) {
	id, err := turns.ParseID(strings.ToUpper(name))
	if err != nil {
		named, err := c.FindNames(ctx, api.FindNames{Name: name, Session: s.ID, Limit: maxListed})
		if err != nil {
			return nil, err
		}
		onPath := slices.ContainsFunc(named.Turns, func(t api.NamedTurn) bool { return t.OnPath })
		for _, t := range named.Turns {
			if t.OnPath || !onPath { // one on the path goes before those of other branches
				found = append(found, Place{c, s, t.ID, t.Depth})
			}
		}
		return found, nil
	}
	for t, err := range c.Turns(ctx, s.ID, api.ListTurns{At: id, Order: "desc", Page: api.Page{Limit: 1}}) { // turn.get needs the content
		if api.HasCode(err, api.Corrupt) { // a turn that follows a lost one is on no path
			if t, terr := c.Turn(ctx, s.ID, id); terr == nil && t.AfterLoss {
				return []Place{{c, s, id, t.Depth}}, nil
			}
		}
		if err != nil {
			return nil, err
		}
		return []Place{{c, s, id, t.Depth}}, nil
	}
	return nil, nil
}

package names

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/connect"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Place is a turn of a session, or the session itself.
type Place struct {
	Client  *client.Client // speaks for the session's agent
	Session *api.Session
	Turn    turns.ID // zero: the session
	Depth   uint64
}

// Finder finds sessions and turns by what a person types.
type Finder struct{ *connect.Connection }

// Find finds a session, or a turn of one.
func (f Finder) Find(ctx context.Context, name string) (Place, error) {
	more := ""
	if !strings.ContainsAny(name, "@/") {
		c, s, err := f.Session(ctx, name)
		byChance := IsPlace(name) && len(name) < leastTranscriptID && (s == nil || s.Label != name) // a number that ids end with
		if !api.HasCode(err, api.NotFound) && (!byChance || err != nil && !fault.IsUsage(err)) {
			return Place{Client: c, Session: s}, err
		}
		more = fault.HintIn(err)
	}
	p, err := f.Turn(ctx, name)
	if err != nil && strings.ContainsAny(name, "@/") {
		if c, s, serr := f.Session(ctx, name); serr == nil { // a label that has such a character
			return Place{Client: c, Session: s}, nil
		}
	}
	if api.HasCode(err, api.NotFound) && !strings.ContainsAny(name, "@/") {
		err = api.Errorf(api.NotFound, nil, "no session or turn is called %q", name)
		if more != "" {
			err = fault.WithHint(err, more)
		}
	}
	return p, err
}

// Session finds a session by its id, the beginning or end of one, its label, or the
// id that its transcript gives it, and a client that speaks for its agent. A session
// whose content can't be read comes as a list shows it, with its Error.
func (f Finder) Session(ctx context.Context, name string) (*client.Client, *api.Session, error) {
	if name == "" { // the beginning of every id
		return nil, nil, fault.WithHint(fault.Usage(errors.New("the name of the session is empty")), fault.SessionHint)
	}
	c, err := f.Client(api.Operator)
	if err != nil {
		return nil, nil, err
	}
	if id, err := turns.ParseID(strings.ToUpper(name)); err == nil {
		s, err := c.Session(ctx, id)
		if api.HasCode(err, api.Corrupt) {
			s, err = f.outline(ctx, c, id, err)
		}
		if api.HasCode(err, api.NotFound) {
			err = fault.WithHint(err, fault.SessionHint)
		}
		if err != nil {
			return nil, nil, err
		}
		return c.As(s.Agent), s, nil
	}
	agent := f.Agent
	if agent == "" {
		agent = "main"
	}
	if s, err := c.As(agent).Resolve(ctx, name); err == nil {
		return c.As(s.Agent), s, nil
	}
	named, err := c.FindNames(ctx, api.FindNames{Name: name, Kind: "session", Limit: maxListed})
	if err != nil {
		return nil, nil, err
	}
	var found []api.Session
	unreadable := uint64(0)
	if named.Cut && len(named.Sessions) == 0 {
		return nil, nil, tooShort(name)
	}
	for _, n := range named.Sessions {
		s, err := f.described(ctx, c, n.ID)
		if err != nil {
			return nil, nil, err
		}
		found = append(found, *s)
	}
	if len(found) == 0 && !strings.ContainsAny(name, " @/[") && !f.isTurns(ctx, c, name) {
		if found, unreadable, err = f.byTranscript(ctx, c, name); err != nil {
			return nil, nil, err
		}
	}
	switch len(found) {
	case 0:
		err := api.Errorf(api.NotFound, nil, "no session is called %q", name)
		if unreadable > 0 {
			return nil, nil, fault.WithHint(err, fmt.Sprintf("the labels of %s can't be read; ledgerctl sessions lists their ids", prose.Plural(unreadable, "session")))
		}
		if sess, at, ok := cutAt(name, strings.LastIndexAny(name, "@/")); ok && sess != "" {
			if _, _, serr := f.Session(ctx, sess); serr == nil {
				return nil, nil, fault.WithHint(err, fmt.Sprintf("%s is one of its turns; where a session is asked for, name %s alone", at, prose.ShellWord(sess)))
			}
		}
		return nil, nil, fault.WithHint(err, fault.SessionHint)
	case 1:
		return c.As(found[0].Agent), &found[0], nil
	}
	var list []string
	for _, s := range found {
		list = append(list, line(&s))
	}
	return nil, nil, Ambiguous("sessions", name, list)
}

// maxListed is of how many sessions or turns the error for an ambiguous name knows.
const maxListed = 20

// described returns a session, as a list shows it where its content can't be read.
func (f Finder) described(ctx context.Context, c *client.Client, id turns.ID) (*api.Session, error) {
	s, err := c.GetSession(ctx, id, api.GetSession{About: api.About{About: true}})
	if err != nil && !api.HasCode(err, api.NotFound) {
		if out, lerr := f.outline(ctx, c, id, err); lerr == nil {
			return out, nil
		}
	}
	return s, err
}

// isTurns reports whether a name is a turn's.
func (f Finder) isTurns(ctx context.Context, c *client.Client, name string) bool {
	named, err := c.FindNames(ctx, api.FindNames{Name: name, Kind: "turn", Limit: 1})
	return err == nil && len(named.Turns) > 0
}

// tooShort is the error for a piece of an id that more ids have than are looked at.
func tooShort(name string) error {
	return fault.WithHint(fault.Usage(fmt.Errorf("too many ids begin or end with %q", name)), "type more of the id: tables show eight characters of its end")
}

// byTranscript returns the sessions that an id is of which their transcripts give, or a
// piece of it, else those whose end that tables show begins so. The ledger seals what a
// transcript says, so it is asked for all sessions.
func (f Finder) byTranscript(ctx context.Context, c *client.Client, name string) (found []api.Session, unreadable uint64, err error) {
	var begun []api.Session
	for s, err := range c.Sessions(ctx) {
		switch {
		case err != nil:
			return nil, 0, err
		case namedByTranscript(s.Meta, name):
			found = append(found, s)
		case len(name) >= leastTranscriptID && strings.HasPrefix(prose.Short(s.ID), strings.ToUpper(name)):
			begun = append(begun, s)
		case s.Error != "":
			unreadable++
		}
	}
	if len(found) == 0 { // the beginning of the end that tables show names one where nothing else does
		found = begun
	}
	if root := onlyRoot(found); root >= 0 {
		found = found[root : root+1]
	}
	for i := range found[:min(len(found), maxListed)] {
		s, err := f.described(ctx, c, found[i].ID)
		if err != nil {
			return nil, 0, err
		}
		found[i] = *s
	}
	return found, unreadable, nil
}

// onlyRoot returns the index of the session that all others of a list were forked from, or
// serve: a rewind and a sub-agent have the id of their transcript, too. It is -1 if there
// are several.
func onlyRoot(list []api.Session) int {
	in := make(map[turns.ID]bool, len(list))
	for i := range list {
		in[list[i].ID] = true
	}
	root := -1
	for i := range list {
		s := &list[i]
		if s.ForkedFrom != nil && in[s.ForkedFrom.Session] || s.SpawnedBy != nil && in[s.SpawnedBy.Session] {
			continue
		}
		if root >= 0 {
			return -1
		}
		root = i
	}
	return root
}

// line is a session among others of its name, with the time and the count that the table of
// sessions has: when its newest turn was said, how many turns are its own; where it comes
// from, and its label.
func line(s *api.Session) string {
	parts := []string{s.ID.String(), "no turn yet"}
	if s.HeadTime != nil {
		parts = []string{s.ID.String(), prose.At(time.Time(*s.HeadTime), s.HeadTimeBound, "2006-01-02 15:04"), prose.Plural(s.Turns, "turn")}
	}
	for _, p := range []string{prose.Source(s.Meta), terminal.Cut(prose.Printable(s.Label), 40)} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, "  ")
}

// outline returns a session whose content can't be read as the list shows it, or err if
// the list shows no such session.
func (f Finder) outline(ctx context.Context, c *client.Client, id turns.ID, err error) (*api.Session, error) {
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

// Named reports whether a name is an id's, or its beginning or end.
func Named(id turns.ID, name string) bool {
	full, name := id.String(), strings.ToUpper(name)
	return strings.HasPrefix(full, name) || strings.HasSuffix(full, name)
}

// Ambiguous returns the error for an ambiguous name.
func Ambiguous(what, name string, list []string) error {
	const most = 8
	hint := "which of them?"
	for i, l := range list {
		if i == most {
			hint += "\n  …"
			break
		}
		hint += "\n  " + l
	}
	return fault.WithHint(fault.Usage(fmt.Errorf("%d %s are called %q", len(list), what, name)), hint)
}

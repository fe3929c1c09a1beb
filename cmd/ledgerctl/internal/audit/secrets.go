package audit

import (
	"context"
	"fmt"
	"slices"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/secrets"
)

// foundSecret says where a credential is. What is shown of it does not hold it.
type foundSecret struct {
	Session turns.ID `json:"session"`
	Turn    turns.ID `json:"turn,omitzero"` // absent: the session has it
	Depth   uint64   `json:"depth,omitzero"`
	Half    string   `json:"half"` // messages, response, summary; of a session: system, tools, meta, title, tag
	Message int      `json:"message"`
	Part    int      `json:"part"`
	Kind    string   `json:"kind"`

	text string
}

// Secret is a credential that a session has.
type Secret struct {
	Session turns.ID
	Text    string
}

// FindSecrets lists the credentials of known shapes in the turns of sessions, of all if ids
// is empty: each turn once, in its own session, on every branch; and in what the settings and
// descriptions of the sessions are now. It returns each once for each session.
func FindSecrets(ctx context.Context, term *terminal.Terminal, c *client.Client, ids []turns.ID) ([]Secret, error) {
	if len(ids) == 0 {
		for s, err := range c.ListSessions(ctx, api.ListSessions{Hidden: true, Superseded: true}) { // those that lists leave out are stored all the same
			if err != nil {
				return nil, err
			}
			ids = append(ids, s.ID)
		}
	}
	trees := make(map[turns.ID]*api.TreeSession)
	var count secretCount
	for _, id := range ids {
		if trees[id] == nil {
			tree, err := c.Tree(ctx, id)
			if api.HasCode(err, api.Erased) {
				continue
			}
			if err != nil {
				return nil, err
			}
			for i := range tree.Sessions {
				trees[tree.Sessions[i].ID] = &tree.Sessions[i]
			}
		}
		if err := ofSession(ctx, term, c, id, &count); api.HasCode(err, api.Erased) {
			continue
		} else if err != nil {
			return nil, err
		}
		s := trees[id]
		if s == nil {
			return nil, api.Errorf(api.NotFound, nil, "the tree of session %s does not have it", id)
		}
		count.branches += s.BranchCount - min(s.BranchCount, uint64(len(s.Branches)))
		for i := range s.Branches {
			err := branchSecrets(ctx, term, c, s, &s.Branches[i], &count)
			if api.HasCode(err, api.Erased) {
				break
			}
			if err != nil {
				return nil, err
			}
		}
	}
	if count.unread > 0 {
		term.Say("%s could not be read", prose.Plural(count.unread, "turn"))
	}
	if count.settings > 0 {
		term.Say("the system part and tools of %s could not be read", prose.Plural(count.settings, "session"))
	}
	if n := count.branches; n > 0 {
		term.Say("%s not read: a tree lists the first ones of a session", map[bool]string{true: "1 branch was", false: prose.Grouped(n) + " branches were"}[n == 1])
	}
	term.Say("%s in %s: in turns, and in settings and titles as they are now; not in notes, memories, documents or events", prose.Plural(count.found, "credential"), prose.Plural(uint64(len(ids)), "session"))
	return count.secrets, nil
}

// secretCount counts credentials, turns and settings that can't be read, and branches that are not listed.
type secretCount struct {
	found, unread, settings, branches uint64
	secrets                           []Secret // distinct
}

// add counts and prints what was found at one place.
func (count *secretCount) add(term *terminal.Terminal, where string, all []foundSecret) (err error) {
	for _, x := range all {
		count.found++
		if secret := (Secret{x.Session, x.text}); !slices.Contains(count.secrets, secret) {
			count.secrets = append(count.secrets, secret)
		}
		switch {
		case term.JSON:
			err = term.Print(x)
		case x.Turn.IsZero():
			_, err = fmt.Fprintf(term.Out, "%s  %s: %s\n", where, x.Half, x.Kind)
		default:
			_, err = fmt.Fprintf(term.Out, "%s  %s, message %d, part %d: %s\n", where, x.Half, x.Message, x.Part, x.Kind)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ofSession lists the credentials in the settings that a session has now, and in its description.
func ofSession(ctx context.Context, term *terminal.Terminal, c *client.Client, id turns.ID, count *secretCount) error {
	s, err := c.Session(ctx, id)
	if err != nil {
		return err
	}
	var all []foundSecret
	add := func(half string, texts ...string) {
		for i, text := range texts {
			for _, x := range secrets.Find(text) {
				all = append(all, foundSecret{Session: id, Half: half, Part: i, Kind: x.Kind, text: text[x.From:x.To]})
			}
		}
	}
	var system api.System
	made, err := c.Context(ctx, id, api.GetContext{})
	if err == nil && made.System != nil {
		err = turns.DecodeJSON(made.System, &system)
	}
	if err != nil { // it may not fit its budget
		count.settings++
	} else {
		for _, section := range system {
			add("system", section.Name, section.Content)
		}
		for _, t := range made.Tools {
			add("tools", string(t))
		}
	}
	add("meta", string(s.Meta))
	add("title", s.Title)
	add("tag", s.Tags...)
	return count.add(term, id.String(), all)
}

// branchSecrets lists the credentials in the turns of a branch, from its tip up.
func branchSecrets(ctx context.Context, term *terminal.Terminal, c *client.Client, s *api.TreeSession, b *api.Branch, count *secretCount) error {
	for t, err := range c.Turns(ctx, s.ID, api.ListTurns{At: b.Tip, Order: "desc", Full: true, Page: api.Page{Limit: int(min(b.To-b.From+1, 100))}}) {
		if err != nil {
			return err
		}
		if t.Session != s.ID || t.Depth < b.From {
			return nil // of another branch, or inherited
		}
		if t.Error != "" {
			count.unread++
			continue
		}
		all, err := secretsOf(ctx, term, c, s.ID, &t)
		if err != nil {
			return err
		}
		where := fmt.Sprintf("%s@%d", s.ID, t.Depth)
		if len(s.Branches) > 1 { // a number names a turn of the head's path
			where = fmt.Sprintf("%s/%s", s.ID, t.ID)
		}
		if err := count.add(term, where, all); err != nil {
			return err
		}
	}
	return nil
}

// secretsOf finds the secrets of a turn, in each of its halves.
func secretsOf(ctx context.Context, term *terminal.Terminal, c *client.Client, session turns.ID, t *api.Turn) (out []foundSecret, err error) {
	add := func(half string, message, part int, text string) {
		for _, s := range secrets.Find(text) {
			out = append(out, foundSecret{session, t.ID, t.Depth, half, message, part, s.Kind, text[s.From:s.To]})
		}
	}
	messages := func(half string, all []turns.Message) error {
		for i, m := range all {
			for j := range m.Parts {
				p := &m.Parts[j]
				content := p.ContentBytes()
				if p.Ref != nil {
					if content, err = c.Content(ctx, session, p.Ref); err != nil {
						return err
					}
				}
				add(half, i, j, string(content))
			}
		}
		return nil
	}
	if err := messages("messages", t.Messages); err != nil {
		return nil, err
	}
	if t.Response != nil {
		if err := messages("response", []turns.Message{*t.Response}); err != nil {
			return nil, err
		}
	}
	k := t.Compaction
	switch {
	case k == nil:
		return out, nil
	case k.Summary != nil:
		add("summary", 0, 0, *k.Summary)
		return out, nil
	}
	err = messages("summary", k.Replacement) // of another program
	return out, err
}

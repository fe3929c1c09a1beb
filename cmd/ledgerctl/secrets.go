package main

import (
	"context"
	"fmt"

	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/secrets"
)

// foundSecret says where a credential is. It does not hold it.
type foundSecret struct {
	Session turns.ID `json:"session"`
	Turn    turns.ID `json:"turn"`
	Depth   uint64   `json:"depth"`
	Half    string   `json:"half"` // messages, response, summary
	Message int      `json:"message"`
	Part    int      `json:"part"`
	Kind    string   `json:"kind"`
}

// findSecrets lists the credentials of known shapes in the turns of sessions, of all if ids
// is empty: each turn once, in its own session.
func (e *env) findSecrets(ctx context.Context, c *api.Client, ids []turns.ID) error {
	if len(ids) == 0 {
		for s, err := range c.Sessions(ctx) {
			if err != nil {
				return err
			}
			ids = append(ids, s.ID)
		}
	}
	found, unread := uint64(0), uint64(0)
	for _, id := range ids {
		for t, err := range c.Turns(ctx, id, api.ListTurns{Full: true}) {
			if coded(err, api.Erased) {
				break
			}
			if err != nil {
				return err
			}
			if t.Error != "" {
				unread++
				continue
			}
			if t.Session != id {
				continue // inherited
			}
			all, err := e.secretsOf(ctx, c, id, &t)
			if err != nil {
				return err
			}
			for _, s := range all {
				found++
				if e.json {
					err = e.print(s)
				} else {
					_, err = fmt.Fprintf(e.out, "%s@%d  %s, message %d, part %d: %s\n", s.Session, s.Depth, s.Half, s.Message, s.Part, s.Kind)
				}
				if err != nil {
					return err
				}
			}
		}
	}
	if unread > 0 {
		e.say("%s could not be read", plural(unread, "turn"))
	}
	e.say("%s in %s", plural(found, "credential"), plural(uint64(len(ids)), "session"))
	return nil
}

func (e *env) secretsOf(ctx context.Context, c *api.Client, session turns.ID, t *api.Turn) (out []foundSecret, err error) {
	add := func(half string, message, part int, text string) {
		for _, s := range secrets.Find(text) {
			out = append(out, foundSecret{session, t.ID, t.Depth, half, message, part, s.Kind})
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
	if k := t.Compaction; k != nil && k.Summary != nil {
		add("summary", 0, 0, *k.Summary)
	}
	return out, nil
}

// maskTurn masks the credentials in what a turn says.
func maskTurn(t *api.Turn) {
	mask := func(all []turns.Message) {
		for _, m := range all {
			for j := range m.Parts {
				p := &m.Parts[j]
				if p.Ref != nil {
					p.Ref.Preview = secrets.Mask(p.Ref.Preview)
					continue
				}
				text := string(p.ContentBytes())
				if masked := secrets.Mask(text); masked != text {
					p.SetContent([]byte(masked))
				}
			}
		}
	}
	mask(t.Messages)
	if t.Response != nil {
		mask([]turns.Message{*t.Response})
	}
	if k := t.Compaction; k != nil && k.Summary != nil {
		masked := secrets.Mask(*k.Summary)
		k.Summary = &masked
	}
}

package mcp

import (
	"context"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"nexus/ledger/api"
	"nexus/turns"
)

type forkInput struct {
	Turn  string `json:"turn" jsonschema:"the turn to continue from: SESSION/TURN, SESSION@head, SESSION@head~N, or SESSION@N with its number"`
	Mode  string `json:"mode,omitempty" jsonschema:"what the new session sees; default as_seen: what the next call at that turn would see; full: every turn, without compactions; summary: as_seen, beginning with a summary at that turn"`
	Label string `json:"label,omitempty" jsonschema:"a name for the new session"`
	Key   string `json:"key,omitempty" jsonschema:"a word of your own: a call again with the same key opens no second session"`
}

type forkResult struct {
	Session string `json:"session" jsonschema:"id of the new session"`
	Head    string `json:"head,omitempty" jsonschema:"the turn that its next turn continues, as SESSION/TURN"`
	From    string `json:"from" jsonschema:"the turn that it was forked at, as SESSION/TURN"`
	Mode    string `json:"mode"`
	State   string `json:"state"`
	Number  uint64 `json:"number" jsonschema:"turns on the path of its head"`
	Tokens  uint64 `json:"tokens" jsonschema:"of its context"`
	Budget  uint64 `json:"budget"`
}

func defineFork() (definition, error) {
	return define(about{name: "fork", title: "Fork a session", writes: true,
		description: "Opens a new session that continues from any stored turn. Nothing is copied, and the first session goes on as it was. With a key it can be called again safely."},
		func(p map[string]*jsonschema.Schema) { oneOf(p["mode"], "as_seen", "full", "summary") },
		forkTurn)
}

func forkTurn(ctx context.Context, c *call, in forkInput) (*forkResult, error) {
	session, turn, id, err := c.forkPoint(ctx, in)
	if err != nil {
		return nil, err
	}
	r := api.CreateFork{ID: id, Turn: turn, Mode: in.Mode}
	if in.Label != "" {
		r.Label = &in.Label
	}
	s, err := c.Fork(ctx, session, r)
	if err != nil {
		return nil, err
	}
	out := &forkResult{Session: s.ID.String(), From: handle(session, turn), Mode: s.Mode, State: s.State, Number: s.Depth, Tokens: s.Tokens, Budget: s.Budget}
	if s.Head != nil {
		out.Head = handle(s.ID, *s.Head)
	}
	return out, nil
}

// forkPoint returns where to fork, and the id of the request. A call again with a key
// forks where the first did, though the head, or the path, moved since.
func (c *call) forkPoint(ctx context.Context, in forkInput) (session, turn, id turns.ID, err error) {
	if i := strings.LastIndex(in.Turn, "@"); in.Key != "" && i >= 0 {
		s, err := c.session(ctx, "/turn", in.Turn[:i])
		if err != nil {
			return session, turn, id, err
		}
		if id, err = c.keyed("fork", in.Key, s.ID); err != nil {
			return session, turn, id, err
		}
		if f, err := c.Session(ctx, id); err == nil && f.ForkedFrom != nil {
			return s.ID, f.ForkedFrom.Turn, id, nil
		}
	}
	if session, turn, err = c.turn(ctx, "/turn", in.Turn); err != nil {
		return session, turn, id, err
	}
	id, err = c.keyed("fork", in.Key, session)
	return session, turn, id, err
}

func (r *forkResult) text(f *frame) {
	f.line("Session %s is open: forked at %s, mode %s, %s on its path, %d of %d tokens.", r.Session, r.From, r.Mode, plural(r.Number, "turn"), r.Tokens, r.Budget)
	if r.Head != "" {
		f.line("head: %s", r.Head)
	}
}

package mcp

import (
	"context"

	"github.com/google/jsonschema-go/jsonschema"

	"nexus/ledger/api"
	"nexus/turns"
)

type rememberInput struct {
	Text       string   `json:"text" jsonschema:"what to remember, as a sentence that is understood without this conversation; at most 16 KiB"`
	Kind       string   `json:"kind,omitempty" jsonschema:"default semantic: a fact or preference; episodic: what happened; daily: of this day; long_term: to be kept for good"`
	Session    string   `json:"session,omitempty" jsonschema:"the session that it comes from: its id or label"`
	Sources    []string `json:"sources,omitempty" jsonschema:"the turns that it comes from, as SESSION/TURN"`
	Supersedes string   `json:"supersedes,omitempty" jsonschema:"id of the memory that it replaces; the old one stays stored"`
	Visibility string   `json:"visibility,omitempty" jsonschema:"who sees it; default: all sessions if a session is named that is neither main nor a fork, its branch for a fork, else main sessions"`
	Key        string   `json:"key,omitempty" jsonschema:"a word of your own: a call again with the same key stores nothing twice"`
}

type rememberResult struct {
	Memory     string `json:"memory" jsonschema:"its id"`
	Kind       string `json:"kind"`
	State      string `json:"state" jsonschema:"proposed or accepted"`
	Visibility string `json:"visibility"`
	Known      bool   `json:"known,omitempty" jsonschema:"a memory said the same before; this call is one more source of it"`
	Duplicate  bool   `json:"duplicate,omitempty" jsonschema:"this request was stored before"`
	Position   string `json:"position"`
}

func defineRemember() (definition, error) {
	return define(about{name: "remember", title: "Save a memory", writes: true,
		description: "Saves a memory of this agent, which brief and search show to later sessions. Nothing is overwritten: a memory that supersedes another leaves it stored. With a key it can be called again safely."},
		func(p map[string]*jsonschema.Schema) {
			oneOf(p["kind"], "daily", "long_term", "episodic", "semantic")
			oneOf(p["visibility"], "main", "all", "branch")
		}, remember)
}

func remember(ctx context.Context, c *call, in rememberInput) (*rememberResult, error) {
	r := api.SaveMemory{Kind: in.Kind, Text: in.Text, Visibility: in.Visibility}
	if r.Kind == "" {
		r.Kind = "semantic"
	}
	var err error
	if r.ID, err = c.keyed("remember", in.Key, turns.ID{}); err != nil {
		return nil, err
	}
	if in.Session != "" {
		s, err := c.session(ctx, "/session", in.Session)
		if err != nil {
			return nil, err
		}
		r.Session = s.ID
	}
	for _, name := range in.Sources {
		session, turn, err := c.turn(ctx, "/sources", name)
		if err != nil {
			return nil, err
		}
		r.Sources = append(r.Sources, api.TurnName{Session: session, Turn: turn})
		if len(r.Sources) > turns.MaxMemorySources {
			return nil, api.FieldErrorf("/sources", "more than %d", turns.MaxMemorySources)
		}
	}
	if in.Supersedes != "" {
		if r.Supersedes, err = turns.ParseID(in.Supersedes); err != nil {
			return nil, api.FieldErrorf("/supersedes", "%q is not an id of 26 characters", head(in.Supersedes, 40))
		}
	}
	m, err := c.SaveMemory(ctx, r)
	if err != nil {
		return nil, err
	}
	return &rememberResult{m.ID.String(), m.Kind, m.State, m.Visibility, m.Known, m.Duplicate, m.Position}, nil
}

func (r *rememberResult) text(f *frame) {
	switch {
	case r.Duplicate:
		f.line("Memory %s was stored by the same call before.", r.Memory)
	case r.Known:
		f.line("Memory %s said the same before; this is one more source of it.", r.Memory)
	default:
		f.line("Memory %s is stored: %s, %s, seen by %s.", r.Memory, r.Kind, r.State, r.Visibility)
	}
}

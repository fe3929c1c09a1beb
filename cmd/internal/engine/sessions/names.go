package sessions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/seal"
)

// maxNamed bounds the ids that a name is compared with: those of the caller's that it begins
// or ends.
const maxNamed = 4096

// FindNames is lineage.find: the sessions and turns of the caller that a name may mean. It
// reads what has the name, and a row for each agent, whatever the length of the history.
func (ss *Sessions) FindNames(ctx context.Context, c reader.Caller, req api.FindNames) (*api.Names, error) {
	limit, err := (&api.Page{Limit: req.Limit}).LimitOf(20, 100)
	if err != nil {
		return nil, err
	}
	if req.Name == "" || len(req.Name) > turns.MaxName {
		return nil, api.FieldErrorf("/name", "%d bytes; a name has 1 to %d", len(req.Name), turns.MaxName)
	}
	if req.Kind != "" && req.Kind != "session" && req.Kind != "turn" {
		return nil, api.FieldErrorf("/kind", "%.40q is not one of session, turn", req.Kind)
	}
	if err := ss.reader.WaitLog(ctx, req.Read); err != nil {
		return nil, err
	}
	agents, err := ss.agentsOf(c)
	if err != nil {
		return nil, err
	}
	out := &api.Names{Sessions: []api.NamedSession{}, Turns: []api.NamedTurn{}}
	var in *ledger.Session
	var head lineage.Node
	if !req.Session.IsZero() {
		if in, head, err = ss.reader.SessionAt(ctx, c, req.Session, turns.ID{}, req.Read); err != nil {
			return nil, err
		}
	} else if err := ss.labelled(ctx, c, agents, req.Name, out); err != nil {
		return nil, err
	}
	seen := make(map[turns.Ref]bool)
	n := 0
	for _, agent := range agents {
		for ref, err := range ss.reader.Projections.Named(c.Tenant, agent, strings.ToUpper(req.Name)) {
			if err == nil && ctx.Err() != nil {
				err = fmt.Errorf("%w: looked for a name: %w", ledger.ErrUnavailable, ctx.Err())
			}
			if err != nil {
				return nil, err
			}
			if n++; n > maxNamed || len(out.Sessions)+len(out.Turns) == limit {
				out.Cut = true
				return out, nil
			}
			if kind := map[bool]string{true: "session", false: "turn"}[ref.Turn == ref.Session]; seen[ref] || req.Kind != "" && kind != req.Kind {
				continue
			}
			seen[ref] = true
			if err := ss.addNamed(c, ref, in, head, out); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// agentsOf returns the agents whose sessions a caller sees: itself, and for the operator all
// of the tenant.
func (ss *Sessions) agentsOf(c reader.Caller) (agents []string, err error) {
	if !c.Operator() {
		return []string{c.Agent}, nil
	}
	for agent, err := range ss.reader.Projections.Agents(c.Tenant) {
		if err != nil {
			return nil, err
		}
		agents = append(agents, agent)
	}
	return agents, nil
}

// addNamed adds a session or a turn, if the caller sees it and it is of a session that the
// caller named.
func (ss *Sessions) addNamed(c reader.Caller, ref turns.Ref, in *ledger.Session, head lineage.Node, out *api.Names) error {
	s, err := ss.reader.Projections.Session(ref.Session)
	if errors.Is(err, ledger.ErrNotFound) || err == nil && (s.Tenant != c.Tenant || !c.Operator() && s.Agent != c.Agent) {
		return nil
	}
	if err != nil {
		return err
	}
	if ref.Turn == ref.Session {
		if in == nil && !slices.ContainsFunc(out.Sessions, func(x api.NamedSession) bool { return x.ID == s.ID }) {
			out.Sessions = append(out.Sessions, api.NamedSession{ID: s.ID, Agent: s.Agent})
		}
		return nil
	}
	row, err := ss.reader.Projections.Turn(ref)
	if errors.Is(err, lineage.ErrUnknown) {
		return nil
	}
	if err != nil {
		return err
	}
	on := false
	if in != nil && !head.Ref.IsZero() {
		if on, err = lineage.IsAncestor(ss.reader.Projections, row.Node, head); err != nil && !errors.Is(err, lineage.ErrUnknown) {
			return err
		}
	}
	if in != nil && !on && ref.Session != in.ID {
		return nil
	}
	kind := "normal"
	if row.Kind == turns.KindCompaction {
		kind = "compaction"
	}
	out.Turns = append(out.Turns, api.NamedTurn{PathTurn: api.PathTurn{ID: ref.Turn, Session: ref.Session, Depth: row.Depth, Type: kind}, Agent: s.Agent, OnPath: on})
	return nil
}

// labelled adds the sessions of some agents that have a label. It opens no successor and
// resets nothing.
func (ss *Sessions) labelled(ctx context.Context, c reader.Caller, agents []string, label string, out *api.Names) error {
	if turns.ValidateLabel("/label", label) != nil {
		return nil
	}
	for _, agent := range agents {
		digest, err := ss.LabelDigest(c.Tenant, agent, label)
		if err != nil {
			return err
		}
		row, err := ss.reader.Projections.Label(c.Tenant, digest)
		if err != nil {
			return err
		}
		if row.Session.IsZero() {
			continue
		}
		h, err := ss.findHolder(ctx, reader.Caller{Tenant: c.Tenant, Agent: agent, Key: c.Key}, label, row)
		if errors.Is(err, seal.ErrNoKey) { // the row is found by the digest: it is this label
			out.Sessions = append(out.Sessions, api.NamedSession{ID: row.Session, Agent: agent})
			continue
		}
		if err != nil {
			return err
		}
		if h.session != nil {
			out.Sessions = append(out.Sessions, api.NamedSession{ID: h.session.ID, Agent: agent})
		}
	}
	return nil
}

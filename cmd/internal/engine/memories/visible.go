package memories

import (
	"context"
	"errors"

	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// viewer is who asks for memories: a session at a turn, or the agent itself, which sees
// all of its own.
type viewer struct {
	session *ledger.Session // nil: the agent
	at      lineage.Node    // zero: before the first turn
	on      map[turns.Ref]bool
}

// viewerOf returns the viewer that a request names: the session at its head, or the
// agent if id is zero. Errors: [ledger.ErrNotFound] for a session of another agent.
func (ms *Memories) viewerOf(ctx context.Context, c reader.Caller, id turns.ID, r api.Read) (*viewer, error) {
	if id.IsZero() {
		return &viewer{}, ms.reader.WaitPosition(ctx, r)
	}
	s, head, err := ms.reader.SessionAt(ctx, c, id, turns.ID{}, r)
	if err != nil {
		return nil, err
	}
	return newViewer(s, head), nil
}

func newViewer(s *ledger.Session, at lineage.Node) *viewer {
	return &viewer{session: s, at: at, on: map[turns.Ref]bool{}}
}

// seesPrivate reports whether the viewer sees what main sessions alone see.
func (v *viewer) seesPrivate() bool { return v.session == nil || v.session.Kind == turns.Main }

// sees reports whether the viewer sees a memory with this status. It is the one rule of
// who sees what: a private memory only in main sessions, one of a branch only where the
// path has the branch's turn.
func (v *viewer) sees(lr lineage.Reader, st ledger.MemoryStatus) (bool, error) {
	switch {
	case st.Private && !v.seesPrivate():
		return false, nil
	case v.session == nil || st.Branch.IsZero():
		return true, nil
	}
	return v.onPath(lr, st.Branch)
}

// knows reports whether the viewer's own context stands for an episode: it is of the session
// itself, or of a turn of its path.
func (v *viewer) knows(lr lineage.Reader, episode turns.Ref) (bool, error) {
	if episode.IsZero() || v.session == nil || episode.Session == v.session.ID {
		return !episode.IsZero() && v.session != nil, nil
	}
	return v.onPath(lr, episode)
}

// onPath reports whether a turn is on the viewer's path.
func (v *viewer) onPath(lr lineage.Reader, turn turns.Ref) (bool, error) {
	if v.at.Ref.IsZero() {
		return false, nil
	}
	if ok, known := v.on[turn]; known {
		return ok, nil
	}
	n, err := lr.Node(turn)
	if errors.Is(err, lineage.ErrUnknown) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	ok, err := lineage.IsAncestor(lr, n, v.at)
	if err == nil {
		v.on[turn] = ok
	}
	return ok, err
}

// find returns a memory that the viewer sees now. Errors: [ledger.ErrNotFound].
func (ms *Memories) find(c reader.Caller, agent string, v *viewer, id turns.ID) (ledger.NamedMemory, error) {
	m, err := ms.reader.Projections.Memory(c.Tenant, agent, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return m, notFound(id)
	}
	if err != nil {
		return m, err
	}
	ok, err := v.sees(ms.reader.Projections, m.Now())
	if err == nil && !ok {
		err = notFound(id)
	}
	return m, err
}

// agentOf returns the agent whose memories a request reads: the caller, or the one that
// the operator names.
func agentOf(c reader.Caller, named string) (string, error) {
	switch {
	case named != "" && !turns.ValidName(named):
		return "", api.FieldErrorf("/agent", "%.80q is not a name: a to z, 0 to 9 and -, at most 64 characters", named)
	case !c.Operator() && named != "" && named != c.Agent:
		return "", &api.Error{Code: api.NotFound, Message: "no memories of agent " + named}
	case !c.Operator():
		return c.Agent, nil
	}
	return named, nil
}

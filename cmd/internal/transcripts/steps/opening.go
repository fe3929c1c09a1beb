package steps

import (
	"context"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/transcripts/sessionmeta"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// opening returns the meta of a session that is opened: that of the transcript, with what read
// it, the repository of its folder, and the import.
func (w *Writer) opening(ctx context.Context, id turns.ID, meta turns.Raw, format string) turns.Raw {
	meta = sessionmeta.WithReader(meta, format)
	if p := w.projectOf(ctx, meta); p.Remote+p.Root != "" {
		if v, err := turns.EncodeJSON(p); err == nil {
			meta = sessionmeta.With(meta, "project", v)
		}
	}
	return sessionmeta.WithImport(meta, w.Unit, id)
}

// projectOf returns the repository that a session worked in: that of its folder as it is now, else
// what the transcript states. A folder may be another repository by now; then what the
// transcript states counts.
func (w *Writer) projectOf(ctx context.Context, meta turns.Raw) turns.Project {
	var m struct {
		Git struct {
			URL string `json:"repository_url"`
		} `json:"git"`
	}
	_ = json.Unmarshal(meta, &m) // it may state another kind of value: nothing then
	stated, cwd := turns.Remote(m.Git.URL), turns.WorkContextOf(meta).Cwd
	p, ok := w.Projects.Of(ctx, cwd)
	if !ok || stated != "" && p.Remote != stated {
		p = turns.Project{Remote: stated}
	}
	if p.Remote+p.Root != "" && cwd != "" {
		p.Dirs = []string{cwd}
	}
	return p
}

// unlessOpened takes the refusal of an opening back where another import opened the session
// meanwhile from the same transcript: its meta differs in what it says of that import alone.
func (w *Writer) unlessOpened(ctx context.Context, id turns.ID, meta turns.Raw, s *api.Session, err error) (*api.Session, error) {
	if !api.HasCode(err, api.IDReused) {
		return s, err
	}
	had, lookup := w.SessionIfAny(ctx, id)
	if lookup != nil || had == nil || !sessionmeta.OpensAlike(had.Meta, meta) {
		return s, err
	}
	return had, nil
}

// known counts a session that the ledger has, and links it to what started it.
func (w *Writer) known(ctx context.Context, l *Line, by turns.Ref, rep *tally.Report) error {
	if sessionmeta.IsOlder(l.Had, rep.Format) && !w.Refresh {
		rep.Older++
	}
	if l.Had.Hidden {
		rep.Hidden++
	}
	return w.linkSpawner(ctx, l.Had, by, rep)
}

// create creates the session of a step.
func (w *Writer) create(ctx context.Context, o *transcript.Open, rep *tally.Report) (*api.Session, error) {
	r := api.CreateSession{ID: o.ID, SpawnedBy: spawnedBy(o.SpawnedBy)}
	r.Meta, r.Model = w.ofRenewal(o.ID, w.opening(ctx, o.ID, o.Meta, rep.Format)), &o.Model
	if len(o.System) > 0 {
		r.System = (*api.System)(&o.System)
	}
	if len(o.Tools) > 0 {
		r.Tools = &o.Tools
	}
	if w.Window > 0 {
		r.Limits = &turns.Limits{ContextWindow: w.Window}
	}
	s, err := w.Client.Create(ctx, r)
	s, err = w.unlessOpened(ctx, o.ID, r.Meta, s, err)
	rep.CountOpened(s, err)
	return s, w.ownID(ctx, o.ID, err)
}

func spawnedBy(r turns.Ref) *api.SpawnedBy {
	if r.IsZero() {
		return nil
	}
	return &api.SpawnedBy{Session: r.Session, Turn: r.Turn}
}

// otherAgentError says that another agent of the ledger has a session of a transcript.
// The ids of a transcript are the same for all agents, so only the first agent of
// the ledger that imports it, of any tenant, can have them.
type otherAgentError struct{ refused *api.Error }

func (e otherAgentError) Error() string { return e.refused.Error() }

func (e otherAgentError) Unwrap() error {
	return hinted{e.refused, "import it as that agent (--tenant and --agent), or into another ledger (--server)"}
}

// ownID returns err, or an otherAgentError if err says that the id of a session is used
// and the agent has no such session.
func (w *Writer) ownID(ctx context.Context, session turns.ID, err error) error {
	if !api.HasCode(err, api.IDReused) {
		return err
	}
	switch own, lookup := w.SessionIfAny(ctx, session); {
	case lookup != nil:
		return lookup
	case own != nil:
		return err
	}
	return otherAgentError{api.Errorf(api.IDReused, nil, "session %s of this transcript belongs to another agent of the ledger", session)}
}

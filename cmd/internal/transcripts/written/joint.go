package written

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"nexus/cmd/internal/handover"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// ExportJoint returns where an export of this ledger ends, and the fork that takes what another
// program added to it; nil for a transcript that is none. The export's session does not
// change: it may have gone on itself. Errors: [api.Erased] for an export that may have what was erased since.
func ExportJoint(ctx context.Context, c *client.Client, format string, from turns.Ref) (*handover.Joint, *ExportFork, error) {
	if from.IsZero() {
		return nil, nil, nil
	}
	s, err := c.Session(ctx, from.Session)
	if err == nil {
		_, err = c.Turn(ctx, from.Session, from.Turn)
	}
	if api.HasCode(err, api.NotFound) { // of another ledger
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	t := &handover.Transcript{Format: format, Session: Session(s)}
	t.Session.Through = from.Turn
	gone, err := readPath(ctx, c, t, s.ID, from.Turn)
	if err != nil {
		return nil, nil, err
	}
	if len(gone) > 0 { // nobody knows when it was exported
		return nil, nil, erasedError(gone[0])
	}
	f := &ExportFork{From: from, ID: turns.DeriveID(from.Turn.Time(), "export", from.Session.String(), from.Turn.String(), format)}
	if f.meta, err = turns.EncodeJSON(map[string]string{"source": format, "cwd": t.Session.Cwd}); err != nil {
		return nil, nil, err
	}
	j, err := handover.NewJoint(t)
	if err != nil {
		return nil, nil, err
	}
	j.Onto(f.ID)
	return j, f, nil
}

// ExportFork is the fork that takes what was added to an export.
type ExportFork struct {
	From turns.Ref // where the export ends
	ID   turns.ID
	meta turns.Raw
}

// Make makes the fork, if it is not there.
func (f *ExportFork) Make(ctx context.Context, c *client.Client) error {
	_, err := c.Fork(ctx, f.From.Session, api.CreateFork{ID: f.ID, Turn: f.From.Turn, Meta: f.meta})
	return err
}

// CheckExport returns [api.Erased] for an export of this ledger that may have what was erased since.
func CheckExport(ctx context.Context, c *client.Client, format string, from turns.Ref) error {
	if _, _, err := ExportJoint(ctx, c, format, from); api.HasCode(err, api.Erased) {
		return err
	}
	return nil
}

func erasedError(session turns.ID) error {
	return api.Errorf(api.Erased, nil, "session %s was erased, and the transcript was written of it", session)
}

// ContinuedJoint returns where a transcript that continue wrote goes on, and its session; nil for
// any other. Errors: [api.Erased] for one that has what was erased since, or whose session was: then nobody knows
// any more whether continue or export wrote it.
func ContinuedJoint(ctx context.Context, c *client.Client, format string, meta turns.Raw) (*handover.Joint, turns.ID, error) {
	var m struct {
		Session string `json:"session_id"`
	}
	_ = json.Unmarshal(meta, &m) // of another format
	u, err := uuid.Parse(m.Session)
	if err != nil {
		return nil, turns.ID{}, nil
	}
	s, err := c.Session(ctx, turns.ID(u))
	if api.HasCode(err, api.NotFound) {
		return nil, turns.ID{}, nil
	}
	if err != nil {
		return nil, turns.ID{}, err
	}
	if s.State == turns.Erased.String() {
		return nil, s.ID, erasedError(s.ID)
	}
	var was struct {
		Continued *Continued `json:"continued"`
	}
	_ = json.Unmarshal(s.Meta, &was)
	if was.Continued == nil || was.Continued.Format != format || s.ForkedFrom == nil {
		return nil, turns.ID{}, nil
	}
	t, gone, err := handedOver(ctx, c, s.ID, Session(s), s.ForkedFrom.Turn, was.Continued)
	if err != nil {
		return nil, turns.ID{}, err
	}
	for _, id := range gone {
		// The fork was made when the transcript was written; the newest event of an erased session says that it is.
		if of, err := c.Session(ctx, id); err != nil {
			return nil, turns.ID{}, err
		} else if time.Time(of.Updated).After(time.Time(s.Created)) {
			return nil, s.ID, erasedError(id)
		}
	}
	j, err := handover.NewJoint(t)
	return j, s.ID, err
}

package written

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"nexus/cmd/internal/handover"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// ExportJoint returns where an export of this ledger ends, and the fork that takes what another
// program added to it; nil for a transcript that is none. The export's session does not
// change: it may have gone on itself.
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
	if err := readPath(ctx, c, t, s.ID, from.Turn); err != nil {
		return nil, nil, err
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

// ContinuedJoint returns where a transcript that continue wrote goes on, and its session; nil for
// any other.
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
	var was struct {
		Continued *Continued `json:"continued"`
	}
	_ = json.Unmarshal(s.Meta, &was)
	if was.Continued == nil || was.Continued.Format != format || s.ForkedFrom == nil {
		return nil, turns.ID{}, nil
	}
	t, err := HandedOver(ctx, c, s.ID, Session(s), s.ForkedFrom.Turn, was.Continued)
	if err != nil {
		return nil, turns.ID{}, err
	}
	j, err := handover.NewJoint(t)
	return j, s.ID, err
}

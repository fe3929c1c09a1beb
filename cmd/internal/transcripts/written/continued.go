package written

import (
	"context"
	"slices"

	"nexus/cmd/internal/handover"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/transcript"
)

// Continued is the member "continued" of the meta of a session that continue made: how its
// transcript was written.
type Continued struct {
	Format  string   `json:"format"`
	Model   string   `json:"model,omitzero"`    // see [handover.Transcript]
	Results []TurnOf `json:"results,omitempty"` // turns that hold the results of calls that were open at the fork
}

// TurnOf is a turn of a session, in protocol JSON.
type TurnOf struct {
	Session turns.ID `json:"session"`
	Turn    turns.ID `json:"turn"`
}

// HandedOver returns the transcript that an agent gets of a session: the path to a turn, as
// the reader of a session finds it. The transcript's session is s.
func HandedOver(ctx context.Context, c *client.Client, reader turns.ID, s transcript.WrittenSession, at turns.ID, how *Continued) (*handover.Transcript, error) {
	t, _, err := handedOver(ctx, c, reader, s, at, how)
	return t, err
}

// handedOver is HandedOver. gone are the sessions of the path that were erased since they were inherited, or before.
func handedOver(ctx context.Context, c *client.Client, reader turns.ID, s transcript.WrittenSession, at turns.ID, how *Continued) (t *handover.Transcript, gone []turns.ID, err error) {
	t = &handover.Transcript{Format: how.Format, Session: s, Model: how.Model}
	t.Session.Time = s.ID.Time() // known before the session is made
	if gone, err = readPath(ctx, c, t, reader, at); err != nil {
		return nil, nil, err
	}
	return t, gone, AddResults(ctx, c, t, how)
}

// AddResults adds to a transcript the results that how names, of calls that are open at its end.
func AddResults(ctx context.Context, c *client.Client, t *handover.Transcript, how *Continued) error {
	open := t.OpenCalls()
	for _, r := range how.Results {
		x, err := c.Turn(ctx, r.Session, r.Turn)
		if err != nil {
			return err
		}
		w, err := Turn(ctx, c, r.Session, x)
		if err != nil {
			return err
		}
		for _, m := range w.Messages {
			for _, p := range m.Parts {
				if i := slices.Index(open, p.ID); i >= 0 && p.Type == turns.ToolCallResponse {
					open = slices.Delete(open, i, i+1)
					t.Results = append(t.Results, p)
				}
			}
		}
	}
	return nil
}

// ResultsBehind returns the turns that hold the results of calls which are open at a turn of a
// session's path: those that follow it there, up to the next response.
func ResultsBehind(ctx context.Context, c *client.Client, s *api.Session, at turns.ID, calls []string) (out []TurnOf, err error) {
	if len(calls) == 0 || s.Head == nil || *s.Head == at {
		return nil, nil
	}
	var behind []TurnOf // of at, the nearest last
	found := false
	for x, err := range c.Turns(ctx, s.ID, api.ListTurns{Order: "desc"}) {
		if err != nil {
			return nil, err
		}
		if found = x.ID == at; found {
			break
		}
		behind = append(behind, TurnOf{x.Session, x.ID})
	}
	if !found { // the turn is on another path
		return nil, nil
	}
	for _, r := range slices.Backward(behind) {
		x, err := c.Turn(ctx, r.Session, r.Turn)
		if err != nil {
			return nil, err
		}
		n := len(calls)
		for _, m := range x.Messages {
			for _, p := range m.Parts {
				if i := slices.Index(calls, p.ID); i >= 0 && p.Type == turns.ToolCallResponse {
					calls = slices.Delete(slices.Clone(calls), i, i+1)
				}
			}
		}
		if len(calls) < n {
			out = append(out, r)
		}
		if x.Response != nil || len(calls) == 0 {
			break
		}
	}
	return out, nil
}

// readPath adds the turns up to one to a transcript. gone are the sessions of those that were erased.
func readPath(ctx context.Context, c *client.Client, t *handover.Transcript, session, to turns.ID) (gone []turns.ID, err error) {
	for x, err := range c.Turns(ctx, session, api.ListTurns{At: to, Full: true}) {
		if err != nil {
			return nil, err
		}
		if x.Error == api.Erased && !slices.Contains(gone, x.Session) {
			gone = append(gone, x.Session)
		}
		w, err := Turn(ctx, c, session, &x)
		if err != nil {
			return nil, err
		}
		t.Path = append(t.Path, w)
	}
	return gone, nil
}

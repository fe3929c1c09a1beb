package transcripts

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"nexus/cmd/internal/handover"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/transcript"
)

// WrittenSession returns a session as the writer of a transcript takes it.
func WrittenSession(s *api.Session) transcript.WrittenSession {
	var m struct {
		Title  turns.Raw `json:"title"`
		Cwd    string    `json:"cwd"`
		Branch string    `json:"git_branch"`
		Git    struct {
			Branch string `json:"branch"`
			Commit string `json:"commit_hash"`
		} `json:"git"`
	}
	_ = json.Unmarshal(s.Meta, &m) // the client's meta may be anything
	title, _ := m.Title.Text()
	return transcript.WrittenSession{ID: s.ID, Title: title, Time: time.Time(s.Created), Cwd: m.Cwd, Branch: cmp.Or(m.Branch, m.Git.Branch), Commit: m.Git.Commit}
}

// WrittenTurn returns a turn as the writer of a transcript takes it, with the content
// of its blobs.
func WrittenTurn(ctx context.Context, c *client.Client, s turns.ID, t *api.Turn) (transcript.WrittenTurn, error) {
	out := transcript.WrittenTurn{ID: t.ID, Time: time.Time(t.Recorded), Model: t.Model, Messages: t.Messages, Response: t.Response, Usage: t.Usage, Details: turns.UsageDetailsOf(t.Meta)}
	var m struct {
		Cost turns.Raw `json:"cost"`
	}
	if _, ok := turns.CostOf(t.Meta); ok && json.Unmarshal(t.Meta, &m) == nil {
		out.Cost = m.Cost
	}
	if t.Time != nil {
		out.Time = time.Time(*t.Time)
	}
	if k := t.Compaction; k != nil {
		out.Compaction, out.Automatic, out.TokensBefore = true, k.Trigger.Kind != "manual", k.TokensBefore
		if k.Summary != nil {
			out.Summary = *k.Summary
		}
		if k.FirstKept != nil {
			out.FirstKept = *k.FirstKept
		}
		return out, nil
	}
	all := out.Messages
	if out.Response != nil {
		all = append(all[:len(all):len(all)], *out.Response)
	}
	for _, m := range all {
		for i := range m.Parts {
			p := &m.Parts[i]
			if p.Ref == nil {
				continue
			}
			b, err := c.Content(ctx, s, p.Ref)
			if err != nil {
				return out, err
			}
			p.SetContent(b)
		}
	}
	return out, nil
}

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
	t := &handover.Transcript{Format: how.Format, Session: s, Model: how.Model}
	t.Session.Time = s.ID.Time() // known before the session is made
	if err := readPath(ctx, c, t, reader, at); err != nil {
		return nil, err
	}
	return t, AddResults(ctx, c, t, how)
}

// AddResults adds to a transcript the results that how names, of calls that are open at its end.
func AddResults(ctx context.Context, c *client.Client, t *handover.Transcript, how *Continued) error {
	open := t.OpenCalls()
	for _, r := range how.Results {
		x, err := c.Turn(ctx, r.Session, r.Turn)
		if err != nil {
			return err
		}
		w, err := WrittenTurn(ctx, c, r.Session, x)
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

// readPath adds the turns up to one to a transcript.
func readPath(ctx context.Context, c *client.Client, t *handover.Transcript, session, to turns.ID) error {
	for x, err := range c.Turns(ctx, session, api.ListTurns{At: to, Full: true}) {
		if err != nil {
			return err
		}
		w, err := WrittenTurn(ctx, c, session, &x)
		if err != nil {
			return err
		}
		t.Path = append(t.Path, w)
	}
	return nil
}

// exportOf returns where an export of this ledger ends, and the fork that takes what another
// program added to it; nil for a transcript that is none. The export's session does not
// change: it may have gone on itself.
func (im *Importer) exportOf(ctx context.Context, format string, from turns.Ref) (*handover.Joint, *exportFork, error) {
	if from.IsZero() {
		return nil, nil, nil
	}
	s, err := im.Client.Session(ctx, from.Session)
	if err == nil {
		_, err = im.Client.Turn(ctx, from.Session, from.Turn)
	}
	if coded(err, api.NotFound) { // of another ledger
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	t := &handover.Transcript{Format: format, Session: WrittenSession(s)}
	t.Session.Through = from.Turn
	if err := readPath(ctx, im.Client, t, s.ID, from.Turn); err != nil {
		return nil, nil, err
	}
	f := &exportFork{from: from, id: turns.DeriveID(from.Turn.Time(), "export", from.Session.String(), from.Turn.String(), format)}
	if f.meta, err = turns.EncodeJSON(map[string]string{"source": format, "cwd": t.Session.Cwd}); err != nil {
		return nil, nil, err
	}
	j, err := handover.NewJoint(t)
	if err != nil {
		return nil, nil, err
	}
	j.Onto(f.id)
	return j, f, nil
}

// exportFork is the fork that takes what was added to an export.
type exportFork struct {
	from turns.Ref
	id   turns.ID
	meta turns.Raw
}

// make makes the fork, if it is not there.
func (f *exportFork) make(ctx context.Context, c *client.Client) error {
	_, err := c.Fork(ctx, f.from.Session, api.CreateFork{ID: f.id, Turn: f.from.Turn, Meta: f.meta})
	return err
}

// jointOf returns where a transcript that continue wrote goes on; nil for any other.
func (im *Importer) jointOf(ctx context.Context, format string, meta turns.Raw, rep *Report) (*handover.Joint, error) {
	var m struct {
		Session string `json:"session_id"`
	}
	_ = json.Unmarshal(meta, &m) // of another format
	u, err := uuid.Parse(m.Session)
	if err != nil {
		return nil, nil
	}
	s, err := im.Client.Session(ctx, turns.ID(u))
	if coded(err, api.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var was struct {
		Continued *Continued `json:"continued"`
	}
	_ = json.Unmarshal(s.Meta, &was)
	if was.Continued == nil || was.Continued.Format != format || s.ForkedFrom == nil {
		return nil, nil
	}
	t, err := HandedOver(ctx, im.Client, s.ID, WrittenSession(s), s.ForkedFrom.Turn, was.Continued)
	if err != nil {
		return nil, err
	}
	rep.Sessions = append(rep.Sessions, s.ID)
	return handover.NewJoint(t)
}

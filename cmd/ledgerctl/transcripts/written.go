package transcripts

import (
	"cmp"
	"context"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"nexus/cmd/ledgerctl/handover"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/interchange"
)

// WrittenSession returns a session as the writer of a transcript takes it.
func WrittenSession(s *api.Session) interchange.WrittenSession {
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
	return interchange.WrittenSession{ID: s.ID, Title: title, Time: time.Time(s.Created), Cwd: m.Cwd, Branch: cmp.Or(m.Branch, m.Git.Branch), Commit: m.Git.Commit}
}

// WrittenTurn returns a turn as the writer of a transcript takes it, with the content
// of its blobs.
func WrittenTurn(ctx context.Context, c *api.Client, s turns.ID, t *api.Turn) (interchange.WrittenTurn, error) {
	out := interchange.WrittenTurn{ID: t.ID, Time: time.Time(t.Recorded), Model: t.Model, Messages: t.Messages, Response: t.Response, Usage: t.Usage, Details: turns.UsageDetailsOf(t.Meta)}
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

// HandedOver returns a fork as the transcript that an agent gets: what is before its own
// turns.
func HandedOver(ctx context.Context, c *api.Client, f *api.Session, format string) (*handover.Transcript, error) {
	t := &handover.Transcript{Format: format, Session: WrittenSession(f)}
	return t, readPath(ctx, c, t, f.ForkedFrom.Turn)
}

// readPath adds the turns up to one to a transcript.
func readPath(ctx context.Context, c *api.Client, t *handover.Transcript, to turns.ID) error {
	for x, err := range c.Turns(ctx, t.Session.ID, api.ListTurns{At: to, Full: true}) {
		if err != nil {
			return err
		}
		w, err := WrittenTurn(ctx, c, t.Session.ID, &x)
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
	if err := readPath(ctx, im.Client, t, from.Turn); err != nil {
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
func (f *exportFork) make(ctx context.Context, c *api.Client) error {
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
		Continued *struct {
			Format string `json:"format"`
		} `json:"continued"`
	}
	_ = json.Unmarshal(s.Meta, &was)
	if was.Continued == nil || was.Continued.Format != format || s.ForkedFrom == nil {
		return nil, nil
	}
	t, err := HandedOver(ctx, im.Client, s, format)
	if err != nil {
		return nil, err
	}
	rep.Sessions = append(rep.Sessions, s.ID)
	return handover.NewJoint(t)
}

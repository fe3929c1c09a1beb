package written

import (
	"cmp"
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/transcript"
)

// Session returns a session as the writer of a transcript takes it.
func Session(s *api.Session) transcript.WrittenSession {
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

// Turn returns a turn as the writer of a transcript takes it, with the content
// of its blobs.
func Turn(ctx context.Context, c *client.Client, s turns.ID, t *api.Turn) (transcript.WrittenTurn, error) {
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
	return out, FetchContent(ctx, c, s, t)
}

// FetchContent sets the content of a turn's large parts, which it has as references.
func FetchContent(ctx context.Context, c *client.Client, session turns.ID, t *api.Turn) error {
	messages := t.Messages
	if t.Response != nil {
		messages = append(messages[:len(messages):len(messages)], *t.Response)
	}
	for _, m := range messages {
		for i := range m.Parts {
			p := &m.Parts[i]
			if p.Ref == nil {
				continue
			}
			b, err := c.Content(ctx, session, p.Ref)
			if err != nil {
				return err
			}
			p.SetContent(b)
		}
	}
	return nil
}

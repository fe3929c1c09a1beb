package cost

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/ledger/api"
	"nexus/turns"
)

// This file has the calls that are no turns: memory flushes, extractions of memories, and
// answers of /v1 that did not arrive.

// ownCalls is what the turns of one session say of its flushes.
type ownCalls struct {
	known     turns.Usage       // of all turns
	ended     uint64            // flushes before compactions, that the agent's model answered
	last      time.Time         // of the newest of those compactions
	where     turns.WorkContext // there; else at the last turn
	isPartial bool              // the usage of a turn can't be read
}

func newOwnCalls(s *api.Session) *ownCalls {
	return &ownCalls{where: turns.WorkContextOf(s.Meta)}
}

// add adds a turn that was said in w. Each turn of a session is on one of its branches, and is added once.
func (o *ownCalls) add(t *api.Turn, w turns.WorkContext) {
	usage := t.Usage
	if k := t.Compaction; k != nil {
		usage = k.Usage
		switch k.Flush {
		case "done", "silent", "failed":
			if o.ended++; time.Time(t.Recorded).After(o.last) {
				o.last = time.Time(t.Recorded)
			}
		}
	}
	if usage != nil {
		o.known = *turns.AddUsage(&o.known, usage)
	}
	o.where = w
}

// flushes returns the memory flushes of s as one call: the total usage of a session
// includes them, its turns do not. They have the time of the newest compaction that one of
// them went before.
func (o *ownCalls) flushes(s *api.Session) (Call, bool) {
	rest := s.Usage
	rest.InputTokens -= min(o.known.InputTokens, rest.InputTokens)
	rest.OutputTokens -= min(o.known.OutputTokens, rest.OutputTokens)
	rest.CacheRead -= min(o.known.CacheRead, rest.CacheRead)
	rest.CacheCreation -= min(o.known.CacheCreation, rest.CacheCreation)
	c := Call{Kind: Flush, Session: s.ID, Time: o.last, Agent: s.Agent, Source: o.where.Source, Project: cmp.Or(s.Project, o.where.Cwd), Folder: o.where.Cwd, Branch: o.where.Branch, Model: s.Model, Flushes: max(1, o.ended)}
	if o.last.IsZero() {
		c.Time = time.Time(s.Updated)
	}
	if rest != (turns.Usage{}) {
		c.Usage = &rest
	}
	return c, c.Usage != nil || o.ended > 0
}

// longestAnswer is after what time the daemon gives an answer of /v1 up.
const longestAnswer = time.Hour

// isUnanswered reports whether t, which no turn follows, is a request of /v1 that gets no
// answer any more.
func isUnanswered(t *api.Turn, now time.Time) bool {
	return t.Pending && requestOf(t.Meta).Digest != "" && now.Sub(time.Time(t.Recorded)) > longestAnswer
}

// The channel of an agent's events on which the daemon records extractions; see decision 37.
const extractionChannel = "memory-extraction"

// extractionLease is after what time the daemon gives a try up.
const extractionLease = 15 * time.Minute

// extraction is the body of a record.
type extraction struct {
	Session turns.ID     `json:"session"`
	Try     int          `json:"try"`
	Asked   *bool        `json:"asked"` // nil: a record before usage was recorded
	Usage   *turns.Usage `json:"usage"`
	Cost    uint64       `json:"cost_micros"`
	Model   string       `json:"model"`
}

// extractions reads what the daemon asked models at resets of the sessions in scope.
func (r *reading) extractions(ctx context.Context, yield func(Call) bool) error {
	agents := make(map[string]bool)
	for ch, err := range r.c.Channels(ctx) {
		if err != nil {
			return err
		}
		if ch.Channel == extractionChannel {
			agents[ch.Agent] = true
		}
	}
	for agent := range agents {
		if err := r.extractionsOf(ctx, agent, yield); api.FromError(err).Code == api.Denied || isErased(err) {
			r.found.Channels++
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) extractionsOf(ctx context.Context, agent string, yield func(Call) bool) error {
	open := make(map[turns.ID]time.Time) // the begin of a try without an end
	for e, err := range r.c.As(agent).Events(ctx, api.ListEvents{Channel: extractionChannel, Order: "asc"}) {
		if err != nil {
			return err
		}
		var body extraction
		if e.Error != "" {
			r.found.Unread++
			continue
		}
		if e.Body.Kind() != '{' || json.Unmarshal(e.Body, &body) != nil || r.picked[body.Session] == nil || r.picked[body.Session].Agent != agent {
			continue // an agent can write to its channels
		}
		s, at := r.picked[body.Session], time.Time(e.Recorded)
		began, isOpen := open[s.ID]
		call := extractionOf(s, &body, at)
		switch {
		case e.Kind == "extraction.begun":
			open[s.ID] = at
			if !isOpen {
				continue
			}
			call = extractionOf(s, &extraction{}, began) // its daemon ended meanwhile
		case e.Kind != "extraction.done" && e.Kind != "extraction.failed":
			continue
		default:
			if delete(open, s.ID); body.Asked != nil && !*body.Asked {
				continue
			}
		}
		if r.found.Sessions[s.ID] = s; !yield(call) {
			return errStopped
		}
	}
	for id, began := range open {
		if r.scope.Now.Sub(began) < extractionLease {
			continue // it may be under way
		}
		if r.found.Sessions[id] = r.picked[id]; !yield(extractionOf(r.picked[id], &extraction{}, began)) {
			return errStopped
		}
	}
	return nil
}

// extractionOf returns the call of a record of session s. A try without an end has no
// usage: what it used is known to nobody.
func extractionOf(s *api.Session, e *extraction, at time.Time) Call {
	w := turns.WorkContextOf(s.Meta)
	return Call{Kind: Extraction, Session: s.ID, Time: at, Agent: s.Agent, Source: w.Source, Project: cmp.Or(s.Project, w.Cwd), Folder: w.Cwd, Branch: w.Branch, Model: e.Model,
		Usage: e.Usage, Recorded: times(e.Cost, picosInMicro), HasRecorded: e.Cost > 0}
}

// isErased reports whether the content of a session or a channel was destroyed.
func isErased(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Code == api.Erased
}

package pi

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/go-json-experiment/json"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/pi"
)

// Request is what pi tells of a compaction that is due.
type Request struct {
	Path       []string `json:"path"`          // ids of the entries from the root to the leaf
	KeepTokens uint64   `json:"keep_tokens"`   // of the newest messages, that stay as they are
	Before     uint64   `json:"tokens_before"` // of the context
	Focus      string   `json:"focus,omitzero"`
}

// Compaction is what pi stores.
type Compaction struct {
	Summary   string  `json:"summary"`
	FirstKept string  `json:"firstKeptEntryId"`
	Before    uint64  `json:"tokensBefore"`
	Details   Details `json:"details"`
}

// Details name the compaction in the ledger.
type Details struct {
	Session turns.ID `json:"nexus_session"`
	Turn    turns.ID `json:"nexus_compaction"`
}

// ErrNone: the ledger has no summary that pi can take. pi compacts by itself.
var ErrNone = errors.New("there is no compaction that pi can take")

// waitMS is how long a request waits for a model that writes a summary.
const waitMS = 20_000

// Compact compacts what the ledger has of a session of pi, whose file r reads, and returns
// that in the form of pi. The ledger must have the turns of r. It compacts a fork at the
// last turn of the path: the session stays as it is, and takes the compaction when pi has
// stored it, or goes on without it. The same call again makes nothing new.
func Compact(ctx context.Context, c *client.Client, r io.Reader, q Request) (*Compaction, error) {
	at, entries, err := leaf(r, q.Path)
	if err != nil {
		return nil, err
	}
	meta, err := turns.EncodeJSON(map[string]string{"source": "nexus", "title": "compaction for pi"})
	if err != nil {
		return nil, err
	}
	id := turns.DeriveID(at.Turn.Time(), "pi compaction", at.Session.String(), at.Turn.String())
	fork, err := c.Fork(ctx, at.Session, api.CreateFork{ID: id, Turn: at.Turn, Meta: meta})
	if err != nil {
		return nil, err
	}
	set, err := turns.EncodeJSON(map[string]uint64{"keep_tokens": max(q.KeepTokens, 1), "manual_keep_ratio": 0}) // pi says how much stays
	if err != nil {
		return nil, err
	}
	run := api.RunCompaction{ID: turns.DeriveID(at.Turn.Time(), "pi compaction", at.Session.String(), at.Turn.String(), q.Focus), Policy: &api.Policy{Name: "balanced", Set: set}, Focus: q.Focus, WaitMS: waitMS}
	done, err := c.Compact(ctx, fork.ID, run)
	for err == nil && done.State == "running" {
		done, err = c.Compact(ctx, fork.ID, run)
	}
	if err != nil {
		return nil, err
	}
	t := done.Compaction
	if t == nil || t.Compaction == nil || t.Compaction.Summary == nil || *t.Compaction.Summary == "" || t.Compaction.FirstKept == nil {
		return nil, ErrNone // it only shortens parts, which pi can't, or keeps nothing
	}
	kept := entries[*t.Compaction.FirstKept]
	first := kept.first
	if t.Compaction.Split {
		first = kept.response
	}
	if first == "" {
		return nil, ErrNone
	}
	return &Compaction{Summary: *t.Compaction.Summary, FirstKept: first, Before: cmp.Or(q.Before, t.Compaction.TokensBefore), Details: Details{Session: fork.ID, Turn: t.ID}}, nil
}

// entriesOf are ids of entries of one turn.
type entriesOf struct{ first, response string }

// leaf returns the last turn on a path of entries, and the entries of each turn.
func leaf(r io.Reader, path []string) (at turns.Ref, entries map[turns.ID]entriesOf, err error) {
	on := make(map[string]bool, len(path))
	for _, id := range path {
		on[id] = true
	}
	entries = make(map[turns.ID]entriesOf)
	for st, err := range pi.Read(r, transcript.Options{}).Steps() {
		if err != nil {
			return at, nil, err
		}
		var ref turns.Ref
		var meta turns.Raw
		switch {
		case st.Append != nil:
			ref, meta = turns.Ref{Session: st.Append.Session, Turn: st.Append.ID}, st.Append.Meta
		case st.Compaction != nil:
			ref, meta = turns.Ref{Session: st.Compaction.Session, Turn: st.Compaction.ID}, st.Compaction.Meta
		default:
			continue
		}
		var m struct {
			Messages []string `json:"messages"`
			Record   string   `json:"record"`
		}
		if err := json.Unmarshal(meta, &m); err != nil || !on[m.Record] {
			continue
		}
		at, entries[ref.Turn] = ref, entriesOf{slices.Concat(m.Messages, []string{m.Record})[0], m.Record}
	}
	if at.IsZero() {
		return at, nil, ErrNone
	}
	return at, entries, nil
}

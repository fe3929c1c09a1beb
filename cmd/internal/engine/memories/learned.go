package memories

import (
	"context"
	"errors"
	"fmt"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// learned is a memory in the body of a compaction.
type learned struct {
	Kind   string         `json:"kind,omitzero"`
	Text   string         `json:"text"`
	Source []api.TurnName `json:"source,omitempty"`
	Zone   string         `json:"zone,omitzero"` // IANA name of the time zone in which it was learned; "": UTC
}

// Localize returns the memories in the body of a compaction of s with the zone by whose clock
// the days of s are told.
func (ms *Memories) Localize(ctx context.Context, s *ledger.Session, b *turns.CompactionBody) (turns.Raw, error) {
	zone, err := ms.zoneOf(ctx, s, "")
	if err != nil || zone == "" || len(b.Memories) == 0 {
		return b.Memories, err
	}
	all, err := learnedOf(b)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Zone = zone
	}
	return turns.EncodeJSON(all)
}

// learnedOf returns the memories in the body of a compaction.
func learnedOf(b *turns.CompactionBody) (out []learned, err error) {
	if len(b.Memories) == 0 {
		return nil, nil
	}
	if err := turns.DecodeJSON(b.Memories, &out); err != nil {
		return nil, fmt.Errorf("%w: the memories of a compaction: %v", ledger.ErrCorrupt, err)
	}
	return out, nil
}

// Learned returns what the header of a compaction of s says of the memories in its body,
// nil if it has none. kindOf is what the policy makes of what a summarizer calls a memory.
//
// A memory that the session sees already gets the digest of that one, so it becomes
// evidence of it and is not said twice, also if the other one is of another branch or
// visibility. Where the agent's key is destroyed, nothing is learned.
func (ms *Memories) Learned(s *ledger.Session, kindOf func(string) turns.MemoryKind, branch turns.Ref, b *turns.CompactionBody) ([]turns.Learned, error) {
	all, err := learnedOf(b)
	if err != nil || len(all) == 0 || len(all) > turns.MaxLearned {
		return nil, err
	}
	key, err := ms.content.AgentKey(s.Tenant, s.Agent)
	if errors.Is(err, turns.ErrErased) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := make([]turns.Learned, len(all))
	for i, l := range all {
		k := kindOf(l.Kind)
		private, on := s.Kind == turns.Main, turns.ID{}
		if s.ForkOf != nil {
			on = branch.Session
		}
		out[i] = turns.Learned{Kind: k, Text: seal.MemoryText(key, k, private, on, l.Text)}
		seen := []turns.Hash{seal.MemoryText(key, k, false, turns.ID{}, l.Text)}
		if private {
			seen = append(seen, seal.MemoryText(key, k, true, turns.ID{}, l.Text))
		}
		for _, text := range seen {
			known, ok, err := ms.reader.Projections.MemoryOfText(s.Tenant, s.Agent, text)
			if err != nil {
				return nil, err
			}
			if ok && isSaid(known.Now(), private, branch) {
				out[i].Text = text
				break
			}
		}
	}
	return out, nil
}

package projections

import (
	"slices"
	"strings"
	"testing"

	"nexus/ledger"
	"nexus/turns"
)

// checkChannels compares every read of channels with the twin.
func (w *twin) checkChannels(t *testing.T, s *Store) {
	t.Helper()
	if len(w.channels) == 0 {
		t.Fatal("the random log has no channel")
	}
	byAgent := map[string][]NamedChannel{}
	links := 0
	for subject, want := range w.channels {
		tenant, chain, _ := ledger.ParseSubject(subject)
		got, err := s.Channel(tenant, chain.ID)
		same(t, "Channel", got, want, err)
		last, err := s.Last(subject)
		same(t, "Last of a channel", last.Seq, want.Tail.Seq, err)
		byAgent[tenant+"/"+want.Agent] = append(byAgent[tenant+"/"+want.Agent], NamedChannel{chain.ID, want})
		var up []Received
		for i, r := range w.received[subject] {
			e, err := turns.Decode(r.Payload)
			if err != nil {
				t.Fatal(err)
			}
			up = append(up, Received{uint64(i), r.Seq})
			index, ok, err := s.ReceivedIndex(tenant, chain.ID, e.ID)
			same(t, "ReceivedIndex", index, uint64(i), err)
			same(t, "ReceivedIndex", ok, true, nil)
			_, ok, err = s.ReceivedIndex("none", chain.ID, e.ID)
			same(t, "ReceivedIndex in another tenant", ok, false, err)
		}
		for from := range len(up) {
			same(t, "ReceivedFrom", all(t, s.ReceivedFrom(tenant, chain.ID, uint64(from), false)), up[from:], nil)
			down := slices.Clone(up[:from+1])
			slices.Reverse(down)
			same(t, "ReceivedFrom down", all(t, s.ReceivedFrom(tenant, chain.ID, uint64(from), true)), down, nil)
		}
		for n := range 3 {
			event := turns.ID{7, byte(n)}
			want := w.only(func(e *turns.Event) bool {
				return e.External != nil && *e.External == turns.ExternalLink{Channel: chain.ID, ID: event} && w.sessions[e.Ref().Session].Tenant == tenant
			})
			refs, err := s.TurnsOf(tenant, chain.ID, event, len(w.turns))
			same(t, "TurnsOf", sorted(refs), want, err)
			if links += len(refs); len(refs) > 1 {
				refs, err = s.TurnsOf(tenant, chain.ID, event, 1)
				same(t, "TurnsOf with a limit", len(refs), 1, err)
			}
		}
	}
	if links == 0 {
		t.Error("no turn of the random log names an external event")
	}
	for actor, want := range byAgent {
		tenant, agent, _ := strings.Cut(actor, "/")
		slices.SortFunc(want, func(a, b NamedChannel) int { return strings.Compare(a.ID, b.ID) })
		same(t, "Channels", all(t, s.Channels(tenant, agent, "")), want, nil)
		for i, c := range want {
			same(t, "Channels after one", len(all(t, s.Channels(tenant, agent, c.ID))), len(want)-i-1, nil)
		}
	}
	none, err := s.Channel("default", "none")
	same(t, "Channel of one that is not there", none, ledger.Channel{}, err)
	same(t, "Channels of nobody", all(t, s.Channels("default", "nobody", "")), nil, nil)
}

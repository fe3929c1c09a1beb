package place

import (
	"bytes"
	"context"

	"nexus/cmd/internal/responses/wire"
	"nexus/ledger/api"
	"nexus/turns"
)

// Clients that keep a conversation themselves send all of it with each request. Where they
// name a session, the ledger has most of it: what is here finds how much, so that a turn has
// what is new, and stands where the client went on.

// maxTips bounds the ends of other paths of a session that a turn remembers.
const maxTips = 8

// match finds the turn of a named session that the request follows, and returns what of its
// input is new. The caller holds the lock of the session and has called follow.
func (b *Placing) match(ctx context.Context, in *wire.Input) (*wire.Input, error) {
	m := match{named: b.Request.Session != "", after: b.Request.After, previous: b.Request.PreviousResponseID != nil}
	m.whole, m.sure = b.Request.SendsWhole(in)
	if b.Plan.compares(m) {
		var err error
		if m.known, err = b.longest(ctx, in.Items); err != nil {
			return nil, err
		}
	}
	plan, items := b.Plan.matched(m)
	b.Plan = plan
	if items > 0 {
		in = in.From(items)
	}
	return in, nil
}

// known is how much of an input a path has.
type known struct {
	at       turns.ID // the last turn of which the input has everything
	items    int      // how many items that is, from the first
	answered bool     // an answer is among them
}

// longest finds the path that has most of an input, among that of the head and those that end
// at the tips.
func (b *Placing) longest(ctx context.Context, items []wire.InputItem) (best known, err error) {
	compaction, after, err := b.compactedBy(items)
	if err != nil {
		return best, err
	}
	for {
		for i, tip := range append([]turns.ID{b.Parent}, b.Tips...) {
			if tip.IsZero() {
				continue
			}
			k, err := b.known(ctx, tip, compaction, items[after:])
			if err != nil && i == 0 { // another path may be gone with its key
				return best, err
			}
			if k.items += after; err == nil && !k.at.IsZero() && k.items > best.items {
				best = k
			}
			if best.at == b.Parent && !best.at.IsZero() {
				return best, nil // nothing is longer
			}
		}
		if compaction.IsZero() || !best.at.IsZero() {
			return best, nil
		}
		compaction, after = turns.ID{}, 0 // what it stands for may be on a path of its own
	}
}

// compactedBy finds the last item of an input that stands for a compaction of this session, and
// returns its turn and how many items it ends.
func (b *Placing) compactedBy(items []wire.InputItem) (at turns.ID, n int, err error) {
	for i := len(items) - 1; i >= 0; i-- {
		m := &items[i].Mark
		if m.Type != "compaction" || m.Said == nil {
			continue
		}
		w, ok, err := b.svc.Sealer.Open(b.Caller.Tenant, b.Caller.Agent, *m.Said)
		if err != nil {
			return at, 0, err
		}
		if ok && w.At.Session == b.Session {
			return w.At.Turn, i + 1, nil
		}
	}
	return at, 0, nil
}

// known compares items with the path of a turn, or with what is behind a compaction on it.
// Something of the input stays: what the model is asked.
func (b *Placing) known(ctx context.Context, tip, compaction turns.ID, items []wire.InputItem) (k known, err error) {
	units := unitsOf(items)
	n, answered, prev := 0, !compaction.IsZero(), turns.ID{}
	for t, err := range b.Client.Turns(ctx, b.Session, api.ListTurns{At: tip, Full: true}) {
		if err != nil {
			return k, err
		}
		last := prev
		prev = t.ID
		switch {
		case !compaction.IsZero():
			if t.ID == compaction {
				k, compaction = known{t.ID, 0, true}, turns.ID{}
			}
			continue
		case t.Type != "normal":
			if !last.IsZero() && k.at == last && b.Request.MayDrop() { // a compaction of what is known stays in force
				k.at = t.ID
			}
			continue
		}
		if t.Error != "" { // nobody knows what it said
			return k, nil
		}
		ms := t.Messages
		if t.Response != nil {
			ms = append(append([]turns.Message{}, ms...), *t.Response)
		}
		for _, u := range unitsOf([]wire.InputItem{{Messages: ms}}) {
			if n == len(units) {
				return k, nil
			}
			same, err := b.same(ctx, &t, u, units[n])
			if err != nil || !same {
				return k, err
			}
			answered = answered || u.role == turns.Assistant
			n++
		}
		// An item is not parted, and a request's turn is followed by its answer's.
		if m := wire.ReadMeta[wire.RequestMeta](t.Meta); n < len(units) && (n == 0 || units[n].item != units[n-1].item) && (m == nil || m.Echo == nil) {
			k = known{t.ID, itemAt(units, n), answered}
		}
	}
	return k, nil
}

// unit is a part of an item, with what matters of it for whether two are the same.
type unit struct {
	role turns.Role
	part *turns.Part
	item int // the number of its item
}

// unitsOf are the units of items. Reasoning is none: clients leave it out, or cut it. Nor is
// an empty text.
func unitsOf(items []wire.InputItem) (out []unit) {
	for i := range items {
		for j := range items[i].Messages {
			m := &items[i].Messages[j]
			for p := range m.Parts {
				if part := &m.Parts[p]; part.Type != turns.Reasoning && (part.Type != turns.Text || part.Content != "" || part.Ref != nil) {
					out = append(out, unit{m.Role, part, i})
				}
			}
		}
	}
	return out
}

// itemAt is the number of the item that unit n is of, with the reasoning before it.
func itemAt(units []unit, n int) int {
	switch {
	case n == 0:
		return 0
	case units[n].role == turns.Assistant:
		return units[n-1].item + 1
	}
	return units[n].item
}

// same reports whether a stored part and one of the input say the same. A large one is
// stored beside its turn, and read if it has the same size.
func (b *Placing) same(ctx context.Context, t *api.Turn, stored, given unit) (bool, error) {
	p, q := stored.part, given.part
	if stored.role != given.role || p.Type != q.Type || p.ID != q.ID || p.Name != q.Name || p.MimeType != q.MimeType || p.Modality != q.Modality {
		return false, nil
	}
	want := q.ContentBytes()
	if p.Ref == nil {
		return sameContent(p.ContentBytes(), want, p.Type), nil
	}
	if p.Ref.Size != uint64(len(want)) {
		return false, nil
	}
	have, err := b.Client.Content(ctx, t.Session, p.Ref)
	return err == nil && sameContent(have, want, p.Type), err
}

// sameContent compares texts by their bytes, and what is JSON in a call and its output as JSON.
func sameContent(a, b []byte, of turns.PartType) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if of != turns.ToolCall && of != turns.ToolCallResponse {
		return false
	}
	x, err := turns.CanonicalJSON(a)
	if err != nil {
		return false
	}
	y, err := turns.CanonicalJSON(b)
	return err == nil && bytes.Equal(x, y)
}

package contexts

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"nexus/cmd/internal/engine/memories"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// maxQuery bounds the text by which episodes are recalled.
const maxQuery = 4 << 10

// ledgerName is the ledger in a recipe.
func (cx *Contexts) ledgerName() string { return hex.EncodeToString(cx.content.Ledger[:]) }

// remember returns v with the runtime block and the agent's memories, as the policy wants
// them, in what the messages and the session's own overhead leave of the budget. Nothing
// that decides on a compaction counts them, so they never cause one.
//
// fresh: the memories are those that the agent had when the request came.
func (cx *Contexts) remember(ctx context.Context, s *ledger.Session, head lineage.Node, v *contextView, query string, fresh bool) (*contextView, error) {
	pol := v.policy
	if pol.Runtime == policy.NoRuntime && !pol.Memory.On() {
		return v, nil
	}
	with := *v
	v, c := &with, v.path.Counter
	budget, free := v.estimatedBudget(), v.freeTokens
	v.context = v.context.WithRuntime(v.path, pol, c, free())
	block, inSystem := v.path.RuntimeSection(pol)
	inSystem = inSystem && view.SectionTokens(c, block) <= free()
	if pol.Memory.On() {
		reserved := uint64(0)
		if inSystem {
			reserved = view.SectionTokens(c, block)
		}
		ms, made, err := cx.recall(ctx, s, head, v, query, fresh)
		if err != nil {
			return nil, err
		}
		shown := ms.Show(c, view.MemoryRoom(pol, v.path, budget, tokens.Sub(free(), reserved)))
		if len(shown.Sources) > 0 { // without, the context is that of an agent who remembers nothing
			v.added, v.made.Memory = shown, made
		}
	}
	if inSystem {
		v.added.Section(c, block)
	}
	return v, nil
}

// recall reads the memories that a context is given, and says which those were.
func (cx *Contexts) recall(ctx context.Context, s *ledger.Session, head lineage.Node, v *contextView, query string, fresh bool) (out view.Memories, made *view.MemoryRecipe, err error) {
	pol := v.policy.Memory
	q := memories.RecallQuery{Document: pol.Document, Facts: int(pol.Facts), Limit: int(pol.Episodes), HalfLife: pol.HalfLifeDays}
	var loc *time.Location
	if v.source != nil {
		made = v.source.Memory
		if made == nil {
			return out, nil, nil // it had none
		}
		if err := cx.reader.WaitPosition(ctx, api.Read{MinPosition: api.Position(page.FormatPosition(made.Position))}); err != nil {
			if fe := (*turns.FieldError)(nil); errors.As(err, &fe) {
				err = api.FieldErrorf("/recipe/memory/position", "%s", fe.Reason)
			}
			return out, nil, err
		}
		if loc, err = reader.Zone(made.Zone); err != nil {
			return out, nil, &turns.FieldError{Field: "/recipe/memory/zone", Reason: err.Error(), Kind: turns.ErrUnsupported}
		}
		q.At, q.IDs = made.Position, made.Episodes
	} else {
		if fresh {
			if err := cx.memories.CatchUp(ctx, s); err != nil {
				return out, nil, err
			}
		}
		made = &view.MemoryRecipe{Ledger: cx.ledgerName(), Position: cx.reader.Projections.Applied().Seq}
		now := cx.reader.Now()
		if v.then.Ended {
			made.Position, now = v.then.Position, time.Unix(0, v.then.Time)
		}
		if made.Zone, err = cx.reader.SessionZone(ctx, s.Tenant, &v.set); err != nil {
			return out, nil, err
		}
		if loc, err = reader.Zone(made.Zone); err != nil {
			return out, nil, err
		}
		made.Day = now.In(loc).Format(time.DateOnly)
		q.At, q.Text = made.Position, query
		if q.Text == "" {
			q.Text = beginning(v.path.NewestUserText(), maxQuery)
		}
	}
	today, err := time.Parse(time.DateOnly, made.Day)
	if err != nil {
		return out, nil, api.FieldErrorf("/recipe/memory/day", "it is missing")
	}
	day := func(n int) time.Time { return policy.StartOfDay(today.Year(), today.Month(), today.Day()+n, loc) }
	if n := int(pol.DailyDays); n > 0 {
		q.From, q.To = day(1-n), day(1)
	} else if q.IDs == nil {
		q.Now = day(1)
	}
	got, err := cx.memories.Recall(ctx, s, head, q)
	if err != nil {
		return out, nil, err
	}
	for n := 1 - int(pol.DailyDays); n <= 0; n++ {
		d := view.Day{Date: today.AddDate(0, 0, n).Format(time.DateOnly)}
		for _, m := range got.Daily {
			if at := time.Time(m.Time); !at.Before(day(n)) && at.Before(day(n+1)) {
				d.Items = append(d.Items, remembered(m))
			}
		}
		if len(d.Items) > 0 {
			out.Days = append(out.Days, d)
		}
	}
	if d := got.Document; d != nil {
		out.Document = &view.Remembered{Text: d.Text, Name: fmt.Sprintf("the agent's document, version %d", d.Version)}
		if len(d.Sources) > 0 {
			out.Document.Source = turns.Ref{Session: d.Sources[0].Session, Turn: d.Sources[0].Turn}
		}
	}
	ids := []turns.ID{}
	for _, m := range got.Hits {
		out.Episodes, ids = append(out.Episodes, remembered(m.Memory)), append(ids, m.ID)
	}
	if v.source == nil {
		made.Episodes = ids
	}
	return out, made, nil
}

func remembered(m api.Memory) view.Remembered {
	r := view.Remembered{ID: m.ID, Text: m.Text}
	if len(m.Sources) > 0 {
		r.Source = turns.Ref{Session: m.Sources[0].Session, Turn: m.Sources[0].Turn}
	}
	return r
}

// beginning returns the first n bytes of s at most, in whole characters.
func beginning(s string, n int) string {
	if n >= len(s) {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

package erasure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// takeRedacted takes the keys of the events of a session that were redacted, and of redacted events that others have the place of.
func (er *Erasure) takeRedacted(ctx context.Context, s *ledger.Session) error {
	_, release, err := er.writer.Hold(ctx, s.Tenant+"/"+s.ID.String()) // nobody seals an event meanwhile
	if err != nil {
		return err
	}
	defer release()
	if _, err := er.reader.CatchUp(ctx, s.Tenant, s.ID); err != nil {
		return err
	}
	now, err := er.reader.Projections.Session(s.ID)
	if err != nil || now.State == turns.Erased {
		return err
	}
	indexes, err := er.redacted(s.ID)
	if err != nil || len(indexes) == 0 {
		return err
	}
	if err := er.content.Keys.Puncture(s.ID, now.Tail.Index+1, indexes...); err != nil && !errors.Is(err, turns.ErrErased) {
		return fmt.Errorf("%w: keys of redacted events are not taken yet: %w", ledger.ErrUnavailable, err)
	}
	return nil
}

// areTaken reports whether no key is left of the events of a session that were redacted.
func (er *Erasure) areTaken(session turns.ID) (bool, error) {
	indexes, err := er.redacted(session)
	if err != nil {
		return false, err
	}
	k, err := er.content.Key(session)
	return err == nil && !slices.ContainsFunc(indexes, k.Has), nil
}

// redacted returns the ordinals of the events of a session whose keys are to be taken: those that were redacted, and redacted events
// that newer ones have the place of.
func (er *Erasure) redacted(session turns.ID) (out []uint64, err error) {
	for x, err := range er.reader.Projections.Redactions(session) {
		if err != nil {
			return nil, err
		}
		index := x.By
		if x.Newest {
			if index, err = er.reader.Projections.Index(session, x.Event); err != nil {
				return nil, err
			}
		}
		out = append(out, index)
	}
	return out, nil
}

// redactionStores says what became of what was redacted in a session.
func (er *Erasure) redactionStores(ctx context.Context, session turns.ID, r api.RedactTurn, out *api.Redacted) error {
	s, err := er.reader.Projections.Session(session)
	if err != nil {
		return err
	}
	out.Done = true
	add := func(store string, state api.StoreState, count uint64, note string) {
		if out.DryRun && len(out.Events) > 0 && state == api.StoreDone {
			state = api.StorePending
		}
		out.Done = out.Done && state != api.StorePending
		out.Stores = append(out.Stores, api.ErasedStore{Store: store, State: state, Count: count, Note: note})
	}
	indexes, err := er.redacted(session)
	if err != nil {
		return err
	}
	k, err := er.content.Key(session)
	if err != nil {
		return err
	}
	state := api.StoreDone
	if slices.ContainsFunc(indexes, k.Has) {
		state = api.StorePending
	}
	add("key", state, uint64(len(indexes)), "keys of events of the session that were redacted, taken in both copies of the key log. Headers stay: ids, times, counts, sizes")
	for _, p := range er.all() {
		var count uint64
		done := len(indexes) == 0 || p.Redact == nil
		if !done && !out.DryRun {
			if count, done, err = p.Redact(ctx, &s, k.Taken()); err != nil {
				return err
			}
		}
		state := api.StorePending
		if done {
			state = api.StoreDone
		}
		add(p.Name, state, count, p.Note)
	}
	if r.Text == "" {
		behind, names, err := er.summariesBehind(session, out.Events)
		if err != nil {
			return err
		}
		if behind > 0 {
			add("summaries", api.StoreOutside, behind, "that the session made behind it, and that may repeat what was taken out: redact the text itself, or each of them: "+names)
		}
	}
	if s.ForkOf != nil {
		add("inherited", api.StoreOutside, 0, "turns before the fork are of session "+s.ForkOf.At.Session.String()+": redact the text there too")
	}
	heirs, err := er.reader.Heirs(ctx, session)
	if err != nil {
		return err
	}
	if len(heirs) > 0 {
		add("forks", api.StoreOutside, uint64(len(heirs)), "what they inherited reads redacted; what they copied (settings), and summaries that they made of it, are theirs: redact the text there too")
	}
	add("memories", api.StoreOutside, 0, "what agents saved, their documents (memory.redact takes it out of them), and external events")
	add("backups", api.StoreOutside, 0, "files of keys from before: the list of erasures that lies beside a backup, or in [checkpoint] out, is applied by restore, which takes the whole event then; destroy older files of keys")
	add("copies", api.StoreOutside, 0, "exports (they have keys), pages, transcripts of agents and of continue, git refs; fingerprints of contexts that had it: a guess can be tested with them")
	return nil
}

// maxNamed is how many summaries a receipt names.
const maxNamed = 5

// summariesBehind counts the compactions of a session that follow any of the events on its chain, and names the first ones.
func (er *Erasure) summariesBehind(session turns.ID, redacted []api.RedactedEvent) (n uint64, names string, err error) {
	first := uint64(math.MaxUint64)
	for _, x := range redacted {
		index, err := er.reader.Projections.Index(session, x.Event)
		if err != nil {
			return 0, "", err
		}
		first = min(first, index)
	}
	for ref, err := range er.reader.Projections.CompactionsOf(session) {
		if err != nil {
			return 0, "", err
		}
		row, err := er.reader.Projections.Turn(ref)
		if err != nil {
			return 0, "", err
		}
		if row.Index <= first {
			continue
		}
		if n++; n <= maxNamed {
			names = strings.TrimPrefix(names+", "+ref.Turn.String(), ", ")
		}
	}
	if n > maxNamed {
		names += ", …"
	}
	return n, names, nil
}

package erasure

import (
	"context"
	"errors"
	"slices"
	"time"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/projections"
	"nexus/turns"
)

// receipt says what became of the content of a session, or of one that is not erased what would.
func (er *Erasure) receipt(ctx context.Context, s *ledger.Session, req api.EraseSession) (*api.Receipt, error) {
	erased := s.State == turns.Erased
	out := &api.Receipt{Session: s.ID, DryRun: req.DryRun, Done: erased}
	if erased {
		at := api.Time(time.Unix(0, s.Updated))
		out.Erased, out.Position = &at, page.FormatPosition(s.Tail.Seq)
	}
	add := func(store string, state api.StoreState, count uint64, note string) {
		if !erased && state == api.StoreDone {
			state = api.StorePending
		}
		out.Done = out.Done && state != api.StorePending
		out.Stores = append(out.Stores, api.ErasedStore{Store: store, State: state, Count: count, Note: note})
	}
	_, err := er.content.Key(s.ID)
	key := api.StoreDone
	if !errors.Is(err, turns.ErrErased) {
		key = api.StorePending
	}
	has, err := er.has(ctx, s)
	if err != nil {
		return nil, err
	}
	add("key", key, 1, "the content key, in both copies of the key log")
	events := s.Tail.Index + 1
	if erased { // the one that says so has no content
		events--
	}
	add("events", key, events, "of the session: turns, summaries, settings, title, notes. Bodies can't be opened; headers stay: ids, times, counts, who sent them, in the log and in every copy of it")
	add("blobs", key, has.blobs, "large parts. Their keys are in the bodies; the sealed bytes stay")
	add("combined", key, has.combined, "summaries of forks, and memories, that were made of it: sealed under its key too")
	add("code", key, has.code, "the records of files that watch --code made")
	for _, p := range er.all() {
		var count uint64
		var done bool
		if erased {
			if count, done, err = p.Erase(ctx, s); err != nil {
				return nil, err
			}
		}
		state := api.StorePending
		if done {
			state = api.StoreDone
		}
		add(p.Name, state, count, p.Note)
	}
	if has.forks > 0 {
		add("forks", api.StoreOutside, has.forks, "what they inherited reads erased; their own turns stay, and the settings that they copied: system text, tools, names of user and model. Erase them too, where that matters")
	}
	if all, left, err := er.countLeft(has.answered); err != nil {
		return nil, err
	} else if left > 0 && req.WithEvents {
		add("external events", api.StorePending, left, "that its turns answered; for whoever else answered them too")
	} else if left > 0 {
		add("external events", api.StoreOutside, left, "that its turns answered, sealed under the keys of their channels; with_events erases them, for whoever else answered them too")
	} else if all > 0 {
		add("external events", api.StoreDone, all, "that its turns answered")
	}
	add("backups", api.StoreOutside, 0, "files of keys from before: the list of erasures that lies beside a backup, or in [checkpoint] out, is applied by restore; destroy older files of keys")
	add("copies", api.StoreOutside, 0, "exports (they have keys), pages, transcripts of agents and of continue, git refs: ledgerctl erase removes those of its machine")
	return out, nil
}

// counts is what there is of a session in the log.
type counts struct {
	blobs, combined, code, forks uint64
	answered                     []answered
}

func (er *Erasure) has(ctx context.Context, s *ledger.Session) (n counts, err error) {
	if n.answered, n.blobs, err = er.ownEvents(ctx, s); err != nil {
		return n, err
	}
	heirs, err := er.reader.Heirs(ctx, s.ID)
	if err != nil {
		return n, err
	}
	for _, id := range heirs {
		heir, err := er.reader.Projections.Session(id)
		if err != nil {
			return n, err
		}
		if heir.State != turns.Erased {
			n.forks++
		}
		for ref, err := range er.reader.Projections.CompactionsOf(id) {
			if err != nil {
				return n, err
			}
			_, ev, err := er.reader.TurnEvent(ref)
			if err != nil {
				return n, err
			}
			if slices.Contains(ev.Keys, s.ID) {
				n.combined++
			}
		}
	}
	for m, err := range er.reader.Projections.ListMemories(s.Tenant, s.Agent, projections.MemoryPlace{}) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return n, err
		}
		r, err := er.reader.Projections.Record(m.Seq)
		if err != nil {
			return n, err
		}
		if ev, err := turns.Decode(r.Payload); err == nil && ev.Chain.Entity == turns.AgentEntity && slices.Contains(ev.Keys, s.ID) {
			n.combined++
		}
	}
	ch, err := er.reader.ChannelOf(s.Tenant, s.Agent, reader.CodeChannel(s.ID))
	if err != nil {
		return n, err
	}
	code, err := er.reader.Projections.Channel(s.Tenant, ch.Chain.ID)
	n.code = code.Count
	return n, err
}

package erasure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/request"
	"nexus/cmd/internal/engine/writer"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// Store is a store beside the log that has content of sessions in the clear.
type Store struct {
	Name string // as in the receipt
	Note string // what it has
	// Erase removes what the store has of a session that was erased, and whose key is destroyed, or says that it has
	// not come to it yet: done is false then. It can be called again.
	Erase func(ctx context.Context, s *ledger.Session) (count uint64, done bool, err error)
	// Redact is Erase for a session of which events were redacted: taken is how many keys of its events are gone, and its tail is at
	// the newest event that redacts. nil: the store has nothing of single events.
	Redact func(ctx context.Context, s *ledger.Session, taken uint64) (count uint64, done bool, err error)
}

// Erased is a session that was erased, or an event of one that was redacted, as the list of erasures has it.
type Erased struct {
	Session  turns.ID
	Event    turns.ID // zero: the session
	Tenant   string
	Hash     turns.Hash // of the event that erased it
	Position uint64     // of that event, of one that redacts on its chain
	Time     time.Time
	Ground   string
}

// Erasure erases sessions. Safe for concurrent use.
type Erasure struct {
	// Publish puts erasures on the list that is kept beside the keys and elsewhere; those that it has stay. nil:
	// there is no list.
	Publish func([]Erased) error
	// Listed is the sessions on that list.
	Listed func() ([]Erased, error)
	// Why says why nothing can be erased here; "" if it can.
	Why string

	logger  *slog.Logger
	content *content.Store
	reader  *reader.Reader
	writer  *writer.Writer

	mu     sync.Mutex
	stores []Store
}

// New returns the erasure of the sessions of r.
func New(logger *slog.Logger, cs *content.Store, r *reader.Reader, w *writer.Writer) *Erasure {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Erasure{logger: logger, content: cs, reader: r, writer: w}
}

// Add adds a store to those that an erasure reaches.
func (er *Erasure) Add(s Store) {
	er.mu.Lock()
	defer er.mu.Unlock()
	er.stores = append(er.stores, s)
}

func (er *Erasure) all() []Store {
	er.mu.Lock()
	defer er.mu.Unlock()
	return er.stores
}

// Erase is session.erase. It is durable when it returns: no key of the session's content is left. What
// a receipt calls pending is done soon, and a call again says so.
//
// Errors: [api.Denied] for an agent, [api.Unsupported] where nothing is sealed.
func (er *Erasure) Erase(ctx context.Context, c reader.Caller, id turns.ID, req api.EraseSession) (*api.Receipt, error) {
	if err := er.May(c, req.Ground); err != nil {
		return nil, err
	}
	s, err := er.reader.FindSession(ctx, c, id, true)
	if err != nil {
		return nil, err
	}
	if req.DryRun {
		return er.receipt(ctx, s, req)
	}
	if s, err = er.store(ctx, c, s); err != nil {
		return nil, err
	}
	if err = er.destroy(s); err == nil {
		err = er.writer.AwaitCopies(ctx) // forks that have read it are stored, and the receipt counts them
	}
	if err == nil && er.Publish != nil {
		err = er.Publish([]Erased{erasedOf(s, req.Ground)})
	}
	if err == nil && req.WithEvents {
		err = er.eraseAnswered(ctx, s)
	}
	var out *api.Receipt
	if err == nil {
		out, err = er.receipt(ctx, s, req)
	}
	return out, writer.AfterCommit(err)
}

// isGround reports whether a text can be kept when the content is gone.
func isGround(s string) bool {
	for _, r := range []byte(s) {
		if r != '.' && r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return len(s) <= 64
}

// store stores the event that says that a session is erased, and returns the session behind it.
func (er *Erasure) store(ctx context.Context, c reader.Caller, s *ledger.Session) (*ledger.Session, error) {
	as := c
	as.Agent = s.Agent // the event is on its session's chain; Actor says who stored it
	err := er.writer.Mutate(request.Ending(ctx), as, s.ID, func(_ *writer.Chain, s *ledger.Session) (*writer.Draft, error) {
		if s.State == turns.Erased {
			return nil, nil
		}
		event, err := er.writer.NewID(turns.ID{})
		if err != nil {
			return nil, err
		}
		return &writer.Draft{Event: &turns.Event{ID: event, Kind: turns.KindState, State: turns.Erased}, Actor: c.Actor()}, nil
	})
	if err != nil {
		return nil, err
	}
	s, err = er.reader.FindSession(ctx, c, s.ID, true)
	return s, writer.AfterCommit(err)
}

// destroy destroys the keys of what only these sessions have, all at once: each time the whole log of keys is written anew.
func (er *Erasure) destroy(sessions ...*ledger.Session) error {
	var keys []turns.ID
	for _, s := range sessions {
		ch, err := er.reader.ChannelOf(s.Tenant, s.Agent, reader.CodeChannel(s.ID))
		if err != nil {
			return err
		}
		keys = append(keys, s.ID, ch.Key)
	}
	return er.destroyKeys(keys)
}

func (er *Erasure) destroyKeys(ids []turns.ID) error {
	ids = slices.DeleteFunc(ids, func(id turns.ID) bool { // who asks for a receipt again empties no cache
		_, err := er.content.Key(id)
		return errors.Is(err, turns.ErrErased)
	})
	if err := er.content.Keys.Destroy(ids...); err != nil {
		return fmt.Errorf("%w: keys are not destroyed yet: %w", ledger.ErrUnavailable, err)
	}
	return nil
}

// erasedOf is a session as the list has it.
func erasedOf(s *ledger.Session, ground string) Erased {
	return Erased{Session: s.ID, Tenant: s.Tenant, Hash: s.Tail.Hash, Position: s.Tail.Seq, Time: time.Unix(0, s.Updated).UTC(), Ground: ground}
}

// Finish does what a crash left of erasures, what an import of such an event asks for, and what the list of
// erasures has and the log has not: a backup from before an erasure was restored. It is called at each start.
func (er *Erasure) Finish(ctx context.Context) error {
	if er.content.Keys == nil || er.Why != "" {
		none := true
		for _, err := range er.reader.Projections.Redactions(turns.ID{}) { // an import may have brought some
			if err != nil {
				return err
			}
			none = false
			break
		}
		er.content.NoRedactions(none)
		return nil
	}
	var unknown []turns.ID // sessions of the list that are not here
	if er.Listed == nil {
		if err := er.finishRedactions(ctx, nil); err != nil {
			return err
		}
	} else {
		listed, err := er.Listed()
		if err != nil {
			return err
		}
		redacted := slices.DeleteFunc(slices.Clone(listed), func(e Erased) bool { return e.Event.IsZero() })
		if err := er.finishRedactions(ctx, redacted); err != nil {
			return err
		}
		for _, e := range listed {
			if !e.Event.IsZero() {
				continue
			}
			s, err := er.reader.Projections.Session(e.Session)
			if errors.Is(err, ledger.ErrNotFound) {
				unknown = append(unknown, e.Session)
				continue
			}
			if err == nil && s.State != turns.Erased {
				er.logger.Warn("a session that was erased is here again, from a backup: it is erased", "session", s.ID, "ground", e.Ground)
				_, err = er.store(ctx, reader.Caller{Tenant: s.Tenant, Agent: api.Operator}, &s)
			}
			if err != nil {
				return err
			}
		}
	}
	var sessions []*ledger.Session
	var erased []Erased
	for s, err := range er.reader.Projections.Erased() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		sessions, erased = append(sessions, &s), append(erased, erasedOf(&s, ""))
	}
	err := er.destroy(sessions...)
	if err == nil {
		err = er.destroyKeys(unknown) // so that no import brings them back
	}
	if err == nil && er.Publish != nil {
		err = er.Publish(erased)
	}
	return err
}

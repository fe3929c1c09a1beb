package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/seal"
)

// draft is an event that was decided on but not yet stored.
type draft struct {
	event *turns.Event
	body  any          // nil: no body
	keys  []turns.ID   // content keys to seal under; nil: the session's own
	head  lineage.Node // the node of the session's head, where decide read it; zero: not read

	// before is called when the event is admitted and before it is stored: its
	// error stops the append. Nil: nothing.
	before func(ledger.Admitted) error
	after  func(seq uint64, hash turns.Hash) // called when the event is stored; nil: nothing

	claimed bool   // a label was claimed for it, which is on the log already
	release func() // called when the draft is stored or given up; nil: nothing
}

// request is what identifies a mutating call for ever: its id, and a digest of
// everything else.
type request struct {
	id        turns.ID
	what      string // noun.verb
	canonical []byte // the canonical JSON of the request without its id
}

// mutate runs decide on the fold of the session's tail and stores what it
// drafts, expecting that tail. When another daemon was faster, or a negative
// decision was taken on a fold that may be old, it is decided again.
//
// Crash states: before the append returns nothing is promised. After it the
// event is on the log; a caller that never heard of it retries with the same id
// and is told so, by whichever daemon.
func (e *Engine) mutate(ctx context.Context, c Caller, id turns.ID, decide func(ch *chain, s *ledger.Session) (*draft, error)) (err error) {
	if c.Operator() {
		return &api.Error{Code: api.Denied, Message: "the operator reads all agents and changes nothing; name the session's agent"}
	}
	ch, release, err := e.hold(ctx, c.Tenant+"/"+id.String())
	if err != nil {
		return err
	}
	defer release()
	fresh, claimed := ch.seq == 0, false
	defer func() {
		if claimed {
			err = written(err)
		}
	}()
	for {
		s, err := e.fold(ctx, c, id, ch, fresh)
		if err != nil {
			return err
		}
		given := *s // what decide does to its copy does not change what its draft is held to
		d, err := decide(ch, &given)
		if err != nil && !fresh && negative(err) {
			fresh = true
			continue
		}
		if errors.Is(err, ledger.ErrClosed) {
			if err := e.succeeded(ctx, s); err != nil {
				return err
			}
		}
		if err != nil || d == nil {
			return err
		}
		claimed = claimed || d.claimed
		_, err = e.commit(ctx, c, ch, s, d)
		if !errors.Is(err, ledger.ErrConflict) {
			return err
		}
		e.Metrics.conflict()
		fresh = true
		if ctx.Err() != nil {
			return fmt.Errorf("%w: the session kept moving: %w", ledger.ErrUnavailable, ctx.Err())
		}
	}
}

// written is an error as it is told when something of the request is on the log
// already: what would say that nothing was written becomes [ledger.ErrIndeterminate].
// A retry with the same id is then answered as the request was.
func written(err error) error {
	if errors.Is(err, ledger.ErrBusy) || (errors.Is(err, ledger.ErrUnavailable) && !errors.Is(err, ledger.ErrIndeterminate)) {
		return &api.Error{Code: api.Indeterminate, Message: "it is written, its answer is not ready: " + err.Error()}
	}
	return err
}

// negative reports whether err is an answer that an old fold can get wrong.
func negative(err error) bool {
	for _, n := range []error{ledger.ErrConflict, ledger.ErrNotFound, ledger.ErrClosed, ledger.ErrUnprocessable, api.ErrNothing, ledger.ErrMalformed, ledger.ErrErased} {
		if errors.Is(err, n) {
			return true
		}
	}
	return false
}

// fold is the session's fold at the last position this daemon knows of, or,
// fresh, at the one that the log has now.
func (e *Engine) fold(ctx context.Context, c Caller, id turns.ID, ch *chain, fresh bool) (*ledger.Session, error) {
	if fresh {
		seq, err := e.catchUp(ctx, c.Tenant, id)
		if errors.Is(err, ledger.ErrNotFound) {
			return nil, notFound(id)
		}
		if err != nil {
			return nil, err
		}
		ch.seq = seq
	} else if err := e.Store.WaitFor(ctx, ch.seq); err != nil {
		return nil, err
	}
	s, err := e.Store.Session(id)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, errors.Join(notFound(id), e.whyAside(c.Tenant, id))
	}
	if err != nil {
		return nil, err
	}
	if err := visible(c, &s); err != nil {
		return nil, err
	}
	if s.Tail.Seq < ch.seq {
		return nil, e.behind(&s, ch.seq)
	}
	ch.seq = s.Tail.Seq
	return &s, nil
}

// commit seals the draft, asks whether it may follow the session's tail, and
// appends it there.
func (e *Engine) commit(ctx context.Context, c Caller, ch *chain, s *ledger.Session, d *draft) (uint64, error) {
	if d.release != nil {
		defer d.release()
	}
	ev := d.event
	ev.Version, ev.Chain = turns.Version, turns.SessionChain(s.ID)
	ev.Index, ev.Prev = s.Tail.Index+1, s.Tail.Hash
	ev.Recorded, ev.Actor = e.Now().UnixNano(), c.actor()
	if d.keys == nil {
		d.keys = []turns.ID{s.ID}
	}
	payload, err := e.sealed(ctx, c.Tenant, s.Root, ev, d.body, d.keys)
	if err != nil {
		return 0, err
	}
	next, err := e.admit(ctx, read{e.Store.History(), s, d.head}, s.Subject(), s.Tail.Seq, ev, payload)
	if err != nil {
		return 0, e.defect(ev, err)
	}
	if d.before != nil {
		if err := d.before(next.Admitted); err != nil {
			return 0, err
		}
	}
	seq, err := e.append(ctx, next)
	if err != nil {
		return 0, err
	}
	ch.seq = seq
	if d.after != nil {
		d.after(seq, next.hash)
	}
	return seq, nil
}

// sealed is the payload of ev with body in it.
func (e *Engine) sealed(ctx context.Context, tenant string, root turns.ID, ev *turns.Event, body any, keys []turns.ID) ([]byte, error) {
	if body != nil {
		if err := e.offload(ctx, tenant, root, ev, body); err != nil {
			return nil, err
		}
		b, err := turns.EncodeBody(body)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(keys, turns.ID.Compare)
		if err := seal.Seal(ev, b, e.ring(), slices.Compact(keys), e.Rand); err != nil {
			return nil, err
		}
	}
	return ev.Encode()
}

// ring is the keyring for seal, nil where nothing is sealed.
func (e *Engine) ring() seal.Keyring {
	if e.Keys == nil {
		return nil
	}
	return e.Keys
}

// key is a session's content key; the zero key where nothing is sealed.
func (e *Engine) key(id turns.ID) (seal.Key, error) {
	if e.Keys == nil {
		return seal.Key{}, nil
	}
	return e.Keys.Key(id)
}

// digest is the request digest under the session's key.
func (e *Engine) digest(session turns.ID, r request) (turns.Hash, error) {
	k, err := e.key(session)
	if err != nil {
		return turns.Hash{}, err
	}
	return seal.RequestDigest(k, r.what, r.canonical), nil
}

// stored looks a request's id up on the session's chain. It returns the event
// that the same request stored; nil if the id is new; [ledger.ErrIDReused] if
// another request took it.
func (e *Engine) stored(s *ledger.Session, r request, digest turns.Hash) (*turns.Event, error) {
	if r.id.IsZero() {
		return nil, nil
	}
	index, err := e.Store.Index(s.ID, r.id)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	payload, err := e.Store.EventAt(s.ID, index)
	if err != nil {
		return nil, err
	}
	ev, err := turns.Decode(payload)
	if err != nil {
		return nil, err
	}
	if ev.Digest != digest {
		return nil, &api.Error{Code: api.IDReused, Message: fmt.Sprintf("id %s is stored with another request", r.id)}
	}
	return ev, nil
}

// fresh id for a call that brought none.
func (e *Engine) newID(id turns.ID) (turns.ID, error) {
	if !id.IsZero() {
		return id, nil
	}
	return turns.NewID(e.Now(), e.Rand)
}

// open opens a stored event's body.
func (e *Engine) open(ev *turns.Event, body any) error { return openBody(e.ring(), ev, body) }

// openBody opens an event's body with the keys of ring. One that can be
// unsealed and not read is [ledger.ErrCorrupt]: nobody's request is wrong.
func openBody(ring seal.Keyring, ev *turns.Event, body any) error {
	if len(ev.Body) == 0 && ev.Encoding == 0 {
		return nil
	}
	b, err := seal.Open(ev, ring)
	if err != nil {
		return fmt.Errorf("open %s %s: %w", ev.Kind, ev.ID, err)
	}
	if err := turns.DecodeBody(b, body); err != nil {
		return fmt.Errorf("%w: the body of %s %s: %v", ledger.ErrCorrupt, ev.Kind, ev.ID, err)
	}
	return nil
}

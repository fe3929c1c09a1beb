package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"nexus/compactor"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/projections"
	"nexus/turns"
	"nexus/turns/seal"
	"nexus/turns/tokens"
)

// Keys is the key store as the engine uses it. A nil Keys means that nothing
// is sealed.
type Keys interface {
	seal.Keyring
	Create(id turns.ID, rand io.Reader) (seal.Key, error)
	Put(id turns.ID, k seal.Key) error
}

// Engine takes every decision of the daemon: it reads projections, decides on
// a session's fold, seals, and appends by compare-and-set. It has no thread of
// its own and knows nothing of NATS requests; natsapi calls it.
//
// Any number of engines may serve one log: the compare-and-set arbitrates.
type Engine struct {
	Ledger  [16]byte // UUID of the ledger
	Log     ledger.Log
	Blobs   ledger.Blobs
	Store   *projections.Store
	Keys    Keys
	Counter tokens.Counter
	Tiers   []compactor.Tier
	Now     func() time.Time
	Rand    io.Reader // safe for concurrent use
	Logger  *slog.Logger
	Notify  func(tenant, agent string, n api.Notification) // called after a commit; must not block
	Metrics *Metrics

	// MaxPayload is the largest message of the connection that replies go out
	// on, in bytes; 0: 8 MiB. Pages, and what an event holds itself, keep to it.
	MaxPayload int

	// MaxContent is the most content that a request loads of a path, in bytes;
	// 0: 48 MiB.
	MaxContent int
	// Models is the limits of models by name, for sessions that state none. The
	// zero table knows none.
	Models tokens.Models

	background background
	loaded     atomic.Int64 // bytes that all requests have loaded
	verifying  verifications

	contents cache[blobName, []byte]         // opened and checked
	pages    cache[contextName, api.Context] // whole contexts that are being paged
	exports  cache[turns.ID, *firstNames]    // by session
	plans    cache[takenName, *takenWhole]   // plans whose content is being paged

	preambles cache[blobName, *turns.Preamble] // large ones, decoded
	overheads cache[preambleName, uint64]      // their tokens
	digests   cache[preambleName, turns.Hash]
	measures  cache[turns.ID, measured] // by session
	arrivals  cache[arrival, seal.Key]  // keys of sessions that an import is about to open

	mu     sync.Mutex
	chains map[string]*chain // by subject pattern; guarded by mu
}

// Caller is who asks: the tenant and agent of the request's subject. The agent
// "_" is the operator, who reads everything and creates nothing.
type Caller struct {
	Tenant, Agent string
}

// Operator reports whether the caller is the operator.
func (c Caller) Operator() bool { return c.Agent == "_" }

func (c Caller) actor() string { return c.Tenant + "/" + c.Agent }

// chain serializes this daemon's own writes to one chain, so that they do not
// refuse each other. Other daemons are told apart by the compare-and-set.
type chain struct {
	turn    chan struct{} // holds one token: whoever has it writes
	waiting int           // guarded by Engine.mu
	seq     uint64        // last position known on the chain; owned by the token
	open    ledger.Calls  // calls open at openAt; owned by the token
	openAt  turns.Ref
}

const (
	// maxWaiting is how many mutations may wait for one session.
	maxWaiting = 128
	// maxIdle is how many chains are remembered without a writer.
	maxIdle = 100_000
)

// hold waits for the chain's turn. A queue that is full is [ledger.ErrBusy].
func (e *Engine) hold(ctx context.Context, name string) (*chain, func(), error) {
	e.mu.Lock()
	if e.chains == nil {
		e.chains = make(map[string]*chain)
	}
	c := e.chains[name]
	if c == nil {
		if len(e.chains) >= maxIdle {
			for k, v := range e.chains {
				if v.waiting == 0 {
					delete(e.chains, k)
				}
				if len(e.chains) < maxIdle/2 {
					break
				}
			}
		}
		c = &chain{turn: make(chan struct{}, 1)}
		c.turn <- struct{}{}
		e.chains[name] = c
	}
	if c.waiting >= maxWaiting {
		e.mu.Unlock()
		return nil, nil, &api.Error{Code: api.Busy, Message: fmt.Sprintf("%d requests wait for this session already", maxWaiting),
			Details: map[string]any{"retry_after_ms": 100}}
	}
	c.waiting++
	e.mu.Unlock()
	leave := func() {
		e.mu.Lock()
		c.waiting--
		e.mu.Unlock()
	}
	select {
	case <-c.turn:
		return c, func() { c.turn <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, nil, fmt.Errorf("%w: waited for the session's turn: %w", ledger.ErrUnavailable, ctx.Err())
	}
}

// position and parsePosition are the opaque positions of the contract.
func position(seq uint64) string { return "p" + strconv.FormatUint(seq, 36) }

func parsePosition(s string) (uint64, error) {
	if len(s) > 1 && s[0] == 'p' {
		if n, err := strconv.ParseUint(s[1:], 36, 64); err == nil {
			return n, nil
		}
	}
	return 0, &turns.FieldError{Field: "/min_position", Reason: "not a position", Kind: turns.ErrMalformed}
}

// visible checks that a session is the caller's. Another's is not found, like
// one that does not exist.
func visible(c Caller, s *ledger.Session) error {
	if s.Tenant != c.Tenant || (s.Agent != c.Agent && !c.Operator()) {
		return notFound(s.ID)
	}
	return nil
}

func notFound(id turns.ID) error {
	return &api.Error{Code: api.NotFound, Message: "no session " + id.String()}
}

// row reads a session from the projections. With fresh, they have first passed
// the end that the session's chain had when the request came, so that a negative
// answer, or one about the head, is true; a chain that was set aside before its
// end is [ledger.ErrCorrupt] then.
func (e *Engine) row(ctx context.Context, c Caller, id turns.ID, fresh bool) (*ledger.Session, error) {
	var end ledger.Record
	if fresh {
		var err error
		if end, err = e.end(ctx, c.Tenant, id); err != nil {
			if errors.Is(err, ledger.ErrNotFound) {
				return nil, notFound(id)
			}
			return nil, err
		}
	}
	s, err := e.Store.Session(id)
	if errors.Is(err, ledger.ErrNotFound) {
		if !fresh {
			return e.row(ctx, c, id, true)
		}
		return nil, errors.Join(notFound(id), e.whyAside(c.Tenant, id))
	}
	if err != nil {
		return nil, err
	}
	if err := visible(c, &s); err != nil {
		return nil, err
	}
	if s.Tail.Seq < end.Seq && s.Subject() == end.Subject {
		return nil, e.behind(&s, end.Seq)
	}
	return &s, nil
}

// behind is the error of a session whose chain goes on to last, where the
// projections, which have passed that, do not.
func (e *Engine) behind(s *ledger.Session, last uint64) error {
	if err := e.whyAside(s.Tenant, s.ID); err != nil {
		return err
	}
	return fmt.Errorf("%w: session %s: projections end at %d, the chain at %d", ledger.ErrCorrupt, s.ID, s.Tail.Seq, last)
}

// catchUp waits until the projections have passed the end of the session's
// chain, and returns its position.
func (e *Engine) catchUp(ctx context.Context, tenant string, id turns.ID) (uint64, error) {
	last, err := e.end(ctx, tenant, id)
	return last.Seq, err
}

// end is the last record of the session's chain; the projections have passed it.
func (e *Engine) end(ctx context.Context, tenant string, id turns.ID) (ledger.Record, error) {
	subject := ledger.AnyShard(tenant, turns.SessionChain(id))
	if s, err := e.Store.Session(id); err == nil && s.Tenant == tenant {
		subject = s.Subject()
	}
	last, err := e.Log.Last(ctx, subject)
	if err != nil {
		return last, err
	}
	return last, e.Store.WaitFor(ctx, last.Seq)
}

// whyAside is the error of a session whose chain, in this tenant, the
// projections set aside; nil if they did not.
func (e *Engine) whyAside(tenant string, id turns.ID) error {
	subject := ledger.AnyShard(tenant, turns.SessionChain(id))
	if s, err := e.Store.Session(id); err == nil && s.Tenant == tenant {
		subject = s.Subject()
	}
	why, err := e.Store.WhyAside(subject)
	if err != nil || why == "" {
		return err
	}
	return fmt.Errorf("%w: session %s is read-only here: %s", ledger.ErrCorrupt, id, why)
}

// ready waits for what a read asks for.
func (e *Engine) ready(ctx context.Context, r api.Read) error {
	if r.MinPosition == "" {
		return nil
	}
	seq, err := parsePosition(r.MinPosition)
	if err != nil {
		return err
	}
	if e.Store.Applied().Seq >= seq {
		return nil
	}
	// Nothing has the position yet: a wait would be for whatever comes next.
	st, err := e.Log.State(ctx)
	if err != nil {
		return err
	}
	if seq > st.Last {
		return fieldErr("/min_position", "a position that this ledger has not reached")
	}
	return e.Store.WaitFor(ctx, seq)
}

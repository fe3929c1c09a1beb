package place

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"nexus/cmd/internal/responses/window"
	"nexus/cmd/internal/responses/wire"
	"nexus/cmd/internal/web"
	"nexus/ledger/api/client"

	"nexus/turns"
)

// Plan says which turn a request follows.
type Plan struct {
	Session turns.ID   // that its turn goes to; zero: a new one
	Label   string     // of a new session
	Parent  turns.ID   // that it follows; zero: the head
	InPlace bool       // it follows the head, and is refused where that moves: no fork
	Moves   bool       // it does not follow the head, but makes Parent the head first
	Left    turns.ID   // the head that it leaves
	Tips    []turns.ID // ends of other paths of the session
	Whole   bool       // its input is the whole conversation, for sure
}

// head is what the head of a session says of where the next request goes.
type head struct {
	id    turns.ID
	tips  []turns.ID // ends of other paths
	waits *waiting   // nil: it is no request without an answer
}

// waiting is a request without an answer.
type waiting struct {
	Earlier
	before turns.ID // the head before it; zero: none
}

// onto returns the plan of a request that is the next one of a session. Where the head waits
// for an answer of its own, that answer would have no place any more: the request is refused
// (errLocked), before a model is asked. A head whose answer failed or was lost is stepped over.
func (p Plan) onto(h head) (_ Plan, stepsOver bool, err error) {
	p.Parent, p.InPlace, p.Tips = h.id, true, h.tips
	switch w := h.waits; {
	case w == nil:
		return p, false, nil
	case w.Open && w.Here:
		return p, false, ErrLocked
	case w.Open:
		return p, false, errLockedElsewhere(w.Began)
	default:
		p.Parent = w.before
		return p, true, nil
	}
}

// match is how the input of a request agrees with what its session has.
type match struct {
	named    bool     // the request names the session, by x-nexus-session
	previous bool     // it names a response that it follows
	after    turns.ID // it follows this turn, by what its connection remembers; zero: no such
	whole    bool     // its input may be the whole conversation
	sure     bool     // it is, or it is not, for sure
	known    known    // what of the input a path has
}

// compares reports whether the input has to be compared with the paths of the session.
func (p Plan) compares(m match) bool { return p.leaves(m) && m.after.IsZero() }

// leaves reports whether the request may follow another turn than the head.
func (p Plan) leaves(m match) bool {
	return m.named && m.whole && (!m.previous || !m.after.IsZero()) && !(p.Parent.IsZero() && len(p.Tips) == 0)
}

// matched returns the plan of a request whose input agrees with a path of the session, and how
// many items of the input the path has.
func (p Plan) matched(m match) (_ Plan, items int) {
	p.Whole = m.whole && m.sure && m.named
	if !p.leaves(m) {
		return p, 0
	}
	at := m.after
	if at.IsZero() {
		if !m.sure && !m.known.answered {
			return p, 0
		}
		at, items = m.known.at, m.known.items
	}
	if at != p.Parent {
		p = p.left(at)
	}
	return p, items
}

// left returns the plan of a request that follows another turn than the head.
func (p Plan) left(to turns.ID) Plan {
	tips := make([]turns.ID, 0, maxTips)
	for _, t := range append([]turns.ID{p.Parent}, p.Tips...) {
		if !t.IsZero() && t != to && len(tips) < maxTips && !slices.Contains(tips, t) {
			tips = append(tips, t)
		}
	}
	p.Left, p.Moves, p.Parent, p.Tips = p.Parent, true, to, tips
	return p
}

// Service is what requests are placed with.
type Service struct {
	ID     turns.ID                                       // of the daemon's files, through all its restarts
	Budget func(model string) (tokens uint64, known bool) // of a model's input; nil: nobody knows
	Now    func() time.Time
	Log    *slog.Logger
	Sealer window.Sealer                                   // of compaction items; without a key there are none
	Base   context.Context                                 // of what has to be done though the client is gone
	Lock   func(context.Context, turns.ID) (func(), error) // waits until no other request is at a session
	// Find finds a response by its id; all: also one that was not to be stored.
	Find func(ctx context.Context, c *client.Client, id string, all bool) (Earlier, error)
}

// Earlier is a response that a request names, or that its session waits for.
type Earlier struct {
	Session turns.ID
	Answer  turns.ID  // the turn of the answer; zero: there is none
	Open    bool      // it is under way, as far as is known
	Here    bool      // this daemon makes it
	Began   time.Time // when its request was stored
}

// Placing is a request while its place is found and its turn stored.
type Placing struct {
	Plan
	svc      *Service
	Caller   web.Caller
	Client   *client.Client
	Request  *wire.CreateRequest
	Upstream string      // the model's name at its provider
	IDs      wire.KeyIDs // zero without a key

	forked *wire.Place
	past   bool   // the input crosses the threshold of context_management, as far as is known before it is stored
	Unlock func() // lets the next request of the session go on
}

// place returns a request that has no place yet.
func (s *Service) New(c web.Caller, client *client.Client, r *wire.CreateRequest) *Placing {
	return &Placing{svc: s, Caller: c, Client: client, Request: r, Unlock: func() {}}
}

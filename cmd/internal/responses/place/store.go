package place

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"nexus/cmd/internal/responses/wire"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Fits refuses what is longer than the model's window, where the request wants nothing
// dropped. Nothing is stored of it. Where nobody knows the window, the provider decides.
// What context_management will compact is looked at when it is.
func (b *Placing) Fits(ctx context.Context, in *wire.Input) error {
	r := b.Request
	compacts := r.Compacts && r.Recorded()
	if r.MayDrop() && !compacts {
		return nil
	}
	need, budget, known, err := b.size(ctx, in)
	if err != nil {
		return err
	}
	b.past = compacts && need > r.Threshold(budget, known)
	if r.MayDrop() || b.past || !known || need <= budget {
		return nil
	}
	return errLength(r.Model, need, budget)
}

func errLength(model string, need, budget uint64) error {
	return wire.WithCode(wire.CodeLength, wire.Invalid("input", "The input has about %d tokens, the context of %s holds %d. With truncation: \"auto\" older turns are summarized.", need, wire.Clip(model), budget))
}

// size is about how many tokens the model would read, and how many it may; known is false
// where nobody knows the latter.
func (b *Placing) size(ctx context.Context, in *wire.Input) (need, budget uint64, known bool, err error) {
	if b.svc.Budget != nil {
		budget, known = b.svc.Budget(b.Request.Model)
	}
	if !b.Session.IsZero() && !(b.Moves && b.Parent.IsZero()) {
		s, err := b.Client.Session(ctx, b.Session)
		if err != nil {
			return 0, 0, false, err
		}
		if !known && !s.WindowGuess {
			budget, known = s.Budget, true
		}
		need = max(s.Tokens+s.Overhead, s.Reported)
		if (known || b.Request.Compacts) && !b.Parent.IsZero() && (s.Head == nil || *s.Head != b.Parent) {
			cx, err := b.Client.Context(ctx, b.Session, api.GetContext{At: b.Parent, Recorded: true})
			if err != nil {
				return 0, 0, false, err
			}
			need = max(cx.Tokens+cx.Overhead, cx.Reported)
		}
	} else {
		counter := tokens.Approx{}
		if b.Request.Instructions != nil {
			need += counter.Text(*b.Request.Instructions)
		}
		for _, t := range b.Request.Tools {
			need += counter.Text(string(t))
		}
	}
	for i := range in.Messages {
		need += tokens.Approx{}.Message(&in.Messages[i])
	}
	return need, budget, known, nil
}

// Store appends the request as a turn: to the session it names, to a fork where the
// session went on elsewhere, or to a new session. Where that fails, the head is what it was.
func (b *Placing) Store(ctx context.Context, id turns.ID, in *wire.Input) (depth uint64, session turns.ID, meta *wire.RequestMeta, err error) {
	// Only what a retry finds again is divided: see divide.
	divisible := b.Session.IsZero() && b.Label == ""
	if b.Session.IsZero() {
		if err := b.open(ctx, in); err != nil {
			return 0, session, nil, err
		}
		if b.Label != "" { // other requests may have found or made it, too
			if b.Unlock, err = b.Join(ctx, &in); err != nil {
				return 0, session, nil, err
			}
		}
	}
	// Once something is stored, the rest of it does not depend on whether the client waits.
	ctx = context.WithoutCancel(ctx)
	if b.Moves {
		m := api.MoveSession{IfHead: b.Left, Note: "the client went on elsewhere"}
		if !b.Parent.IsZero() {
			m.To = &b.Parent
		}
		if _, err := b.Client.Move(ctx, b.Session, m); wire.OfCode(err, api.Conflict) {
			return 0, session, nil, ErrLocked
		} else if err != nil {
			b.undo(id)
			return 0, session, nil, err
		}
	}
	defer func() {
		if err != nil {
			b.undo(id)
		}
	}()
	meta = b.meta(in)
	sent := in.Messages
	if divisible = divisible || b.Whole && b.Parent.IsZero(); divisible && b.past {
		if sent, meta.Before, err = b.divide(ctx, id, sent); err != nil {
			return 0, session, nil, err
		}
	}
	add := func() (*api.Appended, error) {
		meta.Echo.ID = wire.ResponseID(turns.Ref{Session: b.Session, Turn: id})
		meta.Forked = b.forked
		return b.Client.Append(ctx, b.Session, api.AppendTurn{ID: id, Parent: b.Parent, Messages: sent, Meta: wire.Encode(wire.MetaOf[wire.RequestMeta]{Responses: meta})})
	}
	a, err := add()
	if b.InPlace && wire.OfCode(err, api.Conflict) {
		return 0, session, nil, ErrLocked
	}
	if b.InPlace && wire.OfCode(err, api.Closed) { // it was closed meanwhile
		return 0, session, nil, err
	}
	if !b.Parent.IsZero() && wire.OfCode(err, api.Conflict, api.Closed) {
		f, ferr := b.Client.Fork(ctx, b.Session, api.CreateFork{ID: b.IDs.Fork, Turn: b.Parent, Mode: "as_seen"})
		if ferr != nil {
			return 0, session, nil, ferr
		}
		b.forked, b.Session = &wire.Place{Session: b.Session, Turn: b.Parent}, f.ID
		a, err = add()
	}
	if err != nil {
		return 0, session, nil, InputFault(err)
	}
	if b.Parent.IsZero() && a.Parent != nil { // another server's turn came between
		b.Parent, b.Moves = *a.Parent, false
		return 0, session, nil, ErrLocked
	}
	return a.Depth, b.Session, meta, nil
}

// ErrLocked: the session waits for the answer of another request, or went on meanwhile. A
// client may try again.
var ErrLocked = &wire.Error{Status: http.StatusConflict, Type: wire.InvalidRequest, Code: "conversation_locked", RetryAfter: time.Second,
	Message: "The conversation waits for the answer of another request."}

// errLockedElsewhere is errLocked for a request that another daemon began. Nothing in the
// ledger says whether that one lives, so it has as long as a model may take.
func errLockedElsewhere(since time.Time) *wire.Error {
	e := *ErrLocked
	e.Message = fmt.Sprintf("The conversation waits for the answer of a request that another server began at %s. If that server is lost, the next request goes on at %s; one with the same Idempotency-Key, or ledgerctl rewind to the turn before, frees it now.",
		since.UTC().Format(time.RFC3339), since.Add(MaxGeneration).UTC().Format(time.RFC3339))
	return &e
}

// Join makes the request the next one of the session that it names, whose lock it holds until
// unlock, whatever err is, and leaves in in what is new of its input.
func (b *Placing) Join(ctx context.Context, in **wire.Input) (unlock func(), err error) {
	unlock, err = b.svc.Lock(ctx, b.Session)
	if err != nil {
		return func() {}, err
	}
	if err = b.follow(ctx); err == nil {
		*in, err = b.match(ctx, *in)
	}
	return unlock, err
}

// follow makes the request the next one of a session that it names. Where the head waits for
// an answer of its own, that answer would have no place any more: the request is refused,
// before a model is asked. A head whose answer failed or was lost is stepped over.
//
// The caller holds the lock of the session. Of two servers that are at it at once, one finds
// its parent moved. Of the first two of a session or a path that come to two servers, the
// second gives way when it sees the first's turn.
func (b *Placing) follow(ctx context.Context) error {
	s, err := b.Client.Session(ctx, b.Session)
	if err == nil {
		err = endedFault(s)
	}
	if err != nil || s.Head == nil {
		return err
	}
	h := head{id: *s.Head}
	t, err := NormalAt(ctx, b.Client, b.Session, h.id)
	if err != nil {
		return err
	}
	if t != nil {
		if h.tips, err = b.ends(ctx, t); err != nil {
			return err
		}
		if m := wire.ReadMeta[wire.RequestMeta](t.Meta); t.Pending && m != nil && m.Echo != nil {
			if h.waits, err = b.waiting(ctx, t); err != nil {
				return err
			}
		}
	}
	next, stepsOver, err := b.Plan.onto(h)
	if err == nil && stepsOver {
		b.StepBack(b.Session, t.ID)
	}
	b.Plan = next
	return err
}

// endedFault returns the error of a request that names a session which takes no more turns; nil: it takes some.
func endedFault(s *api.Session) error {
	switch s.State {
	case turns.Closed.String(), turns.Reset.String():
		details := map[string]any{}
		if !s.Successor.IsZero() {
			details["successor"] = s.Successor.String()
		}
		return api.Errorf(api.Closed, details, "session %s takes no more turns: its state is %s", s.ID, s.State)
	case turns.Erased.String():
		return api.Errorf(api.Erased, nil, "session %s is erased", s.ID)
	}
	return nil
}

// waiting is the response of a request that has no answer yet.
func (b *Placing) waiting(ctx context.Context, t *api.Turn) (*waiting, error) {
	w := new(waiting)
	if id := before(t); id != nil {
		w.before = *id
	}
	v, err := b.svc.Find(ctx, b.Client, wire.ResponseID(turns.Ref{Session: t.Session, Turn: t.ID}), true)
	switch {
	case err == nil:
		w.Earlier = v
	case !isGone(wire.AsError(err).Status): // one that was deleted has no answer to come
		return nil, err
	}
	return w, nil
}

// isGone reports whether a status of HTTP says that something was deleted or erased, or never was.
func isGone(status int) bool { return status == http.StatusNotFound || status == http.StatusGone }

// ends are the ends of other paths that the newest request or answer up to a turn remembers.
// Turns of others after it say nothing of them.
func (b *Placing) ends(ctx context.Context, head *api.Turn) ([]turns.ID, error) {
	if tips, ok := tipsOf(head); ok {
		return tips, nil
	}
	read := 0
	for t, err := range b.Client.Turns(ctx, b.Session, api.ListTurns{At: head.ID, Order: "desc"}) {
		if err != nil {
			return nil, err
		}
		if tips, ok := tipsOf(&t); ok {
			return tips, nil
		}
		if read++; read == maxOthers {
			break
		}
	}
	return nil, nil
}

// maxOthers is how many turns of others hide what the turns before them remember.
const maxOthers = 100

// tipsOf are the ends of other paths that a turn remembers; ok: it is a request or an answer.
func tipsOf(t *api.Turn) (tips []turns.ID, ok bool) {
	q, a := wire.ReadMeta[wire.RequestMeta](t.Meta), wire.ReadMeta[wire.AnswerMeta](t.Meta)
	switch {
	case q != nil && q.Echo != nil:
		tips = q.Tips
	case a != nil && a.Status != "":
		tips = a.Tips
	default:
		return nil, false
	}
	return tips[:min(len(tips), maxTips)], true
}

// InputFault says of a turn that the ledger refused what a client understands.
func InputFault(err error) error {
	if a := (*api.Error)(nil); errors.As(err, &a) && a.Code == api.Malformed {
		return wire.Invalid("input", "The input is not accepted: %s", wire.Clip(a.Message))
	}
	return err
}

// open makes a new session with the settings of the request. Where another request was faster
// with its label, that one's is taken.
func (b *Placing) open(ctx context.Context, in *wire.Input) error {
	id := b.IDs.Session
	if id.IsZero() {
		id = api.NewID()
	}
	c := api.CreateSession{ID: id, SessionSettings: b.Request.Settings()}
	meta, err := b.Request.Work.MetaFor(in.Messages)
	if err != nil {
		return err
	}
	c.Meta = meta
	if b.Label != "" {
		c.Label = &b.Label
	}
	s, err := b.Client.Create(ctx, c)
	if b.Label != "" && wire.OfCode(err, api.Conflict) { // another request was faster
		s, err = b.Client.Resolve(ctx, b.Label)
	}
	if err != nil {
		return InputFault(err)
	}
	b.Session = s.ID
	return nil
}

// before is what was the head before a request's turn; nil: nothing.
func before(t *api.Turn) *turns.ID {
	if m := wire.ReadMeta[wire.RequestMeta](t.Meta); m != nil && !m.Left.IsZero() {
		return &m.Left
	}
	return t.Parent
}

// undo makes the head what it was before the request, whose turn may be stored or not: an
// answer to it will not come. If it fails, the next request steps over the turn.
func (b *Placing) undo(id turns.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.svc.Base), CallTime)
	defer cancel()
	s, err := b.Client.Session(ctx, b.Session)
	if err == nil {
		to, head := b.Parent, turns.ID{}
		if b.Moves {
			to = b.Left
		}
		if s.Head != nil {
			head = *s.Head
		}
		if head != id && !(b.Moves && head == b.Parent) {
			return
		}
		m := api.MoveSession{IfHead: head, Note: "no answer"}
		if !to.IsZero() {
			m.To = &to
		}
		_, err = b.Client.Move(ctx, b.Session, m)
	}
	if err != nil {
		b.svc.Log.Debug("responses: the head stays at a request without an answer", "session", b.Session, "err", err)
	}
}

// StepBack makes the turn before a request without an answer the head again, so that the
// next one does not have to fork. If it fails, that one forks.
func (b *Placing) StepBack(session, id turns.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.svc.Base), CallTime)
	defer cancel()
	s, err := b.Client.Session(ctx, session)
	if err != nil || s.Head == nil {
		return
	}
	t, err := NormalAt(ctx, b.Client, session, *s.Head) // the request may have been compacted
	if err != nil || t == nil || t.ID != id {
		return
	}
	if _, err = b.Client.Move(ctx, session, api.MoveSession{To: before(t), IfHead: *s.Head, Note: "no answer"}); err != nil {
		b.svc.Log.Debug("responses: the head stays at a request without an answer", "session", session, "err", err)
	}
}

// ReturnTo makes the turn of a request the head of its session again, or the compaction that
// was made for it.
func (b *Placing) ReturnTo(ctx context.Context, t *api.Turn) error {
	s, err := b.Client.Session(ctx, t.Session)
	if err != nil {
		return err
	}
	if s.Head != nil {
		if under, err := NormalAt(ctx, b.Client, t.Session, *s.Head); err != nil || under != nil && under.ID == t.ID {
			return err
		}
	}
	if to := before(t); s.Head == nil && to == nil || s.Head != nil && to != nil && *s.Head == *to {
		m := api.MoveSession{To: &t.ID, Note: "asked again"}
		made, err := b.compactionOf(ctx, turns.Ref{Session: t.Session, Turn: t.ID})
		if err != nil {
			return err
		}
		if made != nil {
			m.To = &made.ID
		}
		if s.Head != nil {
			m.IfHead = *s.Head
		}
		_, err = b.Client.Move(ctx, t.Session, m)
		return err
	}
	return &wire.Error{Status: http.StatusConflict, Type: wire.InvalidRequest, Code: "conflict", Final: true,
		Message: "The answer was lost, and the session went on without it. Send the request without this Idempotency-Key."}
}

const (
	// maxGeneration bounds the call of a model. A response without an answer and without a
	// file on this daemon is another daemon's for so long; then it is lost.
	MaxGeneration = time.Hour
	// callTime bounds a call of the service.
	CallTime = time.Minute
)

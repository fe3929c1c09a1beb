package run

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"nexus/cmd/internal/provider"
	"nexus/cmd/internal/responses/place"
	"nexus/cmd/internal/responses/stream"
	"nexus/cmd/internal/responses/wire"
	"nexus/ledger/api"
	"nexus/turns"
)

// run asks the model, stores the answer and ends the flight. A panic of what reads or
// renders the answer ends the response, and not the daemon.
func (f *Flight) run() {
	em := stream.NewEmitter(f.Ref, f.Choice, f.Request.Includes("reasoning.encrypted_content"), f.emit)
	em.Front = wire.FrontItem(f.Ref, f.Sealed)
	cause := f.contained(func() { f.answerIt(em) })
	if cause == nil {
		return
	}
	if f.isStored() { // it is no failure: who asks again gets the answer
		f.endCut(cause)
		return
	}
	if again := f.contained(func() { f.fail(em, cause) }); again != nil {
		f.endCut(again)
	}
}

// contained calls do. A panic becomes an internal error whose id the log has. The log gets the
// stack, which names code, and the type of the value: its text may be content.
func (f *Flight) contained(do func()) (e *wire.Error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		id := api.NewID()
		f.runs.Log.Error("responses: internal error", "id", id, "response", f.Echo.ID, "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
		e = wire.ErrInternal(id)
	}()
	do()
	return nil
}

// endCut ends a flight whose last events can't be made.
func (f *Flight) endCut(cause *wire.Error) {
	if err := f.Spool.Close(f.isStored()); err != nil {
		f.runs.Log.Warn("responses: the file of a response", "response", f.Echo.ID, "err", err)
	}
	f.mu.Lock()
	f.cut = true
	f.mu.Unlock()
	f.end(nil, cause)
}

func (f *Flight) isStored() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stored
}

// answerIt asks the model and stores the answer. The order decides what a crash leaves: see
// the package comment.
func (f *Flight) answerIt(em *stream.Emitter) {
	err := f.announce(em)
	var a *provider.Answer
	if err == nil {
		a, err = f.generate(em)
	}
	if err != nil {
		f.fail(em, err)
		return
	}
	m, err := em.Finish(a.Message)
	if err == nil {
		err = m.Validate("/answer")
	}
	if e := (*wire.Error)(nil); errors.As(err, &e) {
		f.fail(em, e)
		return
	}
	if err != nil {
		f.runs.Log.Warn("responses: a provider's answer can't be stored", "response", f.Echo.ID, "err", err)
		f.fail(em, &wire.Error{Status: http.StatusBadGateway, Type: wire.ModelError, Code: "invalid_answer", Message: "The provider's answer is not valid."})
		return
	}
	f.complete(em, &m, a)
}

// announce sends the events before the model is asked.
func (f *Flight) announce(em *stream.Emitter) error {
	if err := em.Announce(f.Echo, f.queued); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queued = false
	return nil
}

// generate asks the model. Where the provider finds the context too long and the window is
// the policy's business, the session is compacted and the model asked once more.
func (f *Flight) generate(em *stream.Emitter) (*provider.Answer, error) {
	ctx, cancel := context.WithTimeout(f.ctx, place.MaxGeneration)
	defer cancel()
	a, err := f.Provider.Generate(ctx, f.Ask, func(ev provider.Event) error { return f.take(em, ev) })
	p := (*provider.Error)(nil)
	if errors.As(err, &p) && p.Code == wire.CodeLength && f.Recorded && f.Request.MayDrop() && len(em.Parts) == 0 {
		cx, oerr := f.Client.Overflow(ctx, f.Ref.Session, api.Overflow{Error: p.Message, Status: p.Status, Format: "otel"})
		if oerr == nil {
			oerr = f.Use(cx)
		}
		if oerr != nil {
			return nil, err
		}
		f.Context = cx
		a, err = f.Provider.Generate(ctx, f.Ask, func(ev provider.Event) error { return f.take(em, ev) })
	}
	if cause := context.Cause(f.ctx); cause != nil {
		return nil, cause
	}
	return a, err
}

// complete stores the answer, and says so.
func (f *Flight) complete(em *stream.Emitter, m *turns.Message, a *provider.Answer) {
	meta := &wire.AnswerMeta{Version: wire.MetaVersion, ID: f.Echo.ID, Status: wire.Completed, At: f.runs.Now().Unix(), Items: em.Marks(), Ops: base64.RawStdEncoding.EncodeToString(em.Ops), Lost: f.Lost, Tips: f.tips(), Sealed: f.Sealed}
	switch m.FinishReason {
	case "length":
		meta.Status, meta.Reason = wire.Incomplete, "max_output_tokens"
	case "content_filter":
		meta.Status, meta.Reason = wire.Incomplete, "content_filter"
	}
	if f.Context != nil {
		meta.Compaction = compactionOf(f.Context)
	}
	t := &api.Turn{ID: wire.AnswerID(f.Ref.Turn), Session: f.Ref.Session, Depth: f.Depth + 1, Response: m, Model: f.answering(a), Usage: a.Usage}
	all := wire.MetaOf[wire.AnswerMeta]{Responses: meta, Usage: &a.Details, Message: a.ID}
	if t.Model != f.Request.Model {
		all.Requested = f.Request.Model
	}
	t.Meta = wire.Encode(all)
	if len(t.Meta) > wire.MaxMeta { // the stream is coarser when it is made again
		meta.Ops = ""
		for i := range meta.Items {
			meta.Items[i].Said = nil
		}
		t.Meta = wire.Encode(all)
	}
	if f.Recorded {
		if err := f.commit(t, a); err != nil {
			f.runs.Log.Error("responses: an answer was not stored", "response", f.Echo.ID, "err", err)
			f.fail(em, err)
			return
		}
		f.mu.Lock()
		f.stored = true
		f.mu.Unlock()
	}
	final := FinalResponse(f.Echo, f.Ref, t, meta, em.Include, f.Recorded)
	f.mu.Lock()
	f.answer = m
	f.mu.Unlock()
	// The answer is durable: a file that can't be written does not matter any more, nor memory.
	s := f.Spool
	f.Spool, f.ending = nil, true
	defer func() { f.end(final, nil) }()
	defer func() {
		if err := s.Close(true); err != nil {
			f.runs.Log.Warn("responses: the file of a stored answer stays", "response", f.Echo.ID, "err", err)
		}
	}()
	if err := em.Lifecycle("response."+meta.Status, final); err != nil {
		f.runs.Log.Warn("responses: the last event", "response", f.Echo.ID, "err", err)
	}
}

// answering is the model that answered: as the provider names it, else the one that it was
// asked for. A name that no turn can have is none.
func (f *Flight) answering(a *provider.Answer) string {
	if a.Model != "" && len(a.Model) <= turns.MaxName && turns.ValidateWord("/model", a.Model) == nil {
		return a.Model
	}
	return f.Ask.Model
}

// compactionOf is the newest compaction that a context shows.
func compactionOf(cx *api.Context) (id turns.ID) {
	if cx.Compacted != nil {
		return *cx.Compacted
	}
	for _, s := range cx.Sources {
		if s.Status == "summary" {
			return s.Turn
		}
	}
	return id
}

// commit appends the answer to the request's turn. It is not bound to the call: an answer
// that is there is stored, also while the daemon ends.
func (f *Flight) commit(t *api.Turn, a *provider.Answer) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), commitTime)
	defer cancel()
	r := api.AppendTurn{ID: t.ID, Parent: f.Ref.Turn, Messages: []turns.Message{}, Response: t.Response, Model: t.Model, Usage: a.Usage, Meta: t.Meta}
	if cx := f.Context; cx != nil && !wire.IsNull(cx.Recipe) {
		r.Context = &api.ContextUsed{Recipe: cx.Recipe, Fingerprint: cx.Fingerprint}
	}
	done, err := f.Client.Within(commitTime).Append(ctx, f.Ref.Session, r)
	if err == nil {
		t.Depth = done.Depth
	}
	return err
}

// fail ends a response without an answer. Its events stay in its file, with how it ended.
// The head goes back, so that the next request can follow what was before.
func (f *Flight) fail(em *stream.Emitter, err error) {
	if errors.Is(err, wire.ErrClosing) || errors.Is(context.Cause(f.ctx), wire.ErrClosing) {
		_ = f.Spool.Close(false) // as a kill leaves it
		f.end(nil, wire.ErrClosing)
		return
	}
	e := wire.AsError(err)
	if e.Status == http.StatusInternalServerError && !errors.Is(err, error(e)) {
		id := api.NewID()
		f.runs.Log.Error("responses", "id", id, "response", f.Echo.ID, "err", err)
		e = wire.ErrInternal(id)
	}
	f.ending = true
	r := *f.Echo
	if isOversize(e) { // to repeat what came would take as much again, several times
		r.Output = []wire.Item{}
		f.dropEvents()
	} else {
		r.Output = incompleteItems(f.eventsNow())
	}
	if r.Nexus != nil {
		n := *r.Nexus
		n.LostAnswers = f.Lost
		r.Nexus = &n
	}
	if f.Recorded {
		f.StepBack()
	}
	var sent error
	if errors.Is(err, wire.ErrCancelled) {
		r.Status = wire.Cancelled
		sent = em.Lifecycle("response.incomplete", &r)
	} else {
		r.Status, r.Error = wire.Failed, &wire.ResponseError{Code: orCode(e.Code), Message: e.Message}
		sent = em.Fail(e, &r)
	}
	if sent != nil {
		f.runs.Log.Warn("responses: the last event", "response", f.Echo.ID, "err", sent)
		f.mu.Lock()
		f.cut = true
		f.mu.Unlock()
	}
	if cerr := f.Spool.Close(api.HasCode(err, api.Erased)); cerr != nil { // of a session that was erased nothing is kept
		f.runs.Log.Warn("responses: the file of a response", "response", f.Echo.ID, "err", cerr)
	}
	f.end(&r, errOr(errors.Is(err, wire.ErrCancelled), e))
}

// errOr is nil where the response is an outcome, else e.
func errOr(outcome bool, e *wire.Error) error {
	if outcome {
		return nil
	}
	return e
}

func orCode(code string) string {
	if code == "" {
		return "server_error"
	}
	return code
}

func incompleteItems(events []stream.Event) []wire.Item {
	if items := stream.Fold(events).Items; items != nil {
		return items
	}
	return []wire.Item{}
}

// FinalResponse is a response with its answer.
func FinalResponse(echo *wire.Response, ref turns.Ref, t *api.Turn, meta *wire.AnswerMeta, encrypted, recorded bool) *wire.Response {
	out := *echo
	if t.Model != "" {
		out.Model = t.Model // "the model that generated this response", by the specification
	}
	out.Status, out.Output = meta.Status, wire.AnswerItems(ref, t.Response, meta, encrypted)
	if meta.Status == wire.Completed {
		out.CompletedAt = &meta.At
	} else {
		out.IncompleteDetails = &wire.IncompleteDetails{Reason: meta.Reason}
		if n := len(t.Response.Parts); n > 0 {
			out.Output[len(out.Output)-1] = markIncomplete(ref, n-1, t.Response, meta.Items, encrypted)
		}
	}
	var details turns.UsageDetails
	if t.Meta != nil {
		details = turns.UsageDetailsOf(t.Meta)
	}
	out.Usage = wire.UsageOf(t.Usage, details)
	if recorded {
		n := *echo.Nexus
		n.Turn, n.Depth, n.LostAnswers, n.Compaction = t.ID, t.Depth, meta.Lost, meta.Compaction
		out.Nexus = &n
	}
	return &out
}

// markIncomplete is the last item of an incomplete response.
func markIncomplete(ref turns.Ref, i int, m *turns.Message, marks []wire.Mark, encrypted bool) wire.Item {
	var k wire.Mark
	if i < len(marks) {
		k = marks[i]
	}
	k.Status = wire.Incomplete
	return wire.OutputItemOf(ref, i, &m.Parts[i], k, encrypted)
}

// commitTime bounds how long an answer is tried to be stored.
const commitTime = 5 * time.Minute

package responses

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"nexus/cmd/internal/provider"
	"nexus/ledger/api"
	"nexus/turns"
)

// run asks the model, stores the answer and ends the flight. A panic of what reads or
// renders the answer ends the response, and not the daemon.
func (f *flight) run() {
	em := newEmitter(f.ref, f.choice, f.request.includes("reasoning.encrypted_content"), f.emit)
	em.front = frontItem(f.ref, f.sealed)
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
func (f *flight) contained(do func()) (e *Error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		id := api.NewID()
		f.runs.log.Error("responses: internal error", "id", id, "response", f.echo.ID, "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
		e = errInternal(id)
	}()
	do()
	return nil
}

// endCut ends a flight whose last events can't be made.
func (f *flight) endCut(cause *Error) {
	if err := f.spool.close(f.isStored()); err != nil {
		f.runs.log.Warn("responses: the file of a response", "response", f.echo.ID, "err", err)
	}
	f.mu.Lock()
	f.cut = true
	f.mu.Unlock()
	f.end(nil, cause)
}

func (f *flight) isStored() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stored
}

// answerIt asks the model and stores the answer. The order decides what a crash leaves: see
// the package comment.
func (f *flight) answerIt(em *emitter) {
	err := f.announce(em)
	var a *provider.Answer
	if err == nil {
		a, err = f.generate(em)
	}
	if err != nil {
		f.fail(em, err)
		return
	}
	m, err := em.finish(a.Message)
	if err == nil {
		err = m.Validate("/answer")
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		f.fail(em, e)
		return
	}
	if err != nil {
		f.runs.log.Warn("responses: a provider's answer can't be stored", "response", f.echo.ID, "err", err)
		f.fail(em, &Error{Status: http.StatusBadGateway, Type: modelError, Code: "invalid_answer", Message: "The provider's answer is not valid."})
		return
	}
	f.complete(em, &m, a)
}

// announce sends the events before the model is asked.
func (f *flight) announce(em *emitter) error {
	if err := em.announce(f.echo, f.queued); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queued = false
	return nil
}

// generate asks the model. Where the provider finds the context too long and the window is
// the policy's business, the session is compacted and the model asked once more.
func (f *flight) generate(em *emitter) (*provider.Answer, error) {
	ctx, cancel := context.WithTimeout(f.ctx, maxGeneration)
	defer cancel()
	a, err := f.provider.Generate(ctx, f.ask, func(ev provider.Event) error { return f.take(em, ev) })
	p := (*provider.Error)(nil)
	if errors.As(err, &p) && p.Code == codeLength && f.recorded && f.request.mayDrop() && len(em.parts) == 0 {
		cx, oerr := f.client.Overflow(ctx, f.ref.Session, api.Overflow{Error: p.Message, Status: p.Status, Format: "otel"})
		if oerr == nil {
			oerr = f.use(cx)
		}
		if oerr != nil {
			return nil, err
		}
		f.context = cx
		a, err = f.provider.Generate(ctx, f.ask, func(ev provider.Event) error { return f.take(em, ev) })
	}
	if cause := context.Cause(f.ctx); cause != nil {
		return nil, cause
	}
	return a, err
}

// complete stores the answer, and says so.
func (f *flight) complete(em *emitter, m *turns.Message, a *provider.Answer) {
	meta := &answerMeta{Version: metaVersion, ID: f.echo.ID, Status: completed, At: f.runs.now().Unix(), Items: em.marks(), Ops: base64.RawStdEncoding.EncodeToString(em.ops), Lost: f.lost, Tips: f.tips(), Sealed: f.sealed}
	switch m.FinishReason {
	case "length":
		meta.Status, meta.Reason = incomplete, "max_output_tokens"
	case "content_filter":
		meta.Status, meta.Reason = incomplete, "content_filter"
	}
	if f.context != nil {
		meta.Compaction = compactionOf(f.context)
	}
	t := &api.Turn{ID: answerID(f.ref.Turn), Session: f.ref.Session, Depth: f.depth + 1, Response: m, Model: f.answering(a), Usage: a.Usage}
	all := metaOf[answerMeta]{Responses: meta, Usage: &a.Details, Message: a.ID}
	if t.Model != f.request.Model {
		all.Requested = f.request.Model
	}
	t.Meta = encode(all)
	if len(t.Meta) > maxMeta { // the stream is coarser when it is made again
		meta.Ops = ""
		for i := range meta.Items {
			meta.Items[i].Said = nil
		}
		t.Meta = encode(all)
	}
	if f.recorded {
		if err := f.commit(t, a); err != nil {
			f.runs.log.Error("responses: an answer was not stored", "response", f.echo.ID, "err", err)
			f.fail(em, err)
			return
		}
		f.mu.Lock()
		f.stored = true
		f.mu.Unlock()
	}
	final := finalResponse(f.echo, f.ref, t, meta, em.include, f.recorded)
	f.mu.Lock()
	f.answer = m
	f.mu.Unlock()
	// The answer is durable: a file that can't be written does not matter any more, nor memory.
	s := f.spool
	f.spool, f.ending = nil, true
	defer func() { f.end(final, nil) }()
	defer func() {
		if err := s.close(true); err != nil {
			f.runs.log.Warn("responses: the file of a stored answer stays", "response", f.echo.ID, "err", err)
		}
	}()
	if err := em.lifecycle("response."+meta.Status, final); err != nil {
		f.runs.log.Warn("responses: the last event", "response", f.echo.ID, "err", err)
	}
}

// answering is the model that answered: as the provider names it, else the one that it was
// asked for. A name that no turn can have is none.
func (f *flight) answering(a *provider.Answer) string {
	if a.Model != "" && len(a.Model) <= turns.MaxName && turns.ValidateWord("/model", a.Model) == nil {
		return a.Model
	}
	return f.ask.Model
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
func (f *flight) commit(t *api.Turn, a *provider.Answer) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), commitTime)
	defer cancel()
	r := api.AppendTurn{ID: t.ID, Parent: f.ref.Turn, Messages: []turns.Message{}, Response: t.Response, Model: t.Model, Usage: a.Usage, Meta: t.Meta}
	if cx := f.context; cx != nil && !isNull(cx.Recipe) {
		r.Context = &api.ContextUsed{Recipe: cx.Recipe, Fingerprint: cx.Fingerprint}
	}
	done, err := f.client.Within(commitTime).Append(ctx, f.ref.Session, r)
	if err == nil {
		t.Depth = done.Depth
	}
	return err
}

// fail ends a response without an answer. Its events stay in its file, with how it ended.
// The head goes back, so that the next request can follow what was before.
func (f *flight) fail(em *emitter, err error) {
	if errors.Is(err, errClosing) || errors.Is(context.Cause(f.ctx), errClosing) {
		_ = f.spool.close(false) // as a kill leaves it
		f.end(nil, errClosing)
		return
	}
	e := asError(err)
	if e.Status == http.StatusInternalServerError && !errors.Is(err, error(e)) {
		id := api.NewID()
		f.runs.log.Error("responses", "id", id, "response", f.echo.ID, "err", err)
		e = errInternal(id)
	}
	f.ending = true
	r := *f.echo
	if isOversize(e) { // to repeat what came would take as much again, several times
		r.Output = []Item{}
		f.dropEvents()
	} else {
		r.Output = incompleteItems(f.eventsNow())
	}
	if r.Nexus != nil {
		n := *r.Nexus
		n.LostAnswers = f.lost
		r.Nexus = &n
	}
	if f.recorded {
		f.stepBack()
	}
	var sent error
	if errors.Is(err, errCancelled) {
		r.Status = cancelled
		sent = em.lifecycle("response.incomplete", &r)
	} else {
		r.Status, r.Error = failed, &responseError{orCode(e.Code), e.Message}
		sent = em.fail(e, &r)
	}
	if sent != nil {
		f.runs.log.Warn("responses: the last event", "response", f.echo.ID, "err", sent)
		f.mu.Lock()
		f.cut = true
		f.mu.Unlock()
	}
	if cerr := f.spool.close(false); cerr != nil {
		f.runs.log.Warn("responses: the file of a response", "response", f.echo.ID, "err", cerr)
	}
	f.end(&r, errOr(errors.Is(err, errCancelled), e))
}

// errOr is nil where the response is an outcome, else e.
func errOr(outcome bool, e *Error) error {
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

func incompleteItems(events []Event) []Item {
	if items := fold(events).items; items != nil {
		return items
	}
	return []Item{}
}

// finalResponse is a response with its answer.
func finalResponse(echo *Response, ref turns.Ref, t *api.Turn, meta *answerMeta, encrypted, recorded bool) *Response {
	out := *echo
	if t.Model != "" {
		out.Model = t.Model // "the model that generated this response", by the specification
	}
	out.Status, out.Output = meta.Status, answerItems(ref, t.Response, meta, encrypted)
	if meta.Status == completed {
		out.CompletedAt = &meta.At
	} else {
		out.IncompleteDetails = &incompleteDetails{meta.Reason}
		if n := len(t.Response.Parts); n > 0 {
			out.Output[len(out.Output)-1] = markIncomplete(ref, n-1, t.Response, meta.Items, encrypted)
		}
	}
	var details turns.UsageDetails
	if t.Meta != nil {
		details = turns.UsageDetailsOf(t.Meta)
	}
	out.Usage = usageOf(t.Usage, details)
	if recorded {
		n := *echo.Nexus
		n.Turn, n.Depth, n.LostAnswers, n.Compaction = t.ID, t.Depth, meta.Lost, meta.Compaction
		out.Nexus = &n
	}
	return &out
}

// markIncomplete is the last item of an incomplete response.
func markIncomplete(ref turns.Ref, i int, m *turns.Message, marks []mark, encrypted bool) Item {
	var k mark
	if i < len(marks) {
		k = marks[i]
	}
	k.Status = incomplete
	return outputItemOf(ref, i, &m.Parts[i], k, encrypted)
}

// commitTime bounds how long an answer is tried to be stored.
const commitTime = 5 * time.Minute

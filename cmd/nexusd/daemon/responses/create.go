package responses

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	"nexus/cmd/nexusd/daemon/provider"
	"nexus/cmd/nexusd/daemon/web"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/tokens"
)

// requestMeta is what the turn of a request says of its response, beside its messages.
type requestMeta struct {
	Version  int       `json:"v"`
	Digest   string    `json:"digest"`
	Echo     *Response `json:"echo"`
	Items    []mark    `json:"items,omitzero"`
	Forked   *place    `json:"forked_from,omitzero"`
	Settings string    `json:"settings"` // hash of instructions and tools
	Encrypt  bool      `json:"encrypted,omitzero"`
	CutTools bool      `json:"cut_tools,omitzero"` // they are too large for here: the session's settings have them
	CutText  bool      `json:"cut_instructions,omitzero"`
}

// answerMeta is what the turn of an answer says of its response, beside its message.
type answerMeta struct {
	Version    int      `json:"v"`
	Status     string   `json:"status"`
	Reason     string   `json:"reason,omitzero"` // of an incomplete one
	At         int64    `json:"at"`
	Items      []mark   `json:"items,omitzero"`
	Ops        string   `json:"ops,omitzero"`
	Lost       int      `json:"lost,omitzero"`
	Compaction turns.ID `json:"compaction,omitzero"`
}

// metaOf is the meta of a turn: ours, and what others read of it.
type metaOf[T any] struct {
	Responses *T                  `json:"responses"`
	Usage     *turns.UsageDetails `json:"usage,omitzero"`
}

func readMeta[T any](raw turns.Raw) *T {
	var m metaOf[T]
	if raw.Kind() != '{' || json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m.Responses
}

// Bounds of what a turn's meta has.
const (
	maxEchoTools = 64 << 10
	maxEchoText  = 64 << 10
	maxMeta      = 512 << 10
	maxSealed    = 32 << 10
)

const metaVersion = 1

// post is POST /v1/responses.
func (d *Door) post(w http.ResponseWriter, r *http.Request) {
	body, err := d.readBody(w, r)
	if err != nil {
		refuse(w, err)
		return
	}
	req, err := parseCreate(body)
	if err != nil {
		refuse(w, err)
		return
	}
	req.Session, req.Key = r.Header.Get("X-Nexus-Session"), r.Header.Get("Idempotency-Key")
	allowWait(w)
	f, err := d.begin(r.Context(), caller(r), req)
	if err != nil {
		refuse(w, err)
		return
	}
	defer f.leave()
	if req.inBackground() && !req.streams() {
		reply(w, http.StatusOK, f.now())
		return
	}
	if !req.streams() {
		if res, err := f.wait(r.Context()); err != nil {
			d.endRefused(w, err)
		} else {
			reply(w, http.StatusOK, res)
		}
		return
	}
	d.stream(w, r, f, -1)
}

// allowWait lets a reply come late: a model may think for longer than the listener's bound.
func allowWait(w http.ResponseWriter) { _ = http.NewResponseController(w).SetWriteDeadline(noDeadline) }

// endRefused refuses, or breaks the connection off where there is no outcome yet.
func (d *Door) endRefused(w http.ResponseWriter, err error) {
	if errors.Is(err, errClosing) {
		panic(http.ErrAbortHandler)
	}
	refuse(w, err)
}

// stream sends the events of f after number after, and what comes.
func (d *Door) stream(w http.ResponseWriter, r *http.Request, f *flight, after int) {
	s := &sse{w: w}
	s.begin()
	_ = http.NewResponseController(w).Flush()
	err := f.follow(r.Context(), after, s.send)
	if err == nil {
		err = s.end()
	}
	if err != nil {
		panic(http.ErrAbortHandler) // so that the client sees that the stream was cut
	}
}

// result is what a request came to.
type result struct {
	Response *Response
	// Messages are those that a continuation begins with: what was asked and answered.
	Messages []turns.Message
}

// create answers a request and passes each event to sink, which may be nil. A failed
// response is an *[Error], whose events sink has seen.
func (d *Door) create(ctx context.Context, c web.Caller, r *CreateRequest, sink func(Event) error) (*result, error) {
	f, err := d.begin(ctx, c, r)
	if err != nil {
		return nil, err
	}
	defer f.leave()
	if sink != nil {
		if err := f.follow(ctx, -1, sink); err != nil {
			return nil, err
		}
	}
	res, err := f.wait(ctx)
	if err != nil {
		return nil, err
	}
	return &result{res, f.said()}, nil
}

// begin stores the request and starts the call of the model, or finds the response that the
// request's key has already.
func (d *Door) begin(ctx context.Context, c web.Caller, r *CreateRequest) (_ *flight, err error) {
	asked, upstream, err := d.cfg.Provider(r.Model)
	if err != nil {
		return nil, noModel(err)
	}
	if len(r.Key) > maxKey {
		return nil, invalid("Idempotency-Key", "An Idempotency-Key has at most %d bytes.", maxKey)
	}
	b := &beginning{door: d, caller: c, client: d.client(c), request: r, provider: asked, upstream: upstream}
	if r.Key != "" && r.recorded() {
		b.ids = deriveKeyIDs(c.Tenant, c.Agent, r.Key)
		unlock, err := d.lockKey(ctx, b.ids.claim)
		if err != nil {
			return nil, err
		}
		defer unlock()
		if f, err := b.claimed(ctx); f != nil || err != nil {
			return f, err
		}
	}
	release, err := d.admit(c)
	if err != nil {
		return nil, err
	}
	f, err := b.start(ctx)
	if err != nil {
		release()
		return nil, err
	}
	f.release = release
	f.launch()
	return f, nil
}

// beginning is a request until its model is asked.
type beginning struct {
	door     *Door
	caller   web.Caller
	client   *api.Client
	request  *CreateRequest
	provider provider.Client
	upstream string
	ids      keyIDs // zero without a key

	session turns.ID // that the turn goes to; zero: a new one
	parent  turns.ID // that it follows; zero: the head
	before  string   // hash of the settings that the response before had
	label   string   // of a new session
	forked  *place
}

// keysChannel holds what the keys of an agent stand for.
const keysChannel = "responses.keys"

type keyClaim struct {
	Digest string `json:"digest"`
}

// claimed says in the ledger what the key stands for, and returns the response that it has already, if any.
func (b *beginning) claimed(ctx context.Context) (*flight, error) {
	digest := hashOf([]byte(b.request.digest + "\x00" + b.request.Session))
	b.request.digest = digest
	a, err := b.client.AppendEvent(ctx, api.AppendEvent{ID: b.ids.claim, Channel: keysChannel, Kind: "responses.key", Body: encode(keyClaim{digest})})
	if ofCode(err, api.IDReused) {
		return nil, &Error{Status: http.StatusBadRequest, Type: invalidRequest, Code: codeKeyReused, Param: "Idempotency-Key", Final: true,
			Message: "Another request was sent with this Idempotency-Key."}
	}
	if err != nil || !a.Duplicate {
		return nil, err
	}
	candidates := []turns.ID{b.ids.session, b.ids.fork}
	if err := b.target(ctx); err != nil {
		return nil, err
	}
	if !b.session.IsZero() {
		candidates[0] = b.session
	}
	for _, s := range candidates {
		t, err := b.client.Turn(ctx, s, b.ids.turn)
		if ofCode(err, api.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return b.again(ctx, t)
	}
	return nil, nil
}

// again returns the response of a request that is stored already: the one under way, the
// stored answer, or a new answer where the first was lost.
func (b *beginning) again(ctx context.Context, t *turns1) (*flight, error) {
	ref := turns.Ref{Session: t.Session, Turn: t.ID}
	id := ResponseID(ref)
	if f := b.door.flight(id); f != nil {
		f.join()
		return f, nil
	}
	v, err := b.door.load(ctx, b.client, id, loadAny)
	if err != nil {
		return nil, err
	}
	if v.answer != nil || v.status() == cancelled {
		return b.door.finished(v)
	}
	// The answer was lost, or the model's provider failed: it is asked again.
	if err := b.returnTo(ctx, t); err != nil {
		return nil, err
	}
	release, err := b.door.admit(b.caller)
	if err != nil {
		return nil, err
	}
	f, err := b.prepare(ctx, t.ID, t.Session, t.Depth, v.meta, t.Messages, v.lost())
	if err != nil {
		release()
		return nil, err
	}
	f.release = release
	f.launch()
	return f, nil
}

type turns1 = api.Turn

// returnTo makes the turn of a request the head of its session again.
func (b *beginning) returnTo(ctx context.Context, t *api.Turn) error {
	s, err := b.client.Session(ctx, t.Session)
	if err != nil {
		return err
	}
	switch {
	case s.Head != nil && *s.Head == t.ID:
		return nil
	case s.Head == nil && t.Parent == nil, s.Head != nil && t.Parent != nil && *s.Head == *t.Parent:
		m := api.MoveSession{To: &t.ID, Note: "asked again"}
		if s.Head != nil {
			m.IfHead = *s.Head
		}
		_, err = b.client.Move(ctx, t.Session, m)
		return err
	}
	return &Error{Status: http.StatusConflict, Type: invalidRequest, Code: "conflict", Final: true,
		Message: "The answer was lost, and the session went on without it. Send the request without this Idempotency-Key."}
}

// target finds out where the request goes.
func (b *beginning) target(ctx context.Context) error {
	r := b.request
	switch {
	case r.PreviousResponseID != nil:
		v, err := b.door.load(ctx, b.client, *r.PreviousResponseID, loadWhole)
		if err != nil {
			if e := asError(err); e.Status >= http.StatusInternalServerError {
				return err
			}
			return errPrevious(*r.PreviousResponseID)
		}
		if v.answer == nil {
			if v.status() == inProgress || v.status() == queued {
				return withCode("previous_response_in_progress", invalid("previous_response_id", "The response '%s' is still in progress.", clip(*r.PreviousResponseID)))
			}
			return errPrevious(*r.PreviousResponseID)
		}
		b.session, b.parent, b.before = v.ref.Session, v.answer.ID, v.meta.Settings
	case !r.session.IsZero():
		b.session = r.session
	case r.Session != "":
		return b.named(ctx)
	case !isNull(r.Conversation):
		id, err := conversationID(r.Conversation)
		if err != nil {
			return err
		}
		if _, err := b.client.Session(ctx, id); err != nil {
			return conversationFault(err)
		}
		b.session, r.session = id, id
	}
	return nil
}

// conversationID is the session of a conversation: its id, alone or in an object.
func conversationID(raw turns.Raw) (id turns.ID, err error) {
	text, ok := raw.Text()
	if !ok {
		var o conversationRef
		if raw.Kind() == '{' && json.Unmarshal(raw, &o) == nil {
			text = o.ID
		}
	}
	rest, ok := strings.CutPrefix(text, conversationPrefix)
	if ok {
		id, err = turns.ParseID(rest)
	}
	if !ok || err != nil || id.IsZero() {
		return id, errNoConversation
	}
	return id, nil
}

const conversationPrefix = "conv_"

var errNoConversation = &Error{Status: http.StatusNotFound, Type: notFoundType, Code: "conversation_not_found", Message: "The conversation was not found.", Param: "conversation"}

func conversationFault(err error) error {
	if ofCode(err, api.NotFound) {
		return errNoConversation
	}
	return err
}

// named finds the session of the header x-nexus-session. One that no session has is the
// label of a new one.
func (b *beginning) named(ctx context.Context) error {
	name := b.request.Session
	if id, err := turns.ParseID(name); err == nil {
		s, err := b.client.Session(ctx, id)
		if ofCode(err, api.NotFound) {
			return &Error{Status: http.StatusNotFound, Type: notFoundType, Code: "session_not_found", Message: "The session of x-nexus-session was not found.", Param: "x-nexus-session"}
		}
		if err != nil {
			return err
		}
		b.session = s.ID
		return nil
	}
	s, err := b.client.Resolve(ctx, name)
	if ofCode(err, api.NotFound) {
		b.label = name
		return nil
	}
	if err != nil {
		return err
	}
	b.session = s.ID
	return nil
}

// start stores the request as a turn and prepares the call of the model.
func (b *beginning) start(ctx context.Context) (*flight, error) {
	r := b.request
	if b.session.IsZero() && b.label == "" && r.recorded() {
		if err := b.target(ctx); err != nil {
			return nil, err
		}
	}
	in, err := parseInput(r.Input, b.resolver(ctx))
	if err != nil {
		return nil, err
	}
	if !r.recorded() {
		return b.unrecorded(ctx, in)
	}
	if err := b.fits(ctx, in); err != nil {
		return nil, err
	}
	id := b.ids.turn
	if id.IsZero() {
		id = api.NewID()
	}
	meta := b.meta(in)
	depth, session, err := b.store(ctx, id, in, meta)
	if err != nil {
		return nil, err
	}
	return b.prepare(ctx, id, session, depth, meta, in.messages, 0)
}

func (b *beginning) resolver(ctx context.Context) resolver {
	r := resolver{item: func(id string) (Item, error) { return b.door.findItem(ctx, b.client, id) }}
	if b.door.cfg.Unseal != nil {
		r.compaction = func(sealed string) ([]turns.Message, error) { return b.door.cfg.Unseal(ctx, b.caller, sealed) }
	}
	return r
}

// settingsHash tells whether two requests have the same instructions and tools.
func (r *CreateRequest) settingsHash() string {
	return hashOf(encode(struct {
		I *string
		T []turns.Raw
		M string
	}{r.Instructions, r.Tools, r.Model}))
}

func (b *beginning) meta(in *input) *requestMeta {
	r := b.request
	m := &requestMeta{Version: metaVersion, Digest: r.digest, Echo: r.echo("", b.door.cfg.Now()), Items: in.marks, Settings: r.settingsHash(), Encrypt: r.includes("reasoning.encrypted_content")}
	if !r.session.IsZero() {
		m.Echo.Conversation = &conversationRef{conversationPrefix + r.session.String()}
	}
	size := 0
	for _, t := range m.Echo.Tools {
		size += len(t)
	}
	if size > maxEchoTools {
		m.Echo.Tools, m.CutTools = []turns.Raw{}, true
	}
	if r.Instructions != nil && len(*r.Instructions) > maxEchoText {
		m.Echo.Instructions, m.CutText = nil, true
	}
	for i := range m.Items {
		if s := m.Items[i].Said; s != nil && len(*s) > maxSealed {
			m.Items[i].Said = nil
		}
	}
	return m
}

// whole is the echo of m with what was cut from it.
func (r *CreateRequest) whole(m *requestMeta) *Response {
	out := *m.Echo
	full := r.echo(out.ID, noDeadline)
	if m.CutTools {
		out.Tools = full.Tools
	}
	if m.CutText {
		out.Instructions = full.Instructions
	}
	return &out
}

// fits refuses what is longer than the model's window, where the request wants nothing
// dropped. Nothing is stored of it. Where nobody knows the window, the provider decides.
func (b *beginning) fits(ctx context.Context, in *input) error {
	if b.request.mayDrop() {
		return nil
	}
	budget, known := uint64(0), false
	if b.door.cfg.Budget != nil {
		budget, known = b.door.cfg.Budget(b.request.Model)
	}
	var need uint64
	if !b.session.IsZero() {
		s, err := b.client.Session(ctx, b.session)
		if err != nil {
			return err
		}
		if !known && !s.WindowGuess {
			budget, known = s.Budget, true
		}
		need = max(s.Tokens+s.Overhead, s.Reported)
		if known && !b.parent.IsZero() && (s.Head == nil || *s.Head != b.parent) {
			cx, err := b.client.Context(ctx, b.session, api.GetContext{At: b.parent, Recorded: true})
			if err != nil {
				return err
			}
			need = max(cx.Tokens+cx.Overhead, cx.Reported)
		}
	} else {
		counter := tokens.Approx{}
		if b.request.Instructions != nil {
			need += counter.Text(*b.request.Instructions)
		}
		for _, t := range b.request.Tools {
			need += counter.Text(string(t))
		}
	}
	if !known {
		return nil
	}
	for i := range in.messages {
		need += tokens.Approx{}.Message(&in.messages[i])
	}
	if need > budget {
		return withCode(codeLength, invalid("input", "The input has about %d tokens, the context of %s holds %d. With truncation: \"auto\" older turns are summarized.", need, clip(b.request.Model), budget))
	}
	return nil
}

// store appends the request as a turn: to the session it names, to a fork where the
// session went on elsewhere, or to a new session.
func (b *beginning) store(ctx context.Context, id turns.ID, in *input, meta *requestMeta) (depth uint64, session turns.ID, err error) {
	r := b.request
	if b.session.IsZero() {
		if err := b.open(ctx); err != nil {
			return 0, session, err
		}
	}
	add := func() (*api.Appended, error) {
		meta.Echo.ID = ResponseID(turns.Ref{Session: b.session, Turn: id})
		meta.Forked = b.forked
		return b.client.Append(ctx, b.session, api.AppendTurn{ID: id, Parent: b.parent, Messages: in.messages, Meta: encode(metaOf[requestMeta]{Responses: meta})})
	}
	a, err := add()
	if !b.parent.IsZero() && ofCode(err, api.Conflict, api.Closed) {
		f, ferr := b.client.Fork(ctx, b.session, api.CreateFork{ID: b.ids.fork, Turn: b.parent, Mode: "as_seen"})
		if ferr != nil {
			return 0, session, ferr
		}
		b.forked, b.session, b.before = &place{b.session, b.parent}, f.ID, ""
		a, err = add()
	}
	if err != nil {
		return 0, session, inputFault(err)
	}
	if b.before == meta.Settings {
		b.door.settings(b.session, meta.Settings)
	}
	if !b.door.settings(b.session, meta.Settings) {
		if err := b.set(ctx, r); err != nil {
			return 0, session, err
		}
	}
	return a.Depth, b.session, nil
}

// inputFault says of a turn that the ledger refused what a client understands.
func inputFault(err error) error {
	if a := (*api.Error)(nil); errors.As(err, &a) && a.Code == api.Malformed {
		return invalid("input", "The input is not accepted: %s", a.Message)
	}
	return err
}

// open makes a new session with the settings of the request.
func (b *beginning) open(ctx context.Context) error {
	id := b.ids.session
	if id.IsZero() {
		id = api.NewID()
	}
	c := api.CreateSession{ID: id, SessionSettings: b.request.settings()}
	c.Meta = turns.Raw(`{"source":"responses"}`)
	if b.label != "" {
		c.Label = &b.label
	}
	s, err := b.client.Create(ctx, c)
	if b.label != "" && ofCode(err, api.Conflict) { // another request was faster
		s, err = b.client.Resolve(ctx, b.label)
	}
	if err != nil {
		return inputFault(err)
	}
	if b.session = s.ID; s.ID == id {
		b.door.settings(id, b.request.settingsHash())
	}
	return nil
}

// settings are the request's settings of a session.
func (r *CreateRequest) settings() (s api.SessionSettings) {
	s.Model = &r.Model
	system, list := api.System{}, []turns.Raw{}
	if r.Instructions != nil && *r.Instructions != "" {
		system = api.System{{Content: *r.Instructions}}
	}
	if r.Tools != nil {
		list = r.Tools
	}
	s.System, s.Tools = &system, &list
	return s
}

// set gives a session the request's settings. One that the caller named keeps its own
// instructions where the request has none.
func (b *beginning) set(ctx context.Context, r *CreateRequest) error {
	s := r.settings()
	if r.PreviousResponseID == nil && r.Instructions == nil {
		s.System = nil
	}
	_, err := b.client.Set(ctx, b.session, api.SetSession{SessionSettings: s})
	return inputFault(err)
}

// ask is the request to the provider, but for what the context gives.
func (b *beginning) ask() (*provider.Request, toolChoice, error) {
	r := b.request
	list, err := r.tools()
	if err != nil {
		return nil, toolChoice{}, err
	}
	choice, err := r.toolChoice()
	if err != nil {
		return nil, choice, err
	}
	p := &provider.Request{Model: b.upstream, Tools: list, ToolChoice: choice.ToolChoice, Parallel: r.ParallelToolCalls, Temperature: r.Temperature, TopP: r.TopP,
		Presence: r.PresencePenalty, Frequency: r.FrequencyPenalty, TopLogprobs: r.TopLogprobs}
	set(&p.MaxOutput, r.MaxOutputTokens)
	set(&p.CacheKey, r.PromptCacheKey)
	set(&p.ServiceTier, r.ServiceTier)
	set(&p.User, r.User)
	set(&p.User, r.SafetyIdentifier)
	p.Reasoning.Encrypted = r.includes("reasoning.encrypted_content")
	if r.Reasoning != nil {
		set(&p.Reasoning.Effort, r.Reasoning.Effort)
		set(&p.Reasoning.Summary, r.Reasoning.Summary)
	}
	if t := r.Text; t != nil {
		set(&p.Verbosity, t.Verbosity)
		if f := t.Format; f != nil {
			p.Format = provider.Format{Type: f.Type, Name: f.Name, Schema: f.Schema, Strict: f.Strict}
			set(&p.Format.Description, f.Description)
		}
	}
	return p, choice, nil
}

// unrecorded prepares a response of which nothing is stored.
func (b *beginning) unrecorded(ctx context.Context, in *input) (*flight, error) {
	if err := b.fits(ctx, &input{messages: append(append([]turns.Message{}, b.request.history...), in.messages...)}); err != nil {
		return nil, err
	}
	if b.request.PreviousResponseID != nil && b.request.history == nil {
		if err := b.target(ctx); err != nil { // a stored one may be continued without storing the rest
			return nil, err
		}
		cx, err := b.client.Context(ctx, b.session, api.GetContext{At: b.parent, Recorded: true})
		if err != nil {
			return nil, err
		}
		if b.request.history, err = messagesOf(cx); err != nil {
			return nil, err
		}
	}
	ask, choice, err := b.ask()
	if err != nil {
		return nil, err
	}
	if b.request.Instructions != nil && *b.request.Instructions != "" {
		ask.System = []string{*b.request.Instructions}
	}
	ask.Messages = append(append([]turns.Message{}, b.request.history...), in.messages...)
	if err := checkCalls(ask.Messages); err != nil {
		return nil, err
	}
	ref := turns.Ref{Session: api.NewID(), Turn: api.NewID()}
	f := b.newFlight(ctx, ref, choice, ask)
	f.echo = b.request.echo(ResponseID(ref), b.door.cfg.Now())
	return f, nil
}

// checkCalls refuses outputs of calls that nobody made; of a recorded request the ledger does.
func checkCalls(ms []turns.Message) error {
	calls := make(map[string]bool)
	for i := range ms {
		for j := range ms[i].Parts {
			switch p := &ms[i].Parts[j]; p.Type {
			case turns.ToolCall:
				calls[p.ID] = true
			case turns.ToolCallResponse:
				if !calls[p.ID] {
					return invalid("input", "No tool call found for function call output with call_id %s.", clip(p.ID))
				}
			}
		}
	}
	return nil
}

// prepare makes what the model is asked of a stored request. It opens the file of its events.
func (b *beginning) prepare(ctx context.Context, id, session turns.ID, depth uint64, meta *requestMeta, said []turns.Message, lost int) (*flight, error) {
	ask, choice, err := b.ask()
	if err != nil {
		return nil, err
	}
	f := b.newFlight(ctx, turns.Ref{Session: session, Turn: id}, choice, ask)
	f.recorded, f.meta, f.depth, f.lost = true, meta, depth, lost
	f.echo = b.request.whole(meta)
	f.echo.Nexus = &Nexus{Session: session, Turn: id, Depth: depth, ForkedFrom: meta.Forked}
	f.asked = said
	if f.context, err = b.context(ctx, session, id); err != nil {
		b.stepBack(session, id)
		return nil, contextFault(err)
	}
	if err := f.use(f.context); err != nil {
		return nil, err
	}
	// A context as recorded has the settings from before the request's turn.
	if r := b.request; !r.mayDrop() && (r.PreviousResponseID != nil || r.Instructions != nil) {
		ask.System = nil
		if r.Instructions != nil && *r.Instructions != "" {
			ask.System = []string{*r.Instructions}
		}
	}
	if b.request.stored() {
		if f.spool, err = openSpool(b.door.cfg.Spool, spoolHead{f.echo.ID, lost}); err != nil {
			return nil, fmt.Errorf("the file of a response: %w", err)
		}
	}
	return f, nil
}

// contextFault is the refusal of a context that does not fit.
func contextFault(err error) error {
	if ofCode(err, api.Unprocessable) {
		return withCode(codeLength, invalid("input", "The input does not fit into the context of the model."))
	}
	return err
}

// context is what the model is given: all that was said, or with truncation: auto what the
// session's policy leaves of it.
func (b *beginning) context(ctx context.Context, session, at turns.ID) (*api.Context, error) {
	return b.client.Context(ctx, session, api.GetContext{At: at, Recorded: !b.request.mayDrop()})
}

// stepBack makes the turn before a request without an answer the head again, so that the
// next one does not have to fork. If it fails, that one forks.
func (b *beginning) stepBack(session, id turns.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.door.ctx), callTime)
	defer cancel()
	t, err := b.client.Turn(ctx, session, id)
	if err != nil {
		return
	}
	if _, err = b.client.Move(ctx, session, api.MoveSession{To: t.Parent, IfHead: id, Note: "no answer"}); err != nil {
		b.door.log.Debug("responses: the head stays at a request without an answer", "session", session, "err", err)
	}
}

// messagesOf are the messages of a context.
func messagesOf(cx *api.Context) ([]turns.Message, error) {
	out := make([]turns.Message, len(cx.Messages))
	for i, raw := range cx.Messages {
		if err := json.Unmarshal(raw, &out[i]); err != nil {
			return nil, fmt.Errorf("message %d of a context: %w", i, err)
		}
	}
	return out, nil
}

// flight is a response from its beginning to its end.
type flight struct {
	door     *Door
	caller   web.Caller
	client   *api.Client
	request  *CreateRequest
	begin    *beginning
	provider provider.Client
	ask      *provider.Request
	ref      turns.Ref
	choice   toolChoice
	recorded bool
	meta     *requestMeta
	echo     *Response
	asked    []turns.Message // the new input
	context  *api.Context
	depth    uint64
	lost     int
	spool    *spool
	release  func()
	ctx      context.Context
	cancel   context.CancelCauseFunc

	mu     sync.Mutex
	grew   chan struct{} // closed when events or the end came
	events []Event
	size   int
	ended  bool
	err    error // of the end; nil: final is whole
	final  *Response
	answer *turns.Message
	users  int
	queued bool
}

func (b *beginning) newFlight(ctx context.Context, ref turns.Ref, choice toolChoice, ask *provider.Request) *flight {
	f := &flight{door: b.door, caller: b.caller, client: b.client, request: b.request, begin: b, provider: b.provider, ask: ask, ref: ref, choice: choice,
		grew: make(chan struct{}), users: 1, queued: b.request.inBackground(), release: func() {}}
	f.ctx, f.cancel = context.WithCancelCause(b.door.ctx)
	return f
}

// use takes the context as what the model is asked.
func (f *flight) use(cx *api.Context) (err error) {
	if f.ask.Messages, err = messagesOf(cx); err != nil {
		return err
	}
	f.ask.System = nil
	var sections []turns.Section
	if cx.System.Kind() == '[' && json.Unmarshal(cx.System, &sections) == nil {
		for _, s := range sections {
			f.ask.System = append(f.ask.System, s.Content)
		}
	}
	return nil
}

// launch starts the call. From here on a retry finds the response.
func (f *flight) launch() {
	d := f.door
	d.mu.Lock()
	d.flights[f.echo.ID] = f
	d.mu.Unlock()
	d.work.Add(1)
	go func() {
		defer d.work.Done()
		defer f.release()
		f.run()
		d.mu.Lock()
		delete(d.flights, f.echo.ID)
		d.mu.Unlock()
	}()
}

// join is leave's counterpart, of one who follows f too.
func (f *flight) join() { f.mu.Lock(); f.users++; f.mu.Unlock() }

// leave says that a client follows no more. An answer that is not to be stored is for
// nobody then.
func (f *flight) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users--; f.users == 0 && !f.recorded {
		f.cancel(errCancelled)
	}
}

// emit keeps an event and shows it. The file has it first.
func (f *flight) emit(e Event) error {
	if f.size += len(e.Data); f.size > maxSpool {
		return fmt.Errorf("%w: the events of a response have over %d bytes", turns.ErrTooLarge, maxSpool)
	}
	if err := f.spool.line(e.Data); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
	f.wake()
	return nil
}

func (f *flight) wake() { close(f.grew); f.grew = make(chan struct{}) }

// follow passes the events after number after to sink, until the last one. It returns why
// there is no last one.
func (f *flight) follow(ctx context.Context, after int, sink func(Event) error) error {
	for i := after + 1; ; {
		f.mu.Lock()
		var next []Event
		if i < len(f.events) {
			next = f.events[i:]
		}
		ended, err, grew := f.ended, f.err, f.grew
		f.mu.Unlock()
		for _, e := range next {
			if err := sink(e); err != nil {
				return err
			}
			i++
		}
		if len(next) > 0 {
			continue
		}
		if ended {
			if errors.Is(err, errClosing) {
				return err
			}
			return nil
		}
		select {
		case <-grew:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wait returns the response when it is whole.
func (f *flight) wait(ctx context.Context) (*Response, error) {
	for {
		f.mu.Lock()
		ended, err, final, grew := f.ended, f.err, f.final, f.grew
		f.mu.Unlock()
		if ended {
			return final, err
		}
		select {
		case <-grew:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// now is the response as it is.
func (f *flight) now() *Response {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.final != nil {
		return f.final
	}
	out := *f.echo
	if f.queued {
		out.Status = queued
	}
	out.Output = fold(f.events).items
	if out.Output == nil {
		out.Output = []Item{}
	}
	return &out
}

// said is what a continuation begins with.
func (f *flight) said() []turns.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := append([]turns.Message{}, f.ask.Messages...)
	if f.answer != nil {
		m := *f.answer
		m.FinishReason = ""
		out = append(out, m)
	}
	return out
}

func (f *flight) end(final *Response, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.final, f.err, f.ended = final, err, true
	f.wake()
}

// run asks the model and stores the answer. The order decides what a crash leaves: see the
// package comment.
func (f *flight) run() {
	em := newEmitter(f.ref, f.choice, f.request.includes("reasoning.encrypted_content"), f.emit)
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
	if err != nil {
		f.door.log.Warn("responses: a provider's answer can't be stored", "response", f.echo.ID, "err", err)
		f.fail(em, &Error{Status: http.StatusBadGateway, Type: modelError, Code: "invalid_answer", Message: "The provider's answer is not valid."})
		return
	}
	f.complete(em, &m, a)
}

// announce sends the events before the model is asked.
func (f *flight) announce(em *emitter) error {
	kinds := []string{"response.created", "response.in_progress"}
	if f.queued {
		kinds = []string{"response.created", "response.queued", "response.in_progress"}
	}
	for i, k := range kinds {
		r := *f.echo
		if f.queued && i < 2 {
			r.Status = queued
		}
		if err := em.lifecycle(k, &r); err != nil {
			return err
		}
	}
	f.mu.Lock()
	f.queued = false
	f.mu.Unlock()
	return nil
}

// generate asks the model. Where the provider finds the context too long and the window is
// the policy's business, the session is compacted and the model asked once more.
func (f *flight) generate(em *emitter) (*provider.Answer, error) {
	ctx, cancel := context.WithTimeout(f.ctx, maxGeneration)
	defer cancel()
	a, err := f.provider.Generate(ctx, f.ask, em.take)
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
		a, err = f.provider.Generate(ctx, f.ask, em.take)
	}
	if cause := context.Cause(f.ctx); cause != nil {
		return nil, cause
	}
	return a, err
}

// complete stores the answer, and says so.
func (f *flight) complete(em *emitter, m *turns.Message, a *provider.Answer) {
	meta := &answerMeta{Version: metaVersion, Status: completed, At: f.door.cfg.Now().Unix(), Items: em.marks(), Ops: base64.RawStdEncoding.EncodeToString(em.ops), Lost: f.lost}
	switch m.FinishReason {
	case "length":
		meta.Status, meta.Reason = incomplete, "max_output_tokens"
	case "content_filter":
		meta.Status, meta.Reason = incomplete, "content_filter"
	}
	if f.context != nil {
		meta.Compaction = compactionOf(f.context)
	}
	t := &api.Turn{ID: answerID(f.ref.Turn), Session: f.ref.Session, Depth: f.depth + 1, Response: m, Usage: a.Usage}
	t.Meta = encode(metaOf[answerMeta]{meta, &a.Details})
	if len(t.Meta) > maxMeta { // the stream is coarser when it is made again
		meta.Ops = ""
		for i := range meta.Items {
			meta.Items[i].Said = nil
		}
		t.Meta = encode(metaOf[answerMeta]{meta, &a.Details})
	}
	if f.recorded {
		if err := f.commit(t, a); err != nil {
			f.door.log.Error("responses: an answer was not stored", "response", f.echo.ID, "err", err)
			f.fail(em, err)
			return
		}
	}
	final := finalResponse(f.echo, f.ref, t, meta, em.include, f.recorded)
	f.mu.Lock()
	f.answer = m
	f.mu.Unlock()
	// The answer is durable: a file that can't be written does not matter any more.
	s := f.spool
	f.spool = nil
	if err := em.lifecycle("response."+meta.Status, final); err != nil {
		f.door.log.Warn("responses: the last event", "response", f.echo.ID, "err", err)
	}
	if err := s.close(true); err != nil {
		f.door.log.Warn("responses: the file of a stored answer stays", "response", f.echo.ID, "err", err)
	}
	f.end(final, nil)
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
	r := api.AppendTurn{ID: t.ID, Parent: f.ref.Turn, Messages: []turns.Message{}, Response: t.Response, Model: f.request.Model, Usage: a.Usage, Meta: t.Meta}
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
		f.door.log.Error("responses", "response", f.echo.ID, "err", err)
	}
	r := *f.echo
	f.mu.Lock()
	r.Output = incompleteItems(f.events)
	f.mu.Unlock()
	if r.Nexus != nil {
		n := *r.Nexus
		n.LostAnswers = f.lost
		r.Nexus = &n
	}
	if f.recorded {
		f.begin.stepBack(f.ref.Session, f.ref.Turn)
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
		f.door.log.Warn("responses: the last event", "response", f.echo.ID, "err", sent)
	}
	if cerr := f.spool.close(false); cerr != nil {
		f.door.log.Warn("responses: the file of a response", "response", f.echo.ID, "err", cerr)
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
	out.Status, out.Output = meta.Status, outputItems(ref, t.Response, meta.Items, encrypted)
	if meta.Status == completed {
		out.CompletedAt = &meta.At
	} else {
		out.IncompleteDetails = &incompleteDetails{meta.Reason}
		if n := len(out.Output); n > 0 {
			out.Output[n-1] = markIncomplete(ref, n-1, t.Response, meta.Items, encrypted)
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

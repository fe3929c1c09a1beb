package responses

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/responses/place"
	"nexus/cmd/internal/responses/run"
	"nexus/cmd/internal/responses/stream"
	"nexus/cmd/internal/responses/wire"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

var noDeadline time.Time

// view is a response as the ledger and this daemon know it.
type view struct {
	ref        turns.Ref
	turn       *api.Turn // of the request
	meta       *wire.RequestMeta
	answer     *api.Turn // nil: there is none
	answerMeta *wire.AnswerMeta
	live       *run.Flight // nil: this daemon does not generate it
	head       *stream.SpoolHead
	events     []stream.Event // of its file
	now        time.Time
	mine       bool // this daemon began it
	echo       *wire.Response
}

// How much load reads.
const (
	loadWhole = iota // a response that can be retrieved
	loadAny          // also one that was not to be stored
)

// load reads a response. What is another agent's, what was deleted and what never was are
// refused alike.
func (d *Server) load(ctx context.Context, client *client.Client, id string, what int) (*view, error) {
	ref, ok := wire.ParseResponseID(id)
	if !ok {
		return nil, wire.ErrNoResponse(id)
	}
	v := &view{ref: ref, now: d.cfg.Now()}
	var err error
	if v.turn, err = client.Turn(ctx, ref.Session, ref.Turn); err != nil {
		if wire.OfCode(err, api.NotFound, api.Malformed) {
			return nil, wire.ErrNoResponse(id)
		}
		return nil, err
	}
	// The turn may be one that the session inherits: the response is that of its own session.
	if v.meta = wire.ReadMeta[wire.RequestMeta](v.turn.Meta); v.meta == nil || v.meta.Echo == nil || v.turn.Session != ref.Session {
		return nil, wire.ErrNoResponse(id)
	}
	if what == loadWhole && !v.meta.Echo.Store {
		return nil, wire.ErrNoResponse(id)
	}
	if gone, err := isDeleted(ctx, client, id); err != nil || gone {
		if err == nil {
			err = wire.ErrNoResponse(id)
		}
		return nil, err
	}
	v.live, v.mine = d.runs.Find(id), v.meta.Server == d.places.ID
	v.answer, err = client.Turn(ctx, ref.Session, wire.AnswerID(ref.Turn))
	switch {
	case err == nil:
		if v.answerMeta = wire.ReadMeta[wire.AnswerMeta](v.answer.Meta); v.answerMeta == nil || v.answer.Response == nil {
			return nil, fmt.Errorf("%w: the answer of %s says nothing of its response", turns.ErrCorrupt, id)
		}
		if v.live == nil {
			d.spools.Remove(id) // a crash came between the commit and this
		}
	case !wire.OfCode(err, api.NotFound):
		return nil, err
	default:
		v.answer = nil
		if v.live == nil {
			if v.head, v.events, err = d.spools.Read(id); err != nil {
				return nil, err
			}
		}
	}
	return v, v.repeat(ctx, client)
}

// earlier is what a request that follows a response has to know of it.
func (d *Server) earlier(ctx context.Context, client *client.Client, id string, all bool) (e place.Earlier, err error) {
	what := loadWhole
	if all {
		what = loadAny
	}
	v, err := d.load(ctx, client, id, what)
	if err != nil {
		return e, err
	}
	e = place.Earlier{Session: v.ref.Session, Here: v.live != nil, Began: time.Time(v.turn.Recorded)}
	if v.answer != nil {
		e.Answer = v.answer.ID
		return e, nil
	}
	status := v.status()
	e.Open = status == wire.InProgress || status == wire.Queued
	return e, nil
}

// repeat fills in the members of the request that were too large for the turn's meta.
func (v *view) repeat(ctx context.Context, client *client.Client) error {
	echo := *v.meta.Echo
	echo.Output = []wire.Item{}
	v.echo = &echo
	echo.Nexus = &wire.Nexus{Session: v.ref.Session, Turn: v.ref.Turn, Depth: v.turn.Depth, ForkedFrom: v.meta.Forked}
	if !v.meta.CutTools && !v.meta.CutText {
		return nil
	}
	at := v.ref.Turn
	if v.answer != nil {
		at = v.answer.ID
	}
	cx, err := client.Context(ctx, v.ref.Session, api.GetContext{At: at, Format: "otel"})
	if err != nil {
		return err
	}
	if v.meta.CutTools {
		for _, t := range cx.Tools {
			echo.Tools = append(echo.Tools, wire.EchoTool(t))
		}
	}
	var sections []turns.Section
	if v.meta.CutText && cx.System.Kind() == '[' && json.Unmarshal(cx.System, &sections) == nil && len(sections) > 0 {
		echo.Instructions = &sections[0].Content
	}
	return nil
}

// status is the state of the response.
func (v *view) status() string { return v.response(false).Status }

// lost is how many answers were lost, this one with them.
func (v *view) lost() int {
	if v.head == nil {
		return 1 // another daemon's, or that of a disk that is gone
	}
	f := stream.Fold(v.events)
	switch {
	case len(v.events) == 0 && v.meta.Echo.Store: // the model was not asked
		return v.head.Lost
	case f.Terminal && !slices.ContainsFunc(f.Items, isOfModel) && f.Response.Error != nil && !wire.Contains([]string{"lost", "timeout", "invalid_answer", wire.CodeTooLarge, run.ErrMemory.Code}, f.Response.Error.Code):
		return v.head.Lost // the provider refused
	}
	return v.head.Lost + 1
}

// response is the response as it is.
func (v *view) response(encrypted bool) *wire.Response {
	switch {
	case v.answer != nil:
		return run.FinalResponse(v.echo, v.ref, v.answer, v.answerMeta, encrypted || v.meta.Encrypt, true)
	case v.live != nil:
		return v.live.Now()
	case v.head == nil && !v.mine && v.now.Sub(time.Time(v.turn.Recorded)) < place.MaxGeneration:
		return v.echo // another daemon may be at it
	}
	f := stream.Fold(v.events)
	if f.Terminal {
		return f.Response
	}
	out := *v.echo
	out.Status, out.Output = wire.Failed, f.Items
	if out.Output == nil {
		out.Output = []wire.Item{}
	}
	e := wire.ErrLost()
	out.Error = &wire.ResponseError{Code: e.Code, Message: e.Message}
	n := *out.Nexus
	n.LostAnswers = v.lost()
	out.Nexus = &n
	return &out
}

// follow passes on the events after number after: those of the answer's turn, of the file,
// or those that come; idle is called where none came for a while.
func (v *view) follow(ctx context.Context, after int, encrypted bool, sink func(stream.Event) error, idle func() error) error {
	later := func(e stream.Event) error {
		if e.Seq <= after {
			return nil
		}
		return sink(e)
	}
	if v.live != nil {
		return v.live.Follow(ctx, after, sink, idle)
	}
	if v.answer == nil {
		return v.rest(later)
	}
	em := stream.NewEmitter(v.ref, wire.ToolChoice{}, encrypted || v.meta.Encrypt, later)
	em.Front = wire.FrontItem(v.ref, v.answerMeta.Sealed)
	if err := em.Announce(v.echo, v.echo.Background); err != nil {
		return err
	}
	if err := em.Replay(v.answer.Response, v.answerMeta.Items, v.answerMeta.Ops); err != nil {
		return err
	}
	return em.Lifecycle("response."+v.answerMeta.Status, v.response(encrypted))
}

// rest passes on the events of the file of a response without an answer. One that was cut
// off ends in the events of a failure, under the numbers that follow.
func (v *view) rest(sink func(stream.Event) error) error {
	for _, e := range v.events {
		if err := sink(e); err != nil {
			return err
		}
	}
	if stream.Fold(v.events).Terminal {
		return nil
	}
	r := v.response(false)
	if r.Status != wire.Failed { // another daemon's
		return &wire.Error{Status: http.StatusConflict, Type: wire.InvalidRequest, Code: "response_elsewhere", Message: "Another server generates this response; poll it."}
	}
	em := stream.NewEmitter(v.ref, wire.ToolChoice{}, false, sink)
	em.Seq = stream.NextSeq(v.events)
	return em.Fail(wire.ErrLost(), r)
}

// finished is the flight of a response that has ended.
func (d *Server) finished(owner string, v *view) (*run.Flight, error) {
	return d.runs.Ended(owner, v.ref, v.echo, v.response(false), func(sink func(stream.Event) error) error {
		return v.follow(context.Background(), -1, false, sink, nil)
	})
}

// get is GET /v1/responses/{id}.
func (d *Server) get(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	v, err := d.load(r.Context(), d.client(caller(r)), r.PathValue("id"), loadWhole)
	if err != nil {
		wire.Refuse(w, err)
		return
	}
	include := append(q["include"], q["include[]"]...)
	encrypted := slices.Contains(include, "reasoning.encrypted_content")
	if q.Get("stream") != "true" {
		if q.Has("starting_after") {
			wire.Refuse(w, wire.Invalid("starting_after", "starting_after is for stream=true."))
			return
		}
		wire.Reply(w, http.StatusOK, v.response(encrypted))
		return
	}
	after := -1
	if s := q.Get("starting_after"); s != "" {
		if after, err = strconv.Atoi(s); err != nil || after < 0 {
			wire.Refuse(w, wire.Invalid("starting_after", "starting_after is the sequence_number of an event."))
			return
		}
	}
	if v.answer == nil && v.live == nil && v.response(false).Status == wire.InProgress {
		wire.Refuse(w, v.rest(func(stream.Event) error { return nil }))
		return
	}
	s := &stream.Sse{W: w}
	s.Begin()
	_ = http.NewResponseController(w).Flush()
	if err = v.follow(r.Context(), after, encrypted, s.Send, s.KeepAlive); err == nil {
		err = s.End()
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

// inputItems is GET /v1/responses/{id}/input_items: the new input of the response.
func (d *Server) inputItems(w http.ResponseWriter, r *http.Request) {
	v, err := d.load(r.Context(), d.client(caller(r)), r.PathValue("id"), loadWhole)
	if err != nil {
		wire.Refuse(w, err)
		return
	}
	p, err := readPage(r.URL.Query())
	var items []wire.Item
	if err == nil {
		items, err = place.InputOf(r.Context(), d.client(caller(r)), v.turn, v.meta)
	}
	var list *itemList
	if err == nil {
		list, err = p.cut(items)
	}
	if err != nil {
		wire.Refuse(w, err)
		return
	}
	wire.Reply(w, http.StatusOK, list)
}

// itemList is a page of items.
type itemList struct {
	Object  string      `json:"object"`
	Data    []wire.Item `json:"data"`
	FirstID *string     `json:"first_id"`
	LastID  *string     `json:"last_id"`
	HasMore bool        `json:"has_more"`
}

// itemPage is the part of a list of items that a request asks for.
type itemPage struct {
	limit int    // 1 to 100, default 20
	order string // desc, the default, or asc
	after string // the id of the item before the first; "": from the beginning
}

func readPage(q url.Values) (p itemPage, err error) {
	p = itemPage{limit: 20, order: "desc", after: q.Get("after")}
	if s := q.Get("limit"); s != "" {
		if p.limit, err = strconv.Atoi(s); err != nil || p.limit < 1 || p.limit > 100 {
			return p, wire.Invalid("limit", "limit is from 1 to 100.")
		}
	}
	if s := q.Get("order"); s != "" {
		p.order = s
	}
	if p.order != "desc" && p.order != "asc" {
		return p, wire.Invalid("order", "order is asc or desc.")
	}
	return p, nil
}

func errAfter(id string) *wire.Error {
	return wire.Invalid("after", "No item has the id '%s'.", wire.Clip(id))
}

// cut returns the page of items, which are in their order.
func (p itemPage) cut(items []wire.Item) (*itemList, error) {
	items = slices.Clone(items)
	if p.order == "desc" {
		slices.Reverse(items)
	}
	if p.after != "" {
		at := slices.IndexFunc(items, func(it wire.Item) bool { return idOf(it) == p.after })
		if at < 0 {
			return nil, errAfter(p.after)
		}
		items = items[at+1:]
	}
	return listOf(items[:min(p.limit, len(items))], len(items) > p.limit), nil
}

// listOf is a page as a client reads it.
func listOf(items []wire.Item, more bool) *itemList {
	out := &itemList{Object: "list", Data: append([]wire.Item{}, items...), HasMore: more}
	if n := len(items); n > 0 {
		first, last := idOf(items[0]), idOf(items[n-1])
		out.FirstID, out.LastID = &first, &last
	}
	return out
}

// isOfModel reports whether an item of an output is the model's.
func isOfModel(it wire.Item) bool {
	var o struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(it, &o) != nil || o.Type != "compaction"
}

func idOf(it wire.Item) string {
	var o struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(it, &o)
	return o.ID
}

// findItem returns the item of an id that this server gave.
func (d *Server) findItem(ctx context.Context, client *client.Client, id string) (wire.Item, error) {
	ref, ok := wire.ParseItemID(id)
	if !ok {
		return nil, wire.ErrNoResponse(id)
	}
	v, err := d.load(ctx, client, wire.ResponseID(ref), loadWhole)
	if err != nil {
		return nil, err
	}
	items, err := place.InputOf(ctx, client, v.turn, v.meta)
	if err != nil {
		return nil, err
	}
	if v.answer != nil {
		items = append(items, wire.AnswerItems(v.ref, v.answer.Response, v.answerMeta, true)...)
	}
	for _, it := range items {
		if idOf(it) == id {
			return it, nil
		}
	}
	return nil, wire.ErrNoResponse(id)
}

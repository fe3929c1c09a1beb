package responses

import (
	"context"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/responses/place"
	"nexus/cmd/internal/responses/wire"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// A conversation is a session. Its items are those of its turns, from the root to the head;
// items that a client adds are a turn without an answer.

// maxNewItems bounds the items of one request.
const maxNewItems = 20

type conversation struct {
	ID        string    `json:"id"`
	Object    string    `json:"object"`
	CreatedAt int64     `json:"created_at"`
	Metadata  turns.Raw `json:"metadata"`
}

// conversationMeta is the meta of a session that was created as a conversation.
type conversationMeta struct {
	Source   string    `json:"source"`
	Metadata turns.Raw `json:"metadata,omitzero"`
}

type conversationRequest struct {
	Metadata turns.Raw   `json:"metadata"`
	Items    []turns.Raw `json:"items"`
}

// readConversation reads the body of a request on conversations.
func (d *Server) readConversation(w http.ResponseWriter, r *http.Request) (*conversationRequest, error) {
	if r.ContentLength == 0 { // some clients send no body for an empty conversation
		return new(conversationRequest), nil
	}
	body, done, err := d.readBody(w, r)
	defer done()
	if err != nil {
		return nil, err
	}
	req := new(conversationRequest)
	if err := wire.ReadJSON(body, req); err != nil {
		return nil, err
	}
	if len(req.Items) > maxNewItems {
		return nil, wire.Invalid("items", "There are at most %d items in a request.", maxNewItems)
	}
	return req, (&wire.CreateRequest{Metadata: req.Metadata}).CheckMetadata()
}

func (r *conversationRequest) meta() turns.Raw {
	m := conversationMeta{Source: "responses"}
	if r.Metadata.Kind() == '{' {
		m.Metadata = r.Metadata
	}
	return wire.Encode(m)
}

func conversationOf(s *api.Session) *conversation {
	c := &conversation{ID: wire.ConversationPrefix + s.ID.String(), Object: "conversation", CreatedAt: s.ID.Time().Unix(), Metadata: turns.Raw(`{}`)}
	var m conversationMeta
	if s.Meta.Kind() == '{' && json.Unmarshal(s.Meta, &m) == nil && m.Metadata.Kind() == '{' {
		c.Metadata = m.Metadata
	}
	return c
}

// findConversation returns the session of a conversation that was not deleted. What is
// another agent's looks like what never was.
func (d *Server) findConversation(ctx context.Context, client *client.Client, id string) (*api.Session, error) {
	session, err := place.ParseConversationID(id)
	if err != nil {
		return nil, err
	}
	s, err := client.Session(ctx, session)
	if err != nil {
		return nil, place.ConversationFault(err)
	}
	if s.State != "open" && s.State != "paused" {
		return nil, place.ErrNoConversation
	}
	return s, nil
}

func (d *Server) postConversation(w http.ResponseWriter, r *http.Request) {
	req, err := d.readConversation(w, r)
	if err != nil {
		wire.Refuse(w, err)
		return
	}
	client := d.client(caller(r))
	in, err := d.parseItems(r, client, req.Items)
	if err != nil {
		wire.Refuse(w, err)
		return
	}
	create := api.CreateSession{}
	create.Meta = req.meta()
	s, err := client.Create(r.Context(), create)
	if err == nil && len(in.Messages) > 0 {
		_, err = addItems(r.Context(), client, s.ID, in)
	}
	if err != nil {
		wire.Refuse(w, place.InputFault(err))
		return
	}
	wire.Reply(w, http.StatusOK, conversationOf(s))
}

// conversationCall is a request on a conversation that is there.
type conversationCall struct {
	w       http.ResponseWriter
	r       *http.Request
	client  *client.Client
	session *api.Session
}

// onConversation makes a handler of what answers a request on a conversation.
func (d *Server) onConversation(answer func(conversationCall) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		client := d.client(caller(r))
		var out any
		s, err := d.findConversation(r.Context(), client, r.PathValue("id"))
		if err == nil {
			out, err = answer(conversationCall{w, r, client, s})
		}
		if err != nil {
			wire.Refuse(w, place.InputFault(err))
			return
		}
		wire.Reply(w, http.StatusOK, out)
	}
}

func (d *Server) getConversation(c conversationCall) (any, error) {
	return conversationOf(c.session), nil
}

func (d *Server) setConversation(c conversationCall) (any, error) {
	req, err := d.readConversation(c.w, c.r)
	if err != nil {
		return nil, err
	}
	if req.Metadata.Kind() != '{' {
		return nil, wire.WithCode("missing_required_parameter", wire.Invalid("metadata", "The member 'metadata' is missing."))
	}
	s, err := c.client.Set(c.r.Context(), c.session.ID, api.SetSession{SessionSettings: api.SessionSettings{Meta: req.meta()}})
	if err != nil {
		return nil, err
	}
	return conversationOf(s), nil
}

// deleteConversation closes the session. Its turns stay, until they are erased.
func (d *Server) deleteConversation(c conversationCall) (any, error) {
	_, err := c.client.Close(c.r.Context(), c.session.ID, api.CloseSession{})
	return struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}{c.r.PathValue("id"), "conversation.deleted", true}, err
}

// parseItems reads items that a client adds.
func (d *Server) parseItems(r *http.Request, client *client.Client, items []turns.Raw) (*wire.Input, error) {
	if len(items) == 0 {
		return new(wire.Input), nil
	}
	b := d.places.New(caller(r), client, new(wire.CreateRequest))
	return wire.ParseInput(wire.Encode(items), d.resolver(r.Context(), b))
}

// addItems appends items as a turn, and returns them as a client reads them.
func addItems(ctx context.Context, client *client.Client, session turns.ID, in *wire.Input) ([]wire.Item, error) {
	id := api.NewID()
	meta := wire.Encode(wire.MetaOf[wire.RequestMeta]{Responses: &wire.RequestMeta{Version: wire.MetaVersion, Items: in.Marks()}})
	if _, err := client.Append(ctx, session, api.AppendTurn{ID: id, Messages: in.Messages, Meta: meta}); err != nil {
		return nil, err
	}
	return wire.InputItems(turns.Ref{Session: session, Turn: id}, in.Messages, in.Marks()), nil
}

func (d *Server) postItems(c conversationCall) (any, error) {
	req, err := d.readConversation(c.w, c.r)
	if err != nil {
		return nil, err
	}
	if len(req.Items) == 0 {
		return nil, wire.WithCode("missing_required_parameter", wire.Invalid("items", "The member 'items' is missing or empty."))
	}
	in, err := d.parseItems(c.r, c.client, req.Items)
	if err != nil {
		return nil, err
	}
	items, err := addItems(c.r.Context(), c.client, c.session.ID, in)
	if err != nil {
		return nil, err
	}
	return listOf(items, false), nil
}

// turnItems are the items of a turn, in order. A turn that holds the beginning of another
// one's input has none of its own.
func turnItems(ctx context.Context, client *client.Client, t *api.Turn) ([]wire.Item, error) {
	ref := turns.Ref{Session: t.Session, Turn: t.ID}
	meta := wire.ReadMeta[wire.RequestMeta](t.Meta)
	switch {
	case meta == nil:
		meta = new(wire.RequestMeta)
	case !meta.PartOf.IsZero():
		return nil, nil
	}
	if meta.Items == nil {
		for i := range t.Messages {
			meta.Items = append(meta.Items, wire.Mark{Type: "message", Parts: len(t.Messages[i].Parts)})
		}
	}
	items, err := place.InputOf(ctx, client, t, meta)
	if err != nil || t.Response == nil {
		return items, err
	}
	if len(t.Messages) == 0 && t.Parent != nil { // an answer: its items have the ids of the response
		ref.Turn = *t.Parent
		if wire.AnswerID(ref.Turn) != t.ID {
			request, err := place.NormalAt(ctx, client, t.Session, ref.Turn)
			if err != nil {
				return nil, err
			}
			if request != nil {
				ref.Turn = request.ID
			}
		}
	}
	return append(items, wire.AnswerItems(ref, t.Response, wire.ReadMeta[wire.AnswerMeta](t.Meta), true)...), nil
}

// eachItem passes the items of a conversation to visit, until it returns false. What was
// deleted is left out.
func eachItem(ctx context.Context, client *client.Client, session turns.ID, order string, visit func(wire.Item) bool) error {
	deleted, err := deletedOf(ctx, client, session)
	if err != nil {
		return err
	}
	for t, err := range client.Turns(ctx, session, api.ListTurns{Order: order, Full: true}) {
		if err != nil {
			return err
		}
		if t.Error != "" {
			return &api.Error{Code: t.Error, Message: "a turn of the conversation can't be read"}
		}
		if t.Type != "normal" {
			continue
		}
		items, err := turnItems(ctx, client, &t)
		if err != nil {
			return err
		}
		if order == "desc" {
			slices.Reverse(items)
		}
		for _, it := range items {
			if !deleted[deletedID(itemKey(session, idOf(it)))] && !visit(it) {
				return nil
			}
		}
	}
	return nil
}

// itemKey names an item of a conversation among what was deleted.
func itemKey(session turns.ID, item string) string {
	return wire.ConversationPrefix + session.String() + "/" + item
}

func (d *Server) getItems(c conversationCall) (any, error) {
	p, err := readPage(c.r.URL.Query())
	if err != nil {
		return nil, err
	}
	var items []wire.Item
	found := p.after == ""
	if c.session.Head != nil {
		err = eachItem(c.r.Context(), c.client, c.session.ID, p.order, func(it wire.Item) bool {
			if !found {
				found = idOf(it) == p.after
				return true
			}
			items = append(items, it)
			return len(items) <= p.limit
		})
	}
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, errAfter(p.after)
	}
	return listOf(items[:min(p.limit, len(items))], len(items) > p.limit), nil
}

var errNoItem = &wire.Error{Status: http.StatusNotFound, Type: wire.NotFoundType, Code: "item_not_found", Message: "The item was not found.", Param: "item_id"}

// item finds the item of a conversation that a request names.
func (c conversationCall) item() (it wire.Item, err error) {
	if c.session.Head != nil {
		want := c.r.PathValue("item")
		err = eachItem(c.r.Context(), c.client, c.session.ID, "desc", func(at wire.Item) bool {
			if idOf(at) == want {
				it = at
			}
			return it == nil
		})
	}
	if err == nil && it == nil {
		err = errNoItem
	}
	return it, err
}

func (d *Server) getItem(c conversationCall) (any, error) { return c.item() }

// deleteItem hides an item from this server. The turn stays, and the model sees it: a context
// is what was said.
func (d *Server) deleteItem(c conversationCall) (any, error) {
	it, err := c.item()
	if err != nil {
		return nil, err
	}
	if err := hide(c.r.Context(), c.client, deletedItems(c.session.ID), itemKey(c.session.ID, idOf(it)), "item"); err != nil {
		return nil, err
	}
	return conversationOf(c.session), nil
}

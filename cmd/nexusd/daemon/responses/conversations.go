package responses

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"

	"nexus/ledger/api"
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
func (d *Door) readConversation(w http.ResponseWriter, r *http.Request) (*conversationRequest, error) {
	if r.ContentLength == 0 { // some clients send no body for an empty conversation
		return new(conversationRequest), nil
	}
	body, err := d.readBody(w, r)
	if err != nil {
		return nil, err
	}
	req := new(conversationRequest)
	if err := json.Unmarshal(body, req); err != nil {
		return nil, bodyFault(err)
	}
	if len(req.Items) > maxNewItems {
		return nil, invalid("items", "There are at most %d items in a request.", maxNewItems)
	}
	return req, (&CreateRequest{Metadata: req.Metadata}).checkMetadata()
}

func (r *conversationRequest) meta() turns.Raw {
	m := conversationMeta{Source: "responses"}
	if r.Metadata.Kind() == '{' {
		m.Metadata = r.Metadata
	}
	return encode(m)
}

func conversationOf(s *api.Session) *conversation {
	c := &conversation{ID: conversationPrefix + s.ID.String(), Object: "conversation", CreatedAt: s.ID.Time().Unix(), Metadata: turns.Raw(`{}`)}
	var m conversationMeta
	if s.Meta.Kind() == '{' && json.Unmarshal(s.Meta, &m) == nil && m.Metadata.Kind() == '{' {
		c.Metadata = m.Metadata
	}
	return c
}

// findConversation returns the session of a conversation that was not deleted. What is
// another agent's looks like what never was.
func (d *Door) findConversation(ctx context.Context, client *api.Client, id string) (*api.Session, error) {
	session, err := conversationID(turns.RawText(id))
	if err != nil {
		return nil, err
	}
	s, err := client.Session(ctx, session)
	if err != nil {
		return nil, conversationFault(err)
	}
	if s.State != "open" && s.State != "paused" {
		return nil, errNoConversation
	}
	return s, nil
}

func (d *Door) postConversation(w http.ResponseWriter, r *http.Request) {
	req, err := d.readConversation(w, r)
	if err != nil {
		refuse(w, err)
		return
	}
	client := d.client(caller(r))
	in, err := d.parseItems(r, client, req.Items)
	if err != nil {
		refuse(w, err)
		return
	}
	create := api.CreateSession{}
	create.Meta = req.meta()
	s, err := client.Create(r.Context(), create)
	if err == nil && len(in.messages) > 0 {
		_, err = addItems(r.Context(), client, s.ID, in)
	}
	if err != nil {
		refuse(w, inputFault(err))
		return
	}
	reply(w, http.StatusOK, conversationOf(s))
}

func (d *Door) getConversation(w http.ResponseWriter, r *http.Request) {
	s, err := d.findConversation(r.Context(), d.client(caller(r)), r.PathValue("id"))
	if err != nil {
		refuse(w, err)
		return
	}
	reply(w, http.StatusOK, conversationOf(s))
}

func (d *Door) setConversation(w http.ResponseWriter, r *http.Request) {
	client := d.client(caller(r))
	s, err := d.findConversation(r.Context(), client, r.PathValue("id"))
	if err != nil {
		refuse(w, err)
		return
	}
	req, err := d.readConversation(w, r)
	if err == nil && req.Metadata.Kind() != '{' {
		err = withCode("missing_required_parameter", invalid("metadata", "The member 'metadata' is missing."))
	}
	if err == nil {
		s, err = client.Set(r.Context(), s.ID, api.SetSession{SessionSettings: api.SessionSettings{Meta: req.meta()}})
	}
	if err != nil {
		refuse(w, err)
		return
	}
	reply(w, http.StatusOK, conversationOf(s))
}

// deleteConversation closes the session. Its turns stay, until they are erased.
func (d *Door) deleteConversation(w http.ResponseWriter, r *http.Request) {
	client := d.client(caller(r))
	s, err := d.findConversation(r.Context(), client, r.PathValue("id"))
	if err == nil {
		_, err = client.Close(r.Context(), s.ID, api.CloseSession{})
	}
	if err != nil {
		refuse(w, err)
		return
	}
	reply(w, http.StatusOK, struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}{r.PathValue("id"), "conversation.deleted", true})
}

// parseItems reads items that a client adds.
func (d *Door) parseItems(r *http.Request, client *api.Client, items []turns.Raw) (*input, error) {
	if len(items) == 0 {
		return new(input), nil
	}
	b := &beginning{door: d, caller: caller(r), client: client, request: new(CreateRequest)}
	return parseInput(encode(items), b.resolver(r.Context()))
}

// addItems appends items as a turn, and returns them as a client reads them.
func addItems(ctx context.Context, client *api.Client, session turns.ID, in *input) ([]Item, error) {
	id := api.NewID()
	meta := encode(metaOf[requestMeta]{Responses: &requestMeta{Version: metaVersion, Items: in.marks}})
	if _, err := client.Append(ctx, session, api.AppendTurn{ID: id, Messages: in.messages, Meta: meta}); err != nil {
		return nil, err
	}
	return inputItems(turns.Ref{Session: session, Turn: id}, in.messages, in.marks), nil
}

func (d *Door) postItems(w http.ResponseWriter, r *http.Request) {
	client := d.client(caller(r))
	s, err := d.findConversation(r.Context(), client, r.PathValue("id"))
	if err != nil {
		refuse(w, err)
		return
	}
	req, err := d.readConversation(w, r)
	if err == nil && len(req.Items) == 0 {
		err = withCode("missing_required_parameter", invalid("items", "The member 'items' is missing or empty."))
	}
	var in *input
	if err == nil {
		in, err = d.parseItems(r, client, req.Items)
	}
	var items []Item
	if err == nil {
		items, err = addItems(r.Context(), client, s.ID, in)
	}
	if err != nil {
		refuse(w, inputFault(err))
		return
	}
	list, err := pageItems(items, map[string][]string{"order": {"asc"}, "limit": {"100"}})
	if err != nil {
		refuse(w, err)
		return
	}
	reply(w, http.StatusOK, list)
}

// turnItems are the items of a turn, in order.
func turnItems(t *api.Turn) []Item {
	ref := turns.Ref{Session: t.Session, Turn: t.ID}
	var marks []mark
	if m := readMeta[requestMeta](t.Meta); m != nil {
		marks = m.Items
	}
	if marks == nil {
		for i := range t.Messages {
			marks = append(marks, mark{Type: "message", Parts: len(t.Messages[i].Parts)})
		}
	}
	items := inputItems(ref, t.Messages, marks)
	if t.Response == nil {
		return items
	}
	var said []mark
	if m := readMeta[answerMeta](t.Meta); m != nil {
		said = m.Items
	}
	if len(t.Messages) == 0 && t.Parent != nil { // an answer: its items have the ids of the response
		ref.Turn = *t.Parent
	}
	return append(items, outputItems(ref, t.Response, said, true)...)
}

// eachItem passes the items of a conversation to visit, until it returns false. What was
// deleted is left out.
func eachItem(ctx context.Context, client *api.Client, session turns.ID, order string, visit func(Item) bool) error {
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
		items := turnItems(&t)
		if order == "desc" {
			slices.Reverse(items)
		}
		for _, it := range items {
			gone, err := isDeleted(ctx, client, itemKey(session, idOf(it)))
			if err != nil {
				return err
			}
			if !gone && !visit(it) {
				return nil
			}
		}
	}
	return nil
}

// itemKey names an item of a conversation among what was deleted.
func itemKey(session turns.ID, item string) string {
	return conversationPrefix + session.String() + "/" + item
}

func (d *Door) getItems(w http.ResponseWriter, r *http.Request) {
	client, q := d.client(caller(r)), r.URL.Query()
	s, err := d.findConversation(r.Context(), client, r.PathValue("id"))
	if err != nil {
		refuse(w, err)
		return
	}
	if _, err := pageItems(nil, map[string][]string{"order": q["order"], "limit": q["limit"]}); err != nil {
		refuse(w, err)
		return
	}
	limit, order, after := 20, "desc", q.Get("after")
	if n, err := strconv.Atoi(q.Get("limit")); err == nil {
		limit = n
	}
	if q.Get("order") == "asc" {
		order = "asc"
	}
	var page []Item
	found := after == ""
	if s.Head != nil {
		err = eachItem(r.Context(), client, s.ID, order, func(it Item) bool {
			if !found {
				found = idOf(it) == after
				return true
			}
			page = append(page, it)
			return len(page) <= limit
		})
	}
	if err == nil && !found {
		err = invalid("after", "No item has the id '%s'.", clip(after))
	}
	if err != nil {
		refuse(w, err)
		return
	}
	list := &itemList{Object: "list", Data: []Item{}, HasMore: len(page) > limit}
	list.Data = append(list.Data, page[:min(limit, len(page))]...)
	if n := len(list.Data); n > 0 {
		first, last := idOf(list.Data[0]), idOf(list.Data[n-1])
		list.FirstID, list.LastID = &first, &last
	}
	reply(w, http.StatusOK, list)
}

var errNoItem = &Error{Status: http.StatusNotFound, Type: notFoundType, Code: "item_not_found", Message: "The item was not found.", Param: "item_id"}

// conversationItem finds an item of a conversation.
func (d *Door) conversationItem(r *http.Request, client *api.Client) (s *api.Session, it Item, err error) {
	if s, err = d.findConversation(r.Context(), client, r.PathValue("id")); err != nil {
		return nil, nil, err
	}
	if s.Head != nil {
		want := r.PathValue("item")
		err = eachItem(r.Context(), client, s.ID, "desc", func(at Item) bool {
			if idOf(at) == want {
				it = at
			}
			return it == nil
		})
	}
	if err == nil && it == nil {
		err = errNoItem
	}
	return s, it, err
}

func (d *Door) getItem(w http.ResponseWriter, r *http.Request) {
	_, it, err := d.conversationItem(r, d.client(caller(r)))
	if err != nil {
		refuse(w, err)
		return
	}
	reply(w, http.StatusOK, it)
}

// deleteItem hides an item from this door. The turn stays, and the model sees it: a context
// is what was said.
func (d *Door) deleteItem(w http.ResponseWriter, r *http.Request) {
	client := d.client(caller(r))
	s, it, err := d.conversationItem(r, client)
	if err == nil {
		key := itemKey(s.ID, idOf(it))
		_, err = client.AppendEvent(r.Context(), api.AppendEvent{ID: deletedID(key), Channel: deletedChannel, Kind: "responses.deleted", Body: encode(map[string]string{"item": key})})
	}
	if err == nil {
		s, err = client.Session(r.Context(), s.ID)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	reply(w, http.StatusOK, conversationOf(s))
}

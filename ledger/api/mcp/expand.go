package mcp

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"nexus/ledger/api"
	"nexus/turns"
)

const (
	// pageBytes is the room of the content of a page in the frame, pieceBytes what the
	// line of a piece takes there at most.
	pageBytes  = 6 << 10
	pieceBytes = 320
	// maxFetched bounds the content that is read for a page where a turn has it beside
	// itself; larger content is named, with its beginning.
	maxFetched = 4 << 20
	// coveredPage is how many turns of a summary are in a page.
	coveredPage = 20
	// coveredCursor begins the next of a page of these.
	coveredCursor = "covered."
)

type expandInput struct {
	Turn    string `json:"turn,omitempty" jsonschema:"the turn: SESSION/TURN as search and brief return it, SESSION@head, SESSION@head~N, or SESSION@N with its number; an id may be the 8 characters that a table shows"`
	Channel string `json:"channel,omitempty" jsonschema:"instead of turn, with event: the channel of an external event"`
	Event   string `json:"event,omitempty" jsonschema:"the id of an external event on the channel"`
	After   string `json:"after,omitempty" jsonschema:"the next of the page before, of the same turn or event"`
}

type expandResult struct {
	Notice   string        `json:"notice"`
	Handle   string        `json:"handle,omitempty"`
	Number   uint64        `json:"number,omitempty" jsonschema:"of the turn on its path"`
	Type     string        `json:"type" jsonschema:"normal, compaction or event"`
	Time     string        `json:"time"`
	Model    string        `json:"model,omitempty"`
	Hash     string        `json:"hash" jsonschema:"of the stored event"`
	Position string        `json:"position"`
	Pending  bool          `json:"pending,omitempty" jsonschema:"the response is not stored yet"`
	State    string        `json:"state,omitempty" jsonschema:"what the context shows of the turn now, if not all of it: elided or shortened (parts of it), compacted (a summary stands for it), other_branch (nothing)"`
	Covers   uint64        `json:"covers,omitempty" jsonschema:"of a compaction: half turns that its summary stands for"`
	Pieces   []piece       `json:"pieces" jsonschema:"the content in its order, word for word"`
	Covered  []coveredTurn `json:"covered,omitempty" jsonschema:"of a compaction: the turns that its summary stands for"`
	Next     string        `json:"next,omitempty" jsonschema:"as after it returns the next page"`
}

// piece is a part of a message, or what of it has room in a page.
type piece struct {
	Half  string `json:"half" jsonschema:"messages, response, summary or event"`
	Role  string `json:"role,omitempty"`
	Type  string `json:"type" jsonschema:"text, reasoning, tool_call, tool_call_response, json, or another part that is only named"`
	Tool  string `json:"tool,omitempty"`
	Call  string `json:"call,omitempty" jsonschema:"id of the tool call"`
	Error bool   `json:"error,omitempty" jsonschema:"the tool failed"`
	From  int    `json:"from,omitempty" jsonschema:"byte of the part at which the text begins"`
	Size  int    `json:"size" jsonschema:"bytes of the whole part"`
	Text  string `json:"text"`
	Only  string `json:"only,omitempty" jsonschema:"why the text is not the whole content"`
}

type coveredTurn struct {
	Handle string `json:"handle"`
	Number uint64 `json:"number"`
	Type   string `json:"type"`
	Tokens uint64 `json:"tokens"`
	Time   string `json:"time"`
}

func defineExpand() (definition, error) {
	return define(about{name: "expand", title: "Read a stored turn",
		description: "Returns a turn word for word, with its hash, whether or not a compaction removed it from view. Of a compaction it returns the summary and the turns that this stands for; of an external event its body. Long content comes in pages of about 6 kB."},
		nil, func(ctx context.Context, c *call, in expandInput) (*expandResult, error) {
			switch {
			case in.Turn != "" && (in.Channel != "" || in.Event != ""):
				return nil, api.FieldErrorf("/turn", "name a turn, or a channel and an event")
			case in.Turn == "" && (in.Channel == "" || in.Event == ""):
				return nil, api.FieldErrorf("/turn", "missing: name a turn, or a channel and an event")
			case in.Turn == "":
				return c.expandEvent(ctx, in)
			}
			return c.expandTurn(ctx, in)
		})
}

func (c *call) expandEvent(ctx context.Context, in expandInput) (*expandResult, error) {
	id, err := turns.ParseID(in.Event)
	if err != nil {
		return nil, api.FieldErrorf("/event", "%q is not an id of 26 characters", head(in.Event, 40))
	}
	e, err := c.Event(ctx, api.GetEvent{Channel: in.Channel, ID: id})
	if err != nil {
		return nil, err
	}
	out := &expandResult{Notice: notice, Type: "event", Time: timeText(&e.Recorded), Hash: e.Hash.String(), Position: e.Position, Pieces: []piece{}}
	part := turns.Part{Type: turns.Text, Content: string(e.Body), Ref: e.Ref}
	err = c.fill(ctx, out, in.After, turns.ID{}, []pieceOf{{piece{Half: "event", Type: "json"}, part}})
	return out, err
}

func (c *call) expandTurn(ctx context.Context, in expandInput) (*expandResult, error) {
	session, id, err := c.turn(ctx, "/turn", in.Turn)
	if err != nil {
		return nil, err
	}
	t, err := c.Turn(ctx, session, id)
	if err != nil {
		return nil, err
	}
	when := t.Time
	if when == nil {
		when = &t.Recorded
	}
	out := &expandResult{Notice: notice, Handle: handle(session, id), Number: t.Depth, Type: t.Type, Time: timeText(when), Model: t.Model,
		Hash: t.Hash.String(), Position: t.Position, Pending: t.Pending, Pieces: []piece{}}
	parts := partsOf("messages", t.Messages)
	if t.Response != nil {
		parts = append(parts, partsOf("response", []turns.Message{*t.Response})...)
	}
	k := t.Compaction
	if k == nil && in.After == "" {
		x, err := c.Expansion(ctx, session, api.ExpandCompaction{ID: id})
		if err == nil && x.State != "live" { // the turn can be read without it
			out.State = x.State
		}
	}
	if k == nil {
		return out, c.fill(ctx, out, in.After, session, parts)
	}
	out.Covers = k.Covered
	if after, ok := strings.CutPrefix(in.After, coveredCursor); ok {
		return out, c.covered(ctx, out, session, id, after)
	}
	parts = partsOf("summary", k.Replacement)
	if err := c.fill(ctx, out, in.After, session, parts); err != nil || out.Next != "" || k.Covered == 0 {
		return out, err
	}
	out.Next = coveredCursor
	return out, nil
}

// covered adds a page of the turns that a summary stands for.
func (c *call) covered(ctx context.Context, out *expandResult, session, compaction turns.ID, after string) error {
	r := api.ExpandCompaction{ID: compaction, Page: api.Page{Limit: coveredPage + 1, After: after}}
	for t, err := range c.Expand(ctx, session, r) {
		if err != nil {
			return err
		}
		if len(out.Covered) == coveredPage {
			_, last, _ := strings.Cut(out.Covered[coveredPage-1].Handle, "/")
			out.Next = coveredCursor + last
			break
		}
		out.Covered = append(out.Covered, coveredTurn{handle(t.Session, t.ID), t.Depth, t.Type, t.TokenCount, timeText(&t.Recorded)})
	}
	return nil
}

// pieceOf is a part, with what a piece of it says beside the text.
type pieceOf struct {
	piece
	part turns.Part
}

func partsOf(half string, ms []turns.Message) (out []pieceOf) {
	for _, m := range ms {
		for _, p := range m.Parts {
			out = append(out, pieceOf{piece{Half: half, Role: string(m.Role), Type: string(p.Type), Tool: p.Name, Call: p.ID, Error: p.IsError}, p})
		}
	}
	return out
}

// fill adds pieces of parts, from a cursor on, until a page is full.
func (c *call) fill(ctx context.Context, out *expandResult, after string, session turns.ID, parts []pieceOf) error {
	at, from, err := cursor(after, len(parts))
	if err != nil {
		return err
	}
	room := pageBytes
	for ; at < len(parts); at, from = at+1, 0 {
		if room < pieceBytes {
			break
		}
		x := parts[at].piece
		var text string
		if text, x.Only, err = c.content(ctx, session, &parts[at].part); err != nil {
			return err
		}
		if from > len(text) {
			return api.FieldErrorf("/after", "not a place in this turn")
		}
		x.From, x.Size = from, len(text)
		room -= pieceBytes
		n, size := fits(text[from:], room)
		if n == 0 && len(text) > from {
			break
		}
		x.Text = text[from : from+n]
		out.Pieces = append(out.Pieces, x)
		if room -= size; from+n < len(text) {
			from += n
			break
		}
	}
	if at < len(parts) {
		out.Next = fmt.Sprintf("%d.%d", at, from)
	}
	return nil
}

// cursor reads the next of a page: a part, and a byte of it.
func cursor(after string, parts int) (at, from int, err error) {
	if after == "" {
		return 0, 0, nil
	}
	a, b, ok := strings.Cut(after, ".")
	if at, err = strconv.Atoi(a); err == nil && ok {
		from, err = strconv.Atoi(b)
	}
	if err != nil || !ok || at < 0 || at >= parts || from < 0 {
		return 0, 0, api.FieldErrorf("/after", "%q is not the next of a page of this turn", head(after, 40))
	}
	return at, from, nil
}

// content returns what a part holds as text, and why that is not all of it.
func (c *call) content(ctx context.Context, session turns.ID, p *turns.Part) (text, only string, err error) {
	if p.Ref != nil && p.Type != turns.Blob {
		if len(p.Ref.Pieces) > 0 || p.Ref.Size > maxFetched || session.IsZero() {
			return p.Ref.Preview, fmt.Sprintf("the beginning of %d bytes, which are too many for this tool", p.Ref.Size), nil
		}
		b, err := c.Content(ctx, session, p.Ref)
		if err != nil {
			return "", "", err
		}
		full := *p
		full.SetContent(b)
		p = &full
	}
	switch p.Type {
	case turns.Text, turns.Reasoning:
		return p.Content, "", nil
	case turns.ToolCall:
		return string(p.Arguments), "", nil
	case turns.ToolCallResponse:
		if s, ok := p.Response.Text(); ok {
			return s, "", nil
		}
		return string(p.Response), "", nil
	}
	return "", strings.TrimSpace(fmt.Sprintf("a part of type %s %s, which is not shown", p.Type, p.MimeType)), nil
}

func (r *expandResult) text(f *frame) {
	if r.Type == "event" {
		f.line("event, recorded %s, %s", r.Time, r.Hash)
	} else {
		f.line("turn %s, number %d, %s, %s, %s", r.Handle, r.Number, r.Type, r.Time, r.Hash)
	}
	if r.Pending {
		f.line("Its response is not stored yet.")
	}
	if r.State != "" {
		f.line("The context shows it %s.", stateWord(r.State))
	}
	for _, p := range r.Pieces {
		what := p.Half + ", " + partWord(p.Type)
		if p.Error {
			what += ", failed"
		}
		if p.From > 0 || len(p.Text) < p.Size {
			what += fmt.Sprintf(", bytes %d to %d of %d", p.From, p.From+len(p.Text), p.Size)
		}
		f.line("%s:", what)
		if p.Tool != "" {
			f.data("tool: " + head(p.Tool, 80))
		}
		if p.Only != "" {
			f.data("(" + head(p.Only, 120) + ")")
		}
		if p.Text != "" {
			f.data(p.Text)
		}
	}
	if len(r.Covered) > 0 {
		f.line("The summary stands for:")
		for _, t := range r.Covered {
			f.line("- %s, number %d, %s, %d tokens, %s", t.Handle, t.Number, t.Type, t.Tokens, t.Time)
		}
	}
	if r.Next != "" {
		f.line("next: %s", r.Next)
	}
}

// stateWord says what a context shows of a turn.
func stateWord(state string) string {
	switch state {
	case "elided", "shortened":
		return "shortened"
	case "compacted":
		return "as a part of a summary"
	}
	return "not at all: it is on another branch"
}

// partWord is a type of a part where that is a fixed word.
func partWord(t string) string {
	switch turns.PartType(t) {
	case turns.Text, turns.Reasoning, turns.ToolCall, turns.ToolCallResponse, turns.Blob, turns.URI, turns.File, "json":
		return t
	}
	return "another part"
}

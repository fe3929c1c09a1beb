package mcp

import (
	"cmp"
	"context"

	"github.com/google/jsonschema-go/jsonschema"

	"nexus/ledger/api"
	"nexus/turns"
)

const (
	defaultHits = 8
	maxHits     = 12
	// snippetBytes bounds a snippet, so that the largest page has room in a frame.
	snippetBytes = 360
)

type searchInput struct {
	Text    string   `json:"text" jsonschema:"words that must occur; a phrase in double quotes; a beginning followed by *"`
	Session string   `json:"session,omitempty" jsonschema:"only this session and the path that it continues: its id or label"`
	Kinds   []string `json:"kinds,omitempty" jsonschema:"only these kinds; default all, but with a session no events"`
	Tool    string   `json:"tool,omitempty" jsonschema:"only turns that call this tool"`
	Model   string   `json:"model,omitempty" jsonschema:"only turns of this model"`
	From    string   `json:"from,omitempty" jsonschema:"only from this time on (RFC 3339)"`
	To      string   `json:"to,omitempty" jsonschema:"only before this time (RFC 3339)"`
	Limit   int      `json:"limit,omitempty" jsonschema:"hits in a page; default 8"`
	After   string   `json:"after,omitempty" jsonschema:"the next of the page before, with the same other arguments"`
}

type searchResult struct {
	Notice string      `json:"notice"`
	Hits   []searchHit `json:"hits" jsonschema:"best first"`
	Any    bool        `json:"any,omitempty" jsonschema:"nothing has all words; these hits have some"`
	Behind uint64      `json:"behind,omitempty" jsonschema:"newest events that were not searched yet"`
	More   bool        `json:"more,omitempty" jsonschema:"more was found than all pages show"`
	Next   string      `json:"next,omitempty" jsonschema:"as after it returns the next page"`
}

type searchHit struct {
	Kind    string  `json:"kind" jsonschema:"turn, memory or event"`
	State   string  `json:"state" jsonschema:"what a model sees of it now: live, elided, compacted, archived, other_branch"`
	Time    string  `json:"time"`
	Score   float64 `json:"score"`
	Snippet string  `json:"snippet"`
	Handle  string  `json:"handle,omitempty" jsonschema:"of a turn: expand and fork take it"`
	Number  uint64  `json:"number,omitempty" jsonschema:"of a turn on its path"`
	Half    string  `json:"half,omitempty" jsonschema:"of a turn: messages or response; none: a summary"`
	Role    string  `json:"role,omitempty"`
	Tool    string  `json:"tool,omitempty"`
	Memory  string  `json:"memory,omitempty" jsonschema:"id of a memory"`
	Channel string  `json:"channel,omitempty" jsonschema:"of an event: expand takes it with event"`
	Event   string  `json:"event,omitempty"`
	Agent   string  `json:"agent,omitempty"`
	Some    bool    `json:"some,omitempty" jsonschema:"it has some of the words, not all"`
}

func defineSearch() (definition, error) {
	return define(about{name: "search", title: "Search the ledger",
		description: "Finds stored turns, memories and external events by words, also what compactions removed from view and what other sessions hold. Returns snippets with handles; expand reads a turn word for word."},
		func(p map[string]*jsonschema.Schema) {
			oneOf(p["kinds"], "turn", "memory", "event")
			within(p["limit"], 1, maxHits)
		}, search)
}

func search(ctx context.Context, c *call, in searchInput) (*searchResult, error) {
	r := api.Search{Text: in.Text, Kinds: in.Kinds, Tool: in.Tool, Model: in.Model}
	var err error
	if r.Limit, err = limitOf("/limit", in.Limit, defaultHits, maxHits); err != nil {
		return nil, err
	}
	if r.From, err = timeOf("/from", in.From); err != nil {
		return nil, err
	}
	if r.To, err = timeOf("/to", in.To); err != nil {
		return nil, err
	}
	if in.Session != "" {
		s, err := c.session(ctx, "/session", in.Session)
		if err != nil {
			return nil, err
		}
		r.Session = s.ID
	}
	if len(r.Kinds) == 0 { // what a person notes is not for the model
		if r.Kinds = []string{"turn", "memory", "event"}; !r.Session.IsZero() {
			r.Kinds = r.Kinds[:2] // an external event is of no session
		}
	}
	r.After = in.After
	got, err := c.Search(ctx, r)
	for err == nil && len(got.Hits) == 0 && got.Next != "" { // a page ends where it has looked at much text
		r.After = got.Next
		got, err = c.Search(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	out := &searchResult{Notice: notice, Hits: []searchHit{}, Any: in.After == "" && len(got.Hits) > 0 && got.Hits[0].Some, Behind: got.Behind, More: got.Cut, Next: got.Next}
	for _, h := range got.Hits {
		x := searchHit{Kind: h.Kind, State: h.State, Time: timeText(&h.Time), Score: h.Score, Snippet: head(h.Snippet, snippetBytes),
			Number: h.Depth, Half: h.Half, Role: h.Role, Tool: h.Tool, Memory: idText(h.Memory), Channel: h.Channel, Event: idText(h.Event), Some: h.Some}
		if !h.Turn.IsZero() {
			x.Handle = handle(h.Session, h.Turn)
		}
		if c.caller.Agent == api.Operator {
			x.Agent = h.Agent
		}
		out.Hits = append(out.Hits, x)
	}
	return out, nil
}

func (r *searchResult) text(f *frame) {
	switch {
	case len(r.Hits) == 0 && r.Next == "":
		f.line("Nothing found.")
	case r.Any:
		f.line("Nothing has all of the words; these hits have some.")
	}
	if r.Behind > 0 {
		f.line("The newest %d events were not searched yet.", r.Behind)
	}
	for i, h := range r.Hits {
		some := ""
		if h.Some && !r.Any { // with Any all hits have only some
			some = ", some of the words"
		}
		switch h.Kind {
		case "turn":
			f.line("%d. turn %s (number %d, %s), %s, %s%s", i+1, h.Handle, h.Number, cmp.Or(h.Half, "summary"), h.State, h.Time, some)
		case "memory":
			f.line("%d. memory %s, %s, %s%s", i+1, h.Memory, h.State, h.Time, some)
		default:
			f.line("%d. event %s, %s%s", i+1, h.Event, h.Time, some)
			f.data("channel: " + shortened(h.Channel, labelBytes))
		}
		f.data(h.Snippet)
	}
	if r.Next != "" {
		f.line("next: %s", r.Next)
	} else if r.More {
		f.line("More was found than the pages show: name more words.")
	}
}

// timeOf reads a time of an input; nil for none.
func timeOf(field, text string) (*api.Time, error) {
	if text == "" {
		return nil, nil
	}
	var t api.Time
	if err := t.UnmarshalText([]byte(text)); err != nil {
		return nil, api.FieldErrorf(field, "%q is not a time (RFC 3339)", head(text, 40))
	}
	return &t, nil
}

// timeText is a time as results have it; "" for none.
func timeText(t *api.Time) string {
	if t == nil {
		return ""
	}
	b, err := t.MarshalText()
	if err != nil {
		return ""
	}
	return string(b)
}

// idText is an id as results have it; "" for none.
func idText(id turns.ID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

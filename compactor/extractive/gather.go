package extractive

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/compactor/summary"
	"nexus/turns"
)

// unit is a sentence that a summary may quote.
type unit struct {
	text  string
	depth uint64
	order int // ordinal of its half
	place int // index among the units of its half, over all messages
	worth float64
	lead  bool // it begins a message
	task  bool // it belongs to the first message of a user: the task
}

const (
	maxPool = 1_200 // bound on the units of one kind held at a time
	maxToDo = 12
	// A longer text of the system holds instructions, whose words answer nothing about the
	// turns.
	maxSystemText = 2_000
	maxTasks      = 12 // bound on the leading units of the first request
)

// history holds what was read from an earlier summary and the turns since.
type history struct {
	userRequests []unit // written by users
	statements   []unit // written by agents
	acts         *actions
	facts        *inventory
	todo         []string // open entries of the last to-do list
	listed       int      // ordinal of the half with that list
	working      bool     // the agent called tools since its last answer
	old          []string // entries of an earlier summary's REMAINING
	last         []unit   // units of the agent's last message
	waiting      []unit   // units of a user's message that no agent has answered
	newest       request  // the newest request after the first one
	asked        request  // the newest request
	now          int
	task         bool // the first request is known
	recalled     bool // an earlier summary was read
}

// request is what a user wrote in one message.
type request struct {
	text  string
	depth uint64
}

func newHistory() *history {
	return &history{acts: newActions(), facts: newInventory()}
}

// half reads a half turn.
func (h *history) half(t *summary.HalfTurn) {
	h.now++
	h.facts.next(h.now)
	place := 0
	for i := range t.Messages {
		h.message(&t.Messages[i], t.Depth, &place)
	}
	h.userRequests = bound(h.userRequests)
	h.statements = bound(h.statements)
}

func (h *history) message(m *turns.Message, depth uint64, place *int) {
	attached := 0
	if m.Role == turns.User {
		if text := summary.Request(summary.TextOf(m)); text != "" {
			if h.task {
				h.newest = request{text, depth}
			}
			h.asked = request{text, depth}
		}
		h.working = false
	}
	if m.Role == turns.Assistant {
		h.working = slices.ContainsFunc(m.Parts, func(p turns.Part) bool { return p.Type == turns.ToolCall })
	}
	speaker := &spot{label: string(m.Role), depth: depth}
	for i := range m.Parts {
		p := &m.Parts[i]
		h.facts.spot = speaker
		switch p.Type {
		case turns.Text:
			h.text(m.Role, p.Content, depth, place)
		case turns.Reasoning:
			h.facts.scan(p.Content, fromResult)
		case turns.ToolCall:
			h.toolCall(p, depth)
		case turns.ToolCallResponse:
			h.working = true
			text := withoutSequences(responseText(p.Response))
			if acts := h.acts.open[p.ID]; len(acts) > 0 {
				h.facts.spot = &spot{label: acts[len(acts)-1].label, depth: depth}
			}
			h.facts.scan(summary.CommandOutput(text), fromResult)
			h.acts.response(p, text, h.now, depth)
		case turns.Blob, turns.URI, turns.File:
			attached++
		}
	}
	if attached > 0 && m.Role == turns.User {
		h.userRequests = append(h.userRequests, unit{text: "[attachments]", depth: depth, order: h.now, place: *place, worth: .5})
	}
}

func (h *history) text(role turns.Role, s string, depth uint64, place *int) {
	switch role {
	case turns.Assistant:
		h.waiting = nil
		h.facts.scan(s, fromAgent)
		h.last = h.units(s, depth, place, sayWeight)
		h.statements = append(h.statements, withoutFillers(h.last)...)
	case turns.User:
		h.userText(s, depth, place)
	default:
		if len(s) <= maxSystemText {
			h.facts.scan(s, fromResult)
		}
	}
}

// userText reads a text in a user's message. What another agent reported there is a
// statement, what the agent's program wrote is no request.
func (h *history) userText(s string, depth uint64, place *int) {
	if report := summary.Report(s); report != "" {
		h.facts.scan(report, fromResult)
		h.statements = append(h.statements, h.units(report, depth, place, reportWeight)...)
	}
	asked := summary.Request(s)
	if asked == "" {
		return
	}
	h.facts.scan(asked, fromUser)
	got := h.units(asked, depth, place, askWeight)
	if !h.task {
		n := 0
		for i := range got {
			if n < maxTasks && got[i].worth > .5 {
				got[i].task, h.task = true, true
			}
			n++
		}
	}
	h.userRequests, h.waiting = append(h.userRequests, got...), got
}

// units cuts a text into units.
func (h *history) units(s string, depth uint64, place *int, weight func(string) float64) (got []unit) {
	read := 0
	units(s, func(text string) {
		if read++; read > 600 {
			return
		}
		got = append(got, unit{text: text, depth: depth, order: h.now, place: *place, lead: len(got) == 0, worth: weight(text)})
		*place++
	})
	return got
}

// withoutFillers returns the units of an agent's message that say something. A short one
// that leads to the next gives it its worth.
func withoutFillers(us []unit) (out []unit) {
	lead := 0.0
	for i, u := range us {
		u.worth += lead
		lead = 0
		switch {
		case saysNothing(u.text):
			continue
		case i+1 < len(us) && leadsOn(u.text):
			lead, u.worth = max(0, u.worth-.5), min(u.worth, .3)
		}
		out = append(out, u)
	}
	return out
}

func (h *history) toolCall(p *turns.Part, depth uint64) {
	h.facts.scan(values(p.Arguments), fromCall)
	var args map[string]turns.Raw
	if p.Arguments.Kind() == '{' {
		_ = turns.DecodeJSON(p.Arguments, &args) // arguments of another shape are described by their text
	}
	if todo, ok := openEntries(args); ok {
		h.todo, h.old, h.listed = todo, nil, h.now
		return
	}
	h.acts.call(p, args, h.now, depth)
}

// openEntries returns the open entries of a to-do list; false if the arguments are
// not such a list.
func openEntries(args map[string]turns.Raw) (open []string, ok bool) {
	var list []map[string]turns.Raw
	for _, k := range [...]string{"todos", "plan"} {
		if v := args[k]; v.Kind() == '[' && turns.DecodeJSON(v, &list) == nil {
			ok = true
			break
		}
	}
	for _, e := range list {
		status, _ := e["status"].Text()
		what, _ := e["content"].Text()
		if what == "" {
			what, _ = e["step"].Text()
		}
		if what == "" || status == "completed" || status == "cancelled" || len(open) >= maxToDo {
			continue
		}
		if status == "in_progress" {
			what += " (in progress)"
		}
		open = append(open, oneLine(what, 240))
	}
	return open, ok
}

// bound limits a pool's size. It keeps the task, the newest half, and the most
// valuable of the rest.
func bound(pool []unit) []unit {
	if len(pool) <= maxPool {
		return pool
	}
	fresh := pool[len(pool)-maxPool/4:]
	old := slices.Clone(pool[:len(pool)-maxPool/4])
	slices.SortStableFunc(old, func(a, b unit) int {
		if a.task != b.task {
			if a.task {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.worth, a.worth), cmp.Compare(b.order, a.order))
	})
	out := append(old[:maxPool/4], fresh...)
	slices.SortStableFunc(out, inOrder)
	return out
}

func inOrder(a, b unit) int {
	return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.place, b.place))
}

// responseText returns a tool's response as text.
func responseText(r turns.Raw) string {
	if s, ok := r.Text(); ok {
		return s
	}
	if r.Kind() == '[' {
		var blocks []struct {
			Text string `json:"text"`
		}
		if turns.DecodeJSON(r, &blocks) == nil {
			var b strings.Builder
			for _, x := range blocks {
				b.WriteString(x.Text)
				b.WriteByte('\n')
			}
			return b.String()
		}
	}
	return flat(r)
}

func stringsOf(r turns.Raw) (out []string) {
	_ = turns.DecodeJSON(r, &out) // not a list of strings: out stays empty
	return out
}

// values returns the strings and numbers of JSON, a line each. The names of a tool's
// arguments are in its schema.
func values(r turns.Raw) string {
	var b strings.Builder
	d := jsontext.NewDecoder(strings.NewReader(string(r)), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	for {
		kind, n := d.StackIndex(d.StackDepth())
		t, err := d.ReadToken()
		if err != nil {
			break
		}
		isName := kind == '{' && n%2 == 0
		if k := t.Kind(); (k == '"' || k == '0') && !isName {
			b.WriteString(t.String())
			b.WriteByte('\n')
		}
	}
	if b.Len() == 0 {
		return flat(r)
	}
	return b.String()
}

// flat returns JSON as text with the escapes of its strings undone, so that words
// stand apart: {"a":"x\ny"} becomes {"a":"x y"}.
func flat(r turns.Raw) string {
	s := string(r)
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 'n', 'r', 't', 'b', 'f':
			b.WriteByte('\n')
		case 'u':
			i += writeEscaped(&b, s[i+1:])
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// writeEscaped writes the rune of four hexadecimal digits and returns how many bytes
// of s it read. It writes a space for half a surrogate pair.
func writeEscaped(b *strings.Builder, s string) int {
	if len(s) < 4 {
		return 0
	}
	code, err := strconv.ParseUint(s[:4], 16, 32)
	if err != nil {
		return 0
	}
	r := rune(code)
	if !utf8.ValidRune(r) {
		r = ' '
	}
	b.WriteRune(r)
	return 4
}

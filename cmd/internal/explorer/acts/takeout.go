package acts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nexus/cmd/internal/explorer/views"
	"nexus/cmd/internal/explorer/visit"
	"nexus/cmd/internal/prose"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// takeOutPage asks what is to be taken out of a session for ever, says what that reaches, and what was done.
type takeOutPage struct {
	views.Head
	Turn   turns.ID // whose parts may be taken out; zero: none is named
	Depth  uint64
	Of     turns.ID // the session that has the turn, if it is another one
	Parts  partList
	What   string // is to be taken out, as the form says: text, span, parts, turn, session
	Text   string
	Chosen []int // numbers of parts
	// As is what the preview read: the part that a span is taken out of, see [takeOutPage.spans], or the
	// sessions that are erased.
	As   string
	Gone bool // the part has nothing of the text any more

	Redacted *api.Redacted // a preview where it is a dry run
	Found    []foundEvent
	More     int               // events that are not listed
	Count    int               // markers
	Stores   []api.ErasedStore // of all sessions together

	// Of the form that erases the session: what is erased with it.
	Erased                *api.Receipt
	Agents, Forks, Events bool
	Ground                string
	Family                []relative
}

// foundEvent is an event in a list of those that have what is to be taken out.
type foundEvent struct {
	Session turns.ID
	api.RedactedEvent
}

func foundIn(session turns.ID, events []api.RedactedEvent) (out []foundEvent) {
	for _, e := range events {
		out = append(out, foundEvent{session, e})
	}
	return out
}

// What says what the event is.
func (e foundEvent) What() string {
	what := prose.EventKind(e.Kind)
	if e.Depth > 0 {
		what += fmt.Sprint(" ", e.Depth)
	}
	return what
}

// Where says where in the event it stands, "" if that is plain.
func (e foundEvent) Where() string {
	var out []string
	if len(e.Parts) > 0 {
		out = append(out, partsText(e.Parts))
	}
	if e.Rest && e.Kind == turns.KindTurn.String() {
		out = append(out, "meta")
	}
	if e.Stays > 0 {
		out = append(out, "it stays in a label, a name or an id")
	}
	return strings.Join(out, "; ")
}

// eventsListed is how many redacted events a page lists.
const eventsListed = 300

// mayErase refuses a login that may not take something out.
func mayErase(v *visit.Visit) (*client.Client, error) {
	if !v.Who.MayExport() {
		return nil, api.Errorf(api.Denied, nil, "only the operator takes something out for ever, with a login that may change")
	}
	return v.Client.For(v.Who.Tenant, api.Operator).Within(visit.Patience), nil
}

// names puts the turn on the page that something is to be taken out of.
func (p *takeOutPage) names(v *visit.Visit, turn turns.ID) (*api.Turn, error) {
	t, err := v.C.Turn(v.R.Context(), p.ID, turn)
	if err != nil {
		return nil, err
	}
	p.Turn, p.Depth = t.ID, t.Depth
	if t.Session != p.ID {
		p.Of = t.Session
	}
	p.Parts = partsOf(t, int(min(v.Number("p", 0), 1<<20)), visit.TurnURL(p.ID, turn)+"/takeout")
	return t, nil
}

// takeOut is the page that asks.
func takeOut(v *visit.Visit) error {
	if _, err := mayErase(v); err != nil {
		return err
	}
	s, turn, err := v.Place()
	if err != nil {
		return err
	}
	p := &takeOutPage{Head: views.HeadOf(v, s)}
	if !turn.IsZero() {
		if _, err := p.names(v, turn); err != nil {
			return err
		}
	}
	v.Render("takeout", "Take out for ever", "sessions", p)
	return nil
}

// doTakeOut says what the form would take out; a form that is sure takes it out. The text is in no address: its page is the answer to
// the form.
func doTakeOut(v *visit.Visit) error {
	c, err := mayErase(v)
	if err != nil {
		return err
	}
	if err := v.Parse(); err != nil {
		return err
	}
	f := v.R.PostForm
	session, err := turns.ParseID(f.Get("session"))
	if err != nil {
		return api.Errorf(api.Malformed, nil, "the form names no session")
	}
	s, err := v.C.Session(v.R.Context(), session)
	if err != nil {
		return err
	}
	p := &takeOutPage{Head: views.HeadOf(v, s), What: f.Get("what"), Text: textOf(f.Get("text"))}
	var t *api.Turn
	if turn, err := turns.ParseID(f.Get("turn")); err == nil && !turn.IsZero() {
		if t, err = p.names(v, turn); err != nil {
			return err
		}
	}
	r := api.RedactTurn{DryRun: f.Get("sure") == "", Ground: f.Get("ground")}
	r.ID, _ = turns.ParseID(f.Get("id")) // of a form that is sure: sent twice it is one act
	switch p.What {
	case "text":
		if r.Text = p.Text; r.Text == "" {
			return api.Errorf(api.Malformed, nil, "the form has no text")
		}
	case "parts", "turn", "span":
		if r.Turn = p.Turn; r.Turn.IsZero() {
			return api.Errorf(api.Malformed, nil, "the form names no turn")
		}
		if !p.Of.IsZero() {
			session = p.Of
		}
		if p.What == "parts" {
			if p.Chosen, err = numbers(f["part"]); err != nil {
				return err
			}
			r.Parts = p.Chosen
		}
		if p.What == "span" {
			if r.Spans, err = p.spans(v, t, r.DryRun); err != nil || p.Gone {
				return p.nothing(v, err)
			}
		}
	case "session":
		if err := p.erase(v, c); err != nil {
			return err
		}
		v.Render("takeout", "Take out for ever", "sessions", p)
		return nil
	default:
		return api.Errorf(api.Malformed, nil, "the form does not say what is to be taken out")
	}
	if p.Redacted, err = c.Redact(v.R.Context(), session, r); err != nil {
		return err
	}
	p.Stores = p.Redacted.Stores
	for _, x := range p.Redacted.Events {
		p.Count += x.Count
	}
	p.Found = foundIn(p.ID, p.Redacted.Events[:min(len(p.Redacted.Events), eventsListed)])
	p.More = len(p.Redacted.Events) - len(p.Found)
	v.Render("takeout", "Take out for ever", "sessions", p)
	return nil
}

// nothing shows that there is nothing to be taken out, or fails.
func (p *takeOutPage) nothing(v *visit.Visit, err error) error {
	if err == nil {
		v.Render("takeout", "Take out for ever", "sessions", p)
	}
	return err
}

// partsText is numbers of parts in words.
func partsText(ns []int) string {
	list := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ns)), ", "), "[]")
	if len(ns) == 1 {
		return "part " + list
	}
	return "parts " + list
}

// Choice is the parts that were chosen, in words.
func (p *takeOutPage) Choice() string { return partsText(p.Chosen) }

// textOf is the text of a field, in which a browser ends lines as HTTP does.
func textOf(field string) string { return strings.ReplaceAll(field, "\r\n", "\n") }

// numbers reads the numbers of parts that a form chose.
func numbers(list []string) (out []int, err error) {
	for _, s := range list {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return nil, api.Errorf(api.Malformed, nil, "the form names a part that is none: they are numbered from 1")
		}
		out = append(out, n)
	}
	if slices.Sort(out); len(out) == 0 {
		return nil, api.Errorf(api.Malformed, nil, "the form names no part: choose one at least")
	}
	return slices.Compact(out), nil
}

// Preview reports whether the page says what would be done.
func (p *takeOutPage) Preview() bool {
	return p.Redacted != nil && p.Redacted.DryRun || p.Erased != nil && p.Erased.DryRun
}

// Done reports whether something was taken out.
func (p *takeOutPage) Done() bool {
	return p.Redacted != nil && !p.Redacted.DryRun || p.Erased != nil && !p.Erased.DryRun
}

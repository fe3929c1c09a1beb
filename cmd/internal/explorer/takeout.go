package explorer

import (
	"strings"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// takeOutPage asks what is to be taken out of a session for ever, says what that reaches, and what was done.
type takeOutPage struct {
	head
	Turn  turns.ID // that all of may be taken out; zero: none is named
	Depth uint64
	Text  string // that is to be taken out
	Whole bool   // the session is to be erased

	Redacted *api.Redacted // a preview where it is a dry run
	Erased   *api.Receipt
	Stores   []api.ErasedStore
	Count    int // markers
}

// mayErase refuses a login that may not take something out.
func (v *visit) mayErase() (*client.Client, error) {
	if !v.who.MayExport() {
		return nil, api.Errorf(api.Denied, nil, "only the operator takes something out for ever, with a login that may change")
	}
	return v.Client.For(v.who.Tenant, api.Operator).Within(patience), nil
}

// takeOut is the page that asks.
func (v *visit) takeOut() error {
	if _, err := v.mayErase(); err != nil {
		return err
	}
	s, turn, err := v.place()
	if err != nil {
		return err
	}
	p := &takeOutPage{head: v.head(s), Turn: turn}
	if !turn.IsZero() {
		t, err := v.c.Turn(v.r.Context(), s.ID, turn)
		if err != nil {
			return err
		}
		p.Turn, p.Depth = t.ID, t.Depth
	}
	v.page("takeout", "Take out for ever", "sessions", p)
	return nil
}

// doTakeOut says what the form would take out; a form that is sure takes it out. The text is in no address: its page is the answer to
// the form.
func (v *visit) doTakeOut() error {
	c, err := v.mayErase()
	if err != nil {
		return err
	}
	if err := v.parse(); err != nil {
		return err
	}
	f := v.r.PostForm
	session, err := turns.ParseID(f.Get("session"))
	if err != nil {
		return api.Errorf(api.Malformed, nil, "the form names no session")
	}
	s, err := v.c.Session(v.r.Context(), session)
	if err != nil {
		return err
	}
	p := &takeOutPage{head: v.head(s), Text: strings.ReplaceAll(f.Get("text"), "\r\n", "\n"), Whole: f.Get("whole") != ""} // a browser ends lines so
	if p.Turn, _ = turns.ParseID(f.Get("turn")); !p.Turn.IsZero() {
		if t, err := v.c.Turn(v.r.Context(), session, p.Turn); err == nil {
			p.Depth = t.Depth
		}
	}
	sure := f.Get("sure") != ""
	if p.Whole {
		if p.Erased, err = c.Erase(v.r.Context(), session, api.EraseSession{DryRun: !sure, Ground: f.Get("ground")}); err == nil {
			p.Stores = p.Erased.Stores
		}
	} else {
		r := api.RedactTurn{Text: p.Text, DryRun: !sure, Ground: f.Get("ground")}
		if r.Text == "" {
			r.Turn = p.Turn
		}
		if p.Redacted, err = c.Redact(v.r.Context(), session, r); err == nil {
			p.Stores = p.Redacted.Stores
			for _, x := range p.Redacted.Events {
				p.Count += x.Count
			}
		}
	}
	if err != nil {
		return err
	}
	v.page("takeout", "Take out for ever", "sessions", p)
	return nil
}

// Preview reports whether the page says what would be done.
func (p *takeOutPage) Preview() bool {
	return p.Redacted != nil && p.Redacted.DryRun || p.Erased != nil && p.Erased.DryRun
}

// Done reports whether something was taken out.
func (p *takeOutPage) Done() bool {
	return p.Redacted != nil && !p.Redacted.DryRun || p.Erased != nil && !p.Erased.DryRun
}

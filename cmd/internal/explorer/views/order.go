package views

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"nexus/ledger/api"
	"nexus/turns"
)

// orderedMost is how many sessions a list may be of to be in the order of their newest turns. The ledger
// has them in the order in which they changed in it, and an import changes old ones, so all are
// read for a page. Of more, the list is in the ledger's order, and a page looks at so many of them.
const orderedMost = 2000

// sessionRead is how many sessions are read at a time.
const sessionRead = 500

// listPage is a page of the list of sessions. Invariant: before and after are not both set.
type listPage struct {
	looked  []api.Session  // those that were read for it
	shown   []*api.Session // of them, in the order of the page
	changed bool           // that order is the ledger's
	before  string         // where the next page begins in the order of newest turns
	after   string         // the same in the order of the ledger
}

// listed returns the page that begins at before or after.
func (v *visitor) listed(f *sessionFilter, before, after string) (*listPage, error) {
	who := v.Who.Tenant + "/" + v.Who.Agent
	if _, large := v.large.Load(who); large || after != "" {
		return v.byChange(f, after)
	}
	p := new(listPage)
	for next := ""; ; {
		list, err := v.sessionPage(f, next, sessionRead)
		if err != nil {
			return nil, err
		}
		p.looked = append(p.looked, list.Sessions...)
		if next = list.Next; next == "" {
			break
		}
		if len(p.looked) >= orderedMost {
			v.large.Store(who, true) // sessions become more, not fewer
			return v.byChange(f, "")
		}
	}
	p.order(f, before)
	return p, nil
}

// order puts the sessions on the page that a filter lets through and that come after a place.
func (p *listPage) order(f *sessionFilter, before string) {
	at, begins := parsePlace(before)
	for i := range p.looked {
		if s := &p.looked[i]; f.matches(s) && (!begins || at.compare(placeOf(s)) < 0) {
			p.shown = append(p.shown, s)
		}
	}
	slices.SortFunc(p.shown, func(a, b *api.Session) int { return placeOf(a).compare(placeOf(b)) })
	if len(p.shown) > sessionsShown {
		p.shown = p.shown[:sessionsShown]
		p.before = placeOf(p.shown[sessionsShown-1]).String()
	}
}

// byChange returns a page in the order of the ledger.
func (v *visitor) byChange(f *sessionFilter, after string) (*listPage, error) {
	p := &listPage{changed: true, after: after}
	for len(p.shown) < sessionsShown && len(p.looked) < orderedMost {
		list, err := v.sessionPage(f, p.after, sessionsShown)
		if err != nil {
			return nil, err
		}
		for i := range list.Sessions {
			if s := &list.Sessions[i]; f.matches(s) {
				p.shown = append(p.shown, s)
			}
		}
		p.looked = append(p.looked, list.Sessions...)
		if p.after = list.Next; p.after == "" {
			break
		}
	}
	return p, nil
}

func (v *visitor) sessionPage(f *sessionFilter, after string, limit int) (*api.SessionList, error) {
	return v.C.SessionPage(v.R.Context(), api.ListSessions{About: api.About{About: true}, Order: "updated", Hidden: f.Hidden != "", Page: api.Page{After: after, Limit: limit}})
}

// lastTurn is when the newest turn of a session was said, or a bound of it; of a session without one,
// when it changed.
func lastTurn(s *api.Session) time.Time {
	if s.HeadTime != nil {
		return time.Time(*s.HeadTime)
	}
	return time.Time(s.Updated)
}

// listPlace is the place of a session in the order of newest turns. Its text is in addresses: what is said
// meanwhile moves a session to an earlier page, and no other one.
type listPlace struct {
	at int64 // nanoseconds
	id turns.ID
}

func placeOf(s *api.Session) listPlace { return listPlace{lastTurn(s).UnixNano(), s.ID} }

// compare is negative if p comes before q.
func (p listPlace) compare(q listPlace) int {
	return cmp.Or(cmp.Compare(q.at, p.at), strings.Compare(q.id.String(), p.id.String()))
}

func (p listPlace) String() string { return strconv.FormatInt(p.at, 10) + "." + p.id.String() }

// parsePlace reads a place of an address.
func parsePlace(text string) (p listPlace, ok bool) {
	at, id, _ := strings.Cut(text, ".")
	var err, bad error
	p.at, err = strconv.ParseInt(at, 10, 64)
	p.id, bad = turns.ParseID(strings.ToUpper(id))
	return p, err == nil && bad == nil
}

// knowsCookie is of a browser that opened a session once.
const knowsCookie = "nexus-knows"

// isNew reports whether the visitor has not opened a session yet.
func (v *visitor) isNew() bool {
	_, err := v.R.Cookie(knowsCookie)
	return err != nil
}

// knows remembers that the visitor opened a session.
func (v *visitor) knows() {
	if v.isNew() {
		http.SetCookie(v.W, &http.Cookie{Name: knowsCookie, Value: "1", Path: "/ui/", MaxAge: 365 * 24 * 3600, SameSite: http.SameSiteStrictMode, HttpOnly: true, Secure: v.R.TLS != nil})
	}
}

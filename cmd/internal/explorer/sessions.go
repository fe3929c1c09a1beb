package explorer

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	pages "nexus/cmd/internal/page"
	"nexus/cmd/internal/prose"
	"nexus/ledger/api"
	"nexus/turns"
)

const (
	// sessionsShown is how many sessions a page lists, sessionsRead how many it looks at for
	// them: filters are applied here.
	sessionsShown = 100
	sessionsRead  = 2000
	// isLive is how long after its last turn a session counts as being worked in.
	isLive = 10 * time.Minute
)

// sessionRow is a session in a list.
type sessionRow struct {
	ID       turns.ID
	Title    string
	Label    string
	Agent    string
	Source   string
	Folder   string // its last two parts
	State    string
	Hidden   bool
	Tags     []string
	Turns    uint64
	Compact  uint64
	Tokens   uint64
	Budget   uint64
	Pressure float64
	Cost     string
	When     time.Time
	Ago      string
	Bound    string
	Live     bool
	Error    string
	Fork     *api.ForkedFrom
	Part     turns.ID // the session that it is a sub-agent of
	Depth    int      // in the list, below the session that it belongs to
}

// sessionFilter is what a list is narrowed to; its fields are those of the URL.
type sessionFilter struct {
	Agent, Project, Folder, State, Since, Title string
	Hidden                                      bool
	since                                       time.Time
}

type sessionsPage struct {
	Rows     []sessionRow
	Filter   sessionFilter
	Any      bool // a filter is set
	Agents   []string
	Folders  []string
	Projects []string
	Next     string // URL of the older ones
	First    bool
	Looked   int  // sessions that were looked at
	Partial  bool // there are more to look at
	Vanished bool // transcripts that vanished can be listed
	MayErase bool
}

func (v *visit) sessions() error {
	q := v.r.URL.Query()
	f := sessionFilter{Agent: q.Get("agent"), Project: q.Get("project"), Hidden: q.Get("hidden") != "", Folder: q.Get("folder"), State: q.Get("state"), Since: q.Get("since"), Title: q.Get("title")}
	if d, ok := map[string]time.Duration{"day": 24 * time.Hour, "week": 7 * 24 * time.Hour, "month": 30 * 24 * time.Hour}[f.Since]; ok {
		f.since = v.Now().Add(-d)
	}
	p := &sessionsPage{Vanished: v.Vanished != nil && v.who.Agent == api.Operator, MayErase: v.who.MayExport(), Filter: f, First: q.Get("after") == "", Any: f != sessionFilter{since: f.since}}
	agents, folders, projects := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	var shown []*api.Session // those of the rows
	after := q.Get("after")
	for len(p.Rows) < sessionsShown && p.Looked < sessionsRead {
		list, err := v.c.SessionPage(v.r.Context(), api.ListSessions{About: api.About{About: true}, Order: "updated", Hidden: f.Hidden, Page: api.Page{After: after, Limit: sessionsShown}})
		if err != nil {
			return err
		}
		for i := range list.Sessions {
			s := &list.Sessions[i]
			p.Looked++
			agents[s.Agent] = true
			if s.Project != "" {
				projects[s.Project] = true
			}
			if w := turns.WorkContextOf(s.Meta); w.Cwd != "" {
				folders[w.Cwd] = true
			}
			if f.matches(s) {
				p.Rows, shown = append(p.Rows, v.row(s)), append(shown, s)
			}
		}
		if after = list.Next; after == "" {
			break
		}
	}
	if after != "" {
		q.Set("after", after)
		p.Next, p.Partial = "/ui/?"+q.Encode(), true
	}
	v.addCosts(p.Rows, shown)
	// The service has them by their last change, and an import changes old ones.
	slices.SortStableFunc(p.Rows, func(a, b sessionRow) int { return b.When.Compare(a.When) })
	p.Rows = nested(p.Rows)
	for a := range agents {
		p.Agents = append(p.Agents, a)
	}
	for x := range folders {
		p.Folders = append(p.Folders, pages.Line(x, 200))
	}
	for x := range projects {
		p.Projects = append(p.Projects, pages.Line(x, 200))
	}
	slices.Sort(p.Projects)
	p.Projects = p.Projects[:min(len(p.Projects), 100)]
	slices.Sort(p.Agents)
	slices.Sort(p.Folders)
	p.Folders = p.Folders[:min(len(p.Folders), 100)]
	v.follows("sessions", "Sessions", "sessions", "all", p)
	return nil
}

func (f *sessionFilter) matches(s *api.Session) bool {
	w := turns.WorkContextOf(s.Meta)
	last := s.Updated
	if s.HeadTime != nil {
		last = *s.HeadTime
	}
	return (f.Agent == "" || s.Agent == f.Agent) && (f.State == "" || s.State == f.State) && (f.Folder == "" || w.IsIn(f.Folder)) && !time.Time(last).Before(f.since) &&
		(f.Project == "" || turns.ProjectOf(s.Meta).Has(s.Project, f.Project)) &&
		(f.Title == "" || strings.Contains(strings.ToLower(s.Title+" "+s.Label+" "+strings.Join(s.Tags, " ")), strings.ToLower(f.Title)))
}

// nested puts forks and sub-agents below the session that they belong to, where that is in the
// list too.
func nested(rows []sessionRow) (out []sessionRow) {
	at := make(map[turns.ID]bool)
	for i := range rows {
		at[rows[i].ID] = true
	}
	parent := func(r *sessionRow) turns.ID {
		if !r.Part.IsZero() && at[r.Part] {
			return r.Part
		}
		if r.Fork != nil && at[r.Fork.Session] {
			return r.Fork.Session
		}
		return turns.ID{}
	}
	below := make(map[turns.ID][]int)
	for i := range rows {
		below[parent(&rows[i])] = append(below[parent(&rows[i])], i)
	}
	done := make(map[turns.ID]bool)
	var add func(i, depth int)
	add = func(i, depth int) {
		if done[rows[i].ID] {
			return
		}
		done[rows[i].ID] = true
		r := rows[i]
		r.Depth = min(depth, 3)
		out = append(out, r)
		for _, k := range below[r.ID] {
			add(k, depth+1)
		}
	}
	for _, i := range below[turns.ID{}] {
		add(i, 0)
	}
	for i := range rows { // a ring, which clients can make
		add(i, 0)
	}
	return out
}

// row reads a session for a list.
func (v *visit) row(s *api.Session) sessionRow {
	w := turns.WorkContextOf(s.Meta)
	r := sessionRow{ID: s.ID, Title: pages.Title(s, 110), Label: pages.Line(s.Label, 60), Agent: s.Agent, Source: pages.Line(w.Source, 20), Folder: tail(pages.Line(w.Cwd, 200)), State: s.State,
		Turns: s.Turns, Compact: s.Compactions, Tokens: s.Tokens + s.Overhead, Budget: s.Budget, Pressure: s.Pressure, Fork: s.ForkedFrom}
	r.Hidden = s.Hidden
	for _, tag := range s.Tags[:min(len(s.Tags), 6)] {
		r.Tags = append(r.Tags, pages.Line(tag, 40))
	}
	if s.Reported > 0 {
		r.Tokens = s.Reported
	}
	if s.SpawnedBy != nil {
		r.Part = s.SpawnedBy.Session
	}
	if r.Label == r.Title {
		r.Label = ""
	}
	at := s.Updated
	if s.HeadTime != nil {
		at, r.Bound = *s.HeadTime, prose.Bound(s.HeadTimeBound)
	}
	r.When = time.Time(at)
	r.Ago = ago(v.Now(), r.When)
	r.Live = s.State == "open" && v.Now().Sub(time.Time(s.Updated)) < isLive && v.Now().Sub(r.When) < isLive
	if s.Error != "" {
		r.Error = prose.Unreadable("session", s.Error, s.MissingKey)
	}
	return r
}

// dollars is an amount for people. Each is by list prices, so none is certain.
func dollars(v float64, least bool) string {
	mark := "≈ "
	if least {
		mark = "≥ "
	}
	switch {
	case v == 0:
		return ""
	case v < 0.005:
		return "< $0.01"
	case v < 100:
		return mark + "$" + humanize.FormatFloat("#,###.##", v)
	}
	return mark + "$" + humanize.FormatFloat("#,###.", v)
}

// ago is how long before now a time is, in a few characters.
func ago(now, t time.Time) string {
	if !turns.IsTimeKnown(t) {
		return "unknown"
	}
	switch d := now.Sub(t); {
	case d < 0:
		return t.Local().Format("2006-01-02")
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return humanize.Comma(int64(d.Minutes())) + " min"
	case d < 24*time.Hour:
		return humanize.Comma(int64(d.Hours())) + " h"
	case d < 30*24*time.Hour:
		return humanize.Comma(int64(d.Hours()/24)) + " d"
	}
	return t.Local().Format("2 Jan 2006")
}

// tail is the last two parts of a path.
func tail(path string) string {
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' })
	if len(parts) <= 2 {
		return path
	}
	return "…/" + strings.Join(parts[len(parts)-2:], "/")
}

// link is a path of the explorer with a query.
func link(path string, kv ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(kv); i += 2 {
		if kv[i+1] != "" {
			q.Set(kv[i], kv[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// nameOf is what a session is called where there is room for little.
func nameOf(label string, id turns.ID) string { return cmp.Or(pages.Line(label, 40), prose.Short(id)) }

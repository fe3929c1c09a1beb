package views

import (
	"slices"
	"strings"
	"time"

	"nexus/cmd/internal/explorer/visit"
	pages "nexus/cmd/internal/page"
	"nexus/cmd/internal/prose"
	"nexus/ledger/api"
	"nexus/turns"
)

const (
	// sessionsShown is how many sessions a page lists.
	sessionsShown = 100
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
	// CostFailed is when the cost may be added up again, which failed; "": it did not.
	CostFailed string
	When       time.Time // of the newest turn
	Ago        string    // the same, or its bound, in a few characters
	Said       string    // the same in full
	Live       bool
	Error      string
	Fork       *api.ForkedFrom
	Part       turns.ID // the session that it is a sub-agent of
	Depth      int      // in the list, below the session that it belongs to
}

// sessionFilter is what a list is narrowed to; its fields are those of the URL.
type sessionFilter struct {
	Agent, Project, Folder, State, Since, Title string
	Hidden                                      string // "": those are left out; "only": no others; else they are listed too
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
	Newest   string // URL of the first page, of one that is not
	Looked   int    // sessions that were looked at
	Changed  bool   // the list is in the order of the ledger: see [orderedMost]
	Vanished bool   // transcripts that vanished can be listed
	MayErase bool
	Intro    bool // says what the page is for
	Priced   bool // a session has a cost
}

func (v *visitor) sessions() error {
	q := v.R.URL.Query()
	f := sessionFilter{Agent: q.Get("agent"), Project: q.Get("project"), Hidden: q.Get("hidden"), Folder: q.Get("folder"), State: q.Get("state"), Since: q.Get("since"), Title: q.Get("title")}
	if d, ok := map[string]time.Duration{"day": 24 * time.Hour, "week": 7 * 24 * time.Hour, "month": 30 * 24 * time.Hour}[f.Since]; ok {
		f.since = v.Now().Add(-d)
	}
	p := &sessionsPage{Vanished: v.vanished && v.Who.Agent == api.Operator, MayErase: v.Who.MayExport(), Filter: f, Any: f != sessionFilter{since: f.since}, Intro: v.isNew()}
	page, err := v.listed(&f, q.Get("before"), q.Get("after"))
	if err != nil {
		return err
	}
	agents, folders, projects := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for i := range page.looked {
		s := &page.looked[i]
		agents[s.Agent] = true
		if s.Project != "" {
			projects[s.Project] = true
		}
		if w := turns.WorkContextOf(s.Meta); w.Cwd != "" {
			folders[w.Cwd] = true
		}
	}
	for _, s := range page.shown {
		p.Rows = append(p.Rows, rowOf(v.Visit, s))
	}
	p.Looked, p.Changed = len(page.looked), page.changed
	first := q.Has("before") || q.Has("after")
	q.Del("before")
	q.Del("after")
	if first {
		p.Newest = strings.TrimSuffix("/ui/?"+q.Encode(), "?")
	}
	switch {
	case page.before != "":
		q.Set("before", page.before)
		p.Next = "/ui/?" + q.Encode()
	case page.after != "":
		q.Set("after", page.after)
		p.Next = "/ui/?" + q.Encode()
	}
	v.addCosts(p.Rows, page.shown)
	p.Priced = slices.ContainsFunc(p.Rows, func(r sessionRow) bool { return r.Cost != "" })
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
	v.RenderLive("sessions", "Sessions", "sessions", "all", p)
	return nil
}

func (f *sessionFilter) matches(s *api.Session) bool {
	w := turns.WorkContextOf(s.Meta)
	return (f.Agent == "" || s.Agent == f.Agent) && (f.State == "" || s.State == f.State) && (f.Folder == "" || w.IsIn(f.Folder)) && !lastTurn(s).Before(f.since) && (f.Hidden != "only" || s.Hidden) &&
		(f.Project == "" || turns.ProjectOf(s.Meta).Has(s.Project, f.Project)) &&
		(f.Title == "" || strings.Contains(strings.ToLower(s.Title+" "+s.Label+" "+strings.Join(s.Tags, " ")), strings.ToLower(f.Title)))
}

// addCosts gives rows the costs of their sessions.
func (v *visitor) addCosts(rows []sessionRow, of []*api.Session) {
	v.costs.AddUp(v.Visit, of)
	for i, s := range of {
		rows[i].Cost = v.costs.Money(s)
		if again := v.costs.Failed(s); !again.IsZero() {
			rows[i].CostFailed = again.Local().Format("15:04:05")
		}
	}
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

// rowOf reads a session for a list.
func rowOf(v *visit.Visit, s *api.Session) sessionRow {
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
	r.When = lastTurn(s)
	r.Ago, r.Said = saidAt(v.Now(), r.When, s.HeadTimeBound)
	r.Live = s.State == "open" && v.Now().Sub(time.Time(s.Updated)) < isLive && v.Now().Sub(r.When) < isLive
	if s.Error != "" {
		r.Error = prose.Unreadable("session", s.Error, s.MissingKey)
	}
	return r
}

// saidAt is when the newest turn of a session was said, in a few characters and in full. Of a bound the
// day is enough.
func saidAt(now, t time.Time, bound turns.TimeBound) (short, full string) {
	day, full := t.Local().Format("2 Jan 2006"), t.Local().Format("2006-01-02 15:04")
	switch {
	case !turns.IsTimeKnown(t):
		return "–", "the transcript does not say when"
	case bound == turns.TimeNotBefore:
		return "after " + day, "not before " + full + "; the transcript does not say when"
	case bound == turns.TimeNotAfter:
		return "by " + day, "not after " + full + "; the transcript does not say when"
	}
	return visit.Ago(now, t), full
}

// tail is the last two parts of a path.
func tail(path string) string {
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' })
	if len(parts) <= 2 {
		return path
	}
	return "…/" + strings.Join(parts[len(parts)-2:], "/")
}

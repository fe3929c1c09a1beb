package views

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"nexus/cmd/internal/cost"
	"nexus/cmd/internal/explorer/costs"
	"nexus/cmd/internal/explorer/visit"
	"nexus/cmd/internal/highlight"
	pages "nexus/cmd/internal/page"
	"nexus/cmd/internal/prose"
	"nexus/ledger/api"
	"nexus/turns"
)

const (
	// window is how many turns a page of a session shows.
	window = 40
	// before and after are the turns that are read beside it: for the calls of its first
	// results, and the results of its last calls.
	readBefore, readAfter = 1, 3
	// partsShown is how many sub-agents are listed.
	partsShown = 30
)

// Head is what every page of a session shows of it.
type Head struct {
	sessionRow
	Session   *api.Session
	Model     string
	Folder    string
	Branch    string
	Created   time.Time
	Usage     turns.Usage
	MayChange bool
	MayExport bool // the events, with the keys of their content
	MayProve  bool
	Successor turns.ID
	Command   string // that continues it on a terminal
}

// HeadOf reads what the pages of a session show of it.
func HeadOf(v *visit.Visit, s *api.Session) Head {
	w := turns.WorkContextOf(s.Meta)
	return Head{sessionRow: rowOf(v, s), Session: s, Model: pages.Line(s.Model, 60), Folder: pages.Line(w.Cwd, 200), Branch: pages.Line(w.Branch, 80), Created: time.Time(s.Created), Usage: s.Usage,
		MayChange: v.Who.MayChange(s.Agent) && s.Error == "", MayExport: v.Who.MayExport(), MayProve: v.MayProve() == nil, Successor: s.Successor, Command: "ledgerctl continue " + prose.Short(s.ID) + " --in claude"}
}

// TurnRow is a turn in a list.
type TurnRow struct {
	*pages.Entry
	Turn    turns.ID
	Session turns.ID // that the page is of
	Asked   []piece
	Answer  []piece
	More    int // pieces that are not shown
	Used    string
	Cost    string
	K       *api.Compaction
	Saved   uint64
	Share   float64 // of the context that is left after it
	Forks   []forkRow
	Note    string // of a person
	Step    bool   // it begins with results, not with a person's words
	Full    bool   // it is on a page of its own

	colours *highlight.Page
	url     string
}

// piece is a block of a turn, and where its whole content is.
type piece struct {
	*pages.Block
	URL     string // of the block
	Turn    string // of its turn's page
	Lines   []diffLine
	Inline  bool // its content is on the page
	Limit   int  // bytes of its text that are
	Full    bool
	Picture string // URL

	colours *highlight.Page
}

// Markdown is the HTML of a piece that a model wrote as Markdown, "" if it is to be shown as it stands.
func (p piece) Markdown() template.HTML { return pages.MarkdownWith(p.Text, p.colours.Code) }

// Beginning is that of its first n bytes.
func (p piece) Beginning(n int) template.HTML {
	return pages.MarkdownWith(pages.Prose{Text: visit.Clip(p.Text.Text, n)}, p.colours.Code)
}

type forkRow struct {
	ID   turns.ID
	Name string
}

type sessionPage struct {
	Head
	Rows     []TurnRow
	From, To uint64
	Prev     string // URLs of the windows beside this one
	Next     string
	Last     string
	Prompts  []promptRow
	Lanes    *lanes
	Marks    []markRow // the compactions in force, newest first
	// MarksMore says that there are more of them.
	MarksMore bool
	Parts     []sessionRow
	Masked    int
	Unread    string
	Begins    uint64 // the turn of its parent that a fork begins behind; 0: it is none
	OwnTitle  string // that a person gave it
	CostURL   string
	Adding    bool   // its cost is being added up, and none of before is known
	Short     bool   // a further page: without what the first says of the session
	Counted   string // what the turns are, where some are none of its own
	Made      *made  // it is a fork that was made just now
	Tags      string // with commas
}

// made is what is to be known of a new fork.
type made struct {
	From  turns.ID // the session that it is a fork of
	Depth uint64   // of the last turn that it has from there; 0: not known
	Calls uint64   // of that turn: their results are not in the fork
}

// madeOf says what a session is that was forked just now, and ends on a page of rows; nil: it is none.
func (p *sessionPage) madeOf() *made {
	if p.Fork == nil {
		return nil
	}
	m := &made{From: p.Fork.Session, Depth: p.Begins}
	if n := len(p.Rows); n > 0 && p.To == p.Session.Depth {
		for _, b := range p.Rows[n-1].Entry.Answer {
			if b.Kind == "call" && b.Result == nil {
				m.Calls++
			}
		}
	}
	return m
}

// counted says what the turns of a path are, where they are not the session's own turns alone; "": they are, or it is not known.
func (p *sessionPage) counted() string {
	switch {
	case p.Begins > 0:
		return prose.Grouped(p.Begins) + " of them from before the fork"
	case p.Compact > 0 && p.Turns+p.Compact == p.Session.Depth:
		return fmt.Sprintf("%s and %s", prose.Plural(p.Turns, "turn"), prose.Plural(p.Compact, "compaction"))
	}
	return ""
}

// markRow is a compaction in a list.
type markRow struct {
	ID            turns.ID
	Depth         uint64
	Before, After uint64 // tokens
}

// marksShown is how many compactions a session's page lists.
const marksShown = 20

type promptRow struct {
	Depth uint64
	Text  string
}

func (v *visitor) session() error {
	s, _, err := v.Place()
	if err != nil {
		return err
	}
	v.knows()
	base := "/ui/s/" + s.ID.String()
	if n := min(v.Number("turn", 0), s.Depth); n > 0 { // the form that goes to a turn
		return v.SeeOther(fmt.Sprintf("%s?from=%d#t%d", base, around(n), n))
	}
	p := &sessionPage{Head: HeadOf(v.Visit, s), Tags: strings.Join(s.Tags, ", ")}
	from, last := max(v.Number("from", 1), 1), v.R.URL.Query().Get("from") == "last"
	if last {
		from = max(s.Depth, window) - window + 1
	}
	if s.Depth > 0 && from > s.Depth {
		from = s.Depth
	}
	if p.Short = from > 1 && !last; !p.Short { // what shows the cost
		p.Cost = v.costs.Of(v.Visit, s)
		p.Adding = p.Cost == "" && v.costs.IsAddingUp(s)
		if again := v.costs.Failed(s); !again.IsZero() {
			p.CostFailed = again.Local().Format("15:04:05")
		}
	}
	if p.MayChange {
		if p.OwnTitle, err = v.ownTitle(s); err != nil {
			return err
		}
	}
	p.From, p.To = from, min(from+window-1, s.Depth)
	if from > 1 {
		p.Prev = fmt.Sprintf("%s?from=%d", base, max(from, window+1)-window)
	}
	if p.To < s.Depth {
		p.Next, p.Last = fmt.Sprintf("%s?from=%d", base, p.To+1), base+"?from=last"
	}
	tree, err := v.treeOf(s)
	if err != nil {
		return err
	}
	if s.Depth > 0 {
		if p.Rows, p.Masked, err = Turns(v.Visit, s, from, p.To, forksOf(tree)); err != nil {
			return err
		}
	}
	for i := range p.Rows {
		for _, b := range p.Rows[i].Asked {
			if b.Kind == "person" {
				p.Prompts = append(p.Prompts, promptRow{p.Rows[i].Depth, pages.Line(b.Text.Text, 90)})
				break
			}
		}
	}
	if p.Marks, p.MarksMore, err = v.marks(s); err != nil {
		return err
	}
	for i := range tree.Sessions {
		if tree.Sessions[i].ID == s.ID {
			p.Begins = tree.Sessions[i].ForkDepth
		}
	}
	p.CostURL, p.Counted = costs.URLOf(s.ID), p.counted()
	if v.R.URL.Query().Has("forked") {
		p.Made = p.madeOf()
	}
	p.Lanes = draw(tree, s.ID, p.From, p.To)
	if p.Parts, err = v.parts(s); err != nil {
		return err
	}
	v.RenderLive("session", p.Title, "sessions", s.ID.String(), p)
	return nil
}

// treeOf is the first page of a session's tree of forks.
func (v *visitor) treeOf(s *api.Session) (*api.Tree, error) {
	return v.C.TreePage(v.R.Context(), s.ID, api.GetTree{Page: api.Page{Limit: 100}})
}

// marks lists the compactions in force, newest first.
func (v *visitor) marks(s *api.Session) (out []markRow, more bool, err error) {
	for t, err := range v.C.ListCompactions(v.R.Context(), s.ID, api.ListCompactions{Outline: true, Page: api.Page{Limit: marksShown + 1}}) {
		if err != nil {
			return nil, false, err
		}
		if len(out) == marksShown {
			return out, true, nil
		}
		if k := t.Compaction; k != nil {
			out = append(out, markRow{t.ID, t.Depth, k.TokensBefore, k.TokensAfter})
		}
	}
	return out, false, nil
}

func forksOf(t *api.Tree) map[turns.ID][]api.TreeSession {
	out := make(map[turns.ID][]api.TreeSession)
	for _, s := range t.Sessions {
		if s.ForkedFrom != nil {
			out[s.ForkedFrom.Turn] = append(out[s.ForkedFrom.Turn], s)
		}
	}
	return out
}

// parts lists the sub-agents of a session, the first ones by their ids.
func (v *visitor) parts(s *api.Session) (out []sessionRow, err error) {
	list, err := v.C.SessionPage(v.R.Context(), api.ListSessions{About: api.About{About: true}, SpawnedBy: []turns.ID{s.ID}, Page: api.Page{Limit: partsShown}})
	if err != nil {
		return nil, err
	}
	for i := range list.Sessions {
		out = append(out, rowOf(v.Visit, &list.Sessions[i]))
	}
	return out, nil
}

// listTurns reads the turns of a path at depths [from, to].
func listTurns(v *visit.Visit, s *api.Session, from, to uint64) (out []api.Turn, err error) {
	for t, err := range v.C.Turns(v.R.Context(), s.ID, api.ListTurns{From: from, Full: true, Page: api.Page{Limit: int(to - from + 1)}}) {
		if err != nil {
			return nil, err
		}
		if t.Depth > to {
			break
		}
		if out = append(out, t); t.Depth == to {
			break
		}
	}
	return out, nil
}

// Turns reads the turns of a path at depths [from, to] for a page, and how many credentials are masked in
// them. forks are the sessions that begin behind a turn; nil: none is shown.
func Turns(v *visit.Visit, s *api.Session, from, to uint64, forks map[turns.ID][]api.TreeSession) (out []TurnRow, masked int, err error) {
	ts, err := listTurns(v, s, max(from, readBefore+1)-readBefore, min(to+readAfter, s.Depth))
	if err != nil {
		return nil, 0, err
	}
	entries, masked, err := pages.Entries(s, ts, pages.Options{})
	if err != nil {
		return nil, 0, err
	}
	for i, e := range entries {
		if ts[i].Depth < from || ts[i].Depth > to {
			continue
		}
		r := turnRowOf(v, s, &ts[i], e)
		for _, f := range forks[ts[i].ID] {
			if f.ID == s.ID {
				continue
			}
			r.Forks = append(r.Forks, forkRow{f.ID, visit.NameOf(f.Label, f.ID)})
		}
		out = append(out, r)
	}
	return out, masked, nil
}

// turnRowOf makes a row of a turn.
func turnRowOf(v *visit.Visit, s *api.Session, t *api.Turn, e *pages.Entry) TurnRow {
	r := TurnRow{Entry: e, Turn: t.ID, Session: s.ID, K: t.Compaction, colours: v.Colours, url: "/ui/s/" + s.ID.String() + "/t/" + t.ID.String()}
	if t.Note != nil {
		r.Note = pages.Line(t.Note.Text, 2000)
	}
	r.Fit(visit.Sizes[0])
	r.Step = !slices.ContainsFunc(e.Asked, func(b *pages.Block) bool { return b.Kind == "person" })
	if u := t.Usage; u != nil {
		r.Used = pages.Count(u.InputTokens) + " in · " + pages.Count(u.OutputTokens) + " out"
	}
	if a := cost.OfTurn(s, t, v.Models); a.Calls > 0 {
		r.Cost = costs.MoneyOf(&a)
	}
	if k := t.Compaction; k != nil {
		r.Saved = k.TokensBefore - min(k.TokensBefore, k.TokensAfter)
		r.Share = float64(k.TokensAfter) / float64(max(k.TokensBefore, k.TokensAfter, 1))
	}
	return r
}

// fit puts as much of the turn in the row as z says.
func (r *TurnRow) Fit(z visit.Size) {
	left := z.Pieces
	r.More = 0
	add := func(bs []*pages.Block, half string) (out []piece) {
		for i, b := range bs {
			if left == 0 {
				r.More += len(bs) - i
				break
			}
			left--
			p := pieceOf(b, r.url, fmt.Sprint(half, i), r.colours)
			p.Limit, p.Inline = z.Text, p.bytes() <= z.Inline
			out = append(out, p)
		}
		return out
	}
	r.Asked, r.Answer = add(r.Entry.Asked, "a"), add(r.Entry.Answer, "r")
}

func (p *sessionPage) Fit(z visit.Size) {
	for i := range p.Rows {
		p.Rows[i].Fit(z)
	}
}

func pieceOf(b *pages.Block, url, n string, colours *highlight.Page) piece {
	p := piece{Block: b, colours: colours, URL: url + "/b/" + n, Turn: url + "#" + n, Lines: editOf(b)}
	if b.Image != "" || b.Result != nil && b.Result.Image != "" {
		p.Picture = url + "/i/" + n
	}
	return p
}

// bytes is how much text a piece has.
func (p *piece) bytes() (n int) {
	n = len(p.Text.Text)
	for _, f := range p.Fields {
		n += len(f.Text.Text)
	}
	if p.Result != nil {
		n += len(p.Result.Text.Text)
	}
	return n
}

// diffLine is a line of an edit.
type diffLine struct {
	Sign string // "+", "-", " "
	Text string
}

// editOf reads the call of an editing tool as lines: those that both texts begin and end with are
// context.
func editOf(b *pages.Block) (out []diffLine) {
	if b.Kind != "call" {
		return nil
	}
	var was, is string
	found := 0
	for _, f := range b.Fields {
		switch f.Name {
		case "old_string", "old_str", "oldText", "old_text":
			was, found = f.Text.Text, found+1
		case "new_string", "new_str", "newText", "new_text":
			is, found = f.Text.Text, found+1
		}
	}
	if found != 2 {
		return nil
	}
	a, z := strings.Split(was, "\n"), strings.Split(is, "\n")
	first := 0
	for first < min(len(a), len(z)) && a[first] == z[first] {
		first++
	}
	last := 0
	for last < min(len(a), len(z))-first && a[len(a)-1-last] == z[len(z)-1-last] {
		last++
	}
	const around = 3
	add := func(sign string, lines []string) {
		for _, l := range lines {
			out = append(out, diffLine{sign, l})
		}
	}
	add(" ", a[max(0, first-around):first])
	add("-", a[first:len(a)-last])
	add("+", z[first:len(z)-last])
	add(" ", a[len(a)-last:][:min(last, around)])
	return out
}

// Signs returns how many lines an edit adds and takes away.
func (p piece) Signs() (out string) {
	plus, minus := 0, 0
	for _, l := range p.Lines {
		switch l.Sign {
		case "+":
			plus++
		case "-":
			minus++
		}
	}
	return fmt.Sprintf("+%d −%d", plus, minus)
}

// Shown is how many bytes of its text the page shows.
func (p piece) Shown() int {
	if p.Full {
		return pages.MaxPart
	}
	return p.Limit
}

// Fits reports whether the page shows its whole text.
func (p piece) Fits() bool { return p.Full || len(p.Text.Text) <= p.Limit }

// Said is how a call went, in a few words.
func (p piece) Said() string {
	switch r := p.Result; {
	case len(p.Lines) > 0 && (r == nil || !r.Failed):
		return p.Signs()
	case r == nil:
		return "no result"
	case r.Failed:
		return "failed · " + prose.Plural(uint64(r.Text.Lines), "line")
	case strings.TrimSpace(r.Text.Text) == "" && p.Picture != "":
		return "picture"
	default:
		return prose.Plural(uint64(r.Text.Lines), "line")
	}
}

// About is how a compaction came about.
func (r *TurnRow) About() string {
	k := r.K
	parts := []string{k.Trigger.Kind, cmp.Or(k.Tier, k.Provenance), pages.Line(k.Model, 40)}
	if k.DurationMS > 0 {
		parts = append(parts, fmt.Sprintf("%.1f s", float64(k.DurationMS)/1000))
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}

// ownTitle returns the title that a person gave a session, for the form that changes it: without
// about, a session has no other.
func (v *visitor) ownTitle(s *api.Session) (string, error) {
	plain, err := v.C.Session(v.R.Context(), s.ID)
	if err != nil {
		return "", err
	}
	return plain.Title, nil
}

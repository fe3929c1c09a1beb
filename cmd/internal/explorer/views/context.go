package views

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"nexus/cmd/internal/explorer/visit"
	"nexus/cmd/internal/kinds"
	pages "nexus/cmd/internal/page"
	"nexus/cmd/internal/prose"
	"nexus/ledger/api"
	"nexus/turns"
)

const (
	// contextRows is how many pieces of a context a page lists.
	contextRows = 120
	// contextTurns is of how many turns a page builds a context: that takes some 15 MiB of memory.
	contextTurns = 1000
)

type contextPage struct {
	Head
	Turn     *api.Turn
	Back     string
	Used     uint64
	Ours     uint64
	Budget   uint64
	Share    float64
	Guessed  bool
	Model    string // that answered, or the call before
	Window   uint64 // of that model; 0: it is not in the table
	Answered bool
	Uncount  uint64 // tokens beyond the estimate
	Recorded string
	Print    string // fingerprint
	Bar      *gauge
	Rows     []contextRow
	From, To int
	All      int
	Prev     string
	Next     string
	Preamble []api.PreamblePart
	Since    *since
	Built    *built
	Price    string
	Usage    *turns.Usage
	TooMany  uint64 // turns that no compaction covers, of a context that no page builds; 0: it was built
}

// gauge is a bar of the kinds of content of a context.
type gauge struct {
	Segments []segment
	Legend   []legendRow
	Room     string // where the room begins; "": there is none
	RoomSize uint64
	Over     uint64
}

type segment struct {
	Kind kinds.Look
	X, W string
}

type legendRow struct {
	Kind   kinds.Look
	Tokens uint64
	Share  string
	Turns  int
}

type contextRow struct {
	Kind    kinds.Look
	Status  string
	URL     string
	Depth   string
	Half    string
	Tokens  uint64
	Text    string
	Why     string
	New     bool // since the call before
	Differs bool // the first that is not as it was
}

// built is the context that a policy makes of the same turns, beside what was recorded.
type built struct {
	Same bool
	Used uint64 // tokens
	Bar  *gauge
	Rows []builtRow // where the two differ
	More int        // rows that are not listed
	// Preamble says that the system part or the tools differ.
	Preamble bool
	Policy   string
	Budget   uint64   // 0: the policy's
	Names    []string // of policies
	Err      string
	Unasked  int // pieces of a context that is built only if somebody asks; 0: it was built
}

// builtRow is a half turn that the two contexts show in different ways. A status is "" where a
// context lacks it.
type builtRow struct {
	URL, Depth, Half string
	Was, Is          string
	WasTokens        uint64
	IsTokens         uint64
	turn             turns.ID
}

const (
	// builtRows is how many differences a page lists.
	builtRows = 40
	// builtMost is the largest context, in pieces, that is built anew unasked.
	builtMost = 400
)

// builtNow makes the context anew that a call was given: that of its turn without what the call
// answered. A compaction answered nothing: its summary is part of it.
func (v *visitor) builtNow(s *api.Session, t *api.Turn, was *api.Context, old []contextPiece, window uint64) *built {
	b := &built{Policy: s.Policy.Name, Budget: v.Number("budget", 0)}
	r := api.GetContext{At: t.ID, Explain: true, Budget: b.Budget}
	if name := v.R.URL.Query().Get("policy"); name != "" && name != b.Policy {
		b.Policy, r.Policy = pages.Line(name, 60), &api.Policy{Name: name}
	}
	if list, err := v.C.Policies(v.R.Context()); err == nil {
		for _, x := range list {
			if !slices.Contains(b.Names, x.Name) {
				b.Names = append(b.Names, x.Name)
			}
		}
	}
	if !slices.Contains(b.Names, s.Policy.Name) {
		b.Names = append(b.Names, s.Policy.Name)
	}
	if window > 0 && b.Budget == 0 {
		r.Budget = was.Budget
	}
	if len(old) > builtMost && !v.R.URL.Query().Has("policy") {
		b.Unasked = len(old)
		return b
	}
	cx, err := v.C.Context(v.R.Context(), s.ID, r)
	if err != nil {
		b.Err = api.FromError(err).Message
		return b
	}
	now := piecesOf(cx)
	cx.Sources, cx.Messages = nil, nil
	for _, x := range now {
		if x.Turn == t.ID && x.Half != "messages" && t.Compaction == nil {
			cx.Tokens -= min(cx.Tokens, x.Tokens)
			continue
		}
		cx.Sources, cx.Messages = append(cx.Sources, x.Source), append(cx.Messages, x.messages...)
	}
	cx.Reported = 0
	b.Used, b.Bar = cx.Tokens+cx.Overhead, gaugeOf(cx)
	b.compare(s, old, piecesOf(cx))
	b.Preamble = !bytes.Equal(cx.System, was.System) || !equalRaw(cx.Tools, was.Tools)
	b.Same = len(b.Rows) == 0 && !b.Preamble
	return b
}

// compare lists where two contexts of a session show a half turn in different ways.
func (b *built) compare(s *api.Session, old, now []contextPiece) {
	same := 0 // what both begin with is not looked at once more
	for same < min(len(old), len(now)) && old[same].Turn == now[same].Turn && old[same].Half == now[same].Half && old[same].Status == now[same].Status && equalRaw(old[same].messages, now[same].messages) {
		same++
	}
	type place struct {
		turn turns.ID
		half string
	}
	type shown struct {
		status   string
		tokens   uint64
		messages []turns.Raw
	}
	places := make(map[place]*[2]shown)
	var order []place
	for side, list := range [][]contextPiece{old[same:], now[same:]} {
		for i := range list {
			x := &list[i]
			k := place{x.Turn, x.Half}
			if places[k] == nil {
				places[k], order = new([2]shown), append(order, k)
			}
			p := &places[k][side]
			p.status, p.tokens, p.messages = x.Status, p.tokens+x.Tokens, append(p.messages[:len(p.messages):len(p.messages)], x.messages...)
		}
	}
	for _, k := range order {
		was, is := &places[k][0], &places[k][1]
		if was.status == is.status && equalRaw(was.messages, is.messages) {
			continue
		}
		if len(b.Rows) == builtRows {
			b.More++
			continue
		}
		r := builtRow{Half: k.half, turn: k.turn, Was: was.status, WasTokens: was.tokens, Is: is.status, IsTokens: is.tokens}
		if !k.turn.IsZero() {
			r.URL, r.Depth = visit.TurnURL(s.ID, k.turn), prose.Short(k.turn)
		}
		b.Rows = append(b.Rows, r)
	}
}

// since is what changed from the context of the call before, and what that did to its cache.
type since struct {
	Call     string // URL of the context of that call
	Model    string
	Depth    uint64
	Prefix   uint64 // tokens, from the beginning, that are as they were
	Before   uint64 // tokens of that context
	Lost     uint64 // tokens behind that, of which a cache is of no use
	Anew     uint64 // tokens behind that of this context, which a cache does not have
	Reason   string
	Money    string
	Read     uint64 // what the provider says that it read from its cache
	Told     bool
	Missed   uint64 // tokens that were as before and were not read from the cache
	MissedBy string
}

// contextPiece is what a context shows of one source.
type contextPiece struct {
	api.Source
	messages []turns.Raw
}

func piecesOf(cx *api.Context) []contextPiece {
	out, next := make([]contextPiece, 0, len(cx.Sources)), 0
	for _, s := range cx.Sources {
		n := int(min(s.Messages, uint64(len(cx.Messages)-next)))
		out = append(out, contextPiece{s, cx.Messages[next : next+n]})
		next += n
	}
	return out
}

// context shows what the model read for the call of a turn.
func (v *visitor) context() error {
	s, id, err := v.Place()
	if err != nil {
		return err
	}
	t, err := v.C.Turn(v.R.Context(), s.ID, id)
	if err != nil {
		return err
	}
	n, err := v.uncovered(s, t)
	if err != nil {
		return err
	}
	if n > contextTurns {
		v.Render("context", fmt.Sprintf("Context of turn %d", t.Depth), "sessions", &contextPage{Head: HeadOf(v.Visit, s), Turn: t, Back: visit.TurnURL(s.ID, id), TooMany: n})
		return nil
	}
	prior, err := v.callBefore(s, t)
	if err != nil {
		return err
	}
	var was *api.Context // read first: the engine goes on from its path for that of the later call
	if prior != nil {
		if was, err = v.contextBefore(s, prior.ID); err != nil {
			return err
		}
	}
	cx, err := v.contextBefore(s, id)
	if err != nil {
		return err
	}
	all := piecesOf(cx)
	since, same := v.since(s, t, cx, all, prior, was)
	model := t.Model
	if model == "" && since != nil {
		model = since.Model
	}
	window := v.windowOf(s, cx, model)
	p := &contextPage{Head: HeadOf(v.Visit, s), Turn: t, Since: since, Model: pages.Line(model, 60), Window: window, Answered: t.Response != nil, Back: visit.TurnURL(s.ID, id), Used: cx.Tokens + cx.Overhead, Ours: cx.Tokens + cx.Overhead, Budget: cx.Budget, Guessed: cx.WindowGuess, Recorded: cx.Recorded,
		Print: cx.Fingerprint, Preamble: cx.Preamble, Usage: t.Usage}
	if cx.Reported > 0 {
		p.Used = cx.Reported
	}
	p.Share = float64(p.Used) / float64(max(p.Budget, 1))
	p.Bar = gaugeOf(cx)
	p.Uncount = cx.Reported - min(cx.Reported, cx.Tokens+cx.Overhead)
	p.Built = v.builtNow(s, t, cx, all, window)
	p.All = len(all)
	from := int(min(v.Number("p", uint64(max(0, len(all)-contextRows))), uint64(max(0, len(all)-1))))
	to := min(from+contextRows, len(all))
	p.From, p.To = from+1, to
	base := fmt.Sprintf("/ui/s/%s/x/%s", s.ID, id)
	if from > 0 {
		p.Prev = fmt.Sprintf("%s?p=%d", base, max(0, from-contextRows))
	}
	if to < len(all) {
		p.Next = fmt.Sprintf("%s?p=%d", base, to)
	}
	depths := v.depths(s, all[from:to])
	for i := range p.Built.Rows {
		if r := &p.Built.Rows[i]; depths[r.turn] > 0 {
			r.Depth = fmt.Sprint(depths[r.turn])
		}
	}
	for i := from; i < to; i++ {
		x := &all[i]
		r := contextRow{Kind: kinds.Of(x.Status).Look(), Status: x.Status, Half: x.Half, Tokens: x.Tokens, Why: pages.Line(x.Why, 200), Text: beginning(x.messages), Differs: i == same, New: same >= 0 && i > same}
		if x.Status == "summary" {
			r.Half = "of many"
		}
		if !x.Turn.IsZero() {
			r.URL, r.Depth = visit.TurnURL(s.ID, x.Turn), prose.Short(x.Turn)
			if x.Status == "summary" {
				r.URL = fmt.Sprintf("/ui/s/%s/c/%s", s.ID, x.Turn)
			}
			if n := depths[x.Turn]; n > 0 {
				r.Depth = fmt.Sprint(n)
			}
		}
		p.Rows = append(p.Rows, r)
	}
	v.Render("context", fmt.Sprintf("Context of turn %d", t.Depth), "sessions", p)
	return nil
}

// uncovered returns how many turns a model would have read for a turn, of a session that has more than a page
// builds a context of: those behind what the newest compaction before it covers. 0: of a shorter session.
func (v *visitor) uncovered(s *api.Session, t *api.Turn) (uint64, error) {
	if t.Depth <= contextTurns {
		return 0, nil
	}
	// Those before it cover turns too, and a list of all of them would be read for each page.
	r := api.ListCompactions{At: t.ID, Outline: true, Page: api.Page{Limit: 2}}
	for k, err := range v.C.ListCompactions(v.R.Context(), s.ID, r) {
		if err != nil {
			return 0, err
		}
		if k.Compaction == nil || k.Compaction.Through == nil {
			continue
		}
		through, err := v.C.Turn(v.R.Context(), s.ID, *k.Compaction.Through)
		if err != nil {
			return 0, err
		}
		return t.Depth - min(t.Depth, through.Depth), nil
	}
	return t.Depth, nil
}

// windowOf returns the window of the model that a context is for, and bounds the context by it; 0: the
// context keeps its bound. That of a recipe is what the call was made with. Else it is of the session:
// what it states, or that of its model, which a transcript seldom names, or a guess. The turns of
// transcripts name theirs.
func (v *visitor) windowOf(s *api.Session, cx *api.Context, model string) uint64 {
	m, ok := v.Models.Find(model)
	if !ok || m.ContextWindow == 0 || cx.Recorded == "recipe" || s.Limits.ContextWindow > 0 {
		return 0
	}
	cx.Budget, cx.WindowGuess = m.InputBudget(), false
	return m.ContextWindow
}

// contextBefore is what the model was given for the call of a turn, as far as the ledger knows.
func (v *visitor) contextBefore(s *api.Session, id turns.ID) (*api.Context, error) {
	return v.C.Context(v.R.Context(), s.ID, api.GetContext{At: id, Recorded: true, Before: true, Explain: true})
}

// depths are the depths of turns of a context, which are near each other on the path: of as many as one page of
// turns has.
func (v *visitor) depths(s *api.Session, rows []contextPiece) map[turns.ID]uint64 {
	out := make(map[turns.ID]uint64)
	i := slices.IndexFunc(rows, func(x contextPiece) bool { return !x.Turn.IsZero() && x.Half != "memory" && x.Status != "summary" })
	if i < 0 {
		return out
	}
	first, err := v.C.Turn(v.R.Context(), s.ID, rows[i].Turn)
	if err != nil {
		return out
	}
	list, err := v.C.TurnPage(v.R.Context(), s.ID, api.ListTurns{From: first.Depth, Page: api.Page{Limit: contextRows + 20}})
	if err != nil {
		return out
	}
	for _, t := range list.Turns {
		out[t.ID] = t.Depth
	}
	out[first.ID] = first.Depth
	return out
}

// gaugeOf draws a context as a bar of 1,000 units.
func gaugeOf(cx *api.Context) *gauge {
	const width = 1000.0
	used := cx.Tokens + cx.Overhead
	if cx.Reported > 0 {
		used = cx.Reported
	}
	full := max(used, cx.Budget, 1)
	g := new(gauge)
	var sums [len(kinds.All)]struct {
		tokens uint64
		turns  map[turns.ID]bool
	}
	begin := uint64(0)
	type bar struct {
		kind kinds.Kind
		x, w float64
	}
	var bars []bar
	for _, s := range kinds.Spans(cx) {
		x, w := width*float64(begin)/float64(full), width*float64(s.Tokens)/float64(full)
		begin += s.Tokens
		sum := &sums[s.Kind]
		if sum.turns == nil {
			sum.turns = make(map[turns.ID]bool)
		}
		sum.tokens += s.Tokens
		sum.turns[s.Turn] = true
		if n := len(bars); n > 0 && bars[n-1].kind == s.Kind && w < 4 { // they would not be seen apart
			bars[n-1].w = x + w - bars[n-1].x
			continue
		}
		bars = append(bars, bar{s.Kind, x, max(w, 0.5)})
	}
	for _, b := range bars {
		g.Segments = append(g.Segments, segment{Kind: b.kind.Look(), X: fmt.Sprintf("%.2f", b.x), W: fmt.Sprintf("%.2f", b.w)})
	}
	for i, sum := range sums {
		if sum.turns != nil {
			g.Legend = append(g.Legend, legendRow{Kind: kinds.All[i], Tokens: sum.tokens, Share: visit.Share(sum.tokens, cx.Budget), Turns: len(sum.turns)})
		}
	}
	if used > cx.Budget {
		g.Over = used - cx.Budget
	} else {
		g.RoomSize = cx.Budget - used
		g.Room = fmt.Sprintf("%.2f", width*float64(used)/float64(full))
	}
	return g
}

// beginning is the beginning of what messages say.
func beginning(ms []turns.Raw) string {
	for _, raw := range ms {
		var m turns.Message
		if turns.DecodeJSON(raw, &m) != nil {
			continue
		}
		for i := range m.Parts {
			p := &m.Parts[i]
			switch {
			case p.Type == turns.ToolCall:
				return pages.Line(p.Name+"  "+prose.FirstArgument(p.ContentBytes()), 160)
			case p.Type == turns.Reasoning:
				continue
			}
			if text := prose.PartBeginning(p); strings.TrimSpace(text) != "" {
				return pages.Line(text, 160)
			}
		}
	}
	return ""
}

// cacheTime is how long a provider keeps a prefix unless it is asked to keep it longer.
const cacheTime = 5 * time.Minute

// since compares a context with that of the call before, prior, which was given was. same is the index of the first
// piece that is not as it was; -1: there is no call before, and prior is nil.
func (v *visitor) since(s *api.Session, t *api.Turn, cx *api.Context, all []contextPiece, prior *api.Turn, was *api.Context) (out *since, same int) {
	if prior == nil {
		return nil, -1
	}
	old := piecesOf(was)
	out = &since{Call: fmt.Sprintf("/ui/s/%s/x/%s", s.ID, prior.ID), Model: prior.Model, Depth: prior.Depth, Before: was.Tokens + was.Overhead}
	preamble := bytes.Equal(cx.System, was.System) && equalRaw(cx.Tools, was.Tools)
	if preamble {
		out.Prefix = cx.Overhead
		for same < min(len(all), len(old)) && equalRaw(all[same].messages, old[same].messages) {
			out.Prefix += all[same].Tokens
			same++
		}
	}
	out.Lost = out.Before - min(out.Before, out.Prefix)
	switch {
	case !preamble:
		out.Reason = "the system part or the tools changed, which every call begins with"
	case same == len(old):
		out.Lost = 0
	case same < len(all) && all[same].Status == "summary":
		out.Reason = fmt.Sprintf("a compaction put its summary in place of what was there (%s)", prose.Short(all[same].Turn))
	case same < len(all) && kinds.Of(all[same].Status) == kinds.Shortened:
		out.Reason = "a part is shown shortened that was whole"
	case same < len(all) && kinds.Of(all[same].Status) == kinds.Memory:
		out.Reason = "other memories stand there"
	default:
		out.Reason = "the messages differ from there on: the head was moved, or the agent sent others"
	}
	u := t.Usage
	m, priced := v.Models.Priced(t.Model)
	cost := func(n uint64) string {
		if !priced || n == 0 {
			return ""
		}
		write := m.Price.CacheWrite
		if write == 0 {
			write = m.Price.Input
		}
		return visit.Dollars(float64(n)*float64(write-min(write, m.Price.CacheRead))/1e12, false)
	}
	if out.Anew = cx.Tokens + cx.Overhead - min(cx.Tokens+cx.Overhead, out.Prefix); out.Lost > 0 {
		out.Money = cost(out.Anew)
	}
	if u == nil || u.InputTokens == 0 || u.CacheRead+u.CacheCreation == 0 && (prior.Usage == nil || prior.Usage.CacheRead+prior.Usage.CacheCreation == 0) {
		return out, same
	}
	out.Told, out.Read = true, u.CacheRead
	// The provider counts in its own tokens, so a difference of a tenth says nothing.
	if missed := out.Prefix - min(out.Prefix, out.Read); missed > out.Prefix/10+1024 {
		out.Missed = missed
		at, _ := prose.TurnTime(t)
		before, _ := prose.TurnTime(prior)
		switch gap := at.Sub(before); {
		case t.Model != prior.Model:
			out.MissedBy = "another model answered: caches are of one model"
		case gap > cacheTime:
			out.MissedBy = fmt.Sprintf("%s went by since the call before; most providers keep a prefix for 5 minutes", gap.Round(time.Minute))
		default:
			out.MissedBy = "nothing that is stored says why"
		}
		if out.Money == "" {
			out.Money = cost(missed)
		}
	}
	return out, same
}

// callBefore is the model call before that of a turn; nil: there is none near.
func (v *visitor) callBefore(s *api.Session, t *api.Turn) (*api.Turn, error) {
	at := t
	for range 8 {
		if at.Parent == nil {
			return nil, nil
		}
		up, err := v.C.Turn(v.R.Context(), s.ID, *at.Parent)
		if err != nil {
			return nil, err
		}
		if up.Compaction == nil && up.Response != nil {
			return up, nil
		}
		at = up
	}
	return nil, nil
}

func equalRaw(a, b []turns.Raw) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

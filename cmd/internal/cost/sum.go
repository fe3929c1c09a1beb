package cost

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"nexus/turns"
	"nexus/turns/tokens"
)

// Key is something that calls are added up by.
type Key string

// The keys.
const (
	ByTurn    Key = "turn"
	BySession Key = "session"
	ByDay     Key = "day"
	ByWeek    Key = "week" // from Monday on
	ByMonth   Key = "month"
	ByBlock   Key = "block" // five hours, which begin with a call: see [Blocks]
	ByModel   Key = "model"
	ByProject Key = "project"
	ByFolder  Key = "folder"
	ByBranch  Key = "branch"
	ByAgent   Key = "agent"
	BySource  Key = "source"
	ByKind    Key = "kind"
)

// Keys returns all keys.
func Keys() []Key {
	return []Key{ByTurn, BySession, ByDay, ByWeek, ByMonth, ByBlock, ByModel, ByProject, ByFolder, ByBranch, ByAgent, BySource, ByKind}
}

// ParseKeys reads a list of keys, as in "day,model".
func ParseKeys(list string) (out []Key, err error) {
	for name := range strings.SplitSeq(list, ",") {
		k := Key(strings.TrimSpace(name))
		if !slices.Contains(Keys(), k) {
			return nil, fmt.Errorf("%q is none of %s", name, keyNames())
		}
		if !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out, nil
}

// keyNames is the keys in a sentence.
func keyNames() string {
	var names []string
	for _, k := range Keys() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// IsTime reports whether rows of the key are in order of time.
func (k Key) IsTime() bool {
	return k == ByTurn || k == ByDay || k == ByWeek || k == ByMonth || k == ByBlock
}

// BlockLength is that of a block of [ByBlock].
const BlockLength = 5 * time.Hour

// Blocks returns the beginnings of the blocks that the times of calls are in, oldest first: a block
// begins at the full hour of the first call after the one before, and lasts five hours. Limits of
// subscriptions of coding agents are counted in such blocks.
func Blocks(times []time.Time) (out []time.Time) {
	times = slices.SortedFunc(slices.Values(times), time.Time.Compare)
	for _, at := range times {
		if turns.IsTimeKnown(at) && (len(out) == 0 || !at.Before(out[len(out)-1].Add(BlockLength))) {
			out = append(out, at.Truncate(time.Hour))
		}
	}
	return out
}

// Options says which calls are added up, and how. The zero value takes all, in UTC, into
// one row.
type Options struct {
	By           []Key
	Models       tokens.Models // with prices
	Zone         *time.Location
	Blocks       []time.Time // with ByBlock: see [Blocks]
	Since, Until time.Time   // [Since, Until); zero: no bound
	Dearest      int         // how many of the dearest calls are kept: see [Sum.Dearest]
}

// Tokens are the tokens of calls. The kinds do not overlap, but Reasoning is a part of
// Output, and CacheHour of CacheWrite.
type Tokens struct {
	Input      uint64 `json:"input"` // neither read from the cache nor written to it
	CacheRead  uint64 `json:"cache_read"`
	CacheWrite uint64 `json:"cache_write"`
	CacheHour  uint64 `json:"cache_write_1h,omitzero"`
	Output     uint64 `json:"output"`
	Reasoning  uint64 `json:"reasoning,omitzero"` // as far as sources tell it
}

func tokensOf(u turns.Usage, d turns.UsageDetails) Tokens {
	read := min(u.CacheRead, u.InputTokens)
	written := min(u.CacheCreation, u.InputTokens-read)
	return Tokens{Input: u.InputTokens - read - written, CacheRead: read, CacheWrite: written, CacheHour: min(d.CacheHour, written),
		Output: u.OutputTokens, Reasoning: min(d.Reasoning, u.OutputTokens)}
}

func (t Tokens) plus(o Tokens) Tokens {
	return Tokens{plus(t.Input, o.Input), plus(t.CacheRead, o.CacheRead), plus(t.CacheWrite, o.CacheWrite), plus(t.CacheHour, o.CacheHour),
		plus(t.Output, o.Output), plus(t.Reasoning, o.Reasoning)}
}

// All returns the tokens of all kinds together.
func (t Tokens) All() uint64 { return plus(plus(t.Input, t.CacheRead), plus(t.CacheWrite, t.Output)) }

// Amount is what some calls used and cost, and what of it is not known.
type Amount struct {
	Calls  uint64 `json:"calls"`
	Tokens Tokens `json:"tokens"`

	recorded, priced uint64 // picodollars
	dearer           uint64 // calls that cost more than their price, by their tier or what is billed apart

	Unpriced     uint64 `json:"tokens_without_price,omitzero"`  // of models that the table does not have
	WithoutUsage uint64 `json:"calls_without_usage,omitzero"`   // their source does not tell it
	AtStart      uint64 `json:"calls_output_too_low,omitzero"`  // their source has the output as it was when the stream began
	Bounded      uint64 `json:"calls_of_bounded_time,omitzero"` // their source does not state the time, and it is a bound of it
	Uncounted    uint64 `json:"calls_not_stored,omitzero"`      // whose tokens an import could not give to a turn
	Repeated     uint64 `json:"repeated_records,omitzero"`      // of a response that is counted already; not in Calls
	OtherTier    uint64 `json:"calls_of_other_tier,omitzero"`   // of a service tier other than the standard one, whose prices they have
	Missing      uint64 `json:"missing_answers,omitzero"`       // of /v1: they failed or were lost, and may be billed; not in Calls
	OtherPlace   uint64 `json:"calls_of_chosen_place,omitzero"` // the model had to run in one place, which may cost more than the prices say
	Added        uint64 `json:"added_answers,omitzero"`         // that were appended to the history of a program without a model and tokens; not in Calls, and in the total alone
	WebSearches  uint64 `json:"web_searches,omitzero"`          // which providers bill apart; not in the cost
}

// Picos returns the whole cost in picodollars.
func (a *Amount) Picos() uint64 { return plus(a.recorded, a.priced) }

// Micros returns the whole cost, what sources recorded of it, and what is by the table of
// prices, each in micro-dollars and rounded by itself.
func (a *Amount) Micros() (all, recorded, priced uint64) {
	return micros(a.Picos()), micros(a.recorded), micros(a.priced)
}

func micros(picos uint64) uint64 { return plus(picos, picosInMicro/2) / picosInMicro }

// IsLowerBound reports whether the true cost is higher, or may be.
func (a *Amount) IsLowerBound() bool {
	return a.Unpriced+a.WithoutUsage+a.AtStart+a.Missing+a.Uncounted+a.dearer > 0
}

// IsInferred reports whether anything of the amount is other than its sources state it.
func (a *Amount) IsInferred() bool {
	return a.IsLowerBound() || a.Bounded+a.Repeated+a.OtherTier+a.OtherPlace > 0
}

// IsKnown reports whether anything of the cost is known.
func (a *Amount) IsKnown() bool { return a.Picos() > 0 || !a.IsLowerBound() }

func (a *Amount) add(o *Amount) {
	a.Calls += o.Calls
	a.Tokens = a.Tokens.plus(o.Tokens)
	a.recorded, a.priced = plus(a.recorded, o.recorded), plus(a.priced, o.priced)
	a.dearer += o.dearer
	a.Unpriced = plus(a.Unpriced, o.Unpriced)
	a.WithoutUsage += o.WithoutUsage
	a.AtStart += o.AtStart
	a.Repeated += o.Repeated
	a.Bounded += o.Bounded
	a.Uncounted = plus(a.Uncounted, o.Uncounted)
	a.OtherTier += o.OtherTier
	a.OtherPlace += o.OtherPlace
	a.Missing = plus(a.Missing, o.Missing)
	a.Added += o.Added
	a.WebSearches = plus(a.WebSearches, o.WebSearches)
}

// Group is what the calls of a row have in common; a field that is no key is zero.
type Group struct {
	Session turns.ID
	Turn    turns.ID
	Depth   uint64          // of Turn
	Day     string          // as in 2026-11-22; "" where nothing is known of it
	Week    string          // its Monday, likewise
	Month   string          // as in 2026-11
	Block   string          // as in 2026-11-22 14:00: when it begins
	Bound   turns.TimeBound // of Day
	Model   string
	Project string
	Folder  string
	Branch  string
	Agent   string
	Source  string
	Kind    Kind
}

// Row is the amount of one group.
type Row struct {
	Group
	Amount
	First time.Time // of its calls
}

// Sum adds calls up. It is not safe for concurrent use.
type Sum struct {
	opt      Options
	dearest  []Dear
	rows     map[Group]*Row
	total    Amount
	kinds    map[Kind]*Amount
	seen     map[response]turns.Usage // the usage that is counted
	last     map[response]uint64      // by program and message: the input of the last one that is counted
	direct   map[response]uint64      // those of /v1 that are counted and that no file has yet, by each of their ids
	filed    map[response]uint64      // those of files that are counted and that /v1 has not yet; no source
	sources  map[tokens.Source]uint64
	unpriced map[string]uint64 // by model: tokens
}

// NewSum returns a sum of no calls.
func NewSum(opt Options) *Sum {
	if opt.Zone == nil {
		opt.Zone = time.UTC
	}
	return &Sum{opt: opt, rows: make(map[Group]*Row), kinds: make(map[Kind]*Amount), seen: make(map[response]turns.Usage), last: make(map[response]uint64),
		direct: make(map[response]uint64), filed: make(map[response]uint64), sources: make(map[tokens.Source]uint64), unpriced: make(map[string]uint64)}
}

// Add adds a call. The same response of a provider counts once, however many turns and
// sessions have it: programs copy the history into the file of a session that goes on
// from another one, and an importer cuts a response that goes on after its end.
func (s *Sum) Add(c Call) {
	repeated := s.isRepeated(&c)
	if c.Time.Before(s.opt.Since) || !s.opt.Until.IsZero() && !c.Time.Before(s.opt.Until) {
		return
	}
	if c.Added {
		s.total.Added++
		return
	}
	a := s.amountOf(&c, repeated)
	s.keepDearest(&c, &a)
	g := s.groupOf(&c)
	r := s.rows[g]
	if r == nil {
		r = &Row{Group: g, First: c.Time}
		s.rows[g] = r
	}
	if c.Time.Before(r.First) {
		r.First = c.Time
	}
	r.add(&a)
	s.total.add(&a)
	k := s.kinds[c.Kind]
	if k == nil {
		k = new(Amount)
		s.kinds[c.Kind] = k
	}
	k.add(&a)
}

// Dear is a call with what it cost.
type Dear struct {
	Call
	Amount
	Split Split
}

// Split is what the tokens of a call cost by their kind, in picodollars; the kinds are those of
// [Tokens], and their sum is the price of the call. It is zero where the source recorded the cost,
// or the model has no price.
type Split struct{ Input, CacheRead, CacheWrite, Output uint64 }

// splitOf returns the split of a call whose amount is a.
func (s *Sum) splitOf(c *Call, a *Amount) (out Split) {
	if a.priced == 0 {
		return out
	}
	m, ok := s.priced(c)
	if !ok {
		return out
	}
	price, t := m.PriceOf(*c.Usage), a.Tokens
	out.Input = price.Picos(turns.Usage{InputTokens: t.Input}, 0)
	out.CacheRead = price.Picos(turns.Usage{InputTokens: t.CacheRead, CacheRead: t.CacheRead}, 0)
	out.CacheWrite = price.Picos(turns.Usage{InputTokens: t.CacheWrite, CacheCreation: t.CacheWrite}, t.CacheHour)
	out.Output = price.Picos(turns.Usage{OutputTokens: t.Output}, 0)
	return out
}

// priced returns the model that a call is priced by.
func (s *Sum) priced(c *Call) (tokens.Model, bool) {
	m, ok := s.opt.Models.Priced(c.Model)
	if !ok && c.Asked != "" { // the name that a configuration gives the model
		m, ok = s.opt.Models.Priced(c.Asked)
	}
	return m, ok
}

// keepDearest keeps the call if it is one of the dearest.
func (s *Sum) keepDearest(c *Call, a *Amount) {
	if s.opt.Dearest == 0 || a.Picos() == 0 || len(s.dearest) == s.opt.Dearest && a.Picos() <= s.dearest[len(s.dearest)-1].Picos() {
		return
	}
	at := sort.Search(len(s.dearest), func(i int) bool { return s.dearest[i].Picos() < a.Picos() })
	s.dearest = slices.Insert(s.dearest, at, Dear{*c, *a, s.splitOf(c, a)})
	s.dearest = s.dearest[:min(len(s.dearest), s.opt.Dearest)]
}

// Dearest returns the dearest calls whose cost is known, the dearest first: as many as the
// options say.
func (s *Sum) Dearest() []Dear { return s.dearest }

// response names a response of a provider. Some proxies give one id to all; then the input
// tells them apart.
type response struct {
	source, message string
	input           uint64
}

// isRepeated reports whether the response of c is counted already. Then c keeps what of
// its usage is new. A turn that holds the rest of a response reports no input, and only
// the output that came since: nothing of that is counted already.
func (s *Sum) isRepeated(c *Call) bool {
	if c.Direct != "" {
		return s.isInAFile(c)
	}
	if c.Message == "" {
		return false
	}
	message := response{source: c.Source, message: c.Message}
	input, known := s.last[message]
	if c.Usage == nil {
		return known
	}
	rest := known && c.Usage.InputTokens == 0
	if !rest {
		input = c.Usage.InputTokens
	}
	this := message
	this.input = input
	s.last[message] = input
	had, ok := s.seen[this]
	switch {
	case rest:
		had.OutputTokens = plus(had.OutputTokens, c.Usage.OutputTokens)
		s.seen[this] = had
		return true
	case !ok:
		s.seen[this] = *c.Usage
		k := response{message: c.Message, input: input}
		if s.direct[k] > 0 { // /v1 has it
			s.direct[k]--
			c.Usage = nil
			return true
		}
		s.filed[k]++
		return false
	}
	more := c.Usage.OutputTokens - min(c.Usage.OutputTokens, had.OutputTokens)
	had.OutputTokens += more
	s.seen[this] = had
	if c.Usage = nil; more > 0 {
		c.Usage = &turns.Usage{OutputTokens: more}
	}
	return true
}

// isInAFile reports whether a response that came through /v1 is counted already, from the
// transcript of the program that asked. The program knows it by the provider's id, or by that
// of /v1. Two turns of /v1 are never the same response: some servers give one id to many.
func (s *Sum) isInAFile(c *Call) bool {
	k := response{}
	if c.Usage != nil {
		k.input = c.Usage.InputTokens
	}
	for _, id := range []string{c.Message, c.Direct} {
		if k.message = id; id != "" && s.filed[k] > 0 {
			s.filed[k]--
			c.Usage = nil
			return true
		}
	}
	for _, id := range []string{c.Message, c.Direct} {
		if k.message = id; id != "" {
			s.direct[k]++
		}
	}
	return false
}

func (s *Sum) amountOf(c *Call, repeated bool) (a Amount) {
	if c.Uncounted > 0 {
		a.Uncounted = c.Uncounted
		return a
	}
	if repeated {
		if !c.Step {
			a.Repeated = 1
		}
		if c.Usage == nil {
			return a
		}
		c.HasRecorded, c.Details = false, turns.UsageDetails{}
	} else if !c.Step {
		a.Calls = max(1, c.Flushes)
	}
	if c.Bound != "" && !repeated && !c.Step {
		a.Bounded = 1
	}
	if a.Missing = c.Missing; c.Unanswered {
		a.Calls = 0
		return a
	}
	if c.Usage != nil {
		a.Tokens = tokensOf(*c.Usage, c.Details)
		if c.Details.OutputAtStart {
			a.AtStart = 1
		}
	}
	switch {
	case c.HasRecorded:
		a.recorded = c.Recorded
	case c.Usage == nil:
		a.WithoutUsage = a.Calls
	default:
		m, ok := s.priced(c)
		if !ok {
			a.Unpriced = a.Tokens.All()
			s.unpriced[c.Model] = plus(s.unpriced[c.Model], a.Unpriced)
			break
		}
		a.priced = m.PriceOf(*c.Usage).Picos(*c.Usage, c.Details.CacheHour)
		s.sources[m.PriceSource]++
	}
	if c.HasRecorded { // with the tier, and what is billed apart
		return a
	}
	a.WebSearches = c.Details.WebSearches
	tier := c.Details.Tier
	if tier != "" {
		a.OtherTier = 1
	}
	if c.Details.Geo != "" && a.Calls > 0 {
		a.OtherPlace = 1
	}
	if tier != "" && tier != "batch" && tier != "flex" || a.WebSearches > 0 || c.Details.Geo != "" { // those two are cheaper
		a.dearer = 1
	}
	return a
}

func (s *Sum) groupOf(c *Call) (g Group) {
	for _, k := range s.opt.By {
		switch k {
		case ByTurn:
			g.Session, g.Turn, g.Depth = c.Session, c.Turn, c.Depth
		case BySession:
			g.Session = c.Session
		case ByDay:
			if g.Bound = c.Bound; turns.IsTimeKnown(c.Time) {
				g.Day = c.Time.In(s.opt.Zone).Format(time.DateOnly)
			}
		case ByWeek:
			if g.Bound = c.Bound; turns.IsTimeKnown(c.Time) {
				at := c.Time.In(s.opt.Zone)
				g.Week = at.AddDate(0, 0, -(int(at.Weekday())+6)%7).Format(time.DateOnly)
			}
		case ByMonth:
			if g.Bound = c.Bound; turns.IsTimeKnown(c.Time) {
				g.Month = c.Time.In(s.opt.Zone).Format("2006-01")
			}
		case ByBlock:
			g.Bound = c.Bound
			if i, in := slices.BinarySearchFunc(s.opt.Blocks, c.Time, time.Time.Compare); in || i > 0 {
				if !in {
					i--
				}
				g.Block = s.opt.Blocks[i].In(s.opt.Zone).Format("2006-01-02 15:04")
			}
		case ByModel:
			g.Model = c.Model
		case ByProject:
			g.Project = c.Project
		case ByFolder:
			g.Folder = c.Folder
		case ByBranch:
			g.Branch = c.Branch
		case ByAgent:
			g.Agent = c.Agent
		case BySource:
			g.Source = c.Source
		case ByKind:
			g.Kind = c.Kind
		}
	}
	return g
}

// Total returns the amount of all calls.
func (s *Sum) Total() Amount { return s.total }

// OfKind returns the amount of the calls of a kind.
func (s *Sum) OfKind(k Kind) (a Amount) {
	if of := s.kinds[k]; of != nil {
		a = *of
	}
	return a
}

// Rows returns the rows: by time where a key is a time or a turn, else the costliest first.
func (s *Sum) Rows() []Row {
	out := make([]Row, 0, len(s.rows))
	for _, r := range s.rows {
		out = append(out, *r)
	}
	timed := slices.ContainsFunc(s.opt.By, Key.IsTime)
	slices.SortFunc(out, func(a, b Row) int {
		byTime := 0
		if slices.Contains(s.opt.By, ByTurn) {
			byTime = a.First.Compare(b.First)
		} else if timed {
			byTime = cmp.Or(cmp.Compare(a.Month, b.Month), cmp.Compare(a.Week, b.Week), cmp.Compare(a.Day, b.Day), cmp.Compare(a.Block, b.Block), cmp.Compare(a.Bound, b.Bound))
		}
		return cmp.Or(byTime, cmp.Compare(b.Picos(), a.Picos()), cmp.Compare(b.Tokens.All(), a.Tokens.All()), compareGroups(&a.Group, &b.Group))
	})
	return out
}

func compareGroups(a, b *Group) int {
	return cmp.Or(a.Session.Compare(b.Session), cmp.Compare(a.Depth, b.Depth), a.Turn.Compare(b.Turn), cmp.Compare(a.Day, b.Day),
		cmp.Compare(a.Model, b.Model), cmp.Compare(a.Project, b.Project), cmp.Compare(a.Folder, b.Folder), cmp.Compare(a.Branch, b.Branch), cmp.Compare(a.Month, b.Month), cmp.Compare(a.Week, b.Week), cmp.Compare(a.Block, b.Block), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Kind, b.Kind))
}

// Rest returns the amount of rows together.
func Rest(rows []Row) (a Amount) {
	for i := range rows {
		a.add(&rows[i].Amount)
	}
	return a
}

// Sources returns where the prices that were used are from, the most used first.
func (s *Sum) Sources() []tokens.Source {
	out := make([]tokens.Source, 0, len(s.sources))
	for x := range s.sources {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b tokens.Source) int {
		return cmp.Or(cmp.Compare(s.sources[b], s.sources[a]), cmp.Compare(a.Date, b.Date), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// UnknownModels returns the models without a price, that with the most tokens first.
func (s *Sum) UnknownModels() []string {
	out := make([]string, 0, len(s.unpriced))
	for m := range s.unpriced {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(s.unpriced[b], s.unpriced[a]), cmp.Compare(a, b)) })
	return out
}

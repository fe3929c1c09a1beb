package comparison

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"

	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/importreport"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/compactor"
	"nexus/compactor/compare"
	"nexus/compactor/extractive"
	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Comparison is policies side by side on some histories.
type Comparison struct {
	Window      uint64
	Prices      tokens.Price            // of models that the table does not have
	Models      *tokens.Models          // with prices; nil: prices are those of every model
	priced      map[string]tokens.Price // those that were used, by model
	Costs       []ComparedCost          // of each policy
	Policies    []policy.Policy
	Sums        []compare.Sum // of each policy
	measure     int           // the policy whose context sizes the oracle has
	oracle      compare.Oracle
	Each        []compared // every history by itself
	Longest     []*compare.Replay
	LongestName string // of the history that was replayed in longest
}

// compared is one history under every policy.
type compared struct {
	Name         string
	turns, Calls int
	Sums         []compare.Sum
	costs        []ComparedCost
}

// ComparedCost is what the calls of a policy cost, in micro-dollars.
type ComparedCost struct{ cached, uncached uint64 }

// priceOf returns the price of a model, and notes it.
func (x *Comparison) priceOf(model string) tokens.Price {
	p := x.Prices
	if x.Models == nil {
		return p
	}
	if m, ok := x.Models.Priced(model); ok {
		p = m.Price.Filled()
	} else {
		model = ""
	}
	x.priced[model] = p
	return p
}

func New(names []string, window uint64) (*Comparison, error) {
	x := &Comparison{Window: window, Prices: compare.DefaultPrice, priced: make(map[string]tokens.Price)}
	for _, n := range splitPolicies(strings.Join(names, ",")) {
		p, err := policyOf(n)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(x.Policies, func(q policy.Policy) bool { return q.Name == p.Name }) {
			x.Policies = append(x.Policies, p)
		}
	}
	if len(x.Policies) == 0 {
		return nil, fault.Usage(errors.New("--policy names none"))
	}
	if window < 1000 {
		return nil, fault.Usage(fmt.Errorf("a window of %d tokens; the least is 1000", window))
	}
	x.Sums, x.Costs = make([]compare.Sum, len(x.Policies)), make([]ComparedCost, len(x.Policies))
	x.measure = max(0, slices.IndexFunc(x.Policies, func(p policy.Policy) bool { return p.Name == "balanced" }))
	return x, nil
}

// policyOf is the policy that an argument names: a built-in one, or one with
// settings of its own, as balanced{"keep_tokens":8000}, which then is its name.
func policyOf(arg string) (policy.Policy, error) {
	switch arg {
	case compare.MaskingName:
		return compare.Masking(), nil
	case policy.RecordedName:
		return policy.AsRecorded(), nil
	}
	named, err := names.Policy(arg)
	if err != nil {
		return policy.Policy{}, err
	}
	p, err := policy.Resolve(turns.PolicyRef{Name: named.Name, Set: named.Set})
	if err != nil {
		return p, fault.Usage(api.FromError(err)) // as the daemon says it
	}
	if named.Set != nil {
		p.Name = arg
	}
	return p, nil
}

// splitPolicies splits at the commas outside of settings.
func splitPolicies(list string) (out []string) {
	depth, from := 0, 0
	for i, r := range list {
		switch r {
		case '{':
			depth++
		case '}':
			depth--
		case ',':
			if depth == 0 {
				out, from = append(out, list[from:i]), i+1
			}
		}
	}
	return append(out, list[from:])
}

// where is an argument: a file, or the name of a session.
type where struct {
	transcriptfile.File
	session bool
	size    int64
}

// places tells files from sessions: what has no file is a session's name.
func places(args []string) (out []where, err error) {
	for _, a := range args {
		_, err := os.Stat(a)
		if a != "-" && errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(a, `/\`) && !slices.Contains([]string{".jsonl", ".json"}, filepath.Ext(a)) {
			out = append(out, where{transcriptfile.File{Name: a}, true, 1 << 20})
			continue
		}
		files, _, err := transcriptfile.Find([]string{a})
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			size := int64(1 << 20)
			if st, err := os.Stat(f.Name); err == nil {
				size = st.Size()
			}
			out = append(out, where{f, false, size})
		}
	}
	return out, nil
}

// Run replays what args name, one after another, so that no more than
// one file is in memory.
func Run(ctx context.Context, term *terminal.Terminal, find names.Finder, x *Comparison, args []string) error {
	all, err := places(args)
	if err != nil {
		return err
	}
	var size int64
	for _, w := range all {
		size += w.size
	}
	bar := term.Progress(size*int64(1+len(x.Policies)), "comparing")
	defer bar.Close()
	done := int64(0)
	var strange, special []string
	for _, w := range all {
		if w.Special {
			special = append(special, w.Name)
			continue
		}
		err := compareOne(ctx, term, find, x, w, bar)
		var unknown transcriptfile.UnknownFormat
		switch {
		case w.Searched && errors.As(err, &unknown):
			strange, err = append(strange, w.Name), nil
		case w.Searched && errors.Is(err, turns.ErrMalformed):
			_ = bar.Clear()
			term.Say("skipped %s: %s", prose.Printable(w.Name), prose.Printable(fault.Plainly(nil, err)))
			err = nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
		done += w.size * int64(1+len(x.Policies))
		_ = bar.Set64(done)
	}
	_ = bar.Clear()
	importreport.PrintSkipped(term, strange, false, "is no transcript", "are no transcripts")
	importreport.PrintSpecial(term, special, false)
	if len(x.Each) == 0 {
		return api.Errorf(api.Nothing, nil, "there is no model call to replay")
	}
	return nil
}

func compareOne(ctx context.Context, term *terminal.Terminal, find names.Finder, x *Comparison, w where, bar *progressbar.ProgressBar) error {
	hs, err := read(ctx, term, find, w, func(n int) { _ = bar.Add(n) })
	if err != nil {
		return err
	}
	calls := 0
	for _, h := range hs {
		calls += h.Transcript.Calls()
	}
	for _, h := range hs {
		if err := x.Add(ctx, h, func() { _ = bar.Add64(w.size / int64(max(calls, 1))) }); err != nil {
			return err
		}
	}
	return nil
}

func read(ctx context.Context, term *terminal.Terminal, find names.Finder, w where, read func(int)) ([]History, error) {
	if !w.session {
		return Histories(ctx, term, w.Name, read)
	}
	c, s, err := find.Session(ctx, w.Name)
	for _, code := range []api.Code{api.Unavailable, api.Denied} {
		if api.HasCode(err, code) {
			return nil, api.Errorf(code, nil, "there is no file %s; to look for a session: %v", w.Name, err)
		}
	}
	if err != nil {
		return nil, err
	}
	h, err := sessionHistory(ctx, c, s, cmp.Or(s.Label, s.ID.String()))
	return []History{h}, err
}

// Add replays a history under every policy.
func (x *Comparison) Add(ctx context.Context, h History, each func()) error {
	opt := compare.Options{
		Limits: turns.Limits{ContextWindow: x.Window}, Each: each,
		Tiers: []compactor.Tier{{Name: "extractive", Summarizer: extractive.New(extractive.Config{}), Local: true}},
	}
	one := compared{Name: h.Name, turns: h.Transcript.Turns(), Calls: h.Transcript.Calls()}
	if one.Calls == 0 {
		return nil
	}
	var replays []*compare.Replay
	price := x.priceOf(h.model)
	for i, p := range x.Policies {
		r, err := h.Transcript.Replay(ctx, p, opt)
		if err != nil {
			return err
		}
		var s compare.Sum
		s.Add(r)
		x.Sums[i].Add(r)
		c := ComparedCost{s.Usage.Cost(price), s.Usage.Uncached(price)}
		x.Costs[i].cached, x.Costs[i].uncached = x.Costs[i].cached+c.cached, x.Costs[i].uncached+c.uncached
		one.Sums, one.costs, replays = append(one.Sums, s), append(one.costs, c), append(replays, r)
	}
	x.oracle.Add(h.Transcript.Oracle(replays[x.measure]))
	x.Each = append(x.Each, one)
	if x.Longest == nil || one.Calls > len(x.Longest[0].Calls) {
		x.Longest, x.LongestName = replays, h.Name
	}
	return nil
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/transcripts"
	"nexus/compactor"
	"nexus/compactor/compare"
	"nexus/compactor/extractive"
	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/tokens"
)

// comparison is policies side by side on some histories.
type comparison struct {
	window   uint64
	prices   tokens.Price            // of models that the table does not have
	models   *tokens.Models          // with prices; nil: prices are those of every model
	priced   map[string]tokens.Price // those that were used, by model
	costs    []comparedCost          // of each policy
	policies []policy.Policy
	sums     []compare.Sum // of each policy
	measure  int           // the policy whose context sizes the oracle has
	oracle   compare.Oracle
	each     []compared // every history by itself
	longest  []*compare.Replay
	name     string // of the history that was replayed in longest
}

// compared is one history under every policy.
type compared struct {
	name         string
	turns, calls int
	sums         []compare.Sum
	costs        []comparedCost
}

// comparedCost is what the calls of a policy cost, in micro-dollars.
type comparedCost struct{ cached, uncached uint64 }

// priceOf returns the price of a model, and notes it.
func (x *comparison) priceOf(model string) tokens.Price {
	p := x.prices
	if x.models == nil {
		return p
	}
	if m, ok := x.models.Priced(model); ok {
		p = m.Price.Filled()
	} else {
		model = ""
	}
	x.priced[model] = p
	return p
}

func compareCmd(e *env) *cobra.Command {
	var names []string
	var window uint64
	var svg, prices string
	var markdown bool
	c := verb("compare FILE|DIR|SESSION…", "policies side by side on real history", 1, -1, func(cmd *cobra.Command, args []string) error {
		x, err := newComparison(names, window)
		if err != nil {
			return err
		}
		table, err := modelPrices(prices)
		if err != nil {
			return err
		}
		x.models = &table
		if err := e.compareAll(cmd.Context(), x, args); err != nil {
			return err
		}
		if svg != "" {
			if err := writeFile(svg, func(w io.Writer) error { return x.plot(w) }); err != nil {
				return err
			}
			e.say("%s shows %s", printable(svg), printable(x.name))
		}
		switch {
		case e.json:
			return e.print(x.report())
		case markdown:
			_, err = io.WriteString(e.out, x.markdown())
		default:
			_, err = io.WriteString(e.out, x.table(e))
		}
		return err
	})
	f := c.Flags()
	f.StringArrayVar(&names, "policy", append(policy.Names(), policy.RecordedName), "policies, by name, and settings of theirs; masking and recorded are baselines")
	f.Uint64Var(&window, "window", 200_000, "the model's context window, in tokens")
	f.StringVar(&svg, "svg", "", "file for a plot of the longest history")
	f.StringVar(&prices, "prices", "", "file with prices of your own")
	f.BoolVar(&markdown, "markdown", false, "tables for a Markdown page")
	_ = c.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(policy.Names(), cobra.ShellCompDirectiveNoFileComp))
	c.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		names, _ := e.liveNames(cmd, args, begun)
		return names, cobra.ShellCompDirectiveDefault // and files
	}
	return c
}

func newComparison(names []string, window uint64) (*comparison, error) {
	x := &comparison{window: window, prices: compare.DefaultPrice, priced: make(map[string]tokens.Price)}
	for _, n := range splitPolicies(strings.Join(names, ",")) {
		p, err := policyOf(n)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(x.policies, func(q policy.Policy) bool { return q.Name == p.Name }) {
			x.policies = append(x.policies, p)
		}
	}
	if len(x.policies) == 0 {
		return nil, usageError{errors.New("--policy names none")}
	}
	if window < 1000 {
		return nil, usageError{fmt.Errorf("a window of %d tokens; the least is 1000", window)}
	}
	x.sums, x.costs = make([]compare.Sum, len(x.policies)), make([]comparedCost, len(x.policies))
	x.measure = max(0, slices.IndexFunc(x.policies, func(p policy.Policy) bool { return p.Name == "balanced" }))
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
	named, err := policyArg(arg)
	if err != nil {
		return policy.Policy{}, err
	}
	p, err := policy.Resolve(turns.PolicyRef{Name: named.Name, Set: named.Set})
	if err != nil {
		return p, usageError{api.FromError(err)} // as the daemon says it
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
	transcripts.File
	session bool
	size    int64
}

// places tells files from sessions: what has no file is a session's name.
func places(args []string) (out []where, err error) {
	for _, a := range args {
		_, err := os.Stat(a)
		if a != "-" && errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(a, `/\`) && !slices.Contains([]string{".jsonl", ".json"}, filepath.Ext(a)) {
			out = append(out, where{transcripts.File{Name: a}, true, 1 << 20})
			continue
		}
		files, _, err := transcripts.Find([]string{a})
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

// compareAll replays what args name, one after another, so that no more than
// one file is in memory.
func (e *env) compareAll(ctx context.Context, x *comparison, args []string) error {
	all, err := places(args)
	if err != nil {
		return err
	}
	var size int64
	for _, w := range all {
		size += w.size
	}
	bar := e.progress(size*int64(1+len(x.policies)), "comparing")
	defer bar.Close()
	done := int64(0)
	var strange, special []string
	for _, w := range all {
		if w.Special {
			special = append(special, w.Name)
			continue
		}
		err := e.compareOne(ctx, x, w, bar)
		var unknown transcripts.UnknownFormat
		switch {
		case w.Searched && errors.As(err, &unknown):
			strange, err = append(strange, w.Name), nil
		case w.Searched && errors.Is(err, turns.ErrMalformed):
			_ = bar.Clear()
			e.say("skipped %s: %s", printable(w.Name), printable(plainly(nil, err)))
			err = nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
		done += w.size * int64(1+len(x.policies))
		_ = bar.Set64(done)
	}
	_ = bar.Clear()
	e.reportSkipped(strange, false, "is no transcript", "are no transcripts")
	e.reportSpecial(special, false)
	if len(x.each) == 0 {
		return api.Errorf(api.Nothing, nil, "there is no model call to replay")
	}
	return nil
}

func (e *env) compareOne(ctx context.Context, x *comparison, w where, bar *progressbar.ProgressBar) error {
	hs, err := e.read(ctx, w, func(n int) { _ = bar.Add(n) })
	if err != nil {
		return err
	}
	calls := 0
	for _, h := range hs {
		calls += h.transcript.Calls()
	}
	for _, h := range hs {
		if err := x.add(ctx, h, func() { _ = bar.Add64(w.size / int64(max(calls, 1))) }); err != nil {
			return err
		}
	}
	return nil
}

func (e *env) read(ctx context.Context, w where, read func(int)) ([]history, error) {
	if !w.session {
		return e.histories(ctx, w.Name, read)
	}
	c, s, err := e.session(ctx, w.Name)
	if coded(err, api.Unavailable) {
		return nil, api.Errorf(api.Unavailable, nil, "there is no file %s; to look for a session: %v", w.Name, err)
	}
	if err != nil {
		return nil, err
	}
	h, err := sessionHistory(ctx, c, s, cmp.Or(s.Label, s.ID.String()))
	return []history{h}, err
}

// add replays a history under every policy.
func (x *comparison) add(ctx context.Context, h history, each func()) error {
	opt := compare.Options{
		Limits: turns.Limits{ContextWindow: x.window}, Each: each,
		Tiers: []compactor.Tier{{Name: "extractive", Summarizer: extractive.New(extractive.Config{}), Local: true}},
	}
	one := compared{name: h.name, turns: h.transcript.Turns(), calls: h.transcript.Calls()}
	if one.calls == 0 {
		return nil
	}
	var replays []*compare.Replay
	price := x.priceOf(h.model)
	for i, p := range x.policies {
		r, err := h.transcript.Replay(ctx, p, opt)
		if err != nil {
			return err
		}
		var s compare.Sum
		s.Add(r)
		x.sums[i].Add(r)
		c := comparedCost{s.Usage.Cost(price), s.Usage.Uncached(price)}
		x.costs[i].cached, x.costs[i].uncached = x.costs[i].cached+c.cached, x.costs[i].uncached+c.uncached
		one.sums, one.costs, replays = append(one.sums, s), append(one.costs, c), append(replays, r)
	}
	x.oracle.Add(h.transcript.Oracle(replays[x.measure]))
	x.each = append(x.each, one)
	if x.longest == nil || one.calls > len(x.longest[0].Calls) {
		x.longest, x.name = replays, h.name
	}
	return nil
}

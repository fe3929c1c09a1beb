package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nexus/compactor/compare"
	"nexus/compactor/policy"
	"nexus/turns/tokens"
)

// claim says what a comparison is of.
const claim = "Compared is what policies cut, prune and extract. The summaries are by rules, no model wrote one, and in every " +
	"replay the agent says what it said in the transcript. ledgerctl help compare explains the columns; balanced is what a session has that names no policy."

// costRows is what each policy sends, and what that costs.
func (x *comparison) costRows() (head []string, rows [][]string) {
	head = []string{"policy", "calls", "compactions", "elisions", "overflows", "mean", "max", "prompt", "again", "summarized", "cost", "relative"}
	least := uint64(0)
	for i := range x.sums {
		if c := x.costs[i].cached; i == 0 || c < least {
			least = c
		}
	}
	for i := range x.sums {
		s := &x.sums[i]
		cost := x.costs[i].cached
		rows = append(rows, []string{
			x.policies[i].Name, grouped(uint64(s.Calls)), grouped(uint64(s.Compactions)), grouped(uint64(s.Elisions)), grouped(uint64(s.Overflows)),
			grouped(s.MeanTokens()), grouped(s.MaxTokens), grouped(s.Usage.Prompt()), grouped(s.Rewritten), grouped(s.Summarized),
			fmt.Sprintf("$%.2f", float64(cost)/1e6), fmt.Sprintf("%.2f×", relative(cost, least)),
		})
	}
	return head, rows
}

func relative(cost, least uint64) float64 {
	if least == 0 {
		return 1
	}
	return float64(cost) / float64(least)
}

// keptRows is what each policy keeps of what the agent writes again.
func (x *comparison) keptRows() (head []string, rows [][]string) {
	head = []string{"policy", "hidden", "paths", "identifiers", "numbers", "errors", "lines", "all", "summary", "reachable", "earlier"}
	for i := range x.sums {
		s := &x.sums[i].Survival
		total, earlier := s.Total(), s.AllEarlier()
		row := []string{x.policies[i].Name, grouped(uint64(total.All))}
		for _, k := range compare.Kinds() {
			row = append(row, percent(s.Hidden[k].InContext(), s.Hidden[k].All))
		}
		rows = append(rows, append(row, percent(total.InContext(), total.All), percent(total.Summary, total.All-total.Shown),
			percent(total.InContext()+total.Reachable, total.All), percent(earlier.InContext(), earlier.All)))
	}
	return head, rows
}

// earlierRows is what each policy keeps of the facts that are the same for every
// policy, by kind, and what the oracle holds of them.
func (x *comparison) earlierRows() (head []string, rows [][]string) {
	head = []string{"earlier", "paths", "identifiers", "numbers", "errors", "lines", "all", "of oracle"}
	best := x.oracle.AllEarlier().InContext()
	row := func(name string, of []compare.Share, all compare.Share) {
		cells := []string{name}
		for _, k := range compare.Kinds() {
			cells = append(cells, percent(of[k].InContext(), of[k].All))
		}
		rows = append(rows, append(cells, percent(all.InContext(), all.All), percent(all.InContext(), best)))
	}
	for i := range x.sums {
		s := &x.sums[i].Survival
		row(x.policies[i].Name, s.Earlier[:], s.AllEarlier())
	}
	row("oracle", x.oracle.Earlier[:], x.oracle.AllEarlier())
	return head, rows
}

// baselines says what the oracle needs, and how the recorded row's contexts compare
// with what the transcripts report.
func (x *comparison) baselines() (out []string) {
	if o := &x.oracle; o.Calls > 0 {
		n := uint64(o.Calls)
		out = append(out, fmt.Sprintf("The oracle has at each call as many tokens as %s: on average %s beside what is newly sent. The facts that the call's response writes again take %s of them, those of this and all later responses %s.",
			x.policies[x.measure].Name, grouped(o.Room/n), grouped(o.Needed/n), grouped(o.Later/n)))
	}
	for i := range x.sums {
		if x.policies[i].Name != policy.RecordedName {
			continue
		}
		r := x.sums[i].Reported
		s := "recorded: the transcripts do not report the size of any call."
		if n := uint64(r.Calls); n > 0 {
			s = fmt.Sprintf("recorded: the transcripts report the size of %s of %s, %s tokens on average; as replayed they have %s. The difference is system and tools that the source lacks, what its agent left out without a record, and another tokenizer.",
				grouped(n), plural(uint64(x.sums[i].Calls), "call"), grouped(r.Reported/n), grouped(r.Counted/n))
		}
		out = append(out, s)
	}
	return out
}

func percent(n, of int) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

// forecasts says, of each policy that compacts where it expects that to pay, what
// it expected and what came of it.
func (x *comparison) forecasts() (out []string) {
	for i := range x.sums {
		var expected, rewritten, saves, saved uint64
		paid, foreseen, after := 0, 0.0, 0.0
		ws := x.sums[i].Rewrites
		for k := range ws {
			w := &ws[k]
			expected, rewritten, saves, saved = expected+w.Expected.Rewrite, rewritten+w.Rewritten, saves+w.Expected.Saves, saved+w.Saved
			foreseen, after = foreseen+w.Expected.Payback, after+w.Payback(x.prices)
			if float64(w.Calls) >= w.Payback(x.prices) {
				paid++
			}
		}
		if n := uint64(len(ws)); n > 0 {
			out = append(out, fmt.Sprintf("%s made %s that it expected to pay. Expected (measured), on average: %s tokens written again (%s), %s fewer a call (%s), paid back after %.1f calls (%.1f). %d had paid before the next one or the end.",
				x.policies[i].Name, plural(n, "compaction"), grouped(expected/n), grouped(rewritten/n), grouped(saves/n), grouped(saved/n), foreseen/float64(n), after/float64(n), paid))
		}
	}
	return out
}

// what is the first line: what was replayed.
func (x *comparison) what() string {
	n, calls := uint64(len(x.each)), uint64(0)
	for _, c := range x.each {
		calls += uint64(c.calls)
	}
	return fmt.Sprintf("%s with %s, a window of %s tokens, %s a million tokens read from the cache / written to it / answered",
		plural(n, "transcript"), plural(calls, "call"), grouped(x.window), x.priceText())
}

// priceText says which prices the costs are by.
func (x *comparison) priceText() string {
	text := func(p tokens.Price) string {
		return fmt.Sprintf("$%.2f / %.2f / %.2f", float64(p.CacheRead)/1e6, float64(p.CacheWrite)/1e6, float64(p.Output)/1e6)
	}
	if len(x.priced) == 0 {
		return text(x.prices)
	}
	var out []string
	for _, model := range slices.Sorted(maps.Keys(x.priced)) {
		name := cmp.Or(printable(model), "models without a known price")
		out = append(out, text(x.priced[model])+" ("+name+")")
	}
	return strings.Join(out, ", ")
}

func (x *comparison) table(e *env) string {
	numbers := func(head []string) (cols []column) {
		for i, h := range head {
			cols = append(cols, column{head: h, right: i > 0})
		}
		return cols
	}
	cost, costs := x.costRows()
	kept, keeps := x.keptRows()
	earlier, earliers := x.earlierRows()
	return wrapped(e.width, faint.Render(x.what()), "  ") + "\n\n" + e.stacked(numbers(cost), costs) +
		"\n" + wrapped(e.width, faint.Render("of the facts that the agent writes again, those in its context:"), "  ") + "\n" + e.stacked(numbers(kept), keeps) +
		"\n" + wrapped(e.width, faint.Render("of all facts of earlier turns, the same for every policy:"), "  ") + "\n" + e.stacked(numbers(earlier), earliers) +
		"\n" + x.sentences(cmp.Or(e.width, 100))
}

// sentences returns the text below the tables.
func (x *comparison) sentences(width int) string {
	var b strings.Builder
	for _, s := range append(x.baselines(), x.forecasts()...) {
		b.WriteString(wrapped(width, s, "  ") + "\n")
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(wrapped(width, claim, "") + "\n")
	return b.String()
}

func (x *comparison) markdown() string {
	var b strings.Builder
	b.WriteString(strings.ToUpper(x.what()[:1]) + x.what()[1:] + ".\n")
	for _, rows := range []func() ([]string, [][]string){x.costRows, x.keptRows, x.earlierRows} {
		head, body := rows()
		line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
		b.WriteByte('\n')
		line(head)
		b.WriteString("|---|" + strings.Repeat("---:|", len(head)-1) + "\n")
		for _, r := range body {
			line(r)
		}
	}
	for _, f := range append(x.baselines(), x.forecasts()...) {
		b.WriteString("\n" + f + "\n")
	}
	return b.String()
}

// comparedJSON is a comparison as JSON; costs in micro-dollars.
type comparedJSON struct {
	Window      uint64                  `json:"window"`
	Prices      tokens.Price            `json:"prices"`                    // of models that the table does not have
	Models      map[string]tokens.Price `json:"prices_by_model,omitempty"` // those that were used; "": prices
	Policies    []sumJSON               `json:"policies"`
	Oracle      oracleJSON              `json:"oracle"`
	Transcripts []transcriptJSON        `json:"transcripts"`
}

// oracleJSON is [compare.Oracle]; tokens of all calls together.
type oracleJSON struct {
	Sizes  string                   `json:"context_sizes_of"` // a policy
	Room   uint64                   `json:"room"`
	Needed uint64                   `json:"needed"`
	Later  uint64                   `json:"needed_later"`
	ByKind map[string]compare.Share `json:"earlier_by_kind"`
}

type transcriptJSON struct {
	Name     string    `json:"name"`
	Turns    int       `json:"turns"`
	Calls    int       `json:"calls"`
	Policies []sumJSON `json:"policies"`
}

type sumJSON struct {
	Policy      string                   `json:"policy"`
	Version     uint64                   `json:"version"`
	Mode        string                   `json:"mode"`
	Calls       int                      `json:"calls"`
	Compactions int                      `json:"compactions"`
	Elisions    int                      `json:"elision_passes"`
	Overflows   int                      `json:"overflows"`
	Mean        uint64                   `json:"context_mean"`
	Max         uint64                   `json:"context_max"`
	Prompt      uint64                   `json:"prompt_tokens"`
	Rewritten   uint64                   `json:"rewritten"`
	Usage       compare.Usage            `json:"usage"`
	Summarized  uint64                   `json:"summarized"`
	Cost        uint64                   `json:"cost"`
	Uncached    uint64                   `json:"cost_uncached"`
	Hidden      map[string]compare.Share `json:"hidden"` // by kind, and total
	Earlier     compare.Share            `json:"earlier"`
	ByKind      map[string]compare.Share `json:"earlier_by_kind"`
	OfOracle    float64                  `json:"of_oracle,omitzero"` // of all transcripts together: Earlier in context, over those of the oracle
	Reported    compare.Reported         `json:"reported,omitzero"`  // the calls whose size the transcripts report
}

func (x *comparison) report() comparedJSON {
	o := &x.oracle
	out := comparedJSON{Window: x.window, Prices: x.prices, Models: x.priced, Policies: x.sumsJSON(x.sums, x.costs), Transcripts: []transcriptJSON{}}
	out.Oracle = oracleJSON{x.policies[x.measure].Name, o.Room, o.Needed, o.Later, make(map[string]compare.Share)}
	for _, k := range compare.Kinds() {
		out.Oracle.ByKind[k.String()] = o.Earlier[k]
	}
	for i := range out.Policies {
		if best := o.AllEarlier().InContext(); best > 0 {
			out.Policies[i].OfOracle = float64(out.Policies[i].Earlier.InContext()) / float64(best)
		}
	}
	for _, c := range x.each {
		out.Transcripts = append(out.Transcripts, transcriptJSON{c.name, c.turns, c.calls, x.sumsJSON(c.sums, c.costs)})
	}
	return out
}

func (x *comparison) sumsJSON(sums []compare.Sum, costs []comparedCost) (out []sumJSON) {
	for i := range sums {
		s, p := &sums[i], &x.policies[i]
		j := sumJSON{
			Policy: p.Name, Version: p.Version, Mode: string(p.Mode), Calls: s.Calls, Compactions: s.Compactions, Elisions: s.Elisions, Overflows: s.Overflows,
			Mean: s.MeanTokens(), Max: s.MaxTokens, Prompt: s.Usage.Prompt(), Rewritten: s.Rewritten, Usage: s.Usage, Summarized: s.Summarized,
			Cost: costs[i].cached, Uncached: costs[i].uncached,
			Hidden: map[string]compare.Share{"total": s.Survival.Total()}, Earlier: s.Survival.AllEarlier(), ByKind: make(map[string]compare.Share),
			Reported: s.Reported,
		}
		for _, k := range compare.Kinds() {
			j.Hidden[k.String()], j.ByKind[k.String()] = s.Survival.Hidden[k], s.Survival.Earlier[k]
		}
		out = append(out, j)
	}
	return out
}

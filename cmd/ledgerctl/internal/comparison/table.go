package comparison

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/compactor/compare"
	"nexus/compactor/policy"
	"nexus/turns/tokens"
)

// claim says what a comparison is of.
const claim = "Compared is what policies cut, prune and extract. The summaries are by rules, no model wrote one, and in every " +
	"replay the agent says what it said in the transcript. ledgerctl help compare explains the columns; balanced is what a session has that names no policy."

// costRows is what each policy sends, and what that costs.
func (x *Comparison) costRows() (head []string, rows [][]string) {
	head = []string{"policy", "calls", "compactions", "elisions", "overflows", "mean", "max", "prompt", "again", "summarized", "cost", "relative"}
	least := uint64(0)
	for i := range x.Sums {
		if c := x.Costs[i].cached; i == 0 || c < least {
			least = c
		}
	}
	for i := range x.Sums {
		s := &x.Sums[i]
		cost := x.Costs[i].cached
		rows = append(rows, []string{
			x.Policies[i].Name, prose.Grouped(uint64(s.Calls)), prose.Grouped(uint64(s.Compactions)), prose.Grouped(uint64(s.Elisions)), prose.Grouped(uint64(s.Overflows)),
			prose.Grouped(s.MeanTokens()), prose.Grouped(s.MaxTokens), prose.Grouped(s.Usage.Prompt()), prose.Grouped(s.Rewritten), prose.Grouped(s.Summarized),
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
func (x *Comparison) keptRows() (head []string, rows [][]string) {
	head = []string{"policy", "hidden", "paths", "identifiers", "numbers", "lines", "all", "summary", "reachable", "earlier"}
	for i := range x.Sums {
		s := &x.Sums[i].Survival
		total, earlier := s.Total(), s.AllEarlier()
		row := []string{x.Policies[i].Name, prose.Grouped(uint64(total.All))}
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
func (x *Comparison) earlierRows() (head []string, rows [][]string) {
	head = []string{"earlier", "paths", "identifiers", "numbers", "lines", "all", "of oracle"}
	best := x.oracle.AllEarlier().InContext()
	row := func(name string, of []compare.Share, all compare.Share) {
		cells := []string{name}
		for _, k := range compare.Kinds() {
			cells = append(cells, percent(of[k].InContext(), of[k].All))
		}
		rows = append(rows, append(cells, percent(all.InContext(), all.All), percent(all.InContext(), best)))
	}
	for i := range x.Sums {
		s := &x.Sums[i].Survival
		row(x.Policies[i].Name, s.Earlier[:], s.AllEarlier())
	}
	row("oracle", x.oracle.Earlier[:], x.oracle.AllEarlier())
	return head, rows
}

// baselines says what the oracle needs, and how the recorded row's contexts compare
// with what the transcripts report.
func (x *Comparison) baselines() (out []string) {
	if o := &x.oracle; o.Calls > 0 {
		n := uint64(o.Calls)
		out = append(out, fmt.Sprintf("The oracle has at each call as many tokens as %s: on average %s beside what is newly sent. The facts that the call's response writes again take %s of them, those of this and all later responses %s.",
			x.Policies[x.measure].Name, prose.Grouped(o.Room/n), prose.Grouped(o.Needed/n), prose.Grouped(o.Later/n)))
	}
	for i := range x.Sums {
		if x.Policies[i].Name != policy.RecordedName {
			continue
		}
		r := x.Sums[i].Reported
		s := "recorded: the transcripts do not report the size of any call."
		if n := uint64(r.Calls); n > 0 {
			s = fmt.Sprintf("recorded: the transcripts report the size of %s of %s, %s tokens on average; as replayed they have %s. The difference is system and tools that the source lacks, what its agent left out without a record, and another tokenizer.",
				prose.Grouped(n), prose.Plural(uint64(x.Sums[i].Calls), "call"), prose.Grouped(r.Reported/n), prose.Grouped(r.Counted/n))
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
func (x *Comparison) forecasts() (out []string) {
	for i := range x.Sums {
		var expected, rewritten, saves, saved uint64
		paid, foreseen, after := 0, 0.0, 0.0
		ws := x.Sums[i].Rewrites
		for k := range ws {
			w := &ws[k]
			expected, rewritten, saves, saved = expected+w.Expected.Rewrite, rewritten+w.Rewritten, saves+w.Expected.Saves, saved+w.Saved
			foreseen, after = foreseen+w.Expected.Payback, after+w.Payback(x.Prices)
			if float64(w.Calls) >= w.Payback(x.Prices) {
				paid++
			}
		}
		if n := uint64(len(ws)); n > 0 {
			out = append(out, fmt.Sprintf("%s made %s that it expected to pay. Expected (measured), on average: %s tokens written again (%s), %s fewer a call (%s), paid back after %.1f calls (%.1f). %d had paid before the next one or the end.",
				x.Policies[i].Name, prose.Plural(n, "compaction"), prose.Grouped(expected/n), prose.Grouped(rewritten/n), prose.Grouped(saves/n), prose.Grouped(saved/n), foreseen/float64(n), after/float64(n), paid))
		}
	}
	return out
}

// what is the first line: what was replayed.
func (x *Comparison) what() string {
	n, calls := uint64(len(x.Each)), uint64(0)
	for _, c := range x.Each {
		calls += uint64(c.Calls)
	}
	return fmt.Sprintf("%s with %s, a window of %s tokens, %s a million tokens read from the cache / written to it / answered",
		prose.Plural(n, "transcript"), prose.Plural(calls, "call"), prose.Grouped(x.Window), x.priceText())
}

// priceText says which prices the costs are by.
func (x *Comparison) priceText() string {
	text := func(p tokens.Price) string {
		return fmt.Sprintf("$%.2f / %.2f / %.2f", float64(p.CacheRead)/1e6, float64(p.CacheWrite)/1e6, float64(p.Output)/1e6)
	}
	if len(x.priced) == 0 {
		return text(x.Prices)
	}
	var out []string
	for _, model := range slices.Sorted(maps.Keys(x.priced)) {
		name := cmp.Or(prose.Printable(model), "models without a known price")
		out = append(out, text(x.priced[model])+" ("+name+")")
	}
	return strings.Join(out, ", ")
}

func (x *Comparison) Table(term *terminal.Terminal) string {
	numbers := func(head []string) (cols []terminal.Column) {
		for i, h := range head {
			cols = append(cols, terminal.Column{Head: h, Right: i > 0})
		}
		return cols
	}
	cost, costs := x.costRows()
	kept, keeps := x.keptRows()
	earlier, earliers := x.earlierRows()
	return terminal.Wrapped(term.Width, terminal.Faint.Render(x.what()), "  ") + "\n\n" + term.Stacked(numbers(cost), costs) +
		"\n" + terminal.Wrapped(term.Width, terminal.Faint.Render("of the facts that the agent writes again, those in its context:"), "  ") + "\n" + term.Stacked(numbers(kept), keeps) +
		"\n" + terminal.Wrapped(term.Width, terminal.Faint.Render("of all facts of earlier turns, the same for every policy:"), "  ") + "\n" + term.Stacked(numbers(earlier), earliers) +
		"\n" + x.sentences(cmp.Or(term.Width, 100))
}

// sentences returns the text below the tables.
func (x *Comparison) sentences(width int) string {
	var b strings.Builder
	for _, s := range append(x.baselines(), x.forecasts()...) {
		b.WriteString(terminal.Wrapped(width, s, "  ") + "\n")
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(terminal.Wrapped(width, claim, "") + "\n")
	return b.String()
}

func (x *Comparison) Markdown() string {
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

func (x *Comparison) Report() comparedJSON {
	o := &x.oracle
	out := comparedJSON{Window: x.Window, Prices: x.Prices, Models: x.priced, Policies: x.sumsJSON(x.Sums, x.Costs), Transcripts: []transcriptJSON{}}
	out.Oracle = oracleJSON{x.Policies[x.measure].Name, o.Room, o.Needed, o.Later, make(map[string]compare.Share)}
	for _, k := range compare.Kinds() {
		out.Oracle.ByKind[k.String()] = o.Earlier[k]
	}
	for i := range out.Policies {
		if best := o.AllEarlier().InContext(); best > 0 {
			out.Policies[i].OfOracle = float64(out.Policies[i].Earlier.InContext()) / float64(best)
		}
	}
	for _, c := range x.Each {
		out.Transcripts = append(out.Transcripts, transcriptJSON{c.Name, c.turns, c.Calls, x.sumsJSON(c.Sums, c.costs)})
	}
	return out
}

func (x *Comparison) sumsJSON(sums []compare.Sum, costs []ComparedCost) (out []sumJSON) {
	for i := range sums {
		s, p := &sums[i], &x.Policies[i]
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

package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"nexus/ledger/api"
	"nexus/turns"
)

func contextCmd(e *env) *cobra.Command {
	var format, policy string
	var budget, queryTokens uint64
	var query string
	var explain, svg bool
	c := verb("context SESSION|TURN", "what the model would see", 1, 1, func(cmd *cobra.Command, args []string) error {
		if svg && (e.json || format != "") {
			return usageError{errBothForms}
		}
		if queryTokens > 0 && query == "" {
			return usageError{errors.New("--query-tokens goes with --query")}
		}
		p, err := e.place(cmd, args[0])
		if err != nil {
			return err
		}
		c, s, at := p.c, p.s, p.turn
		if e.agent == "" {
			c = c.As(api.Operator) // a look commits nothing
		}
		r := api.GetContext{At: at, Format: format, Budget: budget, Query: query, QueryTokens: queryTokens, Explain: explain}
		if policy != "" {
			var err error
			if r.Policy, err = policyArg(policy); err != nil {
				return err
			}
		}
		cx, err := c.Context(cmd.Context(), s.ID, r)
		if err != nil {
			return err
		}
		if svg {
			name := cmp.Or(s.Label, short(s.ID))
			if !at.IsZero() {
				name += ", turn " + short(at)
			}
			return plotContext(e.raw, name, cx)
		}
		if e.json || format != "" {
			return e.print(cx)
		}
		e.printContext(cx, explain)
		return nil
	})
	c.Flags().StringVar(&format, "format", "", "print the messages as JSON: otel, openai, anthropic, gemini")
	c.Flags().StringVar(&policy, "policy", "", "look with another policy")
	c.Flags().Uint64Var(&budget, "budget", 0, "look with another budget, in tokens")
	c.Flags().StringVar(&query, "query", "", "bring back what answers it of the turns that are not shown whole")
	c.Flags().Uint64Var(&queryTokens, "query-tokens", 0, "with --query: at most so many tokens")
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(contextForms, cobra.ShellCompDirectiveNoFileComp))
	c.Flags().BoolVar(&svg, "svg", false, "print a picture, as SVG")
	c.Flags().BoolVar(&explain, "explain", false, "say for each half turn why it is in, shortened or out")
	return c
}

// printContext prints how full the window is and where each half turn of the
// context comes from. Long runs that are kept whole are folded, unless all is
// asked for.
func (e *env) printContext(cx *api.Context, all bool) {
	counted := cx.Tokens + cx.Overhead
	used, by := counted, "estimated"
	if cx.Reported > 0 {
		used, by = cx.Reported, "billed"
	}
	share := float64(used) / float64(max(cx.Budget, 1))
	cells := 40
	if e.width > 0 {
		cells = min(cells, max(10, e.width-50))
	}
	about := ""
	if cx.Overhead > 0 {
		about = fmt.Sprintf(", %s of them system and tools", grouped(cx.Overhead))
	}
	counter := printable(counterOf(cx.Recipe))
	if cx.Reported > 0 {
		about = "" // the provider does not say what of its count is system and tools
	} else if counter != defaultCounter {
		about += ", counted by " + counter
	}
	full := fmt.Sprintf("%s %.0f%%  %s of %s tokens (%s)", gauge(share, cells), 100*share, grouped(used), grouped(cx.Budget), by)
	if about = guessed(cx.WindowGuess) + about; e.width > 0 && lipgloss.Width(full+about) > e.width {
		full, about = full+"\n  ", wrapped(e.width-2, strings.TrimPrefix(about, ", "), "  ") // below the bar, as a line of its own
	}
	fmt.Fprintln(e.out, full+about)
	if cx.Reported > 0 {
		fmt.Fprintln(e.out, wrapped(e.width, fmt.Sprintf("billed: the provider's count of the last call, and an estimate of what came since; the rows below are estimates of %s: %s messages + %s system and tools = %s tokens",
			counter, grouped(cx.Tokens), grouped(cx.Overhead), grouped(counted)), "  "))
	}
	if all && len(cx.Preamble) > 0 {
		var rows [][]string
		for _, p := range cx.Preamble {
			rows = append(rows, []string{p.Type, grouped(p.Tokens), printable(p.Name)})
		}
		fmt.Fprint(e.out, e.table([]column{{head: "part"}, {head: "tokens", right: true}, {head: "name", least: 20}}, rows))
	}
	const head, tail = 6, 10
	why := ""
	if all {
		why = "why"
	}
	var rows [][]string
	for i, s := range cx.Sources {
		if !all && len(cx.Sources) > head+tail+1 && i >= head && i < len(cx.Sources)-tail {
			if i == head {
				rest := cx.Sources[head : len(cx.Sources)-tail]
				sum := uint64(0)
				for _, r := range rest {
					sum += r.Tokens
				}
				rows = append(rows, []string{faint.Render("…"), faint.Render(fmt.Sprintf("%s more", grouped(uint64(len(rest))))), "", grouped(sum), ""})
			}
			continue
		}
		turn := idStyle.Render(short(s.Turn))
		switch {
		case s.Half == "memory" && s.Turn.IsZero():
			turn = faint.Render("system")
		case s.Turn.IsZero():
			turn = faint.Render("not stored")
		}
		if s.Status == "dropped" && s.Half == "recalled" {
			turn = faint.Render("query")
		}
		half := s.Half
		if s.Status == "summary" {
			half = "stands for many"
		}
		rows = append(rows, []string{turn, half, status(s.Status), grouped(s.Tokens), printable(s.Why)})
	}
	fmt.Fprint(e.out, e.table([]column{{head: "turn"}, {head: "half"}, {head: "shown"}, {head: "tokens", right: true}, {head: why, wraps: true, least: 20}}, rows))
	fmt.Fprintf(e.out, "%s, fingerprint %s\n", plural(uint64(len(cx.Messages)), "message"), faint.Render(shortHash(cx.Fingerprint, e.width)))
}

// defaultCounter is what tokens are counted by where a policy names nothing else.
const defaultCounter = "approx-1"

// counterOf is what the tokens of a context were counted by.
func counterOf(recipe turns.Raw) string {
	var r struct {
		Counter string `json:"counter"`
	}
	if err := json.Unmarshal(recipe, &r); err != nil || r.Counter == "" {
		return defaultCounter
	}
	return r.Counter
}

// shortHash is a hash, cut where a terminal has no room for all of it.
func shortHash(h string, width int) string {
	if width > 0 && width < 110 && len(h) > 23 {
		return h[:23] + "…"
	}
	return h
}

// status styles the status of a part: every status but verbatim is highlighted.
func status(s string) string {
	switch s {
	case "verbatim":
		return s
	case "summary", "memory", "recalled":
		return folded.Render(s)
	}
	return tool.Render(s)
}

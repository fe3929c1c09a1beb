package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"nexus/ledger/api"
)

func contextCmd(e *env) *cobra.Command {
	var format, policy string
	var budget uint64
	var explain bool
	c := verb("context SESSION|TURN", "what the model would see", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, s, at, err := e.place(cmd, args[0])
		if err != nil {
			return err
		}
		if e.agent == "" {
			c = c.As(api.Operator) // a look commits nothing
		}
		r := api.GetContext{At: at, Format: format, Budget: budget, Explain: explain}
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
		if e.json || format != "" {
			return e.print(cx)
		}
		printContext(e.out, cx, explain)
		return nil
	})
	c.Flags().StringVar(&format, "format", "", "print the messages as JSON: otel, openai, anthropic, gemini")
	c.Flags().StringVar(&policy, "policy", "", "look with another policy")
	c.Flags().Uint64Var(&budget, "budget", 0, "look with another budget, in tokens")
	c.Flags().BoolVar(&explain, "explain", false, "say for each half turn why it is in, shortened or out")
	return c
}

// printContext prints how full the window is and where each half turn of the
// context comes from. Long runs that are kept whole are folded, unless all is
// asked for.
func printContext(w io.Writer, cx *api.Context, all bool) {
	used := cx.Tokens + cx.Overhead
	share := float64(used) / float64(max(cx.Budget, 1))
	fmt.Fprintf(w, "%s %.0f%%  %s of %s tokens (estimated), %s of them system and tools\n", gauge(share, 40), 100*share, grouped(used), grouped(cx.Budget), grouped(cx.Overhead))
	if all && len(cx.Preamble) > 0 {
		var rows [][]string
		for _, p := range cx.Preamble {
			rows = append(rows, []string{p.Type, p.Name, grouped(p.Tokens)})
		}
		fmt.Fprint(w, columns([]string{"part", "name", "tokens"}, rows, 2))
	}
	const head, tail = 6, 10
	var rows [][]string
	for i, s := range cx.Sources {
		if !all && len(cx.Sources) > head+tail+1 && i >= head && i < len(cx.Sources)-tail {
			if i == head {
				rest := cx.Sources[head : len(cx.Sources)-tail]
				sum := uint64(0)
				for _, r := range rest {
					sum += r.Tokens
				}
				rows = append(rows, []string{faint.Render("…"), faint.Render(fmt.Sprintf("%d more", len(rest))), "", grouped(sum), ""})
			}
			continue
		}
		turn := idStyle.Render(short(s.Turn))
		if s.Turn.IsZero() {
			turn = faint.Render("not stored")
		}
		half := s.Half
		if s.Status == "summary" {
			half = "" // it stands for many
		}
		rows = append(rows, []string{turn, half, status(s.Status), grouped(s.Tokens), s.Why})
	}
	fmt.Fprint(w, columns([]string{"turn", "half", "shown", "tokens", ""}, rows, 3))
	fmt.Fprintf(w, "%d messages, fingerprint %s\n", len(cx.Messages), faint.Render(cx.Fingerprint))
}

// status dresses how a part is shown: what is not verbatim stands out.
func status(s string) string {
	switch s {
	case "verbatim":
		return s
	case "summary", "memory", "recalled":
		return folded.Render(s)
	}
	return tool.Render(s)
}

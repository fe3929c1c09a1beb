package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/comparison"
	"nexus/cmd/ledgerctl/internal/costview"
	"nexus/cmd/ledgerctl/internal/export"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/compactor/policy"
)

func compareCmd(e *env) *cobra.Command {
	var names, set []string
	var window uint64
	var svg, prices string
	var markdown bool
	c := verb("compare FILE|DIR|SESSION…", "replay transcripts under several policies", 1, -1, func(cmd *cobra.Command, args []string) (err error) {
		if len(set) > 0 {
			if names, err = withSettings(names, set, cmd.Flags().Changed("policy")); err != nil {
				return err
			}
		}
		x, err := comparison.New(names, window)
		if err != nil {
			return err
		}
		table, err := costview.Prices(prices)
		if err != nil {
			return err
		}
		x.Models = &table
		if err := comparison.Run(cmd.Context(), e.Terminal, e.Finder, x, args); err != nil {
			return err
		}
		if svg != "" {
			if err := export.WriteFile(svg, func(w io.Writer) error { return x.Plot(w) }); err != nil {
				return err
			}
			e.Say("%s shows %s", prose.Printable(svg), prose.Printable(x.LongestName))
		}
		switch {
		case e.JSON:
			return e.Print(x.Report())
		case markdown:
			_, err = io.WriteString(e.Out, x.Markdown())
		default:
			_, err = io.WriteString(e.Out, x.Table(e.Terminal))
		}
		return err
	})
	f := c.Flags()
	f.StringArrayVar(&set, "set", nil, "KEY=VALUE, a setting of the one policy that is named")
	f.StringArrayVar(&names, "policy", append(policy.Names(), policy.RecordedName), "policies, by name, and settings of theirs; masking and recorded are baselines")
	f.Uint64Var(&window, "window", 200_000, "the model's context window, in tokens")
	f.StringVar(&svg, "svg", "", "file for a plot of the longest history")
	f.StringVar(&prices, "prices", "", "file with your own prices")
	f.BoolVar(&markdown, "markdown", false, "tables for a Markdown page")
	return c
}

// withSettings returns the names of the policies that are compared, where --set changes one.
func withSettings(policies, set []string, named bool) ([]string, error) {
	if !named || len(policies) != 1 {
		return nil, fault.Usage(errors.New("--set changes a setting of the one policy that --policy names"))
	}
	p, err := names.Policy(policies[0])
	if err != nil {
		return nil, err
	}
	settings, err := names.WithSettings(p.Set, set)
	return []string{p.Name + string(settings)}, err
}

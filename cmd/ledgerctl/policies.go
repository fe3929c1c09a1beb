package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/turns"
)

func listPoliciesCmd(e *env) *cobra.Command {
	return verb("list", "the compaction policies", 0, 0, func(cmd *cobra.Command, _ []string) error {
		c, err := e.Client(api.Operator)
		if err != nil {
			return err
		}
		list, err := c.Policies(cmd.Context())
		if err != nil {
			return err
		}
		var rows [][]string
		for _, p := range list {
			if e.JSON {
				if err := e.Print(p); err != nil {
					return err
				}
				continue
			}
			rows = append(rows, []string{terminal.Bold.Render(prose.Printable(p.Name)), fmt.Sprint(p.Version), prose.Printable(p.Mode), names.AboutPolicy(p)})
		}
		if e.JSON {
			return nil
		}
		cols := []terminal.Column{{Head: "policy"}, {Head: "version", Right: true, Drop: 2}, {Head: "mode", Drop: 1}, {Head: "what it does"}}
		_, err = io.WriteString(e.Out, e.Table(cols, rows))
		return err
	})
}

func policyCmd(e *env) *cobra.Command {
	list := listPoliciesCmd(e)
	c := verb("policy", "the compaction policies: list, show, put one of your own", 0, 0, list.RunE)
	c.Aliases = []string{"policies"}
	c.AddCommand(list, policyShowCmd(e), policyPutCmd(e))
	return c
}

// policyShowCmd is the command policy show.
func policyShowCmd(e *env) *cobra.Command {
	var version uint64
	c := verb("show POLICY|DIGEST", "a policy with its settings", 1, 1, func(cmd *cobra.Command, args []string) error {
		r, err := names.PolicyVersion(args[0])
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("version") {
			if r.Version != 0 || !r.Digest.IsZero() || version == 0 {
				return fault.Usage(errors.New("--version takes a number from 1 on, next to a name alone"))
			}
			r.Version = version
		}
		c, err := e.Client(api.Operator)
		if err != nil {
			return err
		}
		p, err := c.Policy(cmd.Context(), r)
		if err != nil {
			return err
		}
		if e.JSON {
			return e.Print(p)
		}
		fmt.Fprintf(e.Out, "%s version %d, %s\n", terminal.Bold.Render(prose.Printable(p.Name)), p.Version, prose.Printable(p.Mode))
		if text := names.AboutPolicy(*p); text != "" {
			fmt.Fprintln(e.Out, text)
		}
		fmt.Fprintln(e.Out, terminal.Faint.Render(p.Digest.String()))
		v := jsontext.Value(p.Settings)
		if err := v.Indent(jsontext.WithIndent("  ")); err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.Out, "%s\n", bytes.TrimSpace(prose.EscapeHidden(v))) // another agent may have put it
		return err
	})
	c.Flags().Uint64Var(&version, "version", 0, "an older version of a name")
	return c
}

// policyPutCmd is the command policy put.
func policyPutCmd(e *env) *cobra.Command {
	var name string
	c := verb("put FILE", "the next version of a policy of your own", 1, 1, func(cmd *cobra.Command, args []string) error {
		settings, err := e.ReadFile(args[0])
		if err != nil {
			return err
		}
		var shown struct { // what policy show --json prints has the settings in a member
			Name     string    `json:"name"`
			Settings turns.Raw `json:"settings"`
		}
		if err := json.Unmarshal(settings, &shown); err != nil {
			return fault.Usage(fmt.Errorf("%s is not a JSON object of settings: %w", prose.FileName(args[0]), err))
		}
		if shown.Settings != nil {
			settings = shown.Settings
		}
		if name == "" {
			name = shown.Name
		}
		if name == "" {
			return fault.Usage(fmt.Errorf("%s has no name; give --name", args[0]))
		}
		c, err := e.Client("main")
		if err != nil {
			return err
		}
		p, err := c.PutPolicy(cmd.Context(), api.PutPolicy{Name: name, Settings: settings})
		if err != nil {
			return err
		}
		if e.JSON {
			return e.Print(p)
		}
		if p.Duplicate {
			e.Say("version %d has these settings already", p.Version)
		}
		_, err = fmt.Fprintf(e.Out, "%s version %d\n", p.Name, p.Version)
		return err
	})
	c.Flags().StringVar(&name, "name", "", "name of the policy (else: that of the file)")
	return c
}

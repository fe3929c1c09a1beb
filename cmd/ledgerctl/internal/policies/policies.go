// Package policies is the work of ledgerctl policy: it lists the compaction policies, shows one, and
// puts the next version of one of the user's own.
//
// Package main calls it. Names and their settings are read by package names.
//
// Begin at [List].
package policies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/turns"
)

// List lists the policies.
func List(ctx context.Context, e *cli.Env) error {
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	list, err := c.Policies(ctx)
	if err != nil {
		return err
	}
	if e.JSON {
		return terminal.PrintJSON(e.Terminal, list)
	}
	var rows [][]string
	for _, p := range list {
		rows = append(rows, []string{terminal.Bold.Render(prose.Printable(p.Name)), fmt.Sprint(p.Version), prose.Printable(p.Mode), names.AboutPolicy(p)})
	}
	cols := []terminal.Column{{Head: "policy"}, {Head: "version", Right: true, Drop: 2}, {Head: "mode", Drop: 1}, {Head: "what it does"}}
	_, err = io.WriteString(e.Out, e.Table(cols, rows))
	return err
}

// Show prints a policy with its settings, by its name or digest; with version an older one of a name.
func Show(ctx context.Context, e *cli.Env, name string, version *uint64) error {
	r, err := names.PolicyVersion(name)
	if err != nil {
		return err
	}
	if version != nil {
		if r.Version != 0 || !r.Digest.IsZero() || *version == 0 {
			return fault.Usage(errors.New("--version takes a number from 1 on, next to a name alone"))
		}
		r.Version = *version
	}
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	p, err := c.Policy(ctx, r)
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
}

// Put stores the next version of a policy, as a file has it; name "": that of the file.
func Put(ctx context.Context, e *cli.Env, file, name string) error {
	settings, err := e.ReadFile(file)
	if err != nil {
		return err
	}
	var shown struct { // what policy show --json prints has the settings in a member
		Name     string    `json:"name"`
		Settings turns.Raw `json:"settings"`
	}
	if err := json.Unmarshal(settings, &shown); err != nil {
		return fault.Usage(fmt.Errorf("%s is not a JSON object of settings: %w", prose.FileName(file), err))
	}
	if shown.Settings != nil {
		settings = shown.Settings
	}
	if name == "" {
		name = shown.Name
	}
	if name == "" {
		return fault.Usage(fmt.Errorf("%s has no name; give --name", file))
	}
	c, err := e.Client("main")
	if err != nil {
		return err
	}
	p, err := c.PutPolicy(ctx, api.PutPolicy{Name: name, Settings: settings})
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
}

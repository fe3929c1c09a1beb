package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/turns"
)

func policiesCmd(e *env) *cobra.Command {
	return verb("policies", "the compaction policies", 0, 0, func(cmd *cobra.Command, _ []string) error {
		c, err := e.client(api.Operator)
		if err != nil {
			return err
		}
		list, err := c.Policies(cmd.Context())
		if err != nil {
			return err
		}
		var rows [][]string
		for _, p := range list {
			if e.json {
				if err := e.print(p); err != nil {
					return err
				}
				continue
			}
			rows = append(rows, []string{bold.Render(printable(p.Name)), fmt.Sprint(p.Version), printable(p.Mode), about(p)})
		}
		if e.json {
			return nil
		}
		cols := []column{{head: "policy"}, {head: "version", right: true, drop: 2}, {head: "mode", drop: 1}, {head: "what it does"}}
		_, err = io.WriteString(e.out, e.table(cols, rows))
		return err
	})
}

func policyCmd(e *env) *cobra.Command {
	c := verb("policy show NAME", "one of them with its settings; put FILE stores one of your own", 0, 0, func(cmd *cobra.Command, _ []string) error { return cmd.Help() })
	c.AddCommand(policyShowCmd(e), policyPutCmd(e))
	return c
}

// policyShowCmd is the command policy show.
func policyShowCmd(e *env) *cobra.Command {
	var version uint64
	c := verb("show NAME[@VERSION]|DIGEST", "a policy with its settings", 1, 1, func(cmd *cobra.Command, args []string) error {
		r, err := policyShown(args[0])
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("version") {
			if r.Version != 0 || !r.Digest.IsZero() || version == 0 {
				return usageError{errors.New("--version takes a number from 1 on, next to a name alone")}
			}
			r.Version = version
		}
		c, err := e.client(api.Operator)
		if err != nil {
			return err
		}
		p, err := c.Policy(cmd.Context(), r)
		if err != nil {
			return err
		}
		if e.json {
			return e.print(p)
		}
		fmt.Fprintf(e.out, "%s version %d, %s\n", bold.Render(printable(p.Name)), p.Version, printable(p.Mode))
		if text := about(*p); text != "" {
			fmt.Fprintln(e.out, text)
		}
		fmt.Fprintln(e.out, faint.Render(p.Digest.String()))
		v := jsontext.Value(p.Settings)
		if err := v.Indent(jsontext.WithIndent("  ")); err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.out, "%s\n", bytes.TrimSpace(escapeHidden(v))) // another agent may have put it
		return err
	})
	c.Flags().Uint64Var(&version, "version", 0, "an older version of a name")
	return c
}

// policyShown is what policy show names: mine, mine@1, mine{"keep_tokens":1}, or the
// digest of a policy.
func policyShown(arg string) (r api.GetPolicy, err error) {
	if strings.HasPrefix(arg, "sha256:") {
		if err := r.Digest.UnmarshalText([]byte(arg)); err != nil {
			return r, usageError{fmt.Errorf("%s is not a digest: %w", arg, err)}
		}
		return r, nil
	}
	p, err := policyArg(arg)
	if err != nil {
		return r, err
	}
	name, number, numbered := strings.Cut(p.Name, "@")
	r.Name, r.Set = name, p.Set
	if numbered {
		if r.Version, err = strconv.ParseUint(number, 10, 64); err != nil || r.Version == 0 {
			return r, usageError{fmt.Errorf("%s is not NAME@VERSION, with a version from 1 on", p.Name)}
		}
	}
	return r, nil
}

// policyPutCmd is the command policy put.
func policyPutCmd(e *env) *cobra.Command {
	var name string
	c := verb("put FILE", "the next version of a policy of your own", 1, 1, func(cmd *cobra.Command, args []string) error {
		settings, err := e.readFile(args[0])
		if err != nil {
			return err
		}
		var shown struct { // what policy show --json prints has the settings in a member
			Name     string    `json:"name"`
			Settings turns.Raw `json:"settings"`
		}
		if err := json.Unmarshal(settings, &shown); err != nil {
			return usageError{fmt.Errorf("%s is not a JSON object of settings: %w", args[0], err)}
		}
		if shown.Settings != nil {
			settings = shown.Settings
		}
		if name == "" {
			name = shown.Name
		}
		if name == "" {
			return usageError{fmt.Errorf("%s has no name; give --name", args[0])}
		}
		c, err := e.client("main")
		if err != nil {
			return err
		}
		p, err := c.PutPolicy(cmd.Context(), api.PutPolicy{Name: name, Settings: settings})
		if err != nil {
			return err
		}
		if e.json {
			return e.print(p)
		}
		if p.Duplicate {
			e.say("version %d has these settings already", p.Version)
		}
		_, err = fmt.Fprintf(e.out, "%s version %d\n", p.Name, p.Version)
		return err
	})
	c.Flags().StringVar(&name, "name", "", "name of the policy (else: that of the file)")
	return c
}

// about returns a few words about a policy.
func about(p api.PolicyInfo) string {
	if p.Agent != "" {
		return "put by agent " + printable(p.Agent)
	}
	return aboutPolicy[p.Name]
}

// aboutPolicy is a few words on each built-in policy.
var aboutPolicy = map[string]string{
	"balanced":   "the default: a long extract, a short tail, in the background",
	"nexus":      "30,000 tokens kept, a summary of the rest",
	"gsv":        "20,000 kept, by what the provider counted, memories",
	"spec-008":   "five turns kept, old tool results pruned at every call",
	"autobyteus": "four turns kept, facts, large outputs shortened",
	"wolffish":   "nothing cut while it fits: large results shortened",
}

// policyCounter is what a policy counts the tokens of a context by.
func policyCounter(name string, set turns.Raw) string {
	if len(set) == 0 {
		set = nil
	}
	p, err := policy.Resolve(turns.PolicyRef{Name: name, Set: set})
	if err != nil || p.Counter == "" {
		return defaultCounter // or one of another build's, which is not known here
	}
	return p.Counter
}

// policyArg is a policy as a flag names it: by its name, or with settings of its
// own, as balanced{"keep_tokens":8000}.
func policyArg(arg string) (*api.Policy, error) {
	name, set, braced := strings.Cut(arg, "{")
	p := &api.Policy{Name: strings.TrimSpace(name)}
	if braced {
		p.Set = turns.Raw("{" + set)
		if !jsontext.Value(p.Set).IsValid() {
			return nil, usageError{fmt.Errorf("policy %s: what follows the name is not a JSON object", arg)}
		}
	}
	return p, nil
}

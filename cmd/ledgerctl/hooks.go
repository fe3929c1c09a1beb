package main

import (
	"fmt"
	"unicode"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/agents"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/hooks"
)

// hookCmd is the command hook.
func hookCmd(e *env) *cobra.Command {
	var from string
	var code bool
	c := &cobra.Command{Use: "hook", Short: "hooks of coding agents: install, uninstall, status, doctor", Aliases: []string{"hooks"}, Args: cobra.ArbitraryArgs, RunE: func(cmd *cobra.Command, args []string) error {
		event := ""
		switch { // a person calls; an agent names an event, as SessionStart
		case len(args) == 0 && e.ErrIsTerminal, len(args) == 0 && cmd.CalledAs() == "hooks":
			return cmd.Help()
		case len(args) > 0 && args[0] != "" && unicode.IsLower(rune(args[0][0])):
			return fault.NoVerb(cmd, args[0])
		case len(args) > 0:
			event = args[0]
		}
		hooks.Answer(cmd.Context(), e.Env, from, event, code)
		return nil
	}}
	c.FParseErrWhitelist.UnknownFlags = true // a wrong use would end with 2, which blocks a compaction
	c.Flags().StringVar(&from, "from", "claude", "who calls: claude, codex or pi")
	c.Flags().BoolVar(&code, "code", false, "keep the files of the folder")
	addHooks(e, c)
	return c
}

// addHooks adds what changes and shows the hooks of coding agents to the command hook.
func addHooks(e *env, c *cobra.Command) {
	var x hooks.Change
	change := func(use, short string, do func(hooks.Change, *cli.Env) error) *cobra.Command {
		v := verb(use+" [claude|codex|pi]", short, 0, 1, func(_ *cobra.Command, args []string) error {
			x.Agent = e.Agent
			if len(args) > 0 {
				if e.Agent != "" && e.Agent != args[0] {
					return fault.Usage(fmt.Errorf("%s and --agent %s name two agents", args[0], e.Agent))
				}
				x.Agent = args[0]
			}
			if a, ok := agents.Find(x.Agent); ok { // claude-code
				x.Agent = a.Name
			}
			return do(x, e.Env)
		})
		v.Flags().BoolVar(&x.DryRun, "dry-run", false, "print the settings; change nothing")
		return v
	}
	c.Flags().BoolVar(&x.DryRun, "dry-run", false, "print the settings; change nothing")
	install := change("install", "add the hooks to the settings of an agent", hooks.Change.Add)
	install.Flags().StringVar(&x.LedgerAgent, "ledger-agent", "", "the agent of the ledger that the hooks act as")
	install.Flags().BoolVar(&x.Code, "code", false, "keep the files of the folder after each answer")
	c.AddCommand(install, change("uninstall", "take the hooks out of the settings of an agent", hooks.Change.Remove),
		verb("status", "which hooks there are, and when each fired last", 0, 0, func(*cobra.Command, []string) error { return hooks.Status(e.Env) }),
		verb("doctor", "what is wrong with the hooks", 0, 0, func(*cobra.Command, []string) error { return hooks.Doctor(e.Env) }))
}

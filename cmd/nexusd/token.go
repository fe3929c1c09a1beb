package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"

	"nexus/cmd/internal/daemon/config"
)

const tokenUsage = `Usage: nexusd token NAME [--tenant T] [--agent A] [--scope S]

Makes a token for HTTP. The row of the configuration goes to stdout: it holds
the hash of the token only. The token itself goes to stderr, once; clients send
it as "Authorization: Bearer TOKEN". nexusd reads rows when it starts.

  --tenant T   the tenant of its requests (default: default)
  --agent A    the agent that they speak for (default: main; _ is the
               operator, who needs the scope admin)
  --scope S    read, write or admin (default: read)

Example:
  $ nexusd token prometheus --agent metrics >> nexus.toml
`

// newToken is the command nexusd token.
func newToken(args []string, stdout, stderr io.Writer) int {
	var tenant, agent, scope string
	fs := flag.NewFlagSet("nexusd token", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&tenant, "tenant", "", "")
	fs.StringVar(&agent, "agent", "", "")
	fs.StringVar(&scope, "scope", "read", "")
	name := ""
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		name, args = args[0], slices.Clone(args[1:])
	}
	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, tokenUsage)
		return 0
	}
	if err == nil && name == "" && fs.NArg() > 0 {
		name = fs.Arg(0)
	} else if err == nil && fs.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if err == nil && name == "" {
		err = errors.New("the token needs a name")
	}
	var secret string
	var row config.TokenRow
	if err == nil {
		secret, row, err = config.NewToken(name, tenant, agent, scope)
	}
	if err != nil {
		fmt.Fprintf(stderr, "nexusd: error: %v\nhint: nexusd token --help shows how\n", err)
		return 2
	}
	fmt.Fprintf(stdout, "[[token]]\nname = %q\nhash = %q\ntenant = %q\nagent = %q\nscope = %q\n", row.Name, row.Hash, row.Tenant, row.Agent, row.Scope)
	fmt.Fprintf(stderr, "The token, shown this once: %s\n", secret)
	return 0
}

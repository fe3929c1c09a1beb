package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"nexus/cmd/internal/daemon/config"
)

const userUsage = `Usage: nexusd user new NAME [--agents A,B] [--tenant T] [--operator]
                            [--seed FILE]

Makes the NKey of a user of the embedded NATS server. The row of the
configuration goes to stdout: it holds the public key only. The seed goes to a
new file that only its owner can read; the user connects with it. nexusd reads
rows when it starts.

  --agents A,B  the agents that the user may act as (default: NAME; * is every
                agent but the operator)
  --tenant T    the tenant of these agents (default: default)
  --operator    the user may act as the operator _ too, who reads all agents
  --seed FILE   where the seed goes (default: NAME.nk)

Example:
  $ nexusd user new alice >> nexus.toml
`

// newUser is the command nexusd user.
func newUser(args []string, stdout, stderr io.Writer) int {
	var tenant, agents, file string
	var operator bool
	fs := flag.NewFlagSet("nexusd user", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&tenant, "tenant", "", "")
	fs.StringVar(&agents, "agents", "", "")
	fs.StringVar(&file, "seed", "", "")
	fs.BoolVar(&operator, "operator", false, "")
	verb, name := "", ""
	for _, word := range []*string{&verb, &name} {
		if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
			*word, args = args[0], slices.Clone(args[1:])
		}
	}
	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, userUsage)
		return 0
	}
	switch {
	case err != nil:
	case verb != "new":
		err = errors.New("what to do with a user? new makes one")
	case name == "" && fs.NArg() == 1:
		name = fs.Arg(0)
	case fs.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case name == "":
		err = errors.New("the user needs a name")
	}
	var seed []byte
	var row config.UserRow
	if err == nil {
		list := []string{name}
		if agents != "" {
			list = strings.Split(agents, ",")
		}
		seed, row, err = config.NewUser(name, tenant, list, operator)
	}
	if err != nil {
		fmt.Fprintf(stderr, "nexusd: error: %v\nhint: nexusd user --help shows how\n", err)
		return 2
	}
	if file == "" {
		file = name + ".nk"
	}
	if err := writeSeed(file, seed); err != nil {
		fmt.Fprintf(stderr, "nexusd: error: %v\n", err)
		return 1
	}
	quoted := make([]string, len(row.Agents))
	for i, a := range row.Agents {
		quoted[i] = fmt.Sprintf("%q", a)
	}
	fmt.Fprintf(stdout, "[[user]]\nname = %q\nnkey = %q\ntenant = %q\nagents = [%s]\noperator = %v\n", row.Name, row.NKey, row.Tenant, strings.Join(quoted, ", "), row.Operator)
	fmt.Fprintf(stderr, "The seed is in %s: whoever has it is %s.\n", file, name)
	return 0
}

// writeSeed writes a new file that only its owner can read. A file that is there stays.
func writeSeed(file string, seed []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(seed) // without an end of line, which some clients do not expect
	return errors.Join(err, f.Sync(), f.Close())
}

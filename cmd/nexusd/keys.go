package main

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"nexus/cmd/internal/daemon/mend"
	"nexus/ledger/api"
)

const keysUsage = `Usage: nexusd keys FROM --data DIR

Puts content keys that a ledger lacks into its data folder: where sessions answer
"no key", or a record of keys is damaged in both copies. FROM is a file of keys that
ledgerctl backup wrote, or a copy of the folder keys of this ledger. Keys that are
there stay, and a key that was destroyed does not come back. Stop nexusd first.

Example:
  $ nexusd keys nexus.keys --data /var/lib/nexus
`

// addKeys is the command nexusd keys.
func addKeys(args []string, stdout, stderr io.Writer) int {
	f := flag.NewFlagSet("keys", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	data := f.String("data", "", "")
	var from []string
	err := f.Parse(args)
	for err == nil && f.NArg() > 0 { // flags may follow
		from = append(from, f.Arg(0))
		err = f.Parse(f.Args()[1:])
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, keysUsage)
		return 0
	case err == nil && len(from) != 1:
		err = errors.New("keys takes one file or folder of keys")
	case err == nil && *data == "":
		err = errors.New("--data names the data folder of the ledger")
	}
	if err != nil {
		fmt.Fprintf(stderr, "nexusd: error: %v\nhint: nexusd keys --help lists the flags\n", err)
		return 2
	}
	out, err := mend.AddKeys(*data, from[0])
	if err != nil {
		fmt.Fprintf(stderr, "nexusd: error: %v\n", err)
		return max(1, api.Exit(err))
	}
	fmt.Fprintf(stdout, "%d content keys added, %d were there\n", out.Added, out.Known)
	if out.Erased > 0 {
		fmt.Fprintf(stdout, "%d keys were destroyed: they are marked\n", out.Erased)
	}
	for _, why := range out.Refused {
		fmt.Fprintf(stdout, "not added: %s\n", why)
	}
	return 0
}

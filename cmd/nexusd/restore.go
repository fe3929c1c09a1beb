package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"

	"nexus/cmd/internal/daemon/mend"
	"nexus/ledger/api"
)

const restoreUsage = `Usage: nexusd restore FILE [--keys KEYS] --data DIR [--accept-incomplete]
                      [--accept-missing-keys]

Makes a data folder of a backup that ledgerctl backup wrote. Each record has the
bytes, the position and the time that it had. DIR must be empty or missing. FILE
is checked on the way, and what was written is read back. No nexusd starts in
DIR until that is done; after a crash, run the same command again.

  --keys KEYS          the content keys; needed unless the ledger does not seal
  --data DIR           the folder to make
  --accept-incomplete  of a file that is damaged, restore every record that is
                       sound; of one that ends too early, the runs that ended
                       (of a first run, what is there)
  --accept-missing-keys  restore without content keys that KEYS lacks: their
                       content can't be read. nexusd starts without these keys
                       (they are in DIR/missing.json), ledgerctl verify names
                       the sessions; nexusd keys puts back what is found later

With --accept-incomplete, what is lost is named: runs, positions, times and
sessions. A session that lost an event takes no more, and can be read by naming
a turn before the loss, and forked there. ledgerctl verify names it, too.

The ledger keeps its id, and its users get new credentials at its first start.
Do not let agents write to the original afterwards: the two are not one ledger.

Example:
  $ nexusd restore nexus.backup --keys nexus.keys --data /var/lib/nexus
`

// restore is the command nexusd restore.
func restore(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := mend.RestoreConfig{Logger: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	f := flag.NewFlagSet("restore", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&c.Keys, "keys", "", "")
	f.StringVar(&c.Data, "data", "", "")
	f.BoolVar(&c.AcceptIncomplete, "accept-incomplete", false, "")
	f.BoolVar(&c.AcceptMissingKeys, "accept-missing-keys", false, "")
	var files []string
	err := f.Parse(args)
	for err == nil && f.NArg() > 0 { // flags may follow the file
		files = append(files, f.Arg(0))
		err = f.Parse(f.Args()[1:])
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, restoreUsage)
		return 0
	case err == nil && len(files) != 1:
		err = errors.New("restore takes one backup")
	case err == nil && c.Data == "":
		err = errors.New("--data names the folder to make")
	}
	if err != nil {
		fmt.Fprintf(stderr, "nexusd: error: %v\nhint: nexusd restore --help lists the flags\n", err)
		return 2
	}
	c.File = files[0]
	out, err := mend.Restore(ctx, c)
	if err != nil {
		fmt.Fprintf(stderr, "nexusd: error: %v\n", err)
		return max(1, api.Exit(err))
	}
	fmt.Fprint(stdout, out.Text())
	return 0
}

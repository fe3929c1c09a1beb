package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"nexus/cmd/internal/daemon/folder"
	"nexus/cmd/internal/daemon/mend"
	"nexus/cmd/internal/localserver"
	"nexus/ledger/api"
	"nexus/ledger/jetstream/disk"
)

const repairUsage = `Usage: nexusd repair [--data DIR] [--nats URL] [--config FILE] [--accept-loss]

Writes damaged files of a data folder again, from the sound records in them and
from their copies: the log from the projections, the blobs from their second
stream. No nexusd may run on the folder. Positions stay as they are. The damaged
files are kept in DIR/repair-TIME.

Where no copy of a record is sound, repair names it and changes nothing. Then
restore a backup, or give those records up:

  --accept-loss  put a record that says "lost" at each such position. A session
                 that lost an event takes no more. What is before it can be read
                 by naming a turn, and forked. A session whose opening, or whose
                 parent's turn, is lost can't be read; verify names each. It
                 also begins a new log of hashes where the log does not continue
                 what was signed, or where checkpoint or checkpoint.key is
                 damaged or missing: whoever kept a checkpoint is told so

With --nats, the log is on a server of others, whose files are its operator's
to repair. Then repair compares every record that the folder knows with the log,
and names those that the log has lost, as after a server came back with an older
copy of its disk. With --accept-loss it moves what the folder has of them to
DIR/lost-TIME, and the next start makes the rest from the log as it is. Export
the sessions that lost turns first, from a daemon that still runs. Do it on the
folder of each daemon of the ledger.

Examples:
  $ nexusd repair --data /var/lib/nexus
  $ nexusd repair --nats nats://db1:4222,nats://db2:4222 --data /var/lib/nexus
`

// repair is the command nexusd repair.
func repair(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	accept := "--accept-loss"
	c := mend.RepairConfig{AcceptLoss: slices.Contains(args, accept)}
	cfg, err := parse(slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == accept }), environ)
	switch {
	case errors.Is(err, errHelp):
		fmt.Fprint(stdout, repairUsage)
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "nexusd: error: %v\nhint: nexusd repair --help lists the flags\n", err)
		return 2
	}
	c.Data = localserver.Folder(cfg.Data)
	if cfg.NATS != "" {
		return compareLog(ctx, mend.CompareConfig{Data: c.Data, NATS: cfg.NATS, AcceptLoss: c.AcceptLoss}, stdout, stderr)
	}
	out, err := mend.Repair(ctx, c)
	report(stdout, out)
	if loss := (*disk.LossError)(nil); errors.As(err, &loss) {
		fmt.Fprintf(stderr, "nexusd: error: %v\nhint: nothing was changed. Restore a backup of %s, or run nexusd repair --accept-loss to give up what is named above\n", err, c.Data)
		return max(1, api.Exit(err))
	}
	if err != nil {
		fmt.Fprintf(stderr, "nexusd: error: %v\n", err)
		return max(1, api.Exit(err))
	}
	if out.Identity {
		fmt.Fprintln(stdout, "restored: ledger.json, from the stream")
	}
	switch {
	case out.NewLog != "":
		fmt.Fprintf(stdout, "checkpoints: %s. The next start begins a new log of hashes, under another origin and key; the files of the old one are kept beside it, as checkpoint.TIME\n", out.NewLog)
	case out.Unsigned != "":
		fmt.Fprintf(stdout, "checkpoints: %s. If you know why, nexusd repair --accept-loss begins a new log of hashes, under another origin and key\n", out.Unsigned)
	}
	if out.Aside == "" {
		fmt.Fprintf(stdout, "the streams are sound: the log reaches %d, the blobs reach %d\n", out.Mark.Log.Seq, out.Mark.Blobs.Seq)
		return 0
	}
	fmt.Fprintf(stdout, "repaired: the log reaches %d, the blobs reach %d; the damaged files are in %s\n", out.Mark.Log.Seq, out.Mark.Blobs.Seq, out.Aside)
	return 0
}

// compareLog is the command with --nats.
func compareLog(ctx context.Context, c mend.CompareConfig, stdout, stderr io.Writer) int {
	out, err := mend.CompareLog(ctx, c)
	if out.Loss != nil {
		for _, r := range out.Loss.Records {
			fmt.Fprintln(stdout, r)
		}
	}
	if loss := (*folder.LossError)(nil); errors.As(err, &loss) {
		fmt.Fprintf(stderr, "nexusd: error: %v\nhint: nothing was changed. Export the sessions that lost turns from a daemon that still runs (ledgerctl export), or run nexusd repair --accept-loss to give up what is named above\n", err)
		return max(1, api.Exit(err))
	}
	if err != nil {
		fmt.Fprintf(stderr, "nexusd: error: %v\n", err)
		return max(1, api.Exit(err))
	}
	if out.Stale && c.AcceptLoss {
		fmt.Fprintln(stdout, "removed: lost.json, which named records that the log has")
	} else if out.Stale {
		fmt.Fprintln(stdout, "lost.json names records that the log has; nexusd repair --accept-loss removes it")
	}
	if out.Aside == "" {
		fmt.Fprintf(stdout, "the log has all of the %d records that %s knows, and ends at %d\n", out.Applied, c.Data, out.Last)
		return 0
	}
	fmt.Fprintf(stdout, "given up: %d records; what %s knew is in %s, and the next start makes the rest from the log, which ends at %d\n", len(out.Loss.Records), c.Data, out.Aside, out.Last)
	return 0
}

// report prints what was found and done.
func report(w io.Writer, out mend.Repaired) {
	for _, s := range out.Streams {
		for _, d := range s.Damage {
			fmt.Fprintf(w, "damaged: %s %s\n", s.Stream, d)
		}
		if n := len(s.Restored); n > 0 {
			fmt.Fprintf(w, "restored: %s, %s\n", s.Stream, ranges(s.Restored))
		}
		for _, l := range s.Lost {
			fmt.Fprintf(w, "lost: %s record %d", s.Stream, l.Seq)
			if l.Subject != "" {
				fmt.Fprintf(w, " of %s", l.Subject)
			}
			fmt.Fprintf(w, ": %s\n", l.Why)
		}
		for _, l := range s.Broken {
			fmt.Fprintf(w, "cut off: %s record %d of %s: what came before it on its chain is lost\n", s.Stream, l.Seq, l.Subject)
		}
	}
}

// ranges writes ascending numbers as "3 records: 1 to 2, 7".
func ranges(seqs []uint64) string {
	s := fmt.Sprintf("%d records:", len(seqs))
	if len(seqs) == 1 {
		s = "1 record:"
	}
	for i := 0; i < len(seqs); {
		j := i
		for j+1 < len(seqs) && seqs[j+1] == seqs[j]+1 {
			j++
		}
		if i > 0 {
			s += ","
		}
		if s += fmt.Sprintf(" %d", seqs[i]); j > i {
			s += fmt.Sprintf(" to %d", seqs[j])
		}
		i = j + 1
	}
	return s
}

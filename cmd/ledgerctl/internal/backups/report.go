package backups

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/dustin/go-humanize"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/jetstream/backup"
)

// verified is what backup verify prints.
type verified struct {
	File string `json:"file"`
	backup.Report
}

// printReport prints what a check of a backup found.
func printReport(term *terminal.Terminal, name string, r *backup.Report) {
	state := terminal.Good.Render(r.State)
	if r.State != backup.Complete {
		state = terminal.Bad.Render(r.State)
	}
	t, runs := r.Totals, r.Runs
	if r.Salvage != nil { // not what is before the damage alone
		t, runs = r.Salvage.Totals, uint64(len(r.Salvage.Runs))
		t.Log.Seq = r.Salvage.Through()
	}
	term.Tell("%s: %s: %s, %s and %s of blobs, %s; ledger %s, through position %d", prose.Printable(name), state, prose.Plural(runs, "run"), prose.Plural(t.LogRecords, "event"), prose.Plural(t.BlobRecords, "chunk"),
		humanize.IBytes(uint64(max(r.Bytes, r.Read))), r.Ledger, t.Log.Seq)
	if !r.Digest.IsZero() {
		term.Tell("  %s", r.Digest)
	}
	if r.Salvage != nil {
		t.Lost, t.Broken = 0, 0
		for line := range strings.Lines(r.Salvage.Text()) {
			term.Tell("  %s", prose.Printable(strings.TrimSuffix(line, "\n")))
		}
		if r.Salvage.Bytes > 0 {
			term.Tell("  restore --accept-incomplete restores all that is not lost, through position %d", r.Salvage.Through())
		}
	}
	if t.Lost+t.Broken > 0 {
		term.Tell("  the ledger had lost %s, and %s after that", prose.Plural(t.Lost, "event"), prose.Plural(t.Broken, "event"))
	}
}

// failure gives an error of a backup its code. verb is the command, whose page is the
// hint.
func failure(verb string, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return fault.Usage(err)
	}
	if x := (*api.Error)(nil); errors.As(err, &x) {
		return err
	}
	if x := api.FromError(err); x.Code == api.Unavailable && api.Exit(err) == 1 { // no sentinel says so: a disk of this machine, of which FromError says that it is the daemon's
		x.Message = err.Error()
		return fault.WithHint(x, "make room there, or take a file or folder on another disk, and run the same command again")
	} else if x.Code != api.Internal {
		return fault.WithHint(x, "ledgerctl help "+verb)
	}
	return err
}

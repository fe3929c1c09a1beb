package imports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/transcripts"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/importreport"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
)

// preview is import --dry-run.
func preview(ctx context.Context, e *cli.Env, im *transcripts.Importer, files []transcriptfile.File, losses bool) error {
	p := transcripts.Preview{Losses: nil}
	var skipped []string
	var failed error
	for _, f := range files {
		if f.Special {
			continue
		}
		var unknown transcriptfile.UnknownFormat
		switch err := im.Preview(ctx, f.Name, &p); {
		case f.Searched && errors.As(err, &unknown):
			skipped = append(skipped, f.Name)
		case ctx.Err() != nil, err != nil && api.HasCode(err, api.Unavailable):
			return err
		case err != nil:
			e.Say("%s could not be read to its end: %v", prose.Printable(f.Name), err)
			failed = cmp.Or(failed, err)
		}
	}
	if err := im.EndPreview(ctx, &p); err != nil {
		return err
	}
	if e.JSON {
		if err := e.Print(&p); err != nil {
			return err
		}
		return failed
	}
	importreport.PrintSkipped(e.Terminal, skipped, losses, "is no transcript", "are no transcripts")
	var read []string
	for _, name := range slices.Sorted(maps.Keys(p.Formats)) {
		read = append(read, fmt.Sprintf("%s %s", prose.Grouped(uint64(p.Formats[name])), name))
	}
	if len(read) > 0 {
		fmt.Fprintf(e.Out, "read: %s\n", strings.Join(read, ", "))
	}
	fmt.Fprintf(e.Out, "would store of %s: %s of %s, %s of %s; %s\n", prose.Plural(uint64(p.Files), "file"),
		prose.Grouped(uint64(p.NewSessions)), prose.Plural(uint64(p.Sessions), "session"), prose.Grouped(uint64(p.NewTurns)), prose.Plural(uint64(p.Turns), "turn"), prose.Plural(uint64(p.Compactions), "compaction"))
	if n := len(p.Hidden); n > 0 {
		fmt.Fprintf(e.Out, "%s of them hidden in the ledger, and would stay so\n", map[bool]string{true: "1 is", false: prose.Grouped(uint64(n)) + " are"}[n == 1])
	}
	importreport.PrintUnfinished(e.Terminal, p.Unfinished, p.OpenFiles, "would be left")
	if lost := importreport.Lost(p.Losses); len(lost) > 0 {
		fmt.Fprintln(e.Out, terminal.Faint.Render("not kept exactly as it stands:"))
		importreport.PrintKinds(e.Terminal, lost)
	}
	e.Say("nothing is stored")
	return failed
}

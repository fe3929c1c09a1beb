package archive

import (
	"fmt"
	"io"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/ledger/api"
)

// Verify computes the hashes of archives again, and prints a line for each.
func Verify(e *cli.Env, names []string) error {
	var damaged, others []error
	for _, name := range names {
		a, err := Check(name)
		if err != nil && !api.HasCode(err, api.Corrupt) {
			others = append(others, err)
			continue
		}
		if err != nil {
			damaged = append(damaged, err)
		}
		if e.JSON {
			if err := e.Print(a); err != nil {
				return err
			}
			continue
		}
		if _, err := io.WriteString(e.Out, a.Line()); err != nil {
			return err
		}
	}
	failed := append(damaged, others...) // damage decides on the exit status
	if len(failed) == 0 {
		return nil
	}
	for _, err := range failed[1:] {
		fmt.Fprintln(e.Err, "ledgerctl: "+prose.Printable(err.Error()))
	}
	return failed[0]
}

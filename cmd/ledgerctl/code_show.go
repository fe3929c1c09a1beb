package main

import (
	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/codetree"
	"nexus/turns"
)

// codeResult is what code says as JSON.
type codeResult struct {
	Turn     turns.ID           `json:"turn"`
	Depth    uint64             `json:"depth"`
	Recorded *codetree.Recorded `json:"recorded"`
}

func codeCmd(e *env) *cobra.Command {
	return verb("code SESSION|TURN", "the recorded files after a turn", 1, 1, func(cmd *cobra.Command, args []string) error {
		p, err := e.Find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		path, err := codetree.Path(cmd.Context(), p.Client, p.Session.ID, p.Turn)
		if err != nil {
			return err
		}
		if len(path) == 0 || path[len(path)-1].Files == nil {
			return notRecorded(path, p.Turn)
		}
		t := path[len(path)-1]
		if err := e.Result(codeResult{Turn: t.ID, Depth: t.Depth, Recorded: t.Files}, "@%d: %s recorded, tree %s in %s", t.Depth, prose.Plural(uint64(t.Files.Files), "file"), t.Files.Tree, prose.Printable(t.Files.Folder)); err != nil || e.JSON {
			return err
		}
		for _, x := range t.Files.Left {
			e.Tell("left out: %s (%s)", prose.Printable(x.Path), x.Why)
		}
		if more := t.Files.LeftOut - len(t.Files.Left); more > 0 {
			e.Tell("left out: %s more", prose.Plural(uint64(more), "file"))
		}
		return nil
	})
}

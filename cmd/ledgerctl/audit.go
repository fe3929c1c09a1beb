package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"nexus/ledger/api"
	"nexus/turns"
)

func verifyCmd(e *env) *cobra.Command {
	return verb("verify [SESSION…]", "check every event, hash, parent and blob", 0, -1, func(cmd *cobra.Command, args []string) error {
		c, err := e.client(api.Operator)
		if err != nil {
			return err
		}
		var ids []turns.ID
		for _, a := range args {
			_, s, err := e.session(cmd.Context(), a)
			if err != nil {
				return err
			}
			ids = append(ids, s.ID)
		}
		v, err := c.Verify(cmd.Context(), ids...)
		if err != nil {
			return err
		}
		if e.json {
			err = e.print(v)
		} else {
			printVerified(e.out, v)
		}
		if err == nil && !v.OK {
			err = api.Errorf(api.Corrupt, nil, "%d problems", len(v.Problems))
		}
		return err
	})
}

func printVerified(w io.Writer, v *api.Verified) {
	verdict := good.Render("verified")
	if !v.OK {
		verdict = bad.Render("NOT SOUND")
	}
	fmt.Fprintf(w, "%s: %s events, %s, %s, %s, %s in %d ms\n", verdict, grouped(v.Events), plural(v.Sessions, "session"), plural(v.Turns, "turn"), plural(v.Compactions, "compaction"), plural(v.Blobs, "blob"), v.DurationMS)
	for _, p := range v.Problems {
		fmt.Fprintf(w, "  %s at position %d, session %s: %s\n", bad.Render(string(p.Code)), p.Seq, p.Session, p.Message)
	}
}

func versionCmd(e *env) *cobra.Command {
	return verb("version", "the version", 0, 0, func(*cobra.Command, []string) error {
		if e.json {
			return e.print(map[string]string{"version": version})
		}
		fmt.Fprintln(e.out, "ledgerctl", version)
		return nil
	})
}

const version = "0.1.0-dev"

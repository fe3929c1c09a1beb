package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nexus/ledger/api"
	"nexus/turns"
)

func verifyCmd(e *env) *cobra.Command {
	var file string
	var secret bool
	cmd := verb("verify [SESSION…]", "check every event, hash, parent and blob", 0, -1, func(cmd *cobra.Command, args []string) error {
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
		if secret {
			return e.findSecrets(cmd.Context(), c, ids)
		}
		began := time.Now()
		v, err := c.Verify(cmd.Context(), ids...)
		if err != nil {
			return err
		}
		if file != "" {
			if err := e.writeReport(file, newReport(cmd.Context(), c, ids, began, v)); err != nil {
				return err
			}
		}
		if file == "-" {
			err = nil // it is what stdout has
		} else if e.json {
			err = e.print(v)
		} else {
			e.printVerified(v)
		}
		if err == nil && !v.OK {
			err = api.Errorf(api.Corrupt, nil, "%s", plural(max(v.Count, uint64(len(v.Problems))), "problem"))
		}
		return err
	})
	cmd.Flags().StringVar(&file, "report", "", "write a report, as JSON, to a file or to - (stdout)")
	cmd.Flags().BoolVar(&secret, "secrets", false, "list credentials of known shapes, without showing them")
	cmd.MarkFlagsMutuallyExclusive("report", "secrets")
	return cmd
}

func (e *env) printVerified(v *api.Verified) {
	verdict := good.Render("verified")
	if !v.OK {
		verdict = bad.Render("NOT SOUND")
	}
	e.tell("%s: %s, %s, %s, %s, %s in %s ms", verdict, plural(v.Events, "event"), plural(v.Sessions, "session"), plural(v.Turns, "turn"), plural(v.Compactions, "compaction"), plural(v.Blobs, "blob"), grouped(v.DurationMS))
	if v.Duplicates > 0 {
		e.tell("  %s of an id that was taken, which is no problem", plural(v.Duplicates, "opening"))
	}
	for _, p := range v.Problems {
		e.printProblem(&p)
	}
	if n := v.Count - min(v.Count, uint64(len(v.Problems))); n > 0 {
		fmt.Fprintf(e.out, "  and %s that %s not listed\n", plural(n, "more problem"), map[bool]string{true: "is", false: "are"}[n == 1])
	}
}

// printProblem prints a problem: where it is, and below that what it is. An id that
// stands in the first line is named by its end in the second.
func (e *env) printProblem(p *api.Problem) {
	where := fmt.Sprintf("position %d", p.Seq)
	why := printable(p.Message)
	if !p.Session.IsZero() {
		where += ", session " + p.Session.String()
		why = strings.ReplaceAll(why, p.Session.String(), short(p.Session))
	}
	if !p.Event.IsZero() && p.Event != p.Session {
		why = strings.ReplaceAll(why, p.Event.String(), short(p.Event))
	}
	fmt.Fprintf(e.out, "  %s at %s\n", bad.Render(string(p.Code)), where)
	room := 0
	if e.width > 0 {
		room = max(20, e.width-4)
	}
	fmt.Fprintln(e.out, "    "+strings.ReplaceAll(wrapped(room, why, ""), "\n", "\n    "))
}

func versionCmd(e *env) *cobra.Command {
	return verb("version", "the version", 0, 0, func(*cobra.Command, []string) error {
		return e.result(map[string]string{"version": version}, "ledgerctl %s", version)
	})
}

const version = "0.1.0-dev"

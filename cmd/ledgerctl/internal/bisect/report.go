package bisect

import (
	"context"
	"fmt"
	"strings"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/codetree"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/turnview"
	"nexus/turns"
)

// Report is what bisect says as JSON.
type Report struct {
	Good    *ReportTurn  `json:"good,omitempty"` // the last turn before bad after which the command passes
	Bad     *ReportTurn  `json:"bad"`
	Between []ReportTurn `json:"between,omitempty"` // turns of which it is not known
	Turned  []ReportTurn `json:"turned,omitempty"`
	Runs    int          `json:"runs"`
	Diff    string       `json:"diff,omitempty"` // from good to bad, as git diff --stat
}

// ReportTurn is a turn of a report.
type ReportTurn struct {
	Depth   uint64   `json:"depth"`
	ID      turns.ID `json:"id"`
	Session turns.ID `json:"session"`
	Tree    string   `json:"tree,omitempty"`
}

// printResult prints what a search found.
func printResult(ctx context.Context, e *cli.Env, p names.Place, from *codetree.Repository, path []codetree.PathTurn, r *Result) error {
	turn := func(i int) ReportTurn {
		t := ReportTurn{Depth: path[i].Depth, ID: path[i].ID, Session: path[i].Session}
		if f := path[i].Files; f != nil {
			t.Tree = f.Tree
		}
		return t
	}
	bad := turn(r.Bad)
	out := Report{Bad: &bad, Runs: r.Ran}
	if r.Good >= 0 {
		good := turn(r.Good)
		out.Good = &good
		var err error
		if out.Diff, err = from.DiffStat(ctx, good.Tree, bad.Tree); err != nil {
			return err
		}
	}
	for _, i := range r.Between {
		out.Between = append(out.Between, turn(i))
	}
	for _, i := range r.Turned {
		out.Turned = append(out.Turned, turn(i))
	}
	if e.JSON {
		return e.Print(out)
	}
	switch {
	case r.Good >= 0 && len(r.Between) == 0:
		e.Tell("The command fails after turn @%d (%s), and passes after @%d.", bad.Depth, bad.ID, out.Good.Depth)
	case r.Good >= 0:
		e.Tell("The command fails after turn @%d (%s), and passes after @%d. Of %s between it is not known: the failure came with one of @%d to @%d.", bad.Depth, bad.ID, out.Good.Depth, prose.Plural(uint64(len(r.Between)), "turn"), path[r.Between[0]].Depth, bad.Depth)
	case len(r.Between) == 0:
		e.Tell("The command fails after turn @%d (%s) already, the first of the session.", bad.Depth, bad.ID)
	default:
		e.Tell("The command fails after turn @%d (%s) already, the first with known files. Of %s before it is not known.", bad.Depth, bad.ID, prose.Plural(uint64(len(r.Between)), "turn"))
	}
	if len(r.Turned) > 1 {
		var names []string
		for _, t := range out.Turned {
			names = append(names, fmt.Sprintf("@%d", t.Depth))
		}
		e.Tell("It begins to fail more than once: with %s.", strings.Join(names, ", "))
	}
	for _, i := range append(r.Between, r.Bad) {
		const most = 20
		if i != r.Bad && len(r.Between) > most {
			continue
		}
		if err := printDid(ctx, e, p, path[i].ID); err != nil {
			return err
		}
	}
	if out.Diff != "" {
		e.Tell("")
		_, err := fmt.Fprint(e.Out, prose.Printable(out.Diff))
		return err
	}
	return nil
}

// printDid prints the tool calls of a turn, or its words if it has none.
func printDid(ctx context.Context, e *cli.Env, p names.Place, id turns.ID) error {
	t, err := p.Client.Turn(ctx, p.Session.ID, id)
	if err != nil {
		return err
	}
	turnview.Mask(t)
	e.Tell("")
	_, err = fmt.Fprintln(e.Out, turnview.Line(t, e.Width))
	if err != nil || t.Response == nil {
		return err
	}
	for i := range t.Response.Parts {
		if x := &t.Response.Parts[i]; x.Type == turns.ToolCall {
			e.Tell("  %s(%s)", prose.Printable(x.Name), prose.FirstArgument(x.Arguments))
		}
	}
	return nil
}

package follow

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/watch"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/terminal"
)

// Status prints what the state of a watch says.
func Status(e *cli.Env, cfg watch.Config) error {
	s, err := watch.ReadStatus(cfg.State, cfg.Sources)
	if err != nil {
		return err
	}
	if e.JSON {
		return e.Print(s)
	}
	PrintStatus(e, s)
	return nil
}

// PrintStatus prints a status.
func PrintStatus(e *cli.Env, s *watch.Status) {
	switch {
	case s.Running && s.Waiting != "":
		e.Tell("running (process %d), waiting for the ledger: %s", s.Process, prose.Printable(s.Waiting))
	case s.Running:
		e.Tell("running (process %d) since %s", s.Process, humanize.Time(s.Started))
	case s.Saved.IsZero():
		e.Tell("it never ran")
	default:
		e.Tell("not running; it ran until %s", humanize.Time(s.Saved))
	}
	printFiles(e, s)
}

// PrintVanished lists the transcripts that are no longer where their agents wrote them.
func PrintVanished(e *cli.Env, cfg watch.Config) error {
	list, err := watch.Vanished(cfg.State, cfg.Sources)
	if err != nil {
		return err
	}
	if e.JSON {
		return terminal.PrintJSON(e.Terminal, list)
	}
	if len(list) == 0 {
		e.Say("every transcript that was read is still there")
		return nil
	}
	var rows [][]string
	for _, x := range list {
		session, gone := "–", "–"
		if !x.Session.IsZero() {
			session = terminal.ID.Render(prose.Short(x.Session))
		}
		if !x.Gone.IsZero() {
			gone = x.Gone.Local().Format(prose.Stamp)
		}
		rows = append(rows, []string{x.Agent, session, prose.Grouped(uint64(x.Bytes)), gone, prose.Printable(x.File)})
	}
	fmt.Fprint(e.Out, e.Table([]terminal.Column{{Head: "agent"}, {Head: "session"}, {Head: "bytes kept", Right: true, Drop: 2}, {Head: "missing since", Drop: 1}, {Head: "file", Wraps: true, Least: 20}}, rows))
	for _, x := range list {
		if x.Lost > 0 {
			e.Tell("%s: its last %s bytes were not in the ledger when it vanished", prose.Printable(x.File), prose.Grouped(uint64(x.Lost)))
		}
	}
	last := list[len(list)-1]
	if !last.Session.IsZero() {
		e.Say("the ledger has what they held; ledgerctl log %s shows it, continue %s --in %s writes it back for the agent", prose.Short(last.Session), prose.Short(last.Session), last.Agent)
	}
	return nil
}

// printFiles prints what a status says of the files.
func printFiles(e *cli.Env, s *watch.Status) {
	var rows [][]string
	for _, x := range s.Sources {
		state := "nothing"
		if !x.Delivered.IsZero() {
			state = humanize.Time(x.Delivered)
		}
		if x.Missing {
			state = "no such folder"
		}
		rows = append(rows, []string{x.Agent, fmt.Sprint(x.Files), fmt.Sprint(x.Behind), fmt.Sprint(x.Failed), fmt.Sprint(x.Gone), state, prose.Printable(x.Folder)})
	}
	fmt.Fprint(e.Out, e.Table([]terminal.Column{{Head: "agent"}, {Head: "files", Right: true, Drop: 1}, {Head: "behind", Right: true}, {Head: "failed", Right: true}, {Head: "gone", Right: true, Drop: 3}, {Head: "delivered"}, {Head: "folder", Wraps: true, Least: 20, Drop: 2}}, rows))
	open := 0
	for _, x := range s.Sources {
		open += x.Open
	}
	if open > 0 {
		e.Tell("%s may grow: a last turn without its whole answer waits for it, for an hour after the last write", prose.Plural(uint64(open), "file"))
	}
	erased := 0
	for _, x := range s.Sources {
		erased += x.Erased
	}
	if erased > 0 {
		e.Tell("%s not read any more: what they hold was erased", prose.Plural(uint64(erased), "file"))
	}
	for _, f := range s.Failed {
		e.Tell("%s %s: %s", terminal.Bad.Render("failed:"), prose.Printable(f.File), prose.Printable(f.Why))
	}
	const most = 10
	for _, x := range s.Events[max(0, len(s.Events)-most):] {
		e.Tell("%s %s %s; %s", x.Time.Format(time.DateTime), prose.Printable(x.File), x.What, prose.Printable(x.Text))
	}
	if s.Limited != "" {
		e.Tell("not all folders have notifications: %s", prose.Printable(s.Limited))
	}
}

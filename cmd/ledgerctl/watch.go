package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"nexus/cmd/internal/agents"
	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/watch"
	"nexus/cmd/ledgerctl/internal/codetree"
	"nexus/cmd/ledgerctl/internal/connect"
	"nexus/cmd/ledgerctl/internal/doctor"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api/client"
)

// watchCmd is the command watch.
func watchCmd(e *env) *cobra.Command {
	var cfg watch.Config
	var from []string
	var dry, code bool
	prepare := func(ofService []string) error { return e.prepareWatch(&cfg, &from, ofService) }
	c := verb("watch", "follow the transcripts of agents while they grow", 0, 0, func(cmd *cobra.Command, _ []string) error {
		if err := prepare(nil); err != nil {
			return err
		}
		if dry {
			return e.planWatch(cfg)
		}
		return e.watch(cmd.Context(), cfg, code)
	})
	c.Flags().BoolVar(&code, "code", false, "keep the files of the folder after each turn")
	c.Flags().BoolVar(&cfg.Once, "once", false, "stop when everything in the files is in the ledger")
	c.Flags().BoolVar(&dry, "dry-run", false, "list the files that would be read")
	c.Flags().DurationVar(&cfg.Rescan, "rescan", 30*time.Second, "how often all files are looked at")
	var vanished bool
	status := verb("status", "what is in the ledger, what is behind, what failed", 0, 0, func(*cobra.Command, []string) error {
		if err := prepare(watchService()); err != nil {
			return err
		}
		if vanished {
			return e.printVanished(cfg)
		}
		s, err := watch.ReadStatus(cfg.State, cfg.Sources)
		if err != nil {
			return err
		}
		if e.JSON {
			return e.Print(s)
		}
		e.printWatch(s)
		return nil
	})
	status.Flags().BoolVar(&vanished, "vanished", false, "list the transcripts that are no longer there")
	c.AddCommand(status, verb("doctor", "what is wrong with the watch and the hooks", 0, 0, func(*cobra.Command, []string) error {
		if err := prepare(watchService()); err != nil {
			return err
		}
		return e.watchDoctor(cfg)
	}))
	for _, x := range append(c.Commands(), c) {
		x.Flags().StringArrayVar(&from, "from", nil, "AGENT=DIR: follow this folder")
		x.Flags().StringVar(&cfg.State, "state", "", "where the state is kept")
	}
	return c
}

// prepareWatch completes the sources, the state and the ledger of a watch: those of the flags, else
// of the service, else the default ones.
func (e *env) prepareWatch(cfg *watch.Config, from *[]string, ofService []string) error {
	if len(*from) == 0 && cfg.State == "" {
		*from, cfg.State = serviceFlags(ofService)
	}
	sources, err := watchSources(*from)
	if err != nil {
		return err
	}
	cfg.Sources = sources
	if cfg.State == "" {
		cfg.State, err = stateFolder("watch")
	}
	cfg.Ledger = fmt.Sprintf("%s %s/%s", connect.PlainURL(e.Server), e.Tenant, cmp.Or(e.Agent, "main"))
	return err
}

// noteImported notes for the watch what an import stored. The state of a watch is a cache:
// without it files are offered to the ledger again, so an error is no failure of the import.
func (e *env) noteImported(files map[string]fs.FileInfo) {
	var cfg watch.Config
	var from []string
	if len(files) == 0 || e.prepareWatch(&cfg, &from, watchService()) != nil {
		return
	}
	_ = watch.NoteImported(cfg, files)
}

// stateFolder returns the folder in which a command keeps its state.
func stateFolder(name string) (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "nexus", name), nil
}

// watchSources returns the folders that --from names, else those that the agents use.
func watchSources(from []string) (out []watch.Source, err error) {
	for _, s := range from {
		agent, dir, ok := strings.Cut(s, "=")
		if !ok || dir == "" {
			return nil, fault.Usage(fmt.Errorf("--from takes AGENT=DIR, not %q", s))
		}
		if dir, err = filepath.Abs(dir); err != nil {
			return nil, err
		}
		out = append(out, watch.Source{Agent: agent, Root: dir})
	}
	if len(out) > 0 {
		return out, nil
	}
	home, err := agents.OfUser()
	return watch.DefaultSources(home), err
}

// watch runs a watch.
func (e *env) watch(ctx context.Context, cfg watch.Config, code bool) error {
	cfg.Log = func(format string, args ...any) { e.Say("%s", prose.Printable(fmt.Sprintf(format, args...))) }
	e.Options = append(e.Options, nats.MaxReconnects(-1))
	cfg.Connect = func(context.Context) (*client.Client, error) {
		nc, err := e.Dial()
		if err != nil {
			return nil, errors.New(fault.Plainly(nil, err))
		}
		e.NC = nc
		return client.New(nc, e.Tenant, cmp.Or(e.Agent, "main")), nil
	}
	if code {
		recordCode(&cfg, codetree.Limits{})
	}
	w, err := watch.New(cfg)
	if err != nil {
		return fault.Usage(err)
	}
	err = w.Run(ctx)
	if errors.Is(err, watch.ErrRunning) {
		return fault.WithHint(err, "ledgerctl watch status shows it; --state names another folder")
	}
	if err != nil || !cfg.Once {
		return err
	}
	s, err := watch.ReadStatus(cfg.State, cfg.Sources)
	if err != nil {
		return err
	}
	if e.JSON {
		err = e.Print(s)
	} else {
		e.printWatched(s)
	}
	if err == nil && len(s.Failed) > 0 {
		return fault.Exit(1)
	}
	return err
}

func (e *env) planWatch(cfg watch.Config) error {
	if err := cfg.Validate(); err != nil {
		return fault.Usage(err)
	}
	list, unread := watch.Plan(cfg)
	sum := int64(0)
	var rows [][]string
	for _, p := range list {
		if e.JSON {
			if err := e.Print(p); err != nil {
				return err
			}
		}
		sum += p.Bytes
		rows = append(rows, []string{p.Agent, prose.Grouped(uint64(p.Bytes)), prose.Printable(p.File)})
	}
	if e.JSON {
		return unread
	}
	if len(rows) > 0 {
		fmt.Fprint(e.Out, e.Table([]terminal.Column{{Head: "agent"}, {Head: "bytes", Right: true}, {Head: "file", Wraps: true, Least: 20}}, rows))
	}
	if none := watch.Missing(cfg.Sources); len(list) == 0 && len(none) == len(cfg.Sources) {
		e.Tell("nothing would be read: none of these folders exists: %s", prose.Printable(strings.Join(none, ", ")))
		return unread
	}
	if len(list) == 0 {
		e.Tell("nothing would be read: the folders have no transcript that is not in the ledger")
		return unread
	}
	e.Tell("%s would be read: %s bytes", prose.Plural(uint64(len(list)), "file"), prose.Grouped(uint64(sum)))
	return unread
}

// printWatch prints a status.
func (e *env) printWatch(s *watch.Status) {
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
	e.printWatched(s)
}

// printVanished lists the transcripts that are no longer where their agents wrote them.
func (e *env) printVanished(cfg watch.Config) error {
	list, err := watch.Vanished(cfg.State, cfg.Sources)
	if err != nil {
		return err
	}
	if e.JSON {
		for _, x := range list {
			if err := e.Print(x); err != nil {
				return err
			}
		}
		return nil
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

// printWatched prints what a status says of the files.
func (e *env) printWatched(s *watch.Status) {
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

// watchDoctor says what is wrong with the watch and the hooks.
func (e *env) watchDoctor(cfg watch.Config) error {
	s, err := watch.ReadStatus(cfg.State, cfg.Sources)
	if err != nil {
		return err
	}
	d := doctor.New(e.Terminal, e.Connection)
	switch {
	case s.Running:
		d.Add("watch", doctor.OK, fmt.Sprintf("running (process %d)", s.Process), "")
	case s.Saved.IsZero():
		d.Fail("watch", 1, "it never ran", "start it: ledgerctl watch, or ledgerctl service install watch")
	default:
		d.Fail("watch", 1, "not running; it ran until "+humanize.Time(s.Saved), "start it: ledgerctl watch, or ledgerctl service install watch")
	}
	if command := watchService(); command != nil {
		d.Add("service", doctor.OK, "installed: "+prose.Printable(strings.Join(command, " ")), "")
		if _, err := os.Stat(command[0]); err != nil {
			d.Fail("service", 1, "its program is gone: "+prose.Printable(command[0]), "ledgerctl service install watch, with the flags above, writes it again")
		}
	}
	if s.Waiting != "" {
		d.Fail("ledger", 5, "not reached: "+s.Waiting, "is nexusd running? ledgerctl doctor looks further")
	}
	if s.Limited != "" {
		d.Add("notifications", doctor.Warn, s.Limited, "raise fs.inotify.max_user_watches; files are read at each rescan meanwhile")
	}
	for _, x := range s.Sources {
		name := x.Agent + " " + x.Folder
		switch {
		case x.Missing || x.Files == 0:
			d.Add(name, doctor.Skipped, "no transcripts there", "")
		case x.Failed > 0:
			d.Fail(name, 1, fmt.Sprintf("%s of %s not in the ledger", prose.Grouped(uint64(x.Failed)), prose.Plural(uint64(x.Files), "file")), "ledgerctl watch status names them, and why")
		case x.Behind > 0 && !s.Running:
			d.Add(name, doctor.Warn, fmt.Sprintf("%s behind (%s bytes)", prose.Plural(uint64(x.Behind), "file"), prose.Grouped(uint64(x.Bytes))), "")
		case x.Behind > 0:
			d.Add(name, doctor.OK, fmt.Sprintf("%s behind (%s bytes), being read", prose.Plural(uint64(x.Behind), "file"), prose.Grouped(uint64(x.Bytes))), "")
		default:
			d.Add(name, doctor.OK, fmt.Sprintf("%s, delivered last %s", prose.Plural(uint64(x.Files), "file"), humanize.Time(x.Delivered)), "")
		}
	}
	if _, err := e.checkHooks(d); err != nil {
		return err
	}
	return d.Report()
}

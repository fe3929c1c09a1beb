package hooks

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/dustin/go-humanize"

	"nexus/cmd/internal/agents"
	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/doctor"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/follow"
	"nexus/cmd/ledgerctl/internal/pi"
	"nexus/cmd/ledgerctl/internal/terminal"
)

// state is what status says of a hook.
type state struct {
	Agent     string `json:"agent"`
	Event     string `json:"event"`
	File      string `json:"file"`
	Installed bool   `json:"installed"`
	Program   string `json:"program,omitempty"` // that it runs
	Gone      string `json:"gone,omitempty"`    // what is wrong with the program
	Error     string `json:"error,omitempty"`   // why the file can't be read: then Installed is not known
	Fired     *Fired `json:"fired,omitempty"`
}

// states returns the hooks that each coding agent can have.
func states() (out []state, err error) {
	dir, err := follow.StateFolder("hooks")
	if err != nil {
		return nil, err
	}
	for _, agent := range agents.Hooked() {
		file, err := settingsFile(agent)
		if err != nil {
			return nil, err
		}
		var events, have []string
		programs := make(map[string]string)
		settings, _, unread := Read(file)
		if agent == agents.Pi {
			if events = pi.Events; pi.IsExtension(settings) {
				have = events
				for _, event := range events {
					programs[event] = pi.Program(settings)
				}
			}
		} else {
			for _, h := range append(Of(agent), Stop) {
				events = append(events, h.Event)
			}
			if unread == nil {
				have, unread = Installed(settings)
				programs = Programs(settings)
			}
		}
		for _, event := range events {
			s := state{Agent: agent, Event: event, File: file, Installed: slices.Contains(have, event)}
			if s.Installed {
				s.Program, s.Gone = programs[event], cli.GoneProgram(programs[event])
			}
			if unread != nil {
				s.Error = reasonOf(unread)
			}
			if f, ok := ReadFired(dir, agent, event); ok {
				s.Fired = &f
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// reasonOf is an error without the file of which it is.
func reasonOf(err error) string {
	if file := (&fs.PathError{}); errors.As(err, &file) {
		return file.Err.Error()
	}
	return fault.Plainly(nil, err)
}

// Status prints which hooks there are, and when each fired last.
func Status(e *cli.Env) error {
	list, err := states()
	if err != nil {
		return err
	}
	if e.JSON {
		return terminal.PrintJSON(e.Terminal, list)
	}
	var rows [][]string
	for i, s := range list {
		installed, fired, failed := "no", "never", ""
		if s.Installed {
			installed = "yes"
		}
		if s.Error != "" {
			installed = "unknown"
			if i == 0 || list[i-1].File != s.File {
				e.Tell("%s: %s", s.File, s.Error)
			}
		}
		if s.Fired != nil {
			fired, failed = humanize.Time(s.Fired.Time), prose.Printable(s.Fired.Failed)
		}
		if s.Gone != "" {
			failed = prose.Printable(s.Gone)
		}
		rows = append(rows, []string{s.Agent, s.Event, installed, fired, failed})
	}
	fmt.Fprint(e.Out, e.Table([]terminal.Column{{Head: "agent"}, {Head: "event"}, {Head: "installed"}, {Head: "fired"}, {Head: "failed", Wraps: true, Least: 16}}, rows))
	return nil
}

// Doctor prints what is wrong with the hooks.
func Doctor(e *cli.Env) error {
	d := doctor.New(e.Terminal, e.Connection)
	found, err := Check(d)
	if err != nil {
		return err
	}
	if !found {
		d.Add("hooks", doctor.Skipped, "none is installed", "ledgerctl hook install claude")
	}
	return d.Report()
}

// Check adds what is known of each installed hook, and which settings can't be read.
// found is false where there is neither.
func Check(d *doctor.Doctor) (found bool, err error) {
	list, err := states()
	if err != nil {
		return false, err
	}
	for i, h := range list {
		if h.Error != "" && (i == 0 || list[i-1].File != h.File) {
			found = true
			d.Fail("hooks of "+h.Agent, 1, h.File+": "+h.Error, "correct the file, or move it away")
		}
		if !h.Installed {
			continue
		}
		found = true
		name := "hook " + h.Agent + " " + h.Event
		switch {
		case h.Gone != "":
			d.Fail(name, 1, h.Gone, "ledgerctl hook uninstall "+h.Agent+", then install, from a program that stays")
		case h.Fired == nil:
			d.Add(name, doctor.Warn, "it never fired", "start a session of the agent; Codex asks you to trust new hooks")
		case h.Fired.Failed != "":
			d.Add(name, doctor.Warn, "it failed "+humanize.Time(h.Fired.Time)+": "+h.Fired.Failed, "")
		default:
			d.Add(name, doctor.OK, "fired last "+humanize.Time(h.Fired.Time), "")
		}
	}
	return found, nil
}

package services

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/service"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
)

// Request is what install, uninstall and status were asked for.
type Request struct {
	Names        []string // nexusd or watch; none: both
	DryRun       bool
	Nexusd, Data string // the program, and its data folder; "": those found, and the default
	Manager      string // systemd or launchd; "": that of this system
	Watch        WatchFlags
}

// unit is a service with its file.
type unit struct {
	service.Unit
	manager    service.Manager
	path, text string
}

// each calls do with each service that a request names, until an error.
func (r *Request) each(e *cli.Env, complete bool, do func(u unit) error) error {
	goos, known := map[string]string{"": runtime.GOOS, "systemd": "linux", "launchd": "darwin"}[r.Manager]
	if !known {
		return fault.Usage(fmt.Errorf("--manager takes systemd or launchd, not %q", r.Manager))
	}
	m, err := service.Of(goos)
	if err != nil {
		return fault.Usage(err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	words, err := r.Watch.words()
	if err == nil && len(words) > 0 && len(r.Names) > 0 && r.Names[0] != "watch" {
		err = fault.Usage(fmt.Errorf("%s is a flag of watch", words[0]))
	}
	if err != nil {
		return err
	}
	units, err := r.units(e, home, words, complete)
	if err != nil {
		return err
	}
	for _, u := range units {
		path, text, err := u.File(m, os.Getenv, home)
		if err == nil {
			err = do(unit{u, m, path, text})
		}
		if errors.Is(err, service.ErrForeign) {
			err = fault.WithHint(err, "move it away, or edit it by hand")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Install writes the files of services, and restarts those that run with other files.
func (r *Request) Install(ctx context.Context, e *cli.Env) error {
	return r.each(e, true, func(u unit) error { return u.install(ctx, e, r.DryRun) })
}

// Uninstall removes the files.
func (r *Request) Uninstall(_ context.Context, e *cli.Env) error {
	return r.each(e, false, func(u unit) error {
		there, err := service.Installed(u.path)
		if err != nil {
			return err
		}
		if !there {
			return e.Result(map[string]any{"name": u.Name, "file": u.path, "removed": false}, "there is no %s", u.path)
		}
		if r.DryRun {
			return e.Result(map[string]any{"name": u.Name, "file": u.path, "removed": false}, "%s would be removed", u.path)
		}
		if err := service.Remove(u.path); err != nil {
			return err
		}
		stop := u.Stop(u.manager)
		return e.Result(map[string]any{"name": u.Name, "file": u.path, "removed": true, "stop": stop}, "%s is removed; stop it with: %s", u.path, strings.Join(stop, " && "))
	})
}

// Status prints which files there are.
func (r *Request) Status(_ context.Context, e *cli.Env) error {
	return r.each(e, false, func(u unit) error {
		there, err := service.Installed(u.path)
		if err != nil {
			return err
		}
		if !there {
			return e.Result(map[string]any{"name": u.Name, "file": u.path, "installed": false}, "%s: not installed (%s)", u.Name, u.path)
		}
		command, err := installedCommand(u.manager, u.path)
		if err != nil {
			return err
		}
		return e.Result(map[string]any{"name": u.Name, "file": u.path, "installed": true, "command": command}, "%s: installed (%s): %s", u.Name, u.path, prose.Printable(strings.Join(command, " ")))
	})
}

// install writes the file of a unit, and restarts the unit if it runs with another file.
func (u unit) install(ctx context.Context, e *cli.Env, dry bool) error {
	m, path, text := u.manager, u.path, u.text
	change, err := service.Compare(path, text)
	if err != nil {
		return err
	}
	state := service.Stopped // without a file nothing runs
	if change != service.Created {
		state = u.State(ctx, m, path, service.Shell)
	}
	restarts := change == service.Replaced && state == service.Running
	start, restart := strings.Join(u.Start(m, path), " && "), strings.Join(u.Restart(m, path), " && ")
	if dry {
		would := map[service.Change]string{service.None: "nothing would change", service.Created: "would be written", service.Replaced: "would be replaced"}[change]
		if restarts {
			would += ", and " + u.Name + " restarted: " + restart
		}
		e.Say("%s: %s", prose.Printable(path), would)
		fmt.Fprintf(e.Raw, "# %s\n%s\n", path, text)
		return nil
	}
	if change != service.None {
		if err := service.Write(path, text); err != nil {
			return err
		}
	}
	if restarts {
		if err := u.Reload(ctx, m, path, service.Shell); err != nil {
			return fault.WithHint(fmt.Errorf("%s is written, but %s does not run with it yet: %w", path, u.Name, err), restart)
		}
	}
	said := map[service.Change]string{service.None: "has what it should have already", service.Created: "is written", service.Replaced: "is changed"}[change]
	switch {
	case restarts:
		said += "; " + u.Name + " was restarted"
	case state == service.Stopped:
		said += "; start it with: " + start
	case state == service.Unknown && change == service.Replaced:
		said += "; if " + u.Name + " runs, restart it with: " + restart
	}
	return e.Result(map[string]any{"name": u.Name, "file": path, "changed": change != service.None, "restarted": restarts, "start": u.Start(m, path)}, "%s %s", path, said)
}

// installedCommand returns the command of a unit whose file is there.
func installedCommand(m service.Manager, path string) ([]string, error) {
	b, err := os.ReadFile(path)
	return service.Command(m, string(b)), err
}

// Watch returns the command of the installed service watch; nil if there is none.
func Watch() []string {
	m, err := service.Of(runtime.GOOS)
	if err != nil {
		return nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	path, _, err := service.Unit{Name: "watch"}.File(m, os.Getenv, home)
	if err != nil {
		return nil
	}
	if there, err := service.Installed(path); err != nil || !there {
		return nil
	}
	command, _ := installedCommand(m, path)
	return command
}

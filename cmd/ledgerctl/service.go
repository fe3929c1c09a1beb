package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"nexus/cmd/internal/agents"
	"nexus/cmd/internal/localserver"
	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/service"
	"nexus/cmd/internal/watch"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/connect"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/follow"
)

// serviceCmd is the command service.
func serviceCmd(e *env) *cobra.Command {
	var dry bool
	var nexusd, data, manager string
	var follow watchFlags
	c := verb("service", "run nexusd and watch as services: install, uninstall, status", 0, 0, func(cmd *cobra.Command, _ []string) error { return cmd.Help() })
	sub := func(use, short string, do func(ctx context.Context, m service.Manager, u service.Unit, path, text string) error) *cobra.Command {
		x := verb(use+" [nexusd|watch]", short, 0, 1, func(cmd *cobra.Command, args []string) error {
			goos, known := map[string]string{"": runtime.GOOS, "systemd": "linux", "launchd": "darwin"}[manager]
			if !known {
				return fault.Usage(fmt.Errorf("--manager takes systemd or launchd, not %q", manager))
			}
			m, err := service.Of(goos)
			if err != nil {
				return fault.Usage(err)
			}
			home, err := os.UserHomeDir()
			if err != nil {
				return err
			}
			words, err := follow.words()
			if err == nil && len(words) > 0 && len(args) > 0 && args[0] != "watch" {
				err = fault.Usage(fmt.Errorf("%s is a flag of watch", words[0]))
			}
			if err != nil {
				return err
			}
			units, err := e.units(args, nexusd, data, home, words, use == "install")
			if err != nil {
				return err
			}
			for _, u := range units {
				path, text, err := u.File(m, os.Getenv, home)
				if err == nil {
					err = do(cmd.Context(), m, u, path, text)
				}
				if errors.Is(err, service.ErrForeign) {
					err = fault.WithHint(err, "move it away, or edit it by hand")
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		x.Flags().BoolVar(&dry, "dry-run", false, "print the files; change nothing")
		x.Flags().StringVar(&nexusd, "nexusd", "", "the program nexusd")
		x.Flags().StringVar(&data, "data", "", "the data folder of nexusd")
		x.Flags().StringVar(&manager, "manager", "", "systemd or launchd")
		if use == "install" {
			x.Flags().BoolVar(&follow.code, "code", false, "watch keeps the files of the folder after each turn")
			x.Flags().StringArrayVar(&follow.from, "from", nil, "AGENT=DIR: watch follows this folder")
			x.Flags().StringVar(&follow.state, "state", "", "where watch keeps its state")
			x.Flags().DurationVar(&follow.rescan, "rescan", 0, "how often watch looks at all files")
		}
		return x
	}
	c.AddCommand(
		sub("install", "write the files", func(ctx context.Context, m service.Manager, u service.Unit, path, text string) error {
			return e.install(ctx, m, u, path, text, dry)
		}),
		sub("uninstall", "remove the files", func(_ context.Context, m service.Manager, u service.Unit, path, _ string) error {
			there, err := service.Installed(path)
			if err != nil {
				return err
			}
			if !there {
				return e.Result(map[string]any{"name": u.Name, "file": path, "removed": false}, "there is no %s", path)
			}
			if dry {
				return e.Result(map[string]any{"name": u.Name, "file": path, "removed": false}, "%s would be removed", path)
			}
			if err := service.Remove(path); err != nil {
				return err
			}
			return e.Result(map[string]any{"name": u.Name, "file": path, "removed": true, "stop": u.Stop(m)}, "%s is removed; stop it with: %s", path, strings.Join(u.Stop(m), " && "))
		}),
		sub("status", "which files there are", func(_ context.Context, m service.Manager, u service.Unit, path, _ string) error {
			there, err := service.Installed(path)
			if err != nil {
				return err
			}
			if !there {
				return e.Result(map[string]any{"name": u.Name, "file": path, "installed": false}, "%s: not installed (%s)", u.Name, path)
			}
			command, err := installedCommand(m, path)
			if err != nil {
				return err
			}
			return e.Result(map[string]any{"name": u.Name, "file": path, "installed": true, "command": command}, "%s: installed (%s): %s", u.Name, path, prose.Printable(strings.Join(command, " ")))
		}))
	return c
}

// install writes the file of a unit, and restarts the unit if it runs with another file.
func (e *env) install(ctx context.Context, m service.Manager, u service.Unit, path, text string, dry bool) error {
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

// watchFlags are the flags of a watch that a service keeps.
type watchFlags struct {
	code   bool
	from   []string
	state  string
	rescan time.Duration
}

// words returns the flags as words of a command. Folders are absolute: a service runs in
// another one.
func (f *watchFlags) words() (out []string, err error) {
	if f.code {
		out = append(out, "--code")
	}
	if len(f.from) > 0 {
		sources, err := follow.Sources(f.from)
		if err == nil {
			err = (&watch.Config{Sources: sources, State: "-", Connect: watch.Dialed(nil)}).Validate()
		}
		if err != nil {
			return nil, fault.Usage(err)
		}
		for _, s := range sources {
			out = append(out, "--from", s.Agent+"="+s.Root)
		}
	}
	if f.state != "" {
		if f.state, err = filepath.Abs(f.state); err != nil {
			return nil, err
		}
		out = append(out, "--state", f.state)
	}
	if f.rescan < 0 {
		return nil, fault.Usage(fmt.Errorf("--rescan %s is below 0", f.rescan))
	}
	if f.rescan > 0 {
		out = append(out, "--rescan", f.rescan.String())
	}
	return out, nil
}

// installedCommand returns the command of a unit whose file is there.
func installedCommand(m service.Manager, path string) ([]string, error) {
	b, err := os.ReadFile(path)
	return service.Command(m, string(b)), err
}

// watchService returns the command of the installed service watch; nil if there is none.
func watchService() []string {
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

// units returns the services that args name; watch has the flags follow.
func (e *env) units(args []string, nexusd, data, home string, follow []string, complete bool) (out []service.Unit, err error) {
	self, err := cli.LastingProgram()
	if err != nil && complete {
		return nil, err
	}
	defer func() {
		for i := range out {
			out[i].Env = keptVariables(os.Getenv)
		}
	}()
	want := func(name string) bool { return len(args) == 0 || args[0] == name }
	if want("nexusd") {
		if nexusd == "" {
			nexusd = filepath.Join(filepath.Dir(self), "nexusd")
			if _, err := os.Stat(nexusd); err != nil {
				if nexusd, err = exec.LookPath("nexusd"); err != nil && complete {
					return nil, fault.WithHint(fault.Usage(errors.New("there is no nexusd beside ledgerctl or in PATH")), "--nexusd FILE names it; ledgerctl service install watch leaves it out")
				}
			}
		}
		if nexusd, err = filepath.Abs(nexusd); err != nil {
			return nil, err
		}
		if st, err := os.Stat(nexusd); complete && err != nil {
			return nil, fault.Usage(fmt.Errorf("--nexusd: %w", err))
		} else if complete && (st.IsDir() || st.Mode()&0o111 == 0) {
			return nil, fault.Usage(fmt.Errorf("--nexusd: %s is not a program", nexusd))
		}
		if data == "" {
			data = localserver.FolderBelow(home)
		}
		out = append(out, service.Unit{Name: "nexusd", About: "Nexus: the ledger", Command: []string{nexusd, "--data", data}})
	}
	if want("watch") {
		flags, err := e.ConnectionFlags()
		if err != nil && complete {
			return nil, err
		}
		u := service.Unit{Name: "watch", About: "Nexus: bring transcripts of agents in", Command: append([]string{self, "watch"}, flags...), After: "nexusd"}
		if e.Agent != "" {
			u.Command = append(u.Command, "--agent", e.Agent)
		}
		u.Command = append(u.Command, follow...)
		out = append(out, u)
	}
	if own := "nats://127.0.0.1:4222"; complete && len(out) == 2 && e.ServerNamed && e.Server != own && e.Server != nats.DefaultURL {
		e.Say("the service watch connects to %s, and the service nexusd listens on %s: they do not meet unless a configuration of nexusd names that address; install watch alone for a server elsewhere, or leave out --server, NEXUS_URL and NEXUS_CREDS", prose.Printable(connect.PlainURL(e.Server)), own)
	}
	if len(out) == 0 {
		return nil, fault.Usage(fmt.Errorf("there is no service %q: nexusd or watch", args[0]))
	}
	return out, nil
}

// keptVariables returns the variables that say where programs keep their files: a service
// must look where the programs of a shell do.
func keptVariables(getenv func(string) string) (out []string) {
	for _, name := range append(agents.Variables(), "XDG_STATE_HOME", "XDG_CONFIG_HOME") {
		if v := getenv(name); v != "" {
			out = append(out, name+"="+v)
		}
	}
	return out
}

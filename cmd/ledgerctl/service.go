package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/agents"
	"nexus/cmd/ledgerctl/service"
)

const serviceManual = `ledgerctl service install|uninstall|status [nexusd|watch] [--dry-run]

Writes the files by which your service manager runs nexusd and ledgerctl watch
when you log in: user units of systemd (Linux), property lists of launchd
(macOS). It starts nothing: it prints the commands that do. Without a name it
is about both. Files of other programs are neither replaced nor removed. A
service has none of the variables of your shell: those that name folders of
agents (CLAUDE_CONFIG_DIR, CODEX_HOME, …), of state and of settings
(XDG_STATE_HOME, XDG_CONFIG_HOME) are written into the files as they are now.

  --dry-run       print the files; write nothing
  --nexusd FILE   the program nexusd (else: beside ledgerctl, or in PATH)
  --data DIR      the data folder of nexusd (else: nexus in XDG_DATA_HOME or
                  ~/.local/share)
  --manager NAME  systemd or launchd (else: that of this system)

Examples
  ledgerctl service install --dry-run
  ledgerctl service install watch
  ledgerctl service status
  ledgerctl service uninstall
`

// serviceCmd is the command service.
func serviceCmd(e *env) *cobra.Command {
	var dry bool
	var nexusd, data, manager string
	c := verb("service", "run nexusd and watch as services: install, uninstall, status", 0, 0, func(cmd *cobra.Command, _ []string) error { return cmd.Help() })
	sub := func(use, short string, do func(m service.Manager, u service.Unit, path, text string) error) *cobra.Command {
		x := verb(use+" [nexusd|watch]", short, 0, 1, func(_ *cobra.Command, args []string) error {
			m, err := service.Of(cmp.Or(map[string]string{"systemd": "linux", "launchd": "darwin"}[manager], manager, runtime.GOOS))
			if err != nil {
				return usageError{err}
			}
			home, err := os.UserHomeDir()
			if err != nil {
				return err
			}
			units, err := e.units(args, nexusd, data, home, use == "install")
			if err != nil {
				return err
			}
			for _, u := range units {
				path, text, err := u.File(m, os.Getenv, home)
				if err == nil {
					err = do(m, u, path, text)
				}
				if errors.Is(err, service.ErrForeign) {
					err = hinted{err, "move it away, or edit it by hand"}
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		x.Flags().BoolVar(&dry, "dry-run", false, "print the files; write nothing")
		x.Flags().StringVar(&nexusd, "nexusd", "", "the program nexusd")
		x.Flags().StringVar(&data, "data", "", "the data folder of nexusd")
		x.Flags().StringVar(&manager, "manager", "", "systemd or launchd")
		return x
	}
	c.AddCommand(
		sub("install", "write the files", func(m service.Manager, u service.Unit, path, text string) error {
			if dry {
				if _, err := service.Installed(path); err != nil {
					return err
				}
				fmt.Fprintf(e.raw, "# %s\n%s\n", path, text)
				return nil
			}
			if err := service.Write(path, text); err != nil {
				return err
			}
			return e.result(map[string]any{"name": u.Name, "file": path, "start": u.Start(m, path)}, "%s is written; start it with: %s", path, strings.Join(u.Start(m, path), " && "))
		}),
		sub("uninstall", "remove the files", func(m service.Manager, u service.Unit, path, _ string) error {
			there, err := service.Installed(path)
			if err != nil {
				return err
			}
			if !there {
				return e.result(map[string]any{"name": u.Name, "file": path, "removed": false}, "there is no %s", path)
			}
			if dry {
				return e.result(map[string]any{"name": u.Name, "file": path, "removed": false}, "%s would be removed", path)
			}
			if err := service.Remove(path); err != nil {
				return err
			}
			return e.result(map[string]any{"name": u.Name, "file": path, "removed": true, "stop": u.Stop(m)}, "%s is removed; stop it with: %s", path, strings.Join(u.Stop(m), " && "))
		}),
		sub("status", "which files there are", func(_ service.Manager, u service.Unit, path, text string) error {
			there, err := service.Installed(path)
			if err != nil {
				return err
			}
			state := "not installed"
			if there {
				state = "installed"
			}
			return e.result(map[string]any{"name": u.Name, "file": path, "installed": there}, "%s: %s (%s)", u.Name, state, path)
		}))
	return c
}

// units returns the services that args name.
func (e *env) units(args []string, nexusd, data, home string, complete bool) (out []service.Unit, err error) {
	self, err := os.Executable()
	if err != nil {
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
					return nil, hinted{usageError{errors.New("there is no nexusd beside ledgerctl or in PATH")}, "--nexusd FILE names it; ledgerctl service install watch leaves it out"}
				}
			}
		}
		if nexusd, err = filepath.Abs(nexusd); err != nil {
			return nil, err
		}
		if data == "" {
			data = filepath.Join(cmp.Or(os.Getenv("XDG_DATA_HOME"), filepath.Join(home, ".local", "share")), "nexus")
		}
		out = append(out, service.Unit{Name: "nexusd", About: "Nexus: the ledger", Command: []string{nexusd, "--data", data}})
	}
	if want("watch") {
		flags, err := e.connectionFlags()
		if err != nil {
			return nil, err
		}
		u := service.Unit{Name: "watch", About: "Nexus: bring transcripts of agents in", Command: append([]string{self, "watch"}, flags...), After: "nexusd"}
		if e.agent != "" {
			u.Command = append(u.Command, "--agent", e.agent)
		}
		out = append(out, u)
	}
	if len(out) == 0 {
		return nil, usageError{fmt.Errorf("there is no service %q: nexusd or watch", args[0])}
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

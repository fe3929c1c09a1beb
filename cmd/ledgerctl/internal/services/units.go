package services

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

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

// WatchFlags are the flags of a watch that a service keeps.
type WatchFlags struct {
	Code   bool
	From   []string
	State  string
	Rescan time.Duration
}

// words returns the flags as words of a command. Folders are absolute: a service runs in
// another one.
func (f *WatchFlags) words() (out []string, err error) {
	if f.Code {
		out = append(out, "--code")
	}
	if len(f.From) > 0 {
		sources, err := follow.Sources(f.From)
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
	if f.State != "" {
		if f.State, err = filepath.Abs(f.State); err != nil {
			return nil, err
		}
		out = append(out, "--state", f.State)
	}
	if f.Rescan < 0 {
		return nil, fault.Usage(fmt.Errorf("--rescan %s is below 0", f.Rescan))
	}
	if f.Rescan > 0 {
		out = append(out, "--rescan", f.Rescan.String())
	}
	return out, nil
}

// units returns the services that a request names; watch has the flags follow. complete: they are to run.
func (r *Request) units(e *cli.Env, home string, follow []string, complete bool) (out []service.Unit, err error) {
	self, err := cli.LastingProgram()
	if err != nil && complete {
		return nil, err
	}
	defer func() {
		for i := range out {
			out[i].Env = keptVariables(os.Getenv)
		}
	}()
	want := func(name string) bool { return len(r.Names) == 0 || r.Names[0] == name }
	nexusd, data := r.Nexusd, r.Data
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
		return nil, fault.Usage(fmt.Errorf("there is no service %q: nexusd or watch", r.Names[0]))
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

package service

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// State says whether a service manager runs a unit.
type State int

// The states.
const (
	Unknown State = iota // the manager does not answer, or is not on this system
	Stopped
	Running
)

// Run runs a command of a shell and returns what it printed.
type Run func(ctx context.Context, command string) (output string, err error)

// Shell runs commands with sh. Its error has what a command wrote to stderr.
func Shell(ctx context.Context, command string) (string, error) {
	out, err := exec.CommandContext(ctx, "sh", "-c", command).Output()
	var x *exec.ExitError
	if errors.As(err, &x) && len(x.Stderr) > 0 {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(x.Stderr)))
	}
	return string(out), err
}

// State asks the manager whether it runs the unit of the file path. One of the same name
// from another file is Stopped: it is not ours to restart.
func (u Unit) State(ctx context.Context, m Manager, path string, run Run) State {
	if m == Launchd {
		out, err := run(ctx, "launchctl print "+launchTarget(u.Name))
		switch from, found := field(out, "path = "); {
		case found && sameFile(from, path):
			return Running // loaded: launchd starts it again by itself
		case found:
			return Stopped
		case err != nil && !strings.Contains(err.Error(), "Could not find service"):
			return Unknown
		}
		return Stopped
	}
	out, err := run(ctx, "systemctl --user show --property=ActiveState,FragmentPath nexus-"+u.Name+".service")
	if err != nil {
		return Unknown
	}
	from, _ := field(out, "FragmentPath=")
	switch state, found := field(out, "ActiveState="); {
	case !found:
		return Unknown
	case sameFile(from, path) && (state == "active" || state == "activating" || state == "reloading"):
		return Running
	}
	return Stopped
}

// field returns the rest of the line that begins with name.
func field(text, name string) (string, bool) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), name); ok {
			return rest, true
		}
	}
	return "", false
}

// sameFile reports whether two names are of one file; links count as what they point to.
func sameFile(a, b string) bool {
	for _, name := range []*string{&a, &b} {
		if to, err := filepath.EvalSymlinks(*name); err == nil {
			*name = to
		}
	}
	return a == b
}

func launchTarget(name string) string { return "gui/$(id -u)/" + label(name) }

// Restart returns the commands after which a unit that runs does what its file says.
func (u Unit) Restart(m Manager, path string) []string {
	if m == Launchd { // kickstart would start it as it was loaded
		return append(u.Stop(m), u.Start(m, path)...)
	}
	return []string{"systemctl --user daemon-reload", "systemctl --user try-restart nexus-" + u.Name + ".service"}
}

// endTime is how long Reload waits for launchd to unload a service, looking each endStep.
// launchd kills one that does not end after 20 s.
const endTime, endStep = 30 * time.Second, 200 * time.Millisecond

// Reload restarts a unit that runs. A command that fails stops it; those after it are not
// run.
func (u Unit) Reload(ctx context.Context, m Manager, path string, run Run) error {
	for i, command := range u.Restart(m, path) {
		if m == Launchd && i > 0 {
			u.waitForEnd(ctx, m, path, run)
		}
		if _, err := run(ctx, command); err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
	}
	return nil
}

// waitForEnd waits until launchd has unloaded a unit: bootout may return before that.
func (u Unit) waitForEnd(ctx context.Context, m Manager, path string, run Run) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	for ctx.Err() == nil && u.State(ctx, m, path, run) == Running {
		select {
		case <-ctx.Done():
		case <-time.After(endStep):
		}
	}
}

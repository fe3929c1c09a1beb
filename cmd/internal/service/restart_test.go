package service

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

// answers runs no command: it notes each and answers from a table, in order.
type answers struct {
	ran []string
	to  map[string][]answer
}

type answer struct {
	out string
	err error
}

func (a *answers) run(_ context.Context, command string) (string, error) {
	a.ran = append(a.ran, command)
	if list := a.to[command]; len(list) > 0 {
		a.to[command] = list[min(1, len(list)-1):]
		return list[0].out, list[0].err
	}
	return "", nil
}

const (
	askSystemd = "systemctl --user show --property=ActiveState,FragmentPath nexus-watch.service"
	askLaunchd = "launchctl print gui/$(id -u)/nexus.watch"
)

func TestStateIsOfTheUnitOfOurFile(t *testing.T) {
	none := errors.New("exit status 113: Could not find service \"nexus.watch\" in domain for login")
	for _, x := range []struct {
		manager Manager
		answer  answer
		want    State
	}{
		{Systemd, answer{"ActiveState=active\nFragmentPath=/h/w.service\n", nil}, Running},
		{Systemd, answer{"FragmentPath=/h/w.service\nActiveState=activating\n", nil}, Running},
		{Systemd, answer{"ActiveState=inactive\nFragmentPath=/h/w.service\n", nil}, Stopped},
		{Systemd, answer{"ActiveState=failed\nFragmentPath=/h/w.service\n", nil}, Stopped},
		{Systemd, answer{"ActiveState=active\nFragmentPath=/other/w.service\n", nil}, Stopped},
		{Systemd, answer{"ActiveState=inactive\nFragmentPath=\n", nil}, Stopped},
		{Systemd, answer{"", errors.New("exit status 1: Failed to connect to bus")}, Unknown},
		{Systemd, answer{"", nil}, Unknown},
		{Launchd, answer{"gui/501/nexus.watch = {\n\tpath = /h/w.service\n\tstate = running\n}\n", nil}, Running},
		{Launchd, answer{"gui/501/nexus.watch = {\n\tpath = /other/w.plist\n}\n", nil}, Stopped},
		{Launchd, answer{"", none}, Stopped},
		{Launchd, answer{"", errors.New("exit status 127: launchctl: not found")}, Unknown},
	} {
		a := &answers{to: map[string][]answer{askSystemd: {x.answer}, askLaunchd: {x.answer}}}
		if got := (Unit{Name: "watch"}).State(t.Context(), x.manager, "/h/w.service", a.run); got != x.want {
			t.Errorf("%s, %q, %v: state %d, want %d", x.manager, x.answer.out, x.answer.err, got, x.want)
		}
	}
}

func TestReloadRunsTheCommandsThatItPrints(t *testing.T) {
	u := Unit{Name: "watch"}
	a := &answers{}
	if err := u.Reload(t.Context(), Systemd, "/h/w.service", a.run); err != nil || !slices.Equal(a.ran, u.Restart(Systemd, "/h/w.service")) {
		t.Error(a.ran, err)
	}
	// launchd has unloaded the old one before the new one is loaded.
	loaded := answer{"\tpath = /h/w.plist\n", nil}
	gone := answer{"", errors.New("Could not find service")}
	a = &answers{to: map[string][]answer{askLaunchd: {loaded, gone}}}
	want := []string{"launchctl bootout gui/$(id -u)/nexus.watch", askLaunchd, askLaunchd, "launchctl bootstrap gui/$(id -u) '/h/w.plist'"}
	synctest.Test(t, func(t *testing.T) {
		if err := u.Reload(t.Context(), Launchd, "/h/w.plist", a.run); err != nil || !slices.Equal(a.ran, want) {
			t.Errorf("ran %q, %v", a.ran, err)
		}
	})
	broken := errors.New("no bus")
	a = &answers{to: map[string][]answer{"systemctl --user daemon-reload": {{"", broken}}}}
	if err := u.Reload(t.Context(), Systemd, "/h/w.service", a.run); !errors.Is(err, broken) || len(a.ran) != 1 {
		t.Error(a.ran, err)
	}
}

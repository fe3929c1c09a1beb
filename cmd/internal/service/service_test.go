package service

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A command with characters that a service manager reads as its own comes back as it is.
func TestUnitsQuoteTheirCommands(t *testing.T) {
	u := Unit{Name: "watch", About: "Nexus: follow transcripts", Command: []string{"/opt/my tools/ledgerctl", "watch", "--from", `claude=/h/$HOME/%n/"q"/<&>\`}, After: "nexusd",
		Env: []string{`CODEX_HOME=/h/$x/%n/"q"=<&>\`}}
	path, text, err := u.File(Systemd, func(string) string { return "" }, "/home/u")
	if err != nil || path != "/home/u/.config/systemd/user/nexus-watch.service" {
		t.Fatal(path, err)
	}
	for _, want := range []string{`ExecStart="/opt/my tools/ledgerctl" "watch" "--from" "claude=/h/$$HOME/%%n/\"q\"/<&>\\"` + "\n", "After=nexus-nexusd.service\n", `Environment="CODEX_HOME=/h/$x/%%n/\"q\"=<&>\\"` + "\n", "WantedBy=default.target\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the unit lacks %q:\n%s", want, text)
		}
	}
	if got := Command(Systemd, text); !slices.Equal(got, u.Command) {
		t.Errorf("the command is read back as %q", got)
	}
	path, text, err = u.File(Launchd, func(string) string { return "" }, "/Users/u")
	if err != nil || path != "/Users/u/Library/LaunchAgents/nexus.watch.plist" {
		t.Fatal(path, err)
	}
	if got := Command(Launchd, text); !slices.Equal(got, u.Command) {
		t.Errorf("the command is read back as %q", got)
	}
	if got := Command(Systemd, "[Service]\nExecStart=/bin/watch --code  -x\n"); !slices.Equal(got, []string{"/bin/watch", "--code", "-x"}) {
		t.Errorf("a command without quotes is read as %q", got)
	}
	var words []string
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		tok, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := tok.(xml.CharData); ok {
			words = append(words, strings.TrimSpace(string(s)))
		}
	}
	for _, want := range []string{u.Command[3], "CODEX_HOME", `/h/$x/%n/"q"=<&>\`} {
		if !slices.Contains(words, want) {
			t.Errorf("the property list has no %q: %q", want, words)
		}
	}
	if start := u.Start(Launchd, "/Users/it's me/a.plist"); start[0] != `launchctl bootstrap gui/$(id -u) '/Users/it'\''s me/a.plist'` {
		t.Error(start)
	}
	if _, _, err := (Unit{Name: "watch", Command: []string{"a\nExecStartPre=b"}}).File(Systemd, os.Getenv, "/"); err == nil {
		t.Error("a command with a line break is taken")
	}
	if _, _, err := (Unit{Name: "watch", Env: []string{"A=\nExecStartPre=b"}}).File(Systemd, os.Getenv, "/"); err == nil {
		t.Error("a variable with a line break is taken")
	}
}

// Only files of this package are replaced or removed.
func TestFilesOfOthersStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "nexus-watch.service")
	if err := Remove(path); err != nil {
		t.Error("remove what is not there:", err)
	}
	_, text, err := Unit{Name: "watch", Command: []string{"x"}}.File(Systemd, os.Getenv, "/")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := Write(path, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := Remove(path); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("[Unit]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, text); !errors.Is(err, ErrForeign) {
		t.Error("write over a file of another:", err)
	}
	if err := Remove(path); !errors.Is(err, ErrForeign) {
		t.Error("remove a file of another:", err)
	}
}

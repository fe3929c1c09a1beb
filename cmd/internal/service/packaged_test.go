package service

import (
	"os"
	"strings"
	"testing"
)

// The limits of the units that ledgerctl writes and of those in a package are the same: what
// a unit of the package has, its twin has too.
func TestUnitsOfAPackageHaveTheLimitsOfThoseWritten(t *testing.T) {
	_, written, err := Unit{Name: "nexusd", Command: []string{"/usr/bin/nexusd"}}.File(Systemd, os.Getenv, "/")
	if err != nil {
		t.Fatal(err)
	}
	units := Packaged()
	if len(units) != 3 {
		t.Errorf("%d units", len(units))
	}
	for name, text := range units {
		for line := range strings.Lines(restart + userLimits) {
			if !strings.Contains(text, "\n"+line) || !strings.Contains(written, "\n"+line) {
				t.Errorf("%s, or a unit that ledgerctl writes, has no line %q", name, line)
			}
		}
		for section := range strings.SplitSeq("[Unit]\nDescription=,\n\n[Service]\nExecStart=/usr/bin/,\n\n[Install]\nWantedBy=", ",") {
			if !strings.Contains(text, section) {
				t.Errorf("%s has no %q:\n%s", name, section, text)
			}
		}
	}
	if got := strings.Join(Command(Systemd, units["system/nexusd.service"]), " "); got != "/usr/bin/nexusd --config /etc/nexus/nexusd.toml --data /var/lib/nexus" {
		t.Errorf("the command of the system's unit is %q", got)
	}
}

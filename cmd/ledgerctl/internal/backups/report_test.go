package backups

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
)

// A disk that is full here is not the daemon's, which may be another machine. What the daemon says of its own stays.
func TestAFullDiskIsThatOfTheBackup(t *testing.T) {
	here := fmt.Errorf("back up the log: %w", &fs.PathError{Op: "write", Path: "/mnt/small/n.backup.partial", Err: syscall.ENOSPC})
	for _, verb := range []string{"backup", "restore"} {
		err := failure(verb, here)
		if text := fault.Plainly(nil, err); strings.Contains(text, "daemon") || !strings.Contains(text, "/mnt/small/n.backup.partial: no space left on device") {
			t.Errorf("%s: %s", verb, text)
		}
		if hint := fault.Next(nil, err); !strings.Contains(hint, "make room there") || strings.Contains(hint, "nexusd") {
			t.Errorf("%s: hint %s", verb, hint)
		}
		if api.Exit(err) != 5 {
			t.Errorf("%s: exit status %d, want 5", verb, api.Exit(err))
		}
	}
	there := api.FromError(syscall.ENOSPC)
	if err := failure("backup", there); !errors.Is(err, there) || !strings.Contains(fault.Plainly(nil, err), "the daemon's disk fails") {
		t.Errorf("of the daemon: %v", err)
	}
}

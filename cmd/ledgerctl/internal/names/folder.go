package names

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"nexus/cmd/ledgerctl/internal/fault"
)

// Folder returns the folder that --cwd names, as sessions record it: from the root. One
// without a / before it is below the current folder, and ~/ is the home folder. It need not
// exist: a session may come from another machine.
func Folder(value string) (string, error) {
	if value == "" || filepath.IsAbs(value) || len(value) > 2 && value[1] == ':' { // C:\x, recorded elsewhere
		return value, nil
	}
	if rest, ok := strings.CutPrefix(value+"/", "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fault.Usage(fmt.Errorf("--cwd %s: %w", value, err))
		}
		return filepath.Join(home, rest), nil
	}
	dir, err := filepath.Abs(value)
	if err != nil {
		return "", fault.Usage(fmt.Errorf("--cwd %s: %w", value, err))
	}
	return dir, nil
}

package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"nexus/cmd/ledgerctl/internal/fault"
)

// LastingProgram returns the path of this program for a file that is read later: the one in
// PATH if that is the same file, since a package manager keeps it over an upgrade; else the
// program's own. A program that go run built is refused: it is gone when go run ends.
func LastingProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if isTransient(self) {
		return "", fault.WithHint(fault.Usage(fmt.Errorf("this ledgerctl is one that go run built, and %s is gone when it ends", self)), "build it (go build -o DIR ./cmd/ledgerctl), and let that one install")
	}
	found, err := exec.LookPath("ledgerctl")
	if err != nil || !filepath.IsAbs(found) {
		return self, nil
	}
	a, errA := os.Stat(self)
	b, errB := os.Stat(found)
	if errors.Join(errA, errB) == nil && os.SameFile(a, b) {
		return found, nil
	}
	return self, nil
}

// isTransient reports whether a program is in a folder that the go command made for one run.
func isTransient(program string) bool {
	for part := range strings.SplitSeq(filepath.ToSlash(filepath.Dir(program)), "/") {
		if n, ok := strings.CutPrefix(part, "go-build"); ok && n != "" && strings.Trim(n, "0123456789") == "" {
			return true
		}
	}
	return false
}

// GoneProgram says what is wrong with the program of a hook; "" if it is there.
func GoneProgram(program string) string {
	if program == "" {
		return ""
	}
	st, err := os.Stat(program)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "its program is gone: " + program
	case err != nil:
		return "its program can't be read: " + err.Error()
	case st.IsDir() || st.Mode()&0o111 == 0:
		return "it is no program: " + program
	case isTransient(program):
		return "its program is one that go run built, and is soon gone: " + program
	}
	return ""
}

//go:build unix

package codetree

import (
	"os/exec"
	"syscall"
)

// detach puts git into a process group of its own: an interrupt typed at the terminal ends
// ledgerctl, and git ends what it writes.
func detach(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

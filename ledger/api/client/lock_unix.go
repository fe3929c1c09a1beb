//go:build unix

package client

import (
	"os"
	"syscall"
)

// lockFile waits for the lock of a file, which is held until it is closed or the process ends.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }

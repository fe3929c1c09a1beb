//go:build unix

package watch

import (
	"errors"
	"os"
	"syscall"
)

// lock locks a file for this process, until it is closed or the process ends. It returns
// [ErrRunning] if another process has it.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrRunning
	}
	return err
}

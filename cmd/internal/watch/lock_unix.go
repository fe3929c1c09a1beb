//go:build unix

package watch

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// readersTime bounds how long [lock] waits for processes that only look whether a watch runs.
const readersTime = time.Second

// lock locks a file for this process, until it is closed or the process ends. It returns
// [ErrRunning] if another process has it; one that asks [isLocked] at this moment has it not.
func lock(f *os.File) error {
	for until := time.Now().Add(readersTime); ; time.Sleep(time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		if isLocked(f) || time.Now().After(until) {
			return ErrRunning
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN); err != nil {
			return err
		}
	}
}

// isLocked reports whether another process has the file's [lock]. It shares the file with others
// that ask, until it is closed.
func isLocked(f *os.File) bool {
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

package watch

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// notifies reports whether the system tells of a file that is made in a folder. A
// notification is there when the call that made the file returns.
func notifies(t *testing.T, dir string) bool {
	t.Helper()
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	if _, err := syscall.InotifyAddWatch(fd, dir, syscall.IN_CREATE); err != nil {
		return false
	}
	if err := os.WriteFile(filepath.Join(dir, "made"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := syscall.Read(fd, make([]byte, 4096))
	return err == nil && n > 0
}

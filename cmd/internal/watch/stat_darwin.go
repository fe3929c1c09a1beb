package watch

import (
	"io/fs"
	"syscall"
)

// identity returns the inode of a file and the time of its last change in nanoseconds,
// which nobody can set; zero where the system has none.
func identity(info fs.FileInfo) (inode uint64, changed int64) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino, st.Ctimespec.Nano()
	}
	return 0, 0
}

//go:build !linux

package daemon

import "syscall"

// errDamagedFilesystem: other systems answer EIO.
const errDamagedFilesystem = syscall.EIO

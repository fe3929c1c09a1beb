//go:build !linux

package outage

import "syscall"

// errDamagedFilesystem: other systems answer EIO.
const errDamagedFilesystem = syscall.EIO

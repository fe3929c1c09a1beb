package outage

import "syscall"

// errDamagedFilesystem is what Linux answers where a file system has to be repaired.
const errDamagedFilesystem = syscall.EUCLEAN

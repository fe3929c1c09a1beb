//go:build !linux && !darwin

package watch

import "io/fs"

// identity returns zeros: length, time of writing and hash tell files apart.
func identity(fs.FileInfo) (inode uint64, changed int64) { return 0, 0 }

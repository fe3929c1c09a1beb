//go:build !unix

package watch

import "os"

// lock locks nothing: where the system has no such lock, the operator starts one watch.
func lock(*os.File) error { return nil }

// isLocked reports that no watch is known to run.
func isLocked(*os.File) bool { return false }

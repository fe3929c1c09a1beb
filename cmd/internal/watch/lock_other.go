//go:build !unix

package watch

import "os"

// lock locks nothing: where the system has no such lock, the operator starts one watch.
func lock(*os.File) error { return nil }

package eventview

import (
	"nexus/ledger/api"
)

// Follow calls first, then next again and again. Before each call but the first it
// waits, and it ends if wait says so. A call that fails because the daemon does not answer
// now is repeated: first is the one that chooses where to begin. A channel that is not
// there yet has no events, so next begins with its first one.
func Follow(first, next func() error, wait func() bool) error {
	for read := first; ; {
		switch err := read(); {
		case err == nil || api.HasCode(err, api.NotFound):
			read = next
		case !isTransient(err):
			return err
		}
		if !wait() {
			return nil
		}
	}
}

// isTransient reports whether an error is of a daemon that may answer later.
func isTransient(err error) bool {
	return api.HasCode(err, api.Unavailable) || api.HasCode(err, api.Busy) || api.HasCode(err, api.Indeterminate)
}

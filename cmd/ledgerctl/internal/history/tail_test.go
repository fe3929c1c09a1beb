package history

import (
	"io"
	"testing"

	"nexus/ledger/api"
)

// tail begins anew after a head move only, not after each refusal.
func TestOffPath(t *testing.T) {
	for err, want := range map[error]bool{
		api.FieldErrorf("/after", "not on the path"):           true,
		api.FieldErrorf("/limit", "too large"):                 false,
		api.Errorf(api.Malformed, nil, "no such member: full"): false,
		api.Errorf(api.NotFound, nil, "no session"):            false,
		io.EOF: false,
	} {
		if got := isOffPath(api.FromError(err)); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}

package storage

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"nexus/ledger"
)

// unreadable is a log that can't be read.
type unreadable struct{ ledger.Log }

func (unreadable) State(context.Context) (ledger.State, error) {
	return ledger.State{}, ledger.ErrUnavailable
}

// While the log can't be read, the metrics have no end of it: an old one would hide that the
// projections fall behind.
func TestALogThatCantBeReadHasNoEnd(t *testing.T) {
	down := make(chan prometheus.Metric, 1)
	(&logEnd{unreadable{}}).Collect(down)
	if len(down) != 0 {
		t.Error("a log that can't be read has an end")
	}
}

package compactor_test

import (
	"testing"

	"nexus/compactor"
	"nexus/compactor/extractive"
)

// TestRealHistories gives compactor.RealHistories the summarizer that its own
// package can't import.
func TestRealHistories(t *testing.T) {
	compactor.RealHistories(t, extractive.New(extractive.Config{}))
}

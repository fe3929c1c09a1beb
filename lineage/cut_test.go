package lineage

import (
	"testing"

	"nexus/turns"
)

func TestLastTurnBeforeACut(t *testing.T) {
	for cut, want := range map[Cut]uint64{
		0:                                0,
		CutBefore(1, turns.MessagesHalf): 0,
		CutBefore(1, turns.ResponseHalf): 1,
		CutBefore(2, turns.MessagesHalf): 1,
		CutBefore(7, turns.ResponseHalf): 7,
	} {
		if got := cut.Last(); got != want {
			t.Errorf("the last turn before cut %d has depth %d, want %d", cut, got, want)
		}
	}
}

package storage

import (
	"testing"

	"nexus/ledger/jetstream/mark"
)

// A start says of nothing that it is on the disk before it has synced it: only what a clean stop
// has synced, and nothing else, is not synced again before the mark is written.
func TestOnlyWhatACleanStopSyncedIsNotSyncedAgain(t *testing.T) {
	closed := mark.Mark{Log: mark.Place{Seq: 7}, Blobs: mark.Place{Seq: 3}, Closed: &mark.Sizes{Log: 100}}
	killed, more, moreBlobs := closed, closed, closed
	killed.Closed, more.Log.Seq, moreBlobs.Blobs.Seq = nil, 8, 4
	for name, tc := range map[string]struct {
		m, found mark.Mark
		want     bool
	}{
		"a clean stop": {closed, closed, false}, "a kill": {killed, killed, true},
		"records that came after a clean stop": {closed, more, true}, "blobs that came after it": {closed, moreBlobs, true},
	} {
		if got := claims(tc.m, tc.found); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

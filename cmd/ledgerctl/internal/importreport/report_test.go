package importreport

import (
	"errors"
	"testing"

	"nexus/cmd/internal/transcripts/tally"
	"nexus/turns"
)

// An import that stops says what it stored, also of files that it did not end.
func TestStoppedImportSaysWhatIsStored(t *testing.T) {
	a := Report{Files: 63}
	full := errors.New("no space")
	a.Stopped(nil, full)
	for i := range 3 {
		a.Stopped(&tally.Report{Sessions: []turns.ID{{15: byte(i + 1)}}, Stored: 10}, full)
	}
	a.Stopped(&tally.Report{Sessions: []turns.ID{{15: 9}}, Stored: 7}, nil)
	if got, want := a.StoppedText(), "stopped after 1 of 63 files; 37 events of 4 sessions are stored, in files that are whole and in some that are not"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got, want := (&Report{Files: 2}).StoppedText(), "stopped after 0 of 2 files; nothing new is stored"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// A file that nothing is stored of does not count, and an event without a reply makes the
// count the least.
func TestStoppedImportCountsWhatWasAcknowledged(t *testing.T) {
	a := Report{Files: 3}
	stopped := errors.New("interrupted")
	a.Stopped(&tally.Report{Sessions: []turns.ID{{15: 1}}, Stored: 14}, stopped)
	a.Stopped(&tally.Report{Sessions: []turns.ID{{15: 2}}, Existing: 9}, stopped)
	a.Stopped(&tally.Report{Sessions: []turns.ID{{15: 3}}, Unacknowledged: true}, stopped)
	if got, want := a.StoppedText(), "stopped after 0 of 3 files; at least 14 events of 1 session are stored, in files that are whole and in some that are not"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

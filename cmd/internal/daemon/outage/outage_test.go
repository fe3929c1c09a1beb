package outage

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestHangsTellsAWriteThatHangs(t *testing.T) {
	o := New(slog.New(slog.DiscardHandler))
	if o.Hangs(0) {
		t.Error("nothing is written")
	}
	end := o.writing()
	if o.Hangs(time.Hour) {
		t.Error("it began just now")
	}
	o.settled.Add(-int64(time.Minute))
	if !o.Hangs(time.Second) {
		t.Error("nothing has ended for a minute")
	}
	o.writing()()
	if o.Hangs(time.Second) {
		t.Error("another write ended just now: the disk takes writes")
	}
	if end(); o.Hangs(0) {
		t.Error("nothing is written any more")
	}
}

// The cause of an outage that clients see names no file.
func TestTheCauseOfAnOutageNamesNoFile(t *testing.T) {
	for _, err := range []error{
		&os.PathError{Op: "write", Path: "/secret/1.blk", Err: syscall.ENOSPC},
		errors.New("the stream's disk failed: write /secret/1.blk: no space left on device"),
	} {
		if got := cause(err); got != "no space left on device" {
			t.Errorf("%q", got)
		}
	}
}

// What a read of the log brought is not taken for the log's if an outage began meanwhile, also
// if it is over.
func TestAReadUnderAnOutageIsStale(t *testing.T) {
	o := New(slog.New(slog.DiscardHandler))
	read := func(context.Context) (string, error) {
		o.Fail(errors.New("write x: disk failed"))
		if _, failures := o.State(); !o.End(failures) {
			t.Error("the outage goes on")
		}
		return "record", nil
	}
	if got, err := guarded(t.Context(), o, read, func() (string, error) { return "stale", nil }); got != "stale" || err != nil {
		t.Errorf("%q, %v; want what the projections have", got, err)
	}
}

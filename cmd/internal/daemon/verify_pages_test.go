package daemon

import (
	"context"
	"path/filepath"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// A verification that waits for its next page ends with the daemon, and leaves nothing on the disk.
func TestDaemonEndsAVerificationThatWaits(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	for range 5 {
		must[*api.Appended](t)(c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "hello")}}))
	}
	made := func() []string {
		found := must[[]string](t)(filepath.Glob(filepath.Join(dir, "*", "verify-*")))
		return append(found, must[[]string](t)(filepath.Glob(filepath.Join(dir, "*", "*", "verify-*")))...)
	}
	for v, err := range c.VerifyPages(t.Context(), 2, s.ID) {
		if err != nil || v.Next == "" || len(made()) == 0 {
			t.Fatalf("%+v, %v; on the disk %q", v, err, made())
		}
		break
	}
	if err := d.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if left := made(); len(left) > 0 {
		t.Errorf("left on the disk: %q", left)
	}
	d, c = start(t, dir)
	defer d.Close(context.Background())
	pages, last := 0, new(api.Verified)
	for v, err := range c.VerifyPages(t.Context(), 2, s.ID) {
		if err != nil {
			t.Fatal(err)
		}
		pages, last = pages+1, v
	}
	if pages < 3 || !last.OK || last.Events != 6 {
		t.Errorf("%d pages, the last one %+v", pages, last)
	}
}

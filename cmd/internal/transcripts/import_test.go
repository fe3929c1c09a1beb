package transcripts

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A stopped import waits for the replies to its requests, and not for ever.
func TestStoppedImportWaitsForReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		graced, done := withGrace(ctx)
		defer done()
		stop()
		synctest.Wait()
		if graced.Err() != nil {
			t.Fatal("a request ends with the import")
		}
		begin := time.Now()
		if <-graced.Done(); time.Since(begin) != stopGrace {
			t.Errorf("it ended after %s", time.Since(begin))
		}
	})
}

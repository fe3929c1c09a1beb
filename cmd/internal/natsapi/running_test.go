package natsapi

import (
	"sync"
	"testing"
)

// Requests that come while the service stops either run before the last one has ended, or
// not at all.
func TestNoRequestBeginsAfterTheLastOneEnded(t *testing.T) {
	for range 200 {
		var r running
		var wg sync.WaitGroup
		closed := make(chan struct{}) // what requests use is closed
		for range 8 {
			wg.Go(func() {
				if !r.begin() {
					return
				}
				select {
				case <-closed:
					t.Error("a request runs on what is closed")
				default:
				}
				r.end()
			})
		}
		<-r.close()
		close(closed)
		if r.begin() {
			t.Error("a request began behind the last one")
		}
		<-r.close() // may be called again
		wg.Wait()
	}
}

package natsapi

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A stop waits for requests as long as its context, cancels them then, and is not
// held up by one that does not heed that.
func TestStopWaitsNoLongerThanItsGrace(t *testing.T) {
	const drain = 20 * time.Second
	for name, c := range map[string]struct {
		ends   time.Duration // of the request, by itself
		heeds  bool          // it ends when it is cancelled
		want   time.Duration
		failed bool
	}{
		"a request that ends":          {ends: time.Second, want: time.Second},
		"one that ends when cancelled": {ends: time.Hour, heeds: true, want: drain},
		"one that ends a little late":  {ends: drain + time.Second, want: drain + time.Second},
		"one that does not end":        {ends: time.Hour, want: drain + grace, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := new(Service)
				s.base, s.cancel = context.WithCancel(context.Background())
				s.running.Go(func() {
					var cancelled <-chan struct{}
					if c.heeds {
						cancelled = s.base.Done()
					}
					select {
					case <-time.After(c.ends):
					case <-cancelled:
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), drain)
				defer cancel()
				began := time.Now()
				err := s.drain(ctx)
				if got := time.Since(began); got != c.want || (err != nil) != c.failed {
					t.Errorf("it took %v, want %v; %v", got, c.want, err)
				}
				if s.base.Err() == nil {
					t.Error("what is still worked on is not cancelled")
				}
				s.running.Wait()
			})
		})
	}
}

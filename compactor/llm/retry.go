package llm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nexus/compactor/overflow"
)

// Fault is an [ErrProvider] that is safe to report: the status and the kind of fault. It must not
// hold what the provider wrote, because that may quote the request.
type Fault struct {
	Text  string
	Retry bool                   // another try may succeed
	After time.Duration          // how long the provider asks to wait
	Size  overflow.ProviderError // what the answer says about the request's size
}

func (f *Fault) Error() string { return ErrProvider.Error() + ": " + f.Text }

// Unwrap gives ErrProvider.
func (f *Fault) Unwrap() error { return ErrProvider }

// tries sends a request, and sends it again after each of waits while the fault may
// pass and time is left. What the provider asks to wait replaces a shorter wait. If waits is
// nil, they are the summarizer's own.
func (s *Summarizer) tries(ctx context.Context, r Request, waits []time.Duration) (Answer, error) {
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if waits == nil {
		waits = s.retries
	}
	began := s.now()
	for i := 0; ; i++ {
		a, err := s.model.Ask(ctx, r)
		if err != nil && caller.Err() == nil && (ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)) {
			err = &Fault{Text: "no answer in time"}
		}
		var f *Fault
		if !errors.As(err, &f) || !f.Retry || i == len(waits) {
			return a, err
		}
		d := max(waits[i], f.After)
		if s.now().Sub(began)+d >= s.timeout {
			return a, fmt.Errorf("%w; the next try would be in %v, which is too late", err, d.Round(time.Second))
		}
		if err := s.wait(ctx, d); err != nil {
			if caller.Err() == nil {
				err = &Fault{Text: "no answer in time"}
			}
			return a, err
		}
	}
}

// wait returns when d has passed, or with ctx's error.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

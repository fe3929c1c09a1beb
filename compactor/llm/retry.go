package llm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"nexus/compactor/overflow"
)

// fault is an [ErrProvider] that is safe to report: the status and the kind of
// fault. It does not keep what the provider wrote, because that may quote the
// request.
type fault struct {
	text  string
	retry bool                   // another try may succeed
	after string                 // the value of Retry-After
	size  overflow.ProviderError // what the answer says about the request's size
}

func (f *fault) Error() string { return ErrProvider.Error() + ": " + f.text }
func (f *fault) Unwrap() error { return ErrProvider }

// header is the part of an answer's header that is read.
type header interface{ Get(name string) string }

// failed returns the error of a request. status, h and body are the answer's; 0, nil
// and "" if there was none.
func failed(ctx context.Context, status int, h header, body string, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return &fault{text: "no answer in time"}
	case status == 0:
		return &fault{text: "the connection or the answer broke", retry: true}
	}
	f := &fault{text: fmt.Sprintf("status %d", status), retry: status == 408 || status == 409 || status == 429 || status >= 500}
	if strings.TrimSpace(body) != "" { // an empty body proves nothing
		f.size = overflow.Read(status, body)
	}
	if h != nil {
		switch h.Get("X-Should-Retry") { // both libraries obey it
		case "true":
			f.retry = true
		case "false":
			f.retry = false
		}
		f.after = h.Get("Retry-After")
	}
	return f
}

// tries sends a request, and sends it again after each of waits while the fault may
// pass and time is left. A Retry-After longer than the wait replaces it. If waits is
// nil, the library decides.
func (s *Summarizer) tries(ctx context.Context, r request, waits []time.Duration) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	r.once = waits != nil
	began := s.now()
	for i := 0; ; i++ {
		a, err := s.model.ask(ctx, r)
		var f *fault
		if !errors.As(err, &f) || !f.retry || i == len(waits) {
			return a, err
		}
		now := s.now()
		d := max(waits[i], retryAfter(f.after, now))
		if now.Sub(began)+d >= s.timeout {
			return a, fmt.Errorf("%w; the next try would be in %v, which is too late", err, d.Round(time.Second))
		}
		if err := s.wait(ctx, d); err != nil {
			return a, failed(ctx, 0, nil, "", err)
		}
	}
}

// retryAfter returns how long a Retry-After asks to wait: seconds or a date; 0 if it
// holds neither. Source: RFC 9110, section 10.2.3.
func retryAfter(v string, now time.Time) time.Duration {
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		switch {
		case !(s > 0): // NaN too
			return 0
		case s > math.MaxInt32:
			return math.MaxInt32 * time.Second
		}
		return time.Duration(s * float64(time.Second))
	}
	for _, layout := range [...]string{time.RFC1123, time.RFC850, time.ANSIC} {
		if t, err := time.Parse(layout, v); err == nil {
			return max(0, t.Sub(now))
		}
	}
	return 0
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

package ledgertest

import (
	"context"
	"errors"
	"sync"

	"nexus/ledger"
)

// Fault is what happens to one try of a publish. The caller sees the same
// error whichever it is: that is the difficulty.
type Fault int

const (
	None      Fault = iota // the try goes through, and so does its answer
	Persisted              // stored, but the answer is lost
	Lost                   // never sent
	Late                   // not sent now; stored whenever [Faults.Deliver] is called
)

func (f Fault) String() string {
	return [...]string{"none", "failed but persisted", "failed and lost", "lost and later landed"}[f]
}

// ErrInjected is in every error that [Inject] makes up.
var ErrInjected = errors.New("injected: no answer")

// Faults is a script of faults, one a try; tries past its end go through. The
// zero Faults injects nothing. Safe for concurrent use.
type Faults struct {
	mu     sync.Mutex
	script []Fault
	late   []func(context.Context) error
	tries  int
}

// Script sets the faults of the next tries, and forgets those before.
func (f *Faults) Script(s ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script = append([]Fault(nil), s...)
	f.tries = 0
}

// Tries is how many tries came since Script.
func (f *Faults) Tries() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tries
}

// Deliver sends the late tries, in order, and returns the store's answer to each.
func (f *Faults) Deliver(ctx context.Context) []error {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	var answers []error
	for _, send := range late {
		answers = append(answers, send(ctx))
	}
	return answers
}

func (f *Faults) next() Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tries++
	if len(f.script) == 0 {
		return None
	}
	k := f.script[0]
	f.script = f.script[1:]
	return k
}

// Inject calls send as the script of f says. A failed try returns lost joined with
// [ErrInjected]; lost is the error of the store's client when no answer comes. send
// must not depend on memory that its caller will reuse.
func Inject[T any](ctx context.Context, f *Faults, lost error, send func(context.Context) (T, error)) (T, error) {
	var zero T
	switch f.next() {
	case Persisted:
		if _, err := send(ctx); err != nil {
			return zero, errors.Join(lost, ErrInjected, err)
		}
	case Lost:
	case Late:
		f.mu.Lock()
		f.late = append(f.late, func(ctx context.Context) error {
			_, err := send(ctx)
			return err
		})
		f.mu.Unlock()
	default:
		return send(ctx)
	}
	return zero, errors.Join(lost, ErrInjected)
}

// Flaky returns a log over log whose Append returns [ledger.ErrIndeterminate] where
// f has a fault: what a caller gets when Append could not resolve an answer.
func Flaky(log ledger.Log, f *Faults) ledger.Log { return &flaky{Log: log, faults: f} }

type flaky struct {
	ledger.Log
	faults *Faults
}

func (l *flaky) Append(ctx context.Context, subject string, expect uint64, payload []byte) (uint64, error) {
	p := append([]byte(nil), payload...)
	return Inject(ctx, l.faults, ledger.ErrIndeterminate, func(ctx context.Context) (uint64, error) {
		return l.Log.Append(ctx, subject, expect, p)
	})
}

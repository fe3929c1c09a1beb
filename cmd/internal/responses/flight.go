package responses

import (
	"context"
	"errors"
	"sync"
	"time"

	"nexus/cmd/internal/provider"
	"nexus/ledger/api"
	"nexus/turns"
)

// flight is a response from its beginning to its end.
type flight struct {
	runs     *runner
	owner    string // the agent, for the memory that all share
	client   *api.Client
	request  *CreateRequest
	stepBack func() // makes the head what it was before the request
	provider provider.Client
	ask      *provider.Request
	ref      turns.Ref
	choice   toolChoice
	recorded bool
	meta     *requestMeta
	echo     *Response
	context  *api.Context
	depth    uint64
	lost     int
	sealed   string // of its compaction item; "": none
	spool    *spool
	quiet    bool // the file has no events
	release  func()
	ctx      context.Context
	cancel   context.CancelCauseFunc

	memory *share

	// Of the goroutine that runs it.
	written int64 // bytes of all events
	text    int64 // bytes of the answer's texts and arguments
	held    int64 // bytes of memory that the events take
	ending  bool  // what comes ends the response, and is sent in any case

	mu      sync.Mutex
	grew    chan struct{} // closed when events or the end came
	events  []Event       // those from number dropped on
	dropped int
	ended   bool
	err     error // of the end; nil: final is whole
	cut     bool  // events are missing at the end: who follows sees err in their place
	stored  bool  // the answer is in the ledger
	final   *Response
	answer  *turns.Message
	users   int
	queued  bool
}

// open makes f, of which the first fields are set, a flight that can be launched, and returns it.
func (rs *runner) open(f *flight) *flight {
	f.runs, f.grew, f.users, f.queued, f.release = rs, make(chan struct{}), 1, f.request.inBackground(), func() {}
	f.ctx, f.cancel = context.WithCancelCause(rs.ctx)
	f.memory = rs.memory.open(f.owner, func() { f.cancel(errMemory) })
	return f
}

// use takes the context as what the model is asked.
func (f *flight) use(cx *api.Context) (err error) {
	if f.ask.Messages, err = messagesOf(cx); err != nil {
		return err
	}
	f.ask.System = f.request.systemOf(cx)
	return nil
}

// launch starts the call. From here on a retry finds the response. Error: errClosing, of a
// runner that ends: then nothing runs, and the turn is as a kill leaves it.
func (f *flight) launch() error {
	rs := f.runs
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.closing {
		return errClosing
	}
	rs.flights[f.echo.ID] = f
	rs.work.Add(1)
	go func() {
		defer rs.work.Done()
		defer f.release()
		defer f.cancel(nil) // else the runner's context keeps a child of each response
		f.run()
		rs.mu.Lock()
		defer rs.mu.Unlock()
		if rs.flights[f.echo.ID] == f { // a retry may have begun another one
			delete(rs.flights, f.echo.ID)
		}
	}()
	return nil
}

// drop ends a flight that was not launched.
func (f *flight) drop() {
	f.cancel(nil)
	f.memory.close()
	if err := f.spool.close(false); err != nil {
		f.runs.log.Warn("responses: the file of a response", "response", f.echo.ID, "err", err)
	}
}

// join is leave's counterpart, of one who follows f too.
func (f *flight) join() { f.mu.Lock(); f.users++; f.mu.Unlock() }

// leave says that a client follows no more. An answer that is not to be stored is for
// nobody then.
func (f *flight) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users--; f.users > 0 {
		return
	}
	if !f.recorded {
		f.cancel(errCancelled)
	}
	if f.ended {
		f.memory.close()
	}
}

// eventBytes is about what an event takes in memory besides its JSON.
const eventBytes = 128

// emit keeps an event and shows it. The file has it first.
func (f *flight) emit(e Event) error {
	kept := e.withoutLong()
	n := eventBytes + int64(len(kept.Data)) + kept.sharedBytes()
	if f.ending {
		f.memory.force(n)
	} else {
		if f.written += int64(len(e.Data)); f.written > maxSpool {
			return errAnswerSize(maxSpool)
		}
		if err := f.memory.take(n); err != nil {
			return err
		}
	}
	f.held += n
	if !f.quiet {
		if err := f.spool.line(e.Data); err != nil && !f.ending {
			return err
		} else if err != nil { // a client reads how its response ended, also of a disk that is full
			f.runs.log.Warn("responses: the file of a response", "response", f.echo.ID, "err", err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, kept)
	f.wake()
	return nil
}

// take passes on what a provider sent, and counts what is kept of it.
func (f *flight) take(em *emitter, ev provider.Event) error {
	n := int64(len(ev.Text))
	if f.text += n; f.text > f.runs.maxAnswer {
		return errAnswerSize(f.runs.maxAnswer)
	}
	if err := f.memory.take(n + n/4); err != nil { // a text that grows has room to grow
		return err
	}
	return em.take(ev)
}

// hold counts what the provider's client keeps of the answer.
func (f *flight) hold(n int) error { return f.memory.take(int64(n)) }

// holdContext counts what the model is asked: the messages, and their rendering.
func (f *flight) holdContext() error { return f.memory.take(2 * sizeOf(f.ask.Messages)) }

// dropEvents lets go of the events so far, but for those that began the response in its file.
// Who has not read them reads how the response ends.
func (f *flight) dropEvents() {
	f.mu.Lock()
	events := f.events
	f.dropped += len(events)
	f.events, f.held = nil, 0
	f.mu.Unlock()
	if f.quiet {
		return
	}
	err := f.spool.dropEvents()
	for i := 0; err == nil && i < len(events) && events[i].of != nil && events[i].of.Response != nil; i++ {
		err = f.spool.line(events[i].whole().Data)
	}
	if err != nil {
		f.runs.log.Warn("responses: the file of a response", "response", f.echo.ID, "err", err)
	}
}

func (f *flight) wake() { close(f.grew); f.grew = make(chan struct{}) }

// follow passes the events after number after to sink, until the last one, and calls idle,
// which may be nil, where none came for a while. It returns why there is no last one.
func (f *flight) follow(ctx context.Context, after int, sink func(Event) error, idle func() error) error {
	for {
		f.mu.Lock()
		var next []Event
		if after = max(after, f.dropped-1); after-f.dropped < len(f.events)-1 { // after is a client's, and may be the largest number
			next = f.events[after-f.dropped+1:]
		}
		ended, err, cut, grew := f.ended, f.err, f.cut, f.grew
		f.mu.Unlock()
		for _, e := range next {
			if err := sink(e.whole()); err != nil {
				return err
			}
			after++
		}
		if len(next) > 0 {
			continue
		}
		if ended {
			if cut || errors.Is(err, errClosing) {
				return err
			}
			return nil
		}
		if err := f.await(ctx, grew, idle); err != nil {
			return err
		}
	}
}

// await waits until grew is closed, and calls idle each time that nothing came for a while.
func (f *flight) await(ctx context.Context, grew <-chan struct{}, idle func() error) error {
	for {
		var quiet <-chan time.Time
		free := func() bool { return true }
		if idle != nil {
			quiet, free = f.runs.after(f.runs.keepAlive)
		}
		var err error
		isQuiet := false
		select {
		case <-grew:
		case <-ctx.Done():
			err = ctx.Err()
		case <-quiet:
			isQuiet = true
		}
		if free(); !isQuiet {
			return err
		}
		if err := idle(); err != nil {
			return err
		}
	}
}

// wait returns the response when it is whole.
func (f *flight) wait(ctx context.Context) (*Response, error) {
	for {
		f.mu.Lock()
		ended, err, final, grew := f.ended, f.err, f.final, f.grew
		f.mu.Unlock()
		if ended {
			return final, err
		}
		select {
		case <-grew:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// eventsNow are the events so far. They are the caller's to read.
func (f *flight) eventsNow() []Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.events
}

// now is the response as it is.
func (f *flight) now() *Response {
	f.mu.Lock()
	final, events, waits := f.final, f.events, f.queued
	f.mu.Unlock()
	if final != nil {
		return final
	}
	out := *f.echo
	if waits {
		out.Status = queued
	}
	out.Output = fold(events).items
	if out.Output == nil {
		out.Output = []Item{}
	}
	return &out
}

// messages are what a continuation begins with.
func (f *flight) messages() []turns.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := append([]turns.Message{}, f.ask.Messages...)
	if f.answer != nil {
		m := *f.answer
		m.FinishReason = ""
		out = append(out, m)
	}
	return out
}

// tips are the ends of other paths of the session.
func (f *flight) tips() []turns.ID {
	if f.meta == nil {
		return nil
	}
	return f.meta.Tips
}

func (f *flight) hasEnded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}

func (f *flight) end(final *Response, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.final, f.err, f.ended = final, err, true
	if f.users > 0 {
		f.memory.keep(f.held)
	} else {
		f.memory.close()
	}
	f.wake()
}

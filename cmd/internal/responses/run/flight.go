package run

import (
	"context"
	"errors"
	"sync"
	"time"

	"nexus/cmd/internal/provider"
	"nexus/cmd/internal/responses/place"
	"nexus/cmd/internal/responses/stream"
	"nexus/cmd/internal/responses/wire"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Spec says what response a flight makes.
type Spec struct {
	Owner    string // the agent, for the memory that all share
	Client   *client.Client
	Request  *wire.CreateRequest
	StepBack func() // makes the head what it was before the request
	Provider provider.Client
	Ask      *provider.Request
	Ref      turns.Ref // the request's turn
	Choice   wire.ToolChoice
	Recorded bool // the answer becomes a turn
	Meta     *wire.RequestMeta
	Echo     *wire.Response
	Context  *api.Context // that the model is asked with
	Depth    uint64       // of the request's turn
	Lost     int          // answers that were lost before
	Sealed   string       // of its compaction item; "": none
	Spool    *stream.Spool
	Quiet    bool   // the file has no events
	Release  func() // gives back what the response takes of its agent's share
}

// Flight is a response from its beginning to its end.
type Flight struct {
	Spec
	runs   *Runner
	ctx    context.Context
	cancel context.CancelCauseFunc

	memory *share

	// Of the goroutine that runs it.
	written int64 // bytes of all events
	text    int64 // bytes of the answer's texts and arguments
	held    int64 // bytes of memory that the events take
	ending  bool  // what comes ends the response, and is sent in any case

	mu      sync.Mutex
	grew    chan struct{}  // closed when events or the end came
	events  []stream.Event // those from number dropped on
	dropped int
	ended   bool
	err     error // of the end; nil: final is whole
	cut     bool  // events are missing at the end: who follows sees err in their place
	stored  bool  // the answer is in the ledger
	final   *wire.Response
	answer  *turns.Message
	users   int
	queued  bool
}

// Open returns a flight that can be launched. What of its spec is not known yet is set before.
func (rs *Runner) Open(s Spec) *Flight {
	f := &Flight{Spec: s, runs: rs, grew: make(chan struct{}), users: 1, queued: s.Request.InBackground()}
	f.Release = func() {}
	f.ctx, f.cancel = context.WithCancelCause(rs.ctx)
	f.memory = rs.memory.open(s.Owner, func() { f.cancel(ErrMemory) })
	return f
}

// Ended returns a flight of a response that has ended. replay gives its events.
func (rs *Runner) Ended(owner string, ref turns.Ref, echo, final *wire.Response, replay func(sink func(stream.Event) error) error) (*Flight, error) {
	f := &Flight{Spec: Spec{Recorded: true, Quiet: true, Echo: echo, Ref: ref}, runs: rs, memory: rs.memory.open(owner, func() {}), grew: make(chan struct{}), ended: true, final: final, users: 1}
	if err := replay(f.emit); err != nil {
		f.memory.close()
		return nil, err
	}
	return f, nil
}

// Abort ends the call of the model, for a cause that the response tells.
func (f *Flight) Abort(cause error) { f.cancel(cause) }

// Use takes the context as what the model is asked.
func (f *Flight) Use(cx *api.Context) (err error) {
	if f.Ask.Messages, err = place.MessagesOf(cx); err != nil {
		return err
	}
	f.Ask.System = f.Request.SystemOf(cx)
	return nil
}

// launch starts the call. From here on a retry finds the response. Error: errClosing, of a
// runner that ends: then nothing runs, and the turn is as a kill leaves it.
func (f *Flight) launch() error {
	rs := f.runs
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.closing {
		return wire.ErrClosing
	}
	rs.flights[f.Echo.ID] = f
	rs.work.Add(1)
	go func() {
		defer rs.work.Done()
		defer f.Release()
		defer f.cancel(nil) // else the runner's context keeps a child of each response
		f.run()
		rs.mu.Lock()
		defer rs.mu.Unlock()
		if rs.flights[f.Echo.ID] == f { // a retry may have begun another one
			delete(rs.flights, f.Echo.ID)
		}
	}()
	return nil
}

// Drop ends a flight that was not launched.
func (f *Flight) Drop() {
	f.cancel(nil)
	f.memory.close()
	if err := f.Spool.Close(false); err != nil {
		f.runs.Log.Warn("responses: the file of a response", "response", f.Echo.ID, "err", err)
	}
}

// Join is leave's counterpart, of one who follows f too.
func (f *Flight) Join() { f.mu.Lock(); f.users++; f.mu.Unlock() }

// Leave says that a client follows no more. An answer that is not to be stored is for
// nobody then.
func (f *Flight) Leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users--; f.users > 0 {
		return
	}
	if !f.Recorded {
		f.cancel(wire.ErrCancelled)
	}
	if f.ended {
		f.memory.close()
	}
}

// eventBytes is about what an event takes in memory besides its JSON.
const eventBytes = 128

// emit keeps an event and shows it. The file has it first.
func (f *Flight) emit(e stream.Event) error {
	kept := e.WithoutLong()
	n := eventBytes + int64(len(kept.Data)) + kept.SharedBytes()
	if f.ending {
		f.memory.force(n)
	} else {
		if f.written += int64(len(e.Data)); f.written > stream.MaxSpool {
			return errAnswerSize(stream.MaxSpool)
		}
		if err := f.memory.take(n); err != nil {
			return err
		}
	}
	f.held += n
	if !f.Quiet {
		if err := f.Spool.Line(e.Data); err != nil && !f.ending {
			return err
		} else if err != nil { // a client reads how its response ended, also of a disk that is full
			f.runs.Log.Warn("responses: the file of a response", "response", f.Echo.ID, "err", err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, kept)
	f.wake()
	return nil
}

// take passes on what a provider sent, and counts what is kept of it.
func (f *Flight) take(em *stream.Emitter, ev provider.Event) error {
	n := int64(len(ev.Text))
	if f.text += n; f.text > f.runs.MaxAnswer {
		return errAnswerSize(f.runs.MaxAnswer)
	}
	if err := f.memory.take(n + n/4); err != nil { // a text that grows has room to grow
		return err
	}
	return em.Take(ev)
}

// Hold counts what the provider's client keeps of the answer.
func (f *Flight) Hold(n int) error { return f.memory.take(int64(n)) }

// HoldContext counts what the model is asked: the messages, and their rendering.
func (f *Flight) HoldContext() error { return f.memory.take(2 * wire.SizeOf(f.Ask.Messages)) }

// dropEvents lets go of the events so far, but for those that began the response in its file.
// Who has not read them reads how the response ends.
func (f *Flight) dropEvents() {
	f.mu.Lock()
	events := f.events
	f.dropped += len(events)
	f.events, f.held = nil, 0
	f.mu.Unlock()
	if f.Quiet {
		return
	}
	err := f.Spool.DropEvents()
	for i := 0; err == nil && i < len(events) && events[i].Of != nil && events[i].Of.Response != nil; i++ {
		err = f.Spool.Line(events[i].Whole().Data)
	}
	if err != nil {
		f.runs.Log.Warn("responses: the file of a response", "response", f.Echo.ID, "err", err)
	}
}

func (f *Flight) wake() { close(f.grew); f.grew = make(chan struct{}) }

// Follow passes the events after number after to sink, until the last one, and calls idle,
// which may be nil, where none came for a while. It returns why there is no last one.
func (f *Flight) Follow(ctx context.Context, after int, sink func(stream.Event) error, idle func() error) error {
	for {
		f.mu.Lock()
		var next []stream.Event
		if after = max(after, f.dropped-1); after-f.dropped < len(f.events)-1 { // after is a client's, and may be the largest number
			next = f.events[after-f.dropped+1:]
		}
		ended, err, cut, grew := f.ended, f.err, f.cut, f.grew
		f.mu.Unlock()
		for _, e := range next {
			if err := sink(e.Whole()); err != nil {
				return err
			}
			after++
		}
		if len(next) > 0 {
			continue
		}
		if ended {
			if cut || errors.Is(err, wire.ErrClosing) {
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
func (f *Flight) await(ctx context.Context, grew <-chan struct{}, idle func() error) error {
	for {
		var quiet <-chan time.Time
		free := func() bool { return true }
		if idle != nil {
			quiet, free = f.runs.After(f.runs.KeepAlive)
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

// Wait returns the response when it is whole.
func (f *Flight) Wait(ctx context.Context) (*wire.Response, error) {
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
func (f *Flight) eventsNow() []stream.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.events
}

// Now is the response as it is.
func (f *Flight) Now() *wire.Response {
	f.mu.Lock()
	final, events, waits := f.final, f.events, f.queued
	f.mu.Unlock()
	if final != nil {
		return final
	}
	out := *f.Echo
	if waits {
		out.Status = wire.Queued
	}
	out.Output = stream.Fold(events).Items
	if out.Output == nil {
		out.Output = []wire.Item{}
	}
	return &out
}

// Messages are what a continuation begins with.
func (f *Flight) Messages() []turns.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := append([]turns.Message{}, f.Ask.Messages...)
	if f.answer != nil {
		m := *f.answer
		m.FinishReason = ""
		out = append(out, m)
	}
	return out
}

// tips are the ends of other paths of the session.
func (f *Flight) tips() []turns.ID {
	if f.Meta == nil {
		return nil
	}
	return f.Meta.Tips
}

func (f *Flight) hasEnded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}

func (f *Flight) end(final *wire.Response, err error) {
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

// Launch starts the call of what prepare returns. Whatever becomes of prepare, the place of
// the response is given back in the end, and the memory that its request takes.
func Launch(r *wire.CreateRequest, release func(), prepare func() (*Flight, error)) (*Flight, error) {
	launched := false
	defer func() {
		if !launched {
			release()
		}
	}()
	f, err := prepare()
	if err != nil {
		return nil, err
	}
	f.Release = release
	if r.Done != nil {
		f.Release = func() { release(); r.Done() }
	}
	if err := f.launch(); err != nil {
		f.Drop()
		return nil, err
	}
	launched = true
	return f, nil
}

package run

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nexus/cmd/internal/provider"
	"nexus/cmd/internal/responses/stream"
	"nexus/cmd/internal/responses/wire"
	"nexus/ledger/api"
	"nexus/turns"
)

// modelFunc is a model that a test writes.
type modelFunc func(ctx context.Context, r *provider.Request, emit func(provider.Event) error) (*provider.Answer, error)

func (m modelFunc) Generate(ctx context.Context, r *provider.Request, emit func(provider.Event) error) (*provider.Answer, error) {
	return m(ctx, r, emit)
}

// says is a model that answers with a text.
func says(text string) modelFunc {
	return func(_ context.Context, _ *provider.Request, emit func(provider.Event) error) (*provider.Answer, error) {
		part := turns.TextPart(text)
		err := errors.Join(emit(provider.Event{Kind: provider.Begin, Type: turns.Text}), emit(provider.Event{Kind: provider.Delta, Type: turns.Text, Text: text}), emit(provider.Event{Kind: provider.End, Type: turns.Text, Part: &part}))
		return &provider.Answer{Message: turns.Message{Role: turns.Assistant, Parts: []turns.Part{part}, FinishReason: "stop"}}, err
	}
}

// alone is a runner without a ledger: responses that are not recorded need none.
func alone(t *testing.T, change func(*Config)) *Runner {
	t.Helper()
	c := Config{Log: slog.New(slog.DiscardHandler), Now: time.Now, MaxAnswer: 4 << 20, Streams: 256 << 20}
	if change != nil {
		change(&c)
	}
	rs := New(c)
	t.Cleanup(func() { rs.Close(); rs.Wait() })
	return rs
}

// ask makes a flight of a response that is not recorded, for an agent.
func (rs *Runner) ask(agent string, m modelFunc) *Flight {
	store := false
	r := &wire.CreateRequest{Model: "m", Store: &store}
	ref := turns.Ref{Session: api.NewID(), Turn: api.NewID()}
	return rs.Open(Spec{Owner: agent, Request: r, Provider: m, Ref: ref, Ask: &provider.Request{Model: "m"}, Echo: r.Echo(wire.ResponseID(ref), time.Now()), StepBack: func() {}})
}

// childContexts is a context that counts its children.
type childContexts struct {
	context.Context
	n atomic.Int64
}

func (c *childContexts) Done() <-chan struct{} { return make(chan struct{}) }

func (c *childContexts) AfterFunc(func()) (stop func() bool) {
	c.n.Add(1)
	var once sync.Once
	return func() bool { once.Do(func() { c.n.Add(-1) }); return true }
}

// A response that ended leaves no context behind, nor does one that was not launched.
func TestAResponseLeavesNoContext(t *testing.T) {
	d := alone(t, nil)
	children := &childContexts{Context: context.Background()}
	d.ctx = children
	for range 10 {
		f := d.ask("a", says("hello"))
		if children.n.Load() == 0 {
			t.Fatal("the contexts are not counted")
		}
		if err := f.launch(); err != nil {
			t.Fatal(err)
		}
		if r, err := f.Wait(t.Context()); err != nil || r.Status != wire.Completed {
			t.Fatalf("%v %v", r, err)
		}
	}
	d.ask("a", says("")).Drop()
	d.work.Wait()
	if n := children.n.Load(); n != 0 {
		t.Errorf("%d contexts stay", n)
	}
}

// A runner that ends begins nothing more: who closes it may be at wait already.
func TestAClosedRunnerLaunchesNothing(t *testing.T) {
	d := alone(t, nil)
	d.Close()
	d.Wait()
	f := d.ask("a", says("hello"))
	released := 0
	_, err := Launch(f.Request, func() { released++ }, func() (*Flight, error) { return f, nil })
	if !errors.Is(err, wire.ErrClosing) || released != 1 || len(d.flights) != 0 {
		t.Errorf("%v, %d released, %d flights", err, released, len(d.flights))
	}
	if context.Cause(f.ctx) == nil {
		t.Error("its context stays")
	}
}

// A panic in the reading of an answer ends the response with an id that the log has, and with
// nothing of the content. So does one in what ends the response.
func TestAPanicEndsItsResponse(t *testing.T) {
	for name, tc := range map[string]struct {
		model modelFunc
		twice bool // what ends the response panics, too
	}{
		"before an event": {model: func(context.Context, *provider.Request, func(provider.Event) error) (*provider.Answer, error) {
			panic("secret")
		}},
		"within the answer": {model: func(_ context.Context, _ *provider.Request, emit func(provider.Event) error) (*provider.Answer, error) {
			_ = emit(provider.Event{Kind: provider.Begin, Type: turns.Text})
			_ = emit(provider.Event{Kind: provider.Delta, Type: turns.Text, Text: "an answer"})
			var none *turns.Part
			return nil, errors.New(none.Content)
		}},
		"behind it": {model: func(context.Context, *provider.Request, func(provider.Event) error) (*provider.Answer, error) {
			return nil, nil
		}},
		"at the end, too": {twice: true, model: func(context.Context, *provider.Request, func(provider.Event) error) (*provider.Answer, error) {
			panic("secret")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			d := alone(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
			f, released := d.ask("a", tc.model), false
			f.Release = func() { released = true }
			if tc.twice {
				f.Recorded, f.StepBack = true, func() { panic("secret") }
			}
			if err := f.launch(); err != nil {
				t.Fatal(err)
			}
			var events []stream.Event
			ferr := f.Follow(t.Context(), -1, func(e stream.Event) error { events = append(events, e); return nil }, nil)
			res, err := f.Wait(t.Context())
			d.work.Wait()
			e := wire.AsError(err)
			id := strings.Fields(e.Message)[len(strings.Fields(e.Message))-1]
			if e.Code != "internal_error" || !strings.Contains(log.String(), id) {
				t.Errorf("%v: %s", err, &log)
			}
			if tc.twice {
				if ferr == nil || res != nil {
					t.Errorf("%v, a stream without its end is not cut", res)
				}
			} else if last := events[len(events)-1]; ferr != nil || res.Status != wire.Failed || last.Type != "response.failed" || !strings.Contains(string(last.Data), id) {
				t.Errorf("%v %v %v", ferr, res, last)
			}
			if strings.Contains(log.String(), "secret") {
				t.Errorf("the log has the text of the panic: %s", &log)
			}
			if !released || len(d.flights) != 0 {
				t.Error("the place of the response is not given back")
			}
		})
	}
}

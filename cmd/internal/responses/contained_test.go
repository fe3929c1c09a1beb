package responses

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"nexus/cmd/internal/provider"
	"nexus/cmd/internal/web"
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

// aloneDoor is a door without a ledger: responses that are not recorded need none.
func aloneDoor(t *testing.T, change func(*Config)) *Door {
	t.Helper()
	c := Config{Provider: func(string) (provider.Client, string, error) { return nil, "", errors.New("none") }, Client: func(web.Caller) *api.Client { return nil }, Spool: t.TempDir()}
	if change != nil {
		change(&c)
	}
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return d
}

// ask makes a flight of a response that is not recorded, for an agent.
func (d *Door) ask(agent string, m modelFunc) *flight {
	store := false
	r := &CreateRequest{Model: "m", Store: &store}
	ref := turns.Ref{Session: api.NewID(), Turn: api.NewID()}
	f := d.runs.open(&flight{owner: ownerOf(web.Caller{Tenant: "default", Agent: agent}), request: r, provider: m, ref: ref, ask: &provider.Request{Model: "m"}, stepBack: func() {}})
	f.echo = r.echo(responseID(ref), d.cfg.Now())
	return f
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
	d := aloneDoor(t, nil)
	children := &childContexts{Context: context.Background()}
	d.runs.ctx = children
	for range 10 {
		f := d.ask("a", says("hello"))
		if children.n.Load() == 0 {
			t.Fatal("the contexts are not counted")
		}
		if err := f.launch(); err != nil {
			t.Fatal(err)
		}
		if r, err := f.wait(t.Context()); err != nil || r.Status != completed {
			t.Fatalf("%v %v", r, err)
		}
	}
	d.ask("a", says("")).drop()
	d.runs.work.Wait()
	if n := children.n.Load(); n != 0 {
		t.Errorf("%d contexts stay", n)
	}
}

// A door that ends begins nothing more: its Close may be at Wait already.
func TestAClosedDoorLaunchesNothing(t *testing.T) {
	d := aloneDoor(t, nil)
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := d.ask("a", says("hello"))
	released := 0
	_, err := launched(f.request, func() { released++ }, func() (*flight, error) { return f, nil })
	if !errors.Is(err, errClosing) || released != 1 || len(d.runs.flights) != 0 {
		t.Errorf("%v, %d released, %d flights", err, released, len(d.runs.flights))
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
			d := aloneDoor(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			f, released := d.ask("a", tc.model), false
			f.release = func() { released = true }
			if tc.twice {
				f.recorded, f.stepBack = true, func() { panic("secret") }
			}
			if err := f.launch(); err != nil {
				t.Fatal(err)
			}
			var events []Event
			ferr := f.follow(t.Context(), -1, func(e Event) error { events = append(events, e); return nil }, nil)
			res, err := f.wait(t.Context())
			d.runs.work.Wait()
			e := asError(err)
			id := strings.Fields(e.Message)[len(strings.Fields(e.Message))-1]
			if e.Code != "internal_error" || !strings.Contains(log.String(), id) {
				t.Errorf("%v: %s", err, &log)
			}
			if tc.twice {
				if ferr == nil || res != nil {
					t.Errorf("%v, a stream without its end is not cut", res)
				}
			} else if last := events[len(events)-1]; ferr != nil || res.Status != failed || last.Type != "response.failed" || !strings.Contains(string(last.Data), id) {
				t.Errorf("%v %v %v", ferr, res, last)
			}
			if strings.Contains(log.String(), "secret") {
				t.Errorf("the log has the text of the panic: %s", &log)
			}
			if !released || len(d.runs.flights) != 0 {
				t.Error("the place of the response is not given back")
			}
		})
	}
}

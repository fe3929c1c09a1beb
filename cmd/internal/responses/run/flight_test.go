package run

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"nexus/cmd/internal/provider"
	"nexus/cmd/internal/responses/stream"
	"nexus/cmd/internal/responses/wire"
	"nexus/turns"
)

// A response whose events are too many ends: the event that says so is sent.
func TestTheLastEventOfTooManyIsSent(t *testing.T) {
	f := &Flight{grew: make(chan struct{}), written: stream.MaxSpool}
	if err := f.emit(stream.Event{Data: []byte("x")}); wire.AsError(err).Code != wire.CodeTooLarge {
		t.Errorf("%v", err)
	}
	f.ending = true
	if err := f.emit(stream.Event{Data: []byte("the end")}); err != nil || len(f.events) != 1 {
		t.Errorf("%v, %d events", err, len(f.events))
	}
}

// What a response repeats of its request is held once, not in each event that shows it, and
// who follows gets the same events whenever it comes.
func TestWhatEventsRepeatIsHeldOnce(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	f := &Flight{grew: make(chan struct{}), Spec: Spec{Echo: &wire.Response{Instructions: &long, Output: []wire.Item{}}}}
	var sent []string
	em := stream.NewEmitter(turns.Ref{}, wire.ToolChoice{}, false, func(e stream.Event) error {
		sent = append(sent, string(e.Data))
		return f.emit(e)
	})
	part := turns.TextPart("an answer")
	err := errors.Join(em.Announce(f.Echo, true), em.Take(provider.Event{Kind: provider.Begin, Type: turns.Text}), em.Take(provider.Event{Kind: provider.End, Part: &part}), em.Lifecycle("response.completed", f.Echo))
	if err != nil {
		t.Fatal(err)
	}
	held := 0
	for _, e := range f.events {
		held += len(e.Data)
	}
	if held > 1<<16 {
		t.Errorf("%d bytes are held of %d events", held, len(f.events))
	}
	f.end(f.Echo, nil)
	var got []string
	if err := f.Follow(t.Context(), -1, func(e stream.Event) error { got = append(got, string(e.Data)); return nil }, nil); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, sent) {
		t.Errorf("%d events, %d were sent, or they differ", len(got), len(sent))
	}
	if items := stream.Fold(f.events).Items; len(items) != 1 {
		t.Errorf("%d items", len(items))
	}
}

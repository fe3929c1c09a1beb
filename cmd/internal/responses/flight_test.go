package responses

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"nexus/cmd/internal/provider"
	"nexus/turns"
)

// A response whose events are too many ends: the event that says so is sent.
func TestTheLastEventOfTooManyIsSent(t *testing.T) {
	f := &flight{grew: make(chan struct{}), written: maxSpool}
	if err := f.emit(Event{Data: []byte("x")}); asError(err).Code != codeTooLarge {
		t.Errorf("%v", err)
	}
	f.ending = true
	if err := f.emit(Event{Data: []byte("the end")}); err != nil || len(f.events) != 1 {
		t.Errorf("%v, %d events", err, len(f.events))
	}
}

// What a response repeats of its request is held once, not in each event that shows it, and
// who follows gets the same events whenever it comes.
func TestWhatEventsRepeatIsHeldOnce(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	f := &flight{grew: make(chan struct{}), echo: &Response{Instructions: &long, Output: []Item{}}}
	var sent []string
	em := newEmitter(turns.Ref{}, toolChoice{}, false, func(e Event) error {
		sent = append(sent, string(e.Data))
		return f.emit(e)
	})
	part := turns.TextPart("an answer")
	err := errors.Join(em.announce(f.echo, true), em.take(provider.Event{Kind: provider.Begin, Type: turns.Text}), em.take(provider.Event{Kind: provider.End, Part: &part}), em.lifecycle("response.completed", f.echo))
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
	f.end(f.echo, nil)
	var got []string
	if err := f.follow(t.Context(), -1, func(e Event) error { got = append(got, string(e.Data)); return nil }, nil); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, sent) {
		t.Errorf("%d events, %d were sent, or they differ", len(got), len(sent))
	}
	if items := fold(f.events).items; len(items) != 1 {
		t.Errorf("%d items", len(items))
	}
}

package window_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/responses/window"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

func start(t *testing.T) *client.Client {
	t.Helper()
	d, err := daemon.Open(t.Context(), config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := d.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nc.Close()
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return client.New(nc, "default", "main")
}

// history is a conversation of n questions and answers, and a question behind them.
func history(n int) (ms []turns.Message) {
	for i := range n {
		ms = append(ms, turns.TextMessage(turns.User, fmt.Sprintf("question %d: what is in the file src/part%d.go?", i, i)),
			turns.TextMessage(turns.Assistant, fmt.Sprintf("answer %d: it has the function Part%d. ", i, i)+strings.Repeat("It is long, and it says little that is new. ", 40)))
	}
	return append(ms, turns.TextMessage(turns.User, "and now?"))
}

func texts(ms []turns.Message) (out []string) {
	for _, m := range ms {
		for _, p := range m.Parts {
			out = append(out, string(m.Role)+": "+p.Content)
		}
	}
	return out
}

func count(all []string, what string) (n int) {
	for _, s := range all {
		if strings.Contains(s, what) {
			n++
		}
	}
	return n
}

// Where there is something to compact, the item stands for a compaction that is in the
// ledger, shorter than what it covers. Each message of the user is beside the item or in it,
// and not in both.
func TestWindowOfALongHistory(t *testing.T) {
	l := start(t)
	ctx := t.Context()
	ms := history(60)
	r, err := window.Compact(ctx, l, window.Request{Model: "m", System: []string{"Be brief."}, Input: ms})
	if err != nil {
		t.Fatal(err)
	}
	if r.Compaction == nil || r.Compaction.Compaction.Covered == 0 || r.At.Turn != r.Compaction.ID || len(r.Users) != 61 || int(r.Window.Users) != 61 {
		t.Fatalf("%+v", r)
	}
	stored, err := l.Compaction(ctx, r.At.Session, r.At.Turn)
	if err != nil || stored.Type != "compaction" {
		t.Fatalf("%+v, %v", stored, err)
	}
	ex, err := window.Expand(ctx, l, r.Window)
	if err != nil {
		t.Fatal(err)
	}
	shown, beside := texts(ex), texts(r.Users)
	for i := range 60 {
		if n := count(beside, fmt.Sprintf("question %d:", i)); n != 1 {
			t.Errorf("question %d stands %d times beside the item", i, n)
		}
	}
	for _, m := range ex {
		if m.Role == turns.User && count(texts([]turns.Message{m}), "what is in the file") == 1 && count(beside, m.Parts[0].Content) > 0 {
			t.Errorf("the item repeats %q", m.Parts[0].Content)
		}
	}
	if count(shown, "answer 59:") != 1 || len(shown) > 40 {
		t.Errorf("the item shows %d messages: %.300q", len(shown), shown)
	}
	// The originals stay: each turn is in the ledger.
	n := 0
	for _, err := range l.Turns(ctx, r.At.Session, api.ListTurns{}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 62 {
		t.Errorf("%d turns, want 61 and the compaction", n)
	}
}

// Where there is nothing to compact, the item stands for all there is.
func TestWindowOfAShortHistory(t *testing.T) {
	l := start(t)
	ctx := t.Context()
	r, err := window.Compact(ctx, l, window.Request{Model: "m", Input: []turns.Message{
		turns.TextMessage(turns.User, "Remember: slate."), turns.TextMessage(turns.Assistant, "OK."), turns.TextMessage(turns.User, "Go on.")}})
	if err != nil || r.Compaction != nil || len(r.Users) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	ex, err := window.Expand(ctx, l, r.Window)
	if err != nil || strings.Join(texts(ex), "|") != "assistant: OK." {
		t.Errorf("%q, %v", texts(ex), err)
	}
	// Without the messages beside it, the item shows them.
	alone := r.Window
	alone.Users = 0
	if ex, err = window.Expand(ctx, l, alone); err != nil || len(ex) != 3 {
		t.Errorf("%q, %v", texts(ex), err)
	}
}

// A response that is compacted stays as it is: the window is a fork of it.
func TestWindowOfAResponseLeavesItsSession(t *testing.T) {
	l := start(t)
	ctx := t.Context()
	s, err := l.Create(ctx, api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	ok := turns.TextMessage(turns.Assistant, "OK.")
	a, err := l.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "Remember: slate.")}, Response: &ok})
	if err != nil {
		t.Fatal(err)
	}
	from := turns.Ref{Session: s.ID, Turn: a.ID}
	for name, input := range map[string][]turns.Message{"new input": {turns.TextMessage(turns.User, "more")}, "none": nil} {
		r, err := window.Compact(ctx, l, window.Request{Model: "m", From: from, Input: input})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want := 1 + len(input); len(r.Users) != want {
			t.Errorf("%s: %q, want %d messages of the user", name, texts(r.Users), want)
		}
		if ex, err := window.Expand(ctx, l, r.Window); err != nil || strings.Join(texts(ex), "|") != "assistant: OK." {
			t.Errorf("%s: %q, %v", name, texts(ex), err)
		}
	}
	after, err := l.Session(ctx, s.ID)
	if err != nil || *after.Head != a.ID || after.Turns != 1 || after.Compactions != 0 {
		t.Errorf("the session is %+v, %v", after, err)
	}
	// The window of another agent's turn is none.
	if _, err := window.Expand(ctx, l.As("other"), window.Window{At: from}); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("another agent: %v", err)
	}
	if _, err := window.Compact(ctx, l, window.Request{Model: "m"}); !errors.Is(err, window.ErrEmpty) {
		t.Errorf("nothing: %v", err)
	}
}

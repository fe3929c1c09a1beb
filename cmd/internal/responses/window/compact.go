package window

import (
	"context"
	"errors"
	"slices"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Request asks for a window.
type Request struct {
	Model  string
	System []string        // instructions; they stand in the session and in no window
	From   turns.Ref       // the turn that the messages continue; zero: none
	Input  []turns.Message // history, or what is new behind From
	Wait   int             // milliseconds that one call waits for a summarizer
}

// Result is a window that was made.
type Result struct {
	Window
	Users      []turns.Message // of [Window.Users], in order
	Usage      *turns.Usage    // of the summarizer; nil: no model was asked
	Compaction *api.Turn       // nil: there was nothing to compact, and the item stands for all there is
}

// maxUsers bounds the text of the messages of the user that a window repeats, in bytes: the
// latest ones. The summary has those before them.
const maxUsers = 64 << 10

// Compact stores the input as turns of a session of its own, compacts it by the policy of the
// session, and returns the window. A response that From names stays as it is: the session is
// a fork.
//
// A crash leaves a session without a compaction, and nobody has an item of it.
func Compact(ctx context.Context, l *client.Client, r Request) (*Result, error) {
	s, err := open(ctx, l, r)
	if err != nil {
		return nil, err
	}
	head := s.Head
	for _, t := range Steps(r.Input) {
		t.Model = r.Model
		a, err := l.Append(ctx, s.ID, t)
		if err != nil {
			return nil, err
		}
		head = &a.ID
	}
	if head == nil {
		return nil, ErrEmpty
	}
	out := &Result{Window: Window{At: turns.Ref{Session: s.ID, Turn: *head}}}
	if s.HeadSession != (turns.ID{}) && len(r.Input) == 0 {
		out.At.Session = s.HeadSession
	}
	switch t, err := run(ctx, l, s.ID, r.Wait); {
	case err == nil:
		out.Compaction, out.At = t, turns.Ref{Session: t.Session, Turn: t.ID}
		out.Usage = t.Compaction.Usage
	case !errors.Is(err, api.ErrNothing):
		return nil, err
	case len(r.Input) == 0: // the fork is for nobody
		if _, err := l.Close(ctx, s.ID, api.CloseSession{Cause: "nothing to compact"}); err != nil {
			return nil, err
		}
	}
	out.Users, err = users(ctx, l, out.At, -1)
	out.Window.Users = uint32(len(out.Users))
	return out, err
}

// ErrEmpty: neither messages nor a turn before them.
var ErrEmpty = errors.New("there is nothing to compact: no input and no previous response")

func open(ctx context.Context, l *client.Client, r Request) (*api.Session, error) {
	if !r.From.IsZero() {
		return l.Fork(ctx, r.From.Session, api.CreateFork{Turn: r.From.Turn})
	}
	if len(r.Input) == 0 {
		return nil, ErrEmpty
	}
	settings := api.SessionSettings{Model: &r.Model}
	if len(r.System) > 0 {
		var parts api.System
		for _, text := range r.System {
			parts = append(parts, turns.Section{Content: text})
		}
		settings.System = &parts
	}
	return l.Create(ctx, api.CreateSession{SessionSettings: settings})
}

// Steps cuts a history behind each answer of the assistant, so that a compaction can cut
// there. The messages and responses of the turns, one after the other, are the history.
func Steps(ms []turns.Message) (out []api.AppendTurn) {
	var sent []turns.Message
	for i := range ms {
		if ms[i].Role == turns.Assistant && len(sent) > 0 && (i+1 == len(ms) || ms[i+1].Role != turns.Assistant) {
			out, sent = append(out, api.AppendTurn{Messages: sent, Response: &ms[i]}), nil
			continue
		}
		sent = append(sent, ms[i])
	}
	if len(sent) > 0 {
		out = append(out, api.AppendTurn{Messages: sent})
	}
	return out
}

// run compacts a session, and waits until the compaction is stored.
func run(ctx context.Context, l *client.Client, session turns.ID, wait int) (*api.Turn, error) {
	r := api.RunCompaction{ID: api.NewID(), WaitMS: wait}
	for {
		got, err := l.Compact(ctx, session, r)
		if err != nil {
			return nil, err
		}
		if got.Compaction != nil {
			return got.Compaction, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// users returns the latest n messages of the user on the path of a turn, in order; n < 0:
// those within maxUsers.
func users(ctx context.Context, l *client.Client, at turns.Ref, n int) (out []turns.Message, err error) {
	bytes := 0
	for t, err := range l.Turns(ctx, at.Session, api.ListTurns{At: at.Turn, Order: "desc", Full: true}) {
		if err != nil {
			return nil, err
		}
		if t.Error != "" {
			return nil, &api.Error{Code: t.Error, Message: "a turn of the history can't be read"}
		}
		for _, m := range slices.Backward(t.Messages) {
			if m.Role != turns.User {
				continue
			}
			for i := range m.Parts {
				bytes += len(m.Parts[i].Content) + len(m.Parts[i].Data)
			}
			if n < 0 && bytes > maxUsers || n >= 0 && len(out) == n {
				slices.Reverse(out)
				return out, nil
			}
			out = append(out, m)
		}
	}
	slices.Reverse(out)
	return out, nil
}

// Expand returns the messages that an item stands for.
// Errors: the service's; not_found and erased for an item of a session that is gone.
func Expand(ctx context.Context, l *client.Client, w Window) ([]turns.Message, error) {
	c, err := l.Context(ctx, w.At.Session, api.GetContext{At: w.At.Turn, Inline: true, Explain: true})
	if err != nil {
		return nil, err
	}
	var beside []turns.Message
	if w.Users != Alone {
		if beside, err = users(ctx, l, w.At, int(w.Users)); err != nil {
			return nil, err
		}
	}
	made := 0 // messages at the beginning that the compaction wrote
	for _, s := range c.Sources {
		if s.Half == "replacement" {
			made += int(s.Messages)
		}
	}
	var out []turns.Message
	for i, raw := range c.Messages {
		var m turns.Message
		if err := turns.DecodeJSON(raw, &m); err != nil {
			return nil, err
		}
		if i >= made && m.Role == turns.User {
			if at := slices.IndexFunc(beside, func(b turns.Message) bool { return same(&b, &m) }); at >= 0 {
				beside = slices.Delete(beside, at, at+1)
				continue
			}
		}
		m.FinishReason = "" // it is no answer where it is repeated
		out = append(out, m)
	}
	return out, nil
}

// same reports whether two messages say the same.
func same(a, b *turns.Message) bool {
	x, err1 := turns.EncodeJSON(a)
	y, err2 := turns.EncodeJSON(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}

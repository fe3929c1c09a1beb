package daemon

import (
	"bytes"
	"context"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// A ledger was sealed, and its daemon starts with seal off: what needs a key is unsupported,
// with what to do, and nothing is an internal error. With seal on it all goes on.
func TestSealedContentWithSealOffIsUnsupported(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{SessionSettings: api.SessionSettings{Label: new("sealed")}}))
	r := api.AppendTurn{ID: api.NewID(), Messages: []turns.Message{turns.TextMessage(turns.User, "a question")}}
	ack := must[*api.Appended](t)(c.Append(t.Context(), s.ID, r))
	extend(t, c, s.ID, 3)
	blob := must[*api.BlobInfo](t)(c.PutBlob(t.Context(), api.PutBlob{Session: s.ID, Data: []byte("an attachment")}))
	event := api.AppendEvent{ID: api.NewID(), Channel: "mail", Kind: "n", Body: turns.Raw(`{"a":1}`)}
	must[*api.AppendedEvent](t)(c.AppendEvent(t.Context(), event))
	memory := must[*api.Memory](t)(c.SaveMemory(t.Context(), api.SaveMemory{Kind: "semantic", Text: "the sky is blue"}))
	stop(t, d, c)

	logs := new(bytes.Buffer)
	d, c = startWith(t, config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30, Seal: "off", Logger: slog.New(slog.NewTextHandler(logs, nil))})
	if !strings.Contains(logs.String(), "the ledger has sealed events") {
		t.Errorf("the start does not see that the ledger is sealed:\n%s", logs)
	}
	open := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, open.ID, 2)
	calls := sealOffCalls(c, s.ID, r, ack, blob, event, memory)
	for _, name := range sortedKeys(calls) {
		err := calls[name](t.Context())
		if code := codeOf(err); code == api.Internal || code == api.Corrupt || code == api.IDReused {
			t.Errorf("%s: %v", name, err)
		} else if strings.HasPrefix(name, "sealed ") && (code != api.Unsupported || !strings.Contains(err.Error(), "--seal on")) {
			t.Errorf("%s: %v, want unsupported that says what to do", name, err)
		}
	}
	stop(t, d, c)

	d, c = start(t, dir)
	if got := must[*api.Session](t)(c.Session(t.Context(), s.ID)); got.State != "open" || got.Turns != 4 {
		t.Errorf("a refused change is stored: %+v", got)
	}
	if again := must[*api.Appended](t)(c.Append(t.Context(), s.ID, r)); !again.Duplicate || again.Hash != ack.Hash {
		t.Errorf("with seal on a retry is answered %+v", again)
	}
	stop(t, d, c)
}

func sealOffCalls(c *client.Client, s turns.ID, r api.AppendTurn, ack *api.Appended, blob *api.BlobInfo, event api.AppendEvent, memory *api.Memory) map[string]func(context.Context) error {
	say := api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "another question")}}
	return map[string]func(context.Context) error{
		"sealed append":  func(ctx context.Context) error { _, err := c.Append(ctx, s, say); return err },
		"sealed retry":   func(ctx context.Context) error { _, err := c.Append(ctx, s, r); return err },
		"sealed context": func(ctx context.Context) error { _, err := c.Context(ctx, s, api.GetContext{}); return err },
		"sealed turn":    func(ctx context.Context) error { _, err := c.Turn(ctx, s, ack.ID); return err },
		"sealed fork":    func(ctx context.Context) error { _, err := c.Fork(ctx, s, api.CreateFork{Turn: ack.ID}); return err },
		"sealed set": func(ctx context.Context) error {
			_, err := c.Set(ctx, s, api.SetSession{SessionSettings: api.SessionSettings{Model: new("m")}})
			return err
		},
		"sealed compact": func(ctx context.Context) error {
			_, err := c.Compact(ctx, s, api.RunCompaction{WaitMS: 5000})
			return err
		},
		"sealed session": func(ctx context.Context) error { _, err := c.Session(ctx, s); return err },
		"sealed move":    func(ctx context.Context) error { _, err := c.Move(ctx, s, api.MoveSession{To: &ack.ID}); return err },
		"sealed blob": func(ctx context.Context) error {
			_, err := c.PutBlob(ctx, api.PutBlob{Session: s, Data: []byte("x")})
			return err
		},
		"event": func(ctx context.Context) error {
			_, err := c.AppendEvent(ctx, api.AppendEvent{ID: api.NewID(), Channel: "mail", Kind: "n", Body: turns.Raw(`{}`)})
			return err
		},
		"event again": func(ctx context.Context) error { _, err := c.AppendEvent(ctx, event); return err },
		"memory": func(ctx context.Context) error {
			_, err := c.SaveMemory(ctx, api.SaveMemory{Kind: "semantic", Text: "the grass is green"})
			return err
		},
		"memory withdrawn": func(ctx context.Context) error {
			_, err := c.WithdrawMemory(ctx, api.WithdrawMemory{Memory: memory.ID})
			return err
		},
		"memories":     func(ctx context.Context) error { return each(c.Memories(ctx, api.ListMemories{})) },
		"sessions":     func(ctx context.Context) error { return each(c.Sessions(ctx)) },
		"turns":        func(ctx context.Context) error { return each(c.Turns(ctx, s, api.ListTurns{})) },
		"label":        func(ctx context.Context) error { _, err := c.Resolve(ctx, "sealed"); return err },
		"export":       func(ctx context.Context) error { return each(c.Export(ctx, s)) },
		"search":       func(ctx context.Context) error { _, err := c.Search(ctx, api.Search{Text: "question"}); return err },
		"verify":       func(ctx context.Context) error { _, err := c.As(api.Operator).Verify(ctx); return err },
		"sealed reset": func(ctx context.Context) error { _, err := c.Reset(ctx, s, api.ResetSession{}); return err },
		"sealed close": func(ctx context.Context) error { _, err := c.Close(ctx, s, api.CloseSession{}); return err },
	}
}

func sortedKeys[T any](m map[string]T) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// each reads a list to its end.
func each[T any](items iter.Seq2[T, error]) error {
	for _, err := range items {
		if err != nil {
			return err
		}
	}
	return nil
}

package page_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/page"
	"nexus/ledger/api"
	"nexus/turns"
)

func TestEscapedSizeIsTheSizeInJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := strings.ToValidUTF8(rapid.String().Draw(t, "s")+string(rapid.SliceOfN(rapid.ByteRange(0, 127), 0, 40).Draw(t, "ascii")), "?")
		if got, want := page.EscapedSize(s), len(enginetest.JSON(s))-2; got != want {
			t.Fatalf("EscapedSize(%q) = %d, want %d", s, got, want)
		}
		limit := rapid.IntRange(8, 200).Draw(t, "most")
		if c := page.ClipJSON(s, limit); page.EscapedSize(c) > limit || (page.EscapedSize(s) <= limit) != (c == s) {
			t.Fatalf("ClipJSON(%q, %d) = %q", s, limit, c)
		}
	})
}

// everything reads a session and its turns by all calls, page after page, and
// checks that no reply is larger than a message may be.
func everything(t *testing.T, e *engine.Engine, s turns.ID) {
	t.Helper()
	ctx, size := t.Context(), func(what string, v any) {
		t.Helper()
		if n := len(enginetest.JSON(v)); n > e.Limits.Payload() {
			t.Errorf("%s has %d bytes, a message %d", what, n, e.Limits.Payload())
		}
	}
	size("session.get", enginetest.Must(e.Reader.Get(ctx, enginetest.Alice, s, api.Read{}))(t))
	for next := ""; ; {
		l := enginetest.Must(e.History.List(ctx, enginetest.Operator, api.ListSessions{Page: api.Page{After: next}}))(t)
		size("session.list", l)
		if next = l.Next; next == "" {
			break
		}
	}
	for _, r := range []api.ListTurns{{}, {Full: true}, {Full: true, Order: "desc"}} {
		for {
			l := enginetest.Must(e.History.ListTurns(ctx, enginetest.Alice, s, r))(t)
			size("turn.list", l)
			for _, x := range l.Turns {
				size("turn.get", enginetest.Must(e.Reader.GetTurn(ctx, enginetest.Alice, s, api.GetTurn{ID: x.ID}))(t))
			}
			if r.After = l.Next; r.After == "" {
				break
			}
		}
	}
	for r := (api.ListCompactions{}); ; {
		l := enginetest.Must(e.History.ListCompactions(ctx, enginetest.Alice, s, r))(t)
		size("compaction.list", l)
		if r.After = l.Next; r.After == "" {
			break
		}
	}
	for _, format := range []string{"otel", "openai", "anthropic", "gemini"} {
		for r := (api.GetContext{Format: format, Budget: 1 << 40}); ; {
			cx := enginetest.Must(e.Contexts.Context(ctx, enginetest.Alice, s, r))(t)
			size("context.get "+format, cx)
			if r.After = cx.Next; r.After == "" {
				break
			}
		}
	}
	size("lineage.tree", enginetest.Must(e.History.Tree(ctx, enginetest.Alice, s, api.GetTree{}))(t))
}

// What is stored can be read back in one message of the connection, or in
// pages. What could not is refused, and the error says which member is too large.
func TestStoredEventsFitOneMessage(t *testing.T) {
	object := func(n int) turns.Raw { return turns.Raw(`{"m":"` + strings.Repeat("x", n) + `"}`) }
	turn := func(change func(*api.AppendTurn, int)) func(*testing.T, *engine.Engine, turns.ID, int) (turns.ID, error) {
		return func(t *testing.T, e *engine.Engine, s turns.ID, n int) (turns.ID, error) {
			r := enginetest.Say("question", "answer")
			change(&r, n)
			ack, err := e.Sessions.Append(t.Context(), enginetest.Alice, s, r, enginetest.JSON(r))
			if err == nil {
				if k := len(enginetest.JSON(ack)); k > e.Limits.Payload() {
					t.Errorf("an ack of %d bytes", k)
				}
			}
			return s, err
		}
	}
	settings := func(change func(*api.SessionSettings, int)) func(*testing.T, *engine.Engine, turns.ID, int) (turns.ID, error) {
		return func(t *testing.T, e *engine.Engine, _ turns.ID, n int) (turns.ID, error) {
			var r api.CreateSession
			change(&r.SessionSettings, n)
			s, err := e.Sessions.Create(t.Context(), enginetest.Alice, r, enginetest.JSON(r))
			if err != nil {
				return turns.ID{}, err
			}
			enginetest.Add(t, e, s.ID, enginetest.Say("question", "answer"))
			return s.ID, nil
		}
	}
	for _, member := range []struct {
		name, field string // field of the refusal; "": never refused
		store       func(t *testing.T, e *engine.Engine, s turns.ID, n int) (turns.ID, error)
	}{
		{"meta", "/meta", turn(func(r *api.AppendTurn, n int) { r.Meta = object(n) })},
		{"ext", "/messages", turn(func(r *api.AppendTurn, n int) { r.Messages[0].Parts[0].Ext = object(n) })},
		{"recipe", "/context", turn(func(r *api.AppendTurn, n int) { r.Context = &api.ContextUsed{Recipe: object(n)} })},
		{"text", "", turn(func(r *api.AppendTurn, n int) { r.Messages[0].Parts[0].Content = strings.Repeat("\x01", n) })},
		{"small parts", "/messages", turn(func(r *api.AppendTurn, n int) {
			for range min(n/60, 20*turns.MaxParts) {
				if len(r.Messages[len(r.Messages)-1].Parts) == turns.MaxParts {
					r.Messages = append(r.Messages, turns.Message{Role: turns.User})
				}
				m := &r.Messages[len(r.Messages)-1]
				m.Parts = append(m.Parts, turns.TextPart("x"))
			}
		})},
		{"calls", "/messages", func(t *testing.T, e *engine.Engine, s turns.ID, n int) (turns.ID, error) {
			r := enginetest.Say("go", "")
			r.Response = &turns.Message{Role: turns.Assistant}
			for i := range min(n/600, turns.MaxParts) {
				r.Response.Parts = append(r.Response.Parts, turns.Part{Type: turns.ToolCall, ID: fmt.Sprint(i, strings.Repeat("x", 500)), Name: "run", Arguments: turns.Raw(`{}`)})
			}
			ack, err := e.Sessions.Append(t.Context(), enginetest.Alice, s, r, enginetest.JSON(r))
			if err != nil {
				return s, err
			}
			abandoned := enginetest.Add(t, e, s, enginetest.Say("never mind", "ok"))
			for _, a := range []*api.Appended{ack, abandoned} {
				if k := len(enginetest.JSON(a)); k > e.Limits.Payload() {
					t.Errorf("an ack of %d bytes", k)
				}
			}
			return s, nil
		}},
		{"session meta", "/meta", settings(func(s *api.SessionSettings, n int) { s.Meta = object(n) })},
		{"system", "/system", settings(func(s *api.SessionSettings, n int) { s.System = &api.System{{Content: strings.Repeat("\n", n/2)}} })},
		{"tools", "/tools", settings(func(s *api.SessionSettings, n int) {
			s.Tools = &[]turns.Raw{turns.Raw(`{"type":"function","function":{"name":"f","description":"` + strings.Repeat("x", n) + `"}}`)}
		})},
		{"recorded summary", "/summary", func(t *testing.T, e *engine.Engine, s turns.ID, n int) (turns.ID, error) {
			enginetest.Add(t, e, s, enginetest.Say("question", "answer"))
			r := api.RecordCompaction{Summary: strings.Repeat("\x01", n/6), Replacement: []turns.Message{turns.TextMessage(turns.User, strings.Repeat("\x01", n/6))}}
			_, err := e.Compactions.Record(t.Context(), enginetest.Alice, s, r, enginetest.JSON(r))
			return s, err
		}},
	} {
		t.Run(member.name, func(t *testing.T) {
			for _, payload := range []int{64 << 10, 1 << 20} {
				e := enginetest.NewWorld().Engine(t)
				e.Limits.MaxPayload = payload
				refused := false
				for _, eighths := range []int{1, 3, 4, 5, 6, 8} {
					s := enginetest.Create(t, e, 0, "nexus").ID
					s, err := member.store(t, e, s, payload*eighths/8-400)
					if err != nil {
						refused = true
						x := api.FromError(err)
						if x.Code != api.TooLarge || x.Details["field"] != member.field {
							t.Errorf("%d/8 of a message: %v, field %v", eighths, err, x.Details["field"])
						}
						continue
					}
					everything(t, e, s)
				}
				if refused != (member.field != "") {
					t.Errorf("refused: %v", refused)
				}
			}
		})
	}
}

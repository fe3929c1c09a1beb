package daemon

import (
	"slices"
	"testing"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// marksState is what a ledger answers about what is no turn: what persons say of sessions and
// turns, what agents remember, external events, and what was redacted or erased.
type marksState struct {
	Described map[string]describedState `json:"described"`
	Notes     map[string]string         `json:"notes"`    // of turns, by session and turn
	Redacted  map[string][]int          `json:"redacted"` // parts of turns
	Memories  map[string]memoryState    `json:"memories"`
	Documents map[string]string         `json:"documents"` // of agents
	Events    map[string]string         `json:"events"`    // bodies; "" is of an erased one
}

type describedState struct {
	Title   string   `json:"title"`
	Tags    []string `json:"tags,omitempty"`
	Project string   `json:"project"`
	Hidden  string   `json:"hidden"` // the cause
}

type memoryState struct {
	Text       string   `json:"text"`
	State      string   `json:"state"`
	Visibility string   `json:"visibility"`
	Error      api.Code `json:"error"`
}

// markAll stores what [populate] does not: a title, tags, a project, notes, hidden sessions,
// memories and documents, external events; a span, a part and a turn that are redacted, in a
// session of blobs, compactions and forks; and a session that is erased with its events.
func markAll(t *testing.T, c *client.Client) {
	t.Helper()
	ctx, op := t.Context(), c.As(api.Operator)
	title, project, tags := "The lock bug", "https://example.org/agents/nexus", []string{"locks", "paid"}
	s := must[*api.Session](t)(c.Create(ctx, api.CreateSession{SessionSettings: api.SessionSettings{Limits: &turns.Limits{ContextWindow: 8_000}}}))
	var said []turns.ID
	for range 9 {
		said = append(said, extend(t, c, s.ID, 1).ID)
	}
	secret := turns.TextMessage(turns.Assistant, "The key is sk-0123456789 and it works.")
	leaked := must[*api.Appended](t)(c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "What is the key?")}, Response: &secret}))
	fork := must[*api.Session](t)(c.Fork(ctx, s.ID, api.CreateFork{Turn: leaked.ID}))
	extend(t, c, fork.ID, 2)
	compact(t, c, s.ID)
	extend(t, c, s.ID, 2)
	must[*api.Session](t)(c.Describe(ctx, s.ID, api.DescribeSession{Title: &title, Project: &project, Tags: &tags}))
	must[*api.Turn](t)(c.Note(ctx, s.ID, api.NoteTurn{Turn: said[3], Text: "here it went wrong"}))
	must[*api.Redacted](t)(op.Redact(ctx, s.ID, api.RedactTurn{Text: "sk-0123456789"}))
	must[*api.Redacted](t)(op.Redact(ctx, s.ID, api.RedactTurn{Turn: said[1], Parts: []int{2}}))
	must[*api.Redacted](t)(op.Redact(ctx, s.ID, api.RedactTurn{Turn: said[8]}))
	extend(t, c, s.ID, 2) // behind the redactions the key is another one
	hidden := must[*api.Session](t)(c.Create(ctx, api.CreateSession{}))
	extend(t, c, hidden.ID, 1)
	must[*api.Session](t)(c.Hide(ctx, hidden.ID, api.HideSession{Cause: "a try"}))

	saved := must[*api.Memory](t)(c.SaveMemory(ctx, api.SaveMemory{Kind: "semantic", Text: "Ada prefers tabs.", Session: s.ID, Visibility: "all"}))
	must[*api.Memory](t)(c.SaveMemory(ctx, api.SaveMemory{Kind: "semantic", Text: "Ada prefers spaces.", Session: s.ID, Supersedes: saved.ID}))
	wrong := must[*api.Memory](t)(c.SaveMemory(ctx, api.SaveMemory{Kind: "daily", Text: "It rains.", State: "proposed"}))
	must[*api.WithdrawnMemory](t)(c.WithdrawMemory(ctx, api.WithdrawMemory{Memory: wrong.ID, Reason: "it does not"}))
	must[*api.Memory](t)(c.PromoteMemory(ctx, api.PromoteMemory{Memory: must[*api.Memory](t)(c.SaveMemory(ctx, api.SaveMemory{Kind: "long_term", Text: "The office is in Delft.", State: "proposed"})).ID}))
	must[*api.Memory](t)(c.SaveMemory(ctx, api.SaveMemory{Kind: "daily", Text: "The code of the door is 7731-xyz."}))
	document := "# Notes\nThe code of the door is 7731-xyz. Ask first."
	must[*api.Document](t)(c.ReplaceDocument(ctx, api.MemoryDocument{Text: &document, If: "0"}))
	must[*api.RedactedMemories](t)(op.RedactMemories(ctx, api.RedactMemories{Agent: "main", Text: "7731-xyz"}))

	must[*api.AppendedEvent](t)(c.AppendEvent(ctx, api.AppendEvent{Channel: "mail", Kind: "received", Body: turns.Raw(`{"subject":"hello"}`)}))
	asked := must[*api.AppendedEvent](t)(c.AppendEvent(ctx, api.AppendEvent{Channel: "mail", Kind: "received", Body: turns.Raw(`{"subject":"forget me"}`)}))
	gone := must[*api.Session](t)(c.Create(ctx, api.CreateSession{}))
	m := turns.TextMessage(turns.Assistant, "Yes.")
	must[*api.Appended](t)(c.Append(ctx, gone.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "A mail came.")}, Response: &m,
		Meta: turns.Raw(`{"event":{"channel":"mail","id":"` + asked.ID.String() + `"}}`)}))
	must[*api.Session](t)(c.Fork(ctx, gone.ID, api.CreateFork{Turn: must[*api.Appended](t)(c.Append(ctx, gone.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "And?")}, Response: &m})).ID}))
	r := must[*api.Receipt](t)(op.Erase(ctx, gone.ID, api.EraseSession{Ground: "request-1", WithEvents: true}))
	if r.Erased == nil {
		t.Fatalf("%+v", r)
	}
}

// observeMarks returns nil where there is nothing of the kind, as in folders of before.
func observeMarks(t *testing.T, op *client.Client) *marksState {
	t.Helper()
	ctx := t.Context()
	out := &marksState{Described: make(map[string]describedState), Notes: make(map[string]string), Redacted: make(map[string][]int),
		Memories: make(map[string]memoryState), Documents: make(map[string]string), Events: make(map[string]string)}
	agents := []string{}
	for s, err := range op.ListSessions(ctx, api.ListSessions{Hidden: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(agents, s.Agent) {
			agents = append(agents, s.Agent)
		}
		if d := (describedState{s.Title, s.Tags, s.Project, s.HiddenCause}); s.Title != "" || len(s.Tags) > 0 || s.Hidden {
			out.Described[s.ID.String()] = d
		}
		if s.State == "erased" {
			continue
		}
		for x, err := range op.Turns(ctx, s.ID, api.ListTurns{}) {
			if err != nil {
				t.Fatal(err)
			}
			if x.Note != nil {
				out.Notes[s.ID.String()+"/"+x.ID.String()] = x.Note.Text
			}
			if x.Redacted != nil {
				out.Redacted[x.ID.String()] = x.Redacted
			}
		}
	}
	for m, err := range op.Memories(ctx, api.ListMemories{Hidden: true}) {
		if err != nil {
			t.Fatal(err)
		}
		out.Memories[m.ID.String()] = memoryState{m.Text, m.State, m.Visibility, m.Error}
	}
	for _, agent := range agents {
		if d, err := op.Document(ctx, api.MemoryDocument{Agent: agent}); err == nil && d.Text != "" {
			out.Documents[agent] = d.Text
		}
	}
	for ch, err := range op.Channels(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range op.As(ch.Agent).Events(ctx, api.ListEvents{Channel: ch.Channel}) {
			if err != nil {
				t.Fatal(err)
			}
			out.Events[e.ID.String()] = string(e.Body)
		}
	}
	if len(out.Described)+len(out.Redacted)+len(out.Memories)+len(out.Events) == 0 {
		return nil
	}
	return out
}

package engine_test

import (
	"strings"
	"testing"

	"nexus/cmd/internal/engine/reader"
	"nexus/compactor/view"
	"nexus/ledger/api"
	"nexus/turns"
)

// turn.get names the system part and the tools in force at a turn, each by its digest; lists do not look them up.
func TestATurnNamesTheSystemPartAndTheToolsInForce(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "balanced").ID
	set := func(x api.SessionSettings) {
		r := api.SetSession{SessionSettings: x}
		must(e.Sessions.Set(t.Context(), alice, s, r, canon(r)))(t)
	}
	system := func(text string) *api.System { return &api.System{{Content: text}} }
	tools := []turns.Raw{turns.Raw(`{"name":"ls"}`)}
	digest := func(p turns.Preamble) turns.Hash { return turns.Digest("preamble", must(turns.EncodeBody(&p))(t)) }
	large := strings.Repeat("a", 100<<10) // it is in a blob
	var ids []turns.ID
	next := func() { ids = append(ids, add(t, e, s, say("q", "a")).ID) }
	next()
	set(api.SessionSettings{System: system("one")})
	next()
	set(api.SessionSettings{Tools: &tools})
	next()
	set(api.SessionSettings{System: system(large)})
	next()
	next()
	set(api.SessionSettings{System: &api.System{}})
	next()
	one, big := digest(turns.Preamble{System: *system("one")}), digest(turns.Preamble{System: *system(large)})
	list := digest(turns.Preamble{Tools: tools})
	want := []struct{ system, tools turns.Hash }{{}, {system: one}, {one, list}, {big, list}, {big, list}, {tools: list}}
	fork := must(e.Forks.Fork(t.Context(), alice, s, api.CreateFork{Turn: ids[2]}, nil))(t).ID
	for _, e := range []*Engine{e, w.Engine(t)} {
		for i, id := range ids {
			if got := must(e.Reader.GetTurn(t.Context(), alice, s, api.GetTurn{ID: id}))(t); got.System != want[i].system || got.Tools != want[i].tools {
				t.Errorf("turn %d: system %s, tools %s; want %s, %s", i, got.System, got.Tools, want[i].system, want[i].tools)
			}
		}
		if got := must(e.Reader.GetTurn(t.Context(), alice, fork, api.GetTurn{ID: ids[1]}))(t); got.System != one || !got.Tools.IsZero() {
			t.Errorf("an inherited turn: system %s, tools %s", got.System, got.Tools)
		}
		for _, v := range must(e.History.ListTurns(t.Context(), alice, s, api.ListTurns{}))(t).Turns {
			if !v.System.IsZero() || !v.Tools.IsZero() {
				t.Errorf("a list has digests of turn %s", v.ID)
			}
		}
	}
}

// The ref of a large part says what its content is, and the bytes that are stored do not change for it.
func TestTheRefOfALargePartSaysWhatItIs(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 0, "balanced").ID
	text := long(700_000)
	a := say(text, "")
	a.Response = &turns.Message{Role: turns.Assistant, Parts: []turns.Part{turns.TextPart("a"),
		{Type: turns.ToolCall, ID: "c", Name: "put", Arguments: turns.Raw(`{"text":"` + long(600_000) + `"}`)}}}
	added := add(t, e, s, a)
	image := turns.Part{Type: turns.Blob, Modality: "image", MimeType: "image/png", Data: []byte(long(700_000))}
	output := turns.Part{Type: turns.ToolCallResponse, ID: "c", Response: turns.Raw(`"` + long(600_000) + `"`)}
	second := add(t, e, s, api.AppendTurn{Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{output}}, {Role: turns.User, Parts: []turns.Part{image}}}})
	first, later := must(e.Reader.GetTurn(t.Context(), alice, s, api.GetTurn{ID: added.ID}))(t), must(e.Reader.GetTurn(t.Context(), alice, s, api.GetTurn{ID: second.ID}))(t)
	for name, tc := range map[string]struct {
		ref     *turns.BlobRef
		mime    string
		preview bool
	}{
		"text":              {first.Messages[0].Parts[0].Ref, "text/plain", true},
		"arguments":         {first.Response.Parts[1].Ref, "application/json", true},
		"output of a tool":  {later.Messages[0].Parts[0].Ref, "application/json", true},
		"image, no preview": {later.Messages[1].Parts[0].Ref, "image/png", false},
	} {
		if tc.ref == nil || tc.ref.MimeType != tc.mime || (tc.ref.Preview != "") != tc.preview {
			t.Errorf("%s: %+v", name, tc.ref)
		}
	}
	// A client that sends the ref as it came stores what it would store without the type.
	back := must(e.Sessions.Append(t.Context(), alice, s, api.AppendTurn{Messages: first.Messages}, nil))(t)
	n := must(e.Reader.LocateTurn(t.Context(), alice, s, back.ID, api.Read{}))(t)
	_, ev, err := e.Reader.TurnEvent(n.Ref)
	if err != nil {
		t.Fatal(err)
	}
	var b turns.TurnBody
	if err := e.Store.Open(ev, &b); err != nil || b.Messages[0].Parts[0].Ref.MimeType != "" {
		t.Errorf("stored: %+v, %v", b.Messages[0].Parts[0].Ref, err)
	}
}

// A compaction as the contract shows it has its cost, and says of what it has not that there is none.
func TestACompactionHasTheMembersOfTheContract(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 8000, "nexus").ID
	for range 8 {
		add(t, e, s, say(long(2000), "b"))
	}
	run := must(e.Compactions.Compact(t.Context(), alice, s, api.RunCompaction{}, []byte("{}")))(t)
	text := string(canon(run.Compaction))
	for _, want := range []string{`"usage":null`, `"cost":0`, `"flush":""`, `"memories":[]`} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s in %.600s", want, text)
		}
	}
	if got := string(canon(api.Compaction{CostMicros: 215, Cost: 215 / 1e6})); !strings.Contains(got, `"cost_micros":215,"cost":0.000215`) {
		t.Errorf("a cost of 215 millionths: %s", got)
	}
}

// session.set takes every setting of session.create; of the kind, which never changes, the one that the session has.
func TestTheKindOfASessionNeverChanges(t *testing.T) {
	e := newWorld().Engine(t)
	for _, kind := range []turns.SessionKind{"", turns.Peer, turns.Task} {
		c := api.CreateSession{Kind: kind}
		s := must(e.Sessions.Create(t.Context(), alice, c, canon(c)))(t)
		same := api.SetSession{Kind: s.Kind, SessionSettings: api.SessionSettings{User: new(string)}}
		if got, err := e.Sessions.Set(t.Context(), alice, s.ID, same, canon(same)); err != nil || got.Kind != s.Kind {
			t.Errorf("%q, the kind that it has: %v", kind, err)
		}
		for _, other := range []turns.SessionKind{turns.Peer, turns.Task, turns.Main, "robot"} {
			r := api.SetSession{Kind: other}
			_, err := e.Sessions.Set(t.Context(), alice, s.ID, r, canon(r))
			if said := api.FromError(err); other != s.Kind && (said.Code != api.Malformed || said.Details["field"] != "/kind") {
				t.Errorf("%q to %q: %v, want malformed at /kind", kind, other, err)
			}
		}
	}
}

// Where a later build may have what is missing, unsupported says which version is needed.
func TestUnsupportedNamesTheVersionThatIsNeeded(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 0, "balanced").ID
	add(t, e, s, say("q", "a"))
	_, imported := e.Transfer.Import(t.Context(), alice, api.ImportRecords{Records: []api.ExportRecord{{Ledger: &api.ExportHeader{Version: 7}}}})
	_, old := e.Transfer.Import(t.Context(), alice, api.ImportRecords{Records: []api.ExportRecord{{Ledger: &api.ExportHeader{Version: 0}}}})
	recipe := must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t).Recipe
	again := func(renderer string) error {
		_, err := e.Contexts.Context(t.Context(), alice, s, api.GetContext{Recipe: turns.Raw(strings.Replace(string(recipe), view.RendererVersion, renderer, 1))})
		return err
	}
	_, event := turns.Decode([]byte{0x82, 0xb0, 1, 2, 2, 1}) // version 2
	for name, tc := range map[string]struct {
		err  error
		want any
	}{
		"a later export":     {imported, "7"},
		"an export of none":  {old, nil},
		"a later renderer":   {again("render-12"), "render-12"},
		"an older renderer":  {again("render-0"), nil},
		"a renderer of none": {again("x"), nil},
		"a later event":      {event, "2"},
	} {
		if said := api.FromError(tc.err); said.Code != api.Unsupported || said.Details["min_version"] != tc.want {
			t.Errorf("%s: %+v, want unsupported with %v", name, said, tc.want)
		}
	}
}

// The operator changes nothing, whatever else is wrong with the request.
func TestTheOperatorReplacesNoDocument(t *testing.T) {
	e := newWorld().Engine(t)
	operator, text := reader.Caller{Tenant: alice.Tenant, Agent: api.Operator}, "x"
	for _, agent := range []string{"", alice.Agent} {
		r := api.MemoryDocument{Agent: agent, Text: &text, If: "0"}
		if _, err := e.Memories.Document(t.Context(), operator, r, canon(r)); code(err) != api.Denied {
			t.Errorf("for agent %q: %v, want denied", agent, err)
		}
	}
}

// A count that no event can hold is refused with its field.
func TestACountThatIsTooLargeIsNamed(t *testing.T) {
	const over = turns.MaxCount + 1
	e := newWorld().Engine(t)
	s := create(t, e, 8000, "balanced").ID
	add(t, e, s, say(long(2000), long(2000)))
	add(t, e, s, say(long(2000), long(2000)))
	last := add(t, e, s, say("q", "a"))
	taken := must(e.Compactions.Take(t.Context(), alice, s, api.TakeCompaction{Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{"keep_tokens":50}`)}}))(t)
	turn := say("q", "a")
	turn.Usage = &turns.Usage{InputTokens: 1, CacheRead: over}
	_, appended := e.Sessions.Append(t.Context(), alice, s, turn, nil)
	_, done := e.Compactions.DoneFlush(t.Context(), alice, s, api.DoneFlush{Cycle: 1, Usage: &turns.Usage{OutputTokens: over}}, nil)
	_, submitted := e.Compactions.Submit(t.Context(), alice, s, api.SubmitCompaction{Plan: taken.Plan, Text: "short", Usage: &turns.Usage{InputTokens: over}}, nil)
	_, recorded := e.Compactions.Record(t.Context(), alice, s, api.RecordCompaction{Summary: "short", FirstKept: last.ID, Usage: &turns.Usage{CacheCreation: over}}, nil)
	_, before := e.Compactions.Record(t.Context(), alice, s, api.RecordCompaction{Summary: "short", FirstKept: last.ID, TokensBefore: over}, nil)
	for field, err := range map[string]error{"/usage/cache_read_input_tokens": appended, "/usage/output_tokens": done, "/usage/input_tokens": submitted,
		"/usage/cache_creation_input_tokens": recorded, "/tokens_before": before} {
		if said := api.FromError(err); said.Code != api.Malformed || said.Details["field"] != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

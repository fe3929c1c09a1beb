package engine_test

import (
	"strings"
	"testing"
	"time"

	"nexus/ledger/api"
	"nexus/turns"
)

// A claimed time is stored as it is, or refused: never as another one.
func TestClaimedTimeOutsideTheRangeIsMalformed(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 0, "nexus")
	write := map[string]func(at *api.Time) (*api.Turn, error){
		"turn.append": func(at *api.Time) (*api.Turn, error) {
			r := say("x", "y")
			r.Time = at
			a, err := e.Sessions.Append(t.Context(), alice, s.ID, r, canon(r))
			if err != nil {
				return nil, err
			}
			return e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: a.ID})
		},
		"compaction.record": func(at *api.Time) (*api.Turn, error) {
			r := api.RecordCompaction{Time: at, Replacement: []turns.Message{turns.TextMessage(turns.User, "in short")}}
			return e.Compactions.Record(t.Context(), alice, s.ID, r, canon(r))
		},
	}
	for _, verb := range []string{"turn.append", "compaction.record"} {
		for claimed, ok := range map[string]bool{
			"9999-12-31T23:59:59Z": false, "2500-01-01T00:00:00Z": false, "1970-01-01T00:00:00Z": false, "0001-01-01T00:00:00Z": false,
			"1970-01-01T00:00:00.000000001Z": true, "1969-12-31T23:59:59Z": true, "1700-06-01T12:00:00+02:00": true, "2261-12-31T23:59:59.999999999Z": true,
		} {
			var at api.Time
			if err := at.UnmarshalText([]byte(claimed)); err != nil {
				t.Fatal(err)
			}
			got, err := write[verb](&at)
			switch {
			case !ok && code(err) != api.Malformed:
				t.Errorf("%s at %s: %v, want malformed", verb, claimed, err)
			case ok && err != nil:
				t.Errorf("%s at %s: %v", verb, claimed, err)
			case ok && (got.Time == nil || !time.Time(*got.Time).Equal(time.Time(at))):
				t.Errorf("%s at %s is stored as %s", verb, claimed, canon(got.Time))
			}
		}
	}
	verified(t, e)
}

func calls(ids ...string) *turns.Message {
	m := &turns.Message{Role: turns.Assistant}
	for _, id := range ids {
		m.Parts = append(m.Parts, turns.Part{Type: turns.ToolCall, ID: id, Name: "run", Arguments: turns.Raw(`{}`)})
	}
	return m
}

func results(ids ...string) []turns.Message {
	m := turns.Message{Role: turns.Tool}
	for _, id := range ids {
		m.Parts = append(m.Parts, turns.Part{Type: turns.ToolCallResponse, ID: id, Response: turns.Raw(`"ok"`)})
	}
	return []turns.Message{m}
}

// A retry gets the ack that the first try got, calls included, on any daemon
// and after the session went on.
func TestRetryGetsTheFirstAck(t *testing.T) {
	w := newWorld()
	e, other := w.Engine(t), w.Engine(t)
	s := create(t, e, 0, "nexus")
	var requests []api.AppendTurn
	var acks []*api.Appended
	for _, r := range []api.AppendTurn{
		{Messages: say("go", "").Messages, Response: calls("a", "b", "c")},
		{Messages: results("b")},
		{Messages: append(results("a"), turns.TextMessage(turns.User, "never mind c"))},
		{Messages: results("c", "a"), Response: calls("d")},
		{Messages: append(results("d"), say("well", "").Messages...), Response: say("", "done").Response},
	} {
		r.ID = newID(t)
		requests, acks = append(requests, r), append(acks, add(t, e, s.ID, r))
	}
	if x := acks[2]; len(x.Abandoned) != 1 || len(acks[3].Late) != 2 || len(acks[0].Open) != 3 || len(acks[1].Open) != 2 {
		t.Fatalf("the acks are not what this test is about: %s", canon(acks))
	}
	for i, r := range requests {
		for name, d := range map[string]*Engine{"the same daemon": e, "another": other} {
			again := must(d.Sessions.Append(t.Context(), alice, s.ID, r, canon(r)))(t)
			if !again.Duplicate {
				t.Errorf("append %d again on %s: no duplicate", i, name)
			}
			again.Duplicate = false
			if got, want := string(canon(again)), string(canon(acks[i])); got != want {
				t.Errorf("append %d again on %s:\n%s\nwant\n%s", i, name, got, want)
			}
		}
	}
}

// A recorded compaction has the model and the usage of the call that made it.
func TestRecordedCompactionHasItsUsage(t *testing.T) {
	e := newWorld().Engine(t)
	s := must(e.Sessions.Create(t.Context(), alice, api.CreateSession{}, canon(api.CreateSession{})))(t)
	add(t, e, s.ID, say("x", "y"))
	record := func(model string) (*api.Turn, error) {
		r := api.RecordCompaction{Summary: "in short", Model: model, Usage: &turns.Usage{InputTokens: 900, OutputTokens: 30}}
		return e.Compactions.Record(t.Context(), alice, s.ID, r, canon(r))
	}
	k := must(record("m-2"))(t).Compaction
	if k == nil || k.Model != "m-2" || k.Usage == nil || *k.Usage != (turns.Usage{InputTokens: 900, OutputTokens: 30}) {
		t.Errorf("compaction %+v", k)
	}
	if _, err := record(strings.Repeat("m", turns.MaxName+1)); code(err) != api.Malformed {
		t.Errorf("a model of too many bytes: %v", err)
	}
	verified(t, e)
}

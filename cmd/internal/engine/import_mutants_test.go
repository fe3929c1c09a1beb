package engine_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// mutants are ways in which the header of an event may be another than the ledger
// that wrote it made it. Each gets ids to take: of sessions and turns of its own
// and of others.
var mutants = map[string]func(ev *turns.Event, n uint64, ref turns.Ref){
	"id":         func(ev *turns.Event, _ uint64, ref turns.Ref) { ev.ID = ref.Turn },
	"index":      func(ev *turns.Event, n uint64, _ turns.Ref) { ev.Index = n },
	"prev":       func(ev *turns.Event, n uint64, _ turns.Ref) { ev.Prev = turns.Hash{byte(n)} },
	"parent":     func(ev *turns.Event, _ uint64, ref turns.Ref) { ev.Parent = ref },
	"no parent":  func(ev *turns.Event, _ uint64, _ turns.Ref) { ev.Parent, ev.Depth = turns.Ref{}, 1 },
	"depth":      func(ev *turns.Event, n uint64, _ turns.Ref) { ev.Depth = n },
	"segment":    func(ev *turns.Event, _ uint64, ref turns.Ref) { ev.Segment = ref.Turn },
	"halves":     func(ev *turns.Event, n uint64, _ turns.Ref) { ev.Halves = turns.Halves(n % 4) },
	"calls":      func(ev *turns.Event, n uint64, _ turns.Ref) { ev.Calls = n },
	"tokens":     func(ev *turns.Event, n uint64, _ turns.Ref) { ev.Tokens.Messages += n },
	"open":       func(ev *turns.Event, n uint64, _ turns.Ref) { ev.Open = n },
	"late":       func(ev *turns.Event, n uint64, _ turns.Ref) { ev.Late = n },
	"left":       func(ev *turns.Event, n uint64, _ turns.Ref) { ev.Abandoned = n },
	"said":       func(ev *turns.Event, n uint64, _ turns.Ref) { ev.UserTexts = n },
	"to":         func(ev *turns.Event, _ uint64, ref turns.Ref) { ev.To = ref },
	"to nowhere": func(ev *turns.Event, _ uint64, _ turns.Ref) { ev.To = turns.Ref{} },
	"state":      func(ev *turns.Event, n uint64, _ turns.Ref) { ev.State = turns.State(n % 6) },
	"successor":  func(ev *turns.Event, _ uint64, ref turns.Ref) { ev.State, ev.Successor = turns.Reset, ref.Session },
	"recorded":   func(ev *turns.Event, n uint64, _ turns.Ref) { ev.Recorded = int64(n) },
	"usage":      func(ev *turns.Event, n uint64, _ turns.Ref) { ev.Usage = &turns.Usage{InputTokens: n} },
	"actor":      func(ev *turns.Event, _ uint64, _ turns.Ref) { ev.Actor = "default/alice" },
	"agent":      func(ev *turns.Event, _ uint64, _ turns.Ref) { ev.Agent = "alice" },
	"role":       func(ev *turns.Event, _ uint64, _ turns.Ref) { ev.Role = turns.Main },
	"root":       func(ev *turns.Event, _ uint64, ref turns.Ref) { ev.Root = ref.Session },
	"blobs": func(ev *turns.Event, n uint64, _ turns.Ref) {
		ev.Blobs = []turns.BlobLink{{Address: turns.Hash{1}, Size: n}}
	},
	"chain": func(ev *turns.Event, _ uint64, ref turns.Ref) { ev.Chain = turns.SessionChain(ref.Session) },
	"fork point": func(ev *turns.Event, n uint64, ref turns.Ref) {
		if ev.ForkOf != nil {
			ev.ForkOf = &turns.ForkOf{At: ref, Hash: ev.ForkOf.Hash, Mode: turns.ForkMode(1 + n%3)}
		}
	},
	"origin": func(ev *turns.Event, _ uint64, ref turns.Ref) {
		if ev.Origin != nil {
			ev.Origin = &turns.Origin{Ledger: ev.Origin.Ledger, Tenant: "other", Session: ref.Session}
		}
	},
	"span": func(ev *turns.Event, n uint64, ref turns.Ref) {
		if ev.Span == nil {
			return
		}
		s := *ev.Span
		switch n % 7 {
		case 0:
			s.Through = ref
		case 1:
			s.FirstKept = ref
		case 2:
			s.SawThrough = ref
		case 3:
			s.Previous = ref
		case 4:
			s.Split = !s.Split
		case 5:
			s.Elisions = append(slices.Clone(s.Elisions), turns.Elision{Turn: ref, Half: turns.MessagesHalf})
		case 6:
			s.Provenance, s.Dropped = turns.Imported, true
		}
		ev.Span = &s
	},
}

// Whatever an export's event is changed to, by one who has its keys: it is refused
// and nothing is stored, or it is stored and verifies, and can be read.
func TestAChangedExportIsRefusedOrVerifies(t *testing.T) {
	// A session with all kinds of events, a fork of it, and sessions of others.
	from := newWorld()
	src := from.Engine(t)
	s := must(src.Sessions.Create(t.Context(), bob, api.CreateSession{SessionSettings: api.SessionSettings{Policy: &api.Policy{Name: "nexus"},
		Limits: &turns.Limits{ContextWindow: 8000}}}, []byte("{}")))(t)
	var own []turns.Ref
	say3 := func(id turns.ID, r api.AppendTurn) {
		own = append(own, turns.Ref{Session: id, Turn: must(src.Sessions.Append(t.Context(), bob, id, r, canon(r)))(t).ID})
	}
	for i := range 8 {
		say3(s.ID, say(fmt.Sprintf("question %d %s", i, long(2000)), "answer"))
	}
	k := must(src.Compactions.Compact(t.Context(), bob, s.ID, api.RunCompaction{}, []byte("{}")))(t).Compaction
	own = append(own, turns.Ref{Session: s.ID, Turn: k.ID})
	call := say("call", "")
	call.Response = &turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "a", Name: "run", Arguments: turns.Raw("{}")}}}
	say3(s.ID, call)
	say3(s.ID, api.AppendTurn{Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "a", Response: turns.Raw(`"ok"`)}}}}})
	say3(s.ID, say(long(600_000), "large"))
	must(src.Sessions.Move(t.Context(), bob, s.ID, api.MoveSession{To: &own[6].Turn}, nil))(t)
	say3(s.ID, say("another branch", "yes"))
	f := must(src.Forks.Fork(t.Context(), bob, s.ID, api.CreateFork{Turn: own[len(own)-1].Turn}, []byte("f")))(t)
	say3(f.ID, say("on the fork", "yes"))
	model := "m"
	must(src.Sessions.Set(t.Context(), bob, f.ID, api.SetSession{SessionSettings: api.SessionSettings{Model: &model}}, []byte("{}")))(t)
	must(src.Sessions.CloseSession(t.Context(), bob, f.ID, api.CloseSession{}, nil))(t)

	var order []api.ExportRecord
	visited := make(map[turns.Hash]bool)
	for _, id := range []turns.ID{s.ID, f.ID} {
		for after := ""; ; {
			p := must(src.Transfer.Export(t.Context(), bob, id, api.ExportSession{Page: api.Page{After: after}}))(t)
			for _, r := range p.Records {
				if r.Event == nil || !visited[r.Event.Hash] {
					order = append(order, r)
				}
				if r.Event != nil {
					visited[r.Event.Hash] = true
				}
			}
			if after = p.Next; after == "" {
				break
			}
		}
	}
	var events []int
	for i, r := range order {
		if r.Event != nil {
			events = append(events, i)
		}
	}

	// The other ledger has everything but what follows, of the session and its
	// fork, so that a change may come at any place.
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	upTo := func(at int) (w *world, e *Engine, others []turns.Ref) {
		w = newWorld()
		e = w.Engine(t)
		a := create(t, e, 0, "nexus")
		others = append(others, turns.Ref{Session: a.ID, Turn: add(t, e, a.ID, say("alice's question", "alice's answer")).ID})
		b := must(e.Sessions.Create(t.Context(), bob, api.CreateSession{}, []byte("{}")))(t)
		others = append(others, turns.Ref{Session: b.ID, Turn: must(e.Sessions.Append(t.Context(), bob, b.ID, say("elsewhere", "yes"), nil))(t).ID})
		if err := importAs(t, e, bob, order[:at]...); err != nil {
			t.Fatal(err)
		}
		return w, e, others
	}
	stored, refused := 0, 0
	for _, at := range events {
		w, e, others := upTo(at)
		for _, name := range slices.Sorted(maps.Keys(mutants)) {
			mutate := mutants[name]
			ev := must(turns.Decode(order[at].Event.Payload))(t)
			body := must(seal.Open(ev, from.Keys))(t)
			ref := own[rng.IntN(len(own))]
			if rng.IntN(2) == 0 {
				ref = others[rng.IntN(len(others))]
			}
			before, keys := must(ev.HeaderBytes())(t), ev.Keys
			mutate(ev, rng.Uint64N(12), ref)
			if after, err := ev.HeaderBytes(); err != nil || bytes.Equal(after, before) {
				continue
			}
			if err := seal.Seal(ev, body, from.Keys, keys, bytes.NewReader(bytes.Repeat([]byte{7}, 12))); err != nil {
				continue
			}
			payload, err := ev.Encode()
			if err != nil {
				continue // no event at all
			}
			last := lastSeq(t, w)
			err = importAs(t, e, bob, api.ExportRecord{Event: &api.ExportEvent{Payload: payload, Hash: turns.HashEvent(payload)}})
			where := fmt.Sprintf("%s of event %d (%s): %v", name, ev.Index, ev.Kind, err)
			if e.Reader.Projections.SetAside() != 0 {
				t.Fatalf("%s: a chain is aside", where)
			}
			if err != nil {
				refused++
				if now := lastSeq(t, w); now != last {
					t.Errorf("%s: %d records are stored", where, now-last)
				}
				if c := code(err); c == api.Internal || c == api.Indeterminate || c == api.Unavailable {
					t.Errorf("%s: code %s", where, c)
				}
				continue
			}
			stored++
			if v := must(e.Audit.Verify(t.Context(), operator, api.Verify{}))(t); !v.OK {
				t.Errorf("%s: %s", where, canon(v.Problems))
			}
			id, _ := ev.Chain.Session()
			cx, err := e.Contexts.Context(t.Context(), bob, id, api.GetContext{})
			if err != nil || bytes.Contains(canon(cx), []byte("alice's")) {
				t.Errorf("%s: context %.300s, %v", where, canon(cx), err)
			}
			w, e, others = upTo(at) // another event has the place
		}
	}
	t.Logf("%d changed events were stored, %d refused", stored, refused)
	if stored == 0 || refused == 0 {
		t.Error("a test that can't fail")
	}
}

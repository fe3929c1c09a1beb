package responses_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"nexus/turns"
)

// keeper is a client that keeps its conversation itself and sends all of it each time.
type keeper struct {
	r       *rig
	headers []string
	member  string
	items   []any
}

func newKeeper(r *rig, headers ...string) *keeper {
	return &keeper{r: r, headers: headers, member: `,"store":false`}
}

func message(role, text string) any { return map[string]any{"role": role, "content": text} }

// send sends what is kept and new items, and keeps them and the answer's.
func (k *keeper) send(items ...any) (out map[string]any) {
	k.r.t.Helper()
	k.items = append(slices.Clip(k.items), items...)
	out = k.r.ok("POST", "/v1/responses", k.body(), k.headers...)
	k.items = append(k.items, out["output"].([]any)...)
	return out
}

func (k *keeper) body() string {
	b, err := json.Marshal(k.items)
	if err != nil {
		k.r.t.Fatal(err)
	}
	return `{"model":"m","input":` + string(b) + k.member + `}`
}

// texts is what the model has to read of the items, as [scripted.texts] says it.
func (k *keeper) texts() (out []string) {
	for _, x := range k.items {
		it := x.(map[string]any)
		switch it["type"] {
		case "function_call":
			out = append(out, "assistant: ")
		case "function_call_output":
			out = append(out, "tool: ")
		case "reasoning":
		default:
			text, ok := it["content"].(string)
			if !ok {
				text = it["content"].([]any)[0].(map[string]any)["text"].(string)
			}
			role := it["role"].(string)
			if role == "developer" {
				role = "system"
			}
			out = append(out, role+": "+text)
		}
	}
	return out
}

// news are the parts that the turn of a response's request has.
func (k *keeper) news(out map[string]any) (n int) {
	k.r.t.Helper()
	at := out["nexus"].(map[string]any)
	session, answer := must(turns.ParseID(at["session"].(string)))(k.r.t), must(turns.ParseID(at["turn"].(string)))(k.r.t)
	a := must(k.r.ledger.Turn(k.r.t.Context(), session, answer))(k.r.t)
	for _, m := range must(k.r.ledger.Turn(k.r.t.Context(), session, *a.Parent))(k.r.t).Messages {
		n += len(m.Parts)
	}
	return n
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestAHistoryThatIsSentAgainIsStoredOnce(t *testing.T) {
	for name, headers := range map[string][]string{
		"stored nowhere else": {"X-Nexus-Session", "desk"}, // and with answers, but for the first
		"that says so":        {"X-Nexus-Session", "desk", "X-Nexus-Input", "whole"},
		"that is found":       {"X-Nexus-Session", "desk", "found", "yes"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			k := newKeeper(r, headers...)
			if name != "stored nowhere else" {
				k.member = ""
			}
			asks := func(items ...any) {
				t.Helper()
				out := k.send(items...)
				if want := k.texts()[:len(k.texts())-1]; !slices.Equal(r.model.texts(-1), want) {
					t.Errorf("the model read %.2000q, want %.2000q", r.model.texts(-1), want)
				}
				if n := k.news(out); n != len(items) {
					t.Errorf("%d parts were stored of %d", n, len(items))
				}
			}
			for i := range 4 {
				asks(message("user", fmt.Sprint("question ", i)))
			}
			asks(message("developer", "be short"), message("user", "call: f"))
			asks(map[string]any{"type": "function_call_output", "call_id": "call_1", "output": "done"})
			large := strings.Repeat("a large text ", 200_000)
			asks(message("user", large))
			asks(message("user", "after it"))
			s := must(r.ledger.Resolve(t.Context(), "desk"))(t)
			if s.Turns != 16 || s.Head == nil {
				t.Errorf("%+v; want 8 requests and 8 answers on one path", s)
			}
		})
	}
}

// A client that keeps its conversation goes back, edits, goes between several conversations
// under one name, replaces what is old by a summary, and fails. The model reads exactly what the
// client has, and what the session has is not stored again.
func TestAModelReadsWhatTheClientKeeps(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 7))
		r := newRig(t)
		k := newKeeper(r, "X-Nexus-Session", "desk", "X-Nexus-Input", "whole")
		var lists [][]any // what the client may go back to
		var seen []string // the paths of all answers
		for step := range 40 {
			switch n := rng.IntN(10); {
			case n == 0 && len(k.items) > 4: // edits an earlier question
				k.items = k.items[:2*rng.IntN(len(k.items)/2)]
			case n == 1 && len(lists) > 0: // goes on in another conversation
				k.items = lists[rng.IntN(len(lists))]
			case n == 2: // begins another one
				k.items = nil
			case n == 3 && len(k.items) > 4:
				k.items = append([]any{message("user", fmt.Sprint("summary ", step))}, k.items[len(k.items)-2:]...)
			case n == 4:
				body := newKeeper(r)
				body.items = append(slices.Clip(k.items), message("user", fmt.Sprint("fail ", step)))
				r.refused(http.StatusBadGateway, "server_error", "POST", "/v1/responses", body.body(), k.headers...)
			}
			known := 0
			for i := range k.items {
				if slices.Contains(seen, fmt.Sprint(k.items[:i+1])) {
					known = i + 1
				}
			}
			fresh := len(k.items) + 1 - known
			out := k.send(message("user", fmt.Sprint("question ", step)))
			if want := k.texts()[:len(k.texts())-1]; !slices.Equal(r.model.texts(-1), want) {
				t.Fatalf("seed %d, step %d: the model read\n%q, want\n%q", seed, step, r.model.texts(-1), want)
			}
			if n := k.news(out); n != fresh {
				t.Errorf("seed %d, step %d: %d parts were stored, %d are new", seed, step, n, fresh)
			}
			seen = append(seen, fmt.Sprint(k.items))
			if lists = append(lists, k.items); len(lists) > 4 {
				lists = lists[1:]
			}
		}
	}
}

// An input without an answer, or one that is said to be new, comes after the head.
func TestANewInputComesAfterTheHead(t *testing.T) {
	r := newRig(t)
	ask := func(input string, headers ...string) []string {
		t.Helper()
		r.ok("POST", "/v1/responses", `{"model":"m","input":`+input+`}`, append(headers, "X-Nexus-Session", "desk")...)
		return r.model.texts(-1)
	}
	ask(`"hello"`)
	if got := ask(`"hello"`); len(got) != 3 {
		t.Errorf("%q, want both questions", got)
	}
	again := `[{"role":"user","content":"hello"},{"role":"assistant","content":"1 messages"},{"role":"user","content":"and now?"}]`
	if got := ask(again, "X-Nexus-Input", "new"); len(got) != 7 {
		t.Errorf("%q, want what was said and three more", got)
	}
	if got := ask(again); len(got) != 3 {
		t.Errorf("%q, want the input alone", got)
	}
	if got := ask(`"alone"`, "X-Nexus-Input", "whole"); len(got) != 1 {
		t.Errorf("%q, want the input alone", got)
	}
	if got := ask(`"stays"`, "X-Nexus-Input", "new"); len(got) != 3 {
		t.Errorf("%q, want what came after", got)
	}
	r.refused(http.StatusBadRequest, "invalid_value", "POST", "/v1/responses", `{"model":"m","input":"x"}`, "X-Nexus-Session", "desk", "X-Nexus-Input", "all")
}

// A request that fails leaves the head where it was, also where it went elsewhere; a retry by
// key after that answers it there.
func TestAFailureElsewhereLeavesTheHead(t *testing.T) {
	r := newRig(t)
	k := newKeeper(r, "X-Nexus-Session", "desk", "X-Nexus-Input", "whole")
	k.send(message("user", "one"))
	head := must(r.ledger.Resolve(t.Context(), "desk"))(t).Head
	body := `{"model":"m","input":"fail","store":false}`
	r.refused(http.StatusBadGateway, "server_error", "POST", "/v1/responses", body, append(k.headers, "Idempotency-Key", "k")...)
	if got := must(r.ledger.Resolve(t.Context(), "desk"))(t).Head; got == nil || *got != *head {
		t.Errorf("the head is %v, want %v", got, head)
	}
	r.model.heal()
	out := r.ok("POST", "/v1/responses", body, append(k.headers, "Idempotency-Key", "k")...)
	if got := r.model.texts(-1); len(got) != 1 || textIn(out) != "1 messages" {
		t.Errorf("the model read %q", got)
	}
	if n := k.news(k.send(message("user", "two"))); n != 1 {
		t.Errorf("%d parts were stored of 1", n)
	}
}

// A connection that goes on with what it has not stored follows its own answer, whatever came
// to the session by other requests, and whether or not it says that its input is new.
func TestAConnectionFollowsItsOwnAnswer(t *testing.T) {
	for _, header := range [][]string{{"X-Nexus-Session", "desk"}, {"X-Nexus-Session", "desk", "X-Nexus-Input", "new"}} {
		r := newRig(t)
		c := r.dial(header...)
		first, _ := last(r.turn(c, `,"store":false,"input":"one"`))
		newKeeper(r, "X-Nexus-Session", "desk", "X-Nexus-Input", "whole").send(message("user", "of another"))
		if _, code := last(r.turn(c, `,"store":false,"input":"two","previous_response_id":"`+first["id"].(string)+`"`)); code != "" {
			t.Errorf("%q: %s", header, code)
		}
		if got := r.model.texts(-1); !slices.Equal(got, []string{"user: one", "assistant: 1 messages", "user: two"}) {
			t.Errorf("%q: %q", header, got)
		}
	}
}

// Behind a compaction that a client asked for, it sends the item and what came after: that is
// known, too.
func TestAHistoryBehindACompactionItemIsStoredOnce(t *testing.T) {
	r := newRig(t)
	k := newKeeper(r, "X-Nexus-Session", "desk", "X-Nexus-Input", "whole")
	for i := range 30 {
		k.items = append(k.items, message("user", about(i)), message("assistant", "yes"))
	}
	k.member += "," + managed
	out := k.send(message("user", "and?"))
	item, _ := front(t, out)
	if item == nil {
		t.Fatalf("no compaction: %v", out)
	}
	k.items = out["output"].([]any) // all before the item is dropped
	for i := range 3 {
		out := k.send(message("user", fmt.Sprint("after ", i)))
		if n := k.news(out); n != 1 {
			t.Errorf("%d parts were stored of 1", n)
		}
		if got := r.model.texts(-1); got[len(got)-1] != fmt.Sprint("user: after ", i) || len(got) > 40 {
			t.Errorf("the model read %d messages, at last %.100q", len(got), got[len(got)-1])
		}
	}
	if s := must(r.ledger.Resolve(t.Context(), "desk"))(t); s.Head == nil || s.Compactions != 1 {
		t.Errorf("%+v", s)
	}
}

// What a request costs whose input is a history of so many messages: that the session has, and
// that goes to the model without a session.
func BenchmarkHistory(b *testing.B) {
	for _, n := range []int{20, 200, 2000} {
		for name, headers := range map[string][]string{"recorded": {"X-Nexus-Session", "desk", "X-Nexus-Input", "whole"}, "unrecorded": nil} {
			b.Run(fmt.Sprint(name, "/messages=", n), func(b *testing.B) {
				k := newKeeper(newRig(b), headers...)
				for i := range n / 2 {
					k.items = append(k.items, message("user", fmt.Sprint("question ", i, strings.Repeat(" and more of it", 30))), message("assistant", "yes"))
				}
				k.send(message("user", "what now?"))
				kept := k.items
				for b.Loop() {
					k.items = kept
					k.send(message("user", "what now?"))
				}
			})
		}
	}
}

package place

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nexus/cmd/internal/responses/wire"
	"nexus/turns"
)

func turnID(n byte) turns.ID { return turns.ID{15: n} }

// Which turn a request follows, by what the head of its session says.
func TestPlanOntoAHead(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	for name, c := range map[string]struct {
		head      head
		want      Plan
		stepsOver bool
		refused   bool
	}{
		"an answer":              {head: head{id: turnID(1)}, want: Plan{Parent: turnID(1), InPlace: true}},
		"with other paths":       {head: head{id: turnID(1), tips: []turns.ID{turnID(9)}}, want: Plan{Parent: turnID(1), InPlace: true, Tips: []turns.ID{turnID(9)}}},
		"waits, made here":       {head: head{id: turnID(2), waits: &waiting{Earlier{Open: true, Here: true}, turnID(1)}}, refused: true},
		"waits, made elsewhere":  {head: head{id: turnID(2), waits: &waiting{Earlier{Open: true, Began: began}, turnID(1)}}, refused: true},
		"its answer was lost":    {head: head{id: turnID(2), waits: &waiting{before: turnID(1)}}, want: Plan{Parent: turnID(1), InPlace: true}, stepsOver: true},
		"the first one was lost": {head: head{id: turnID(2), waits: new(waiting)}, want: Plan{InPlace: true}, stepsOver: true},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Session = turnID(5)
			got, stepsOver, err := Plan{Session: turnID(5)}.onto(c.head)
			if e := (*wire.Error)(nil); c.refused != errors.As(err, &e) || c.refused && e.Code != ErrLocked.Code {
				t.Fatalf("%v", err)
			}
			if d := cmp.Diff(c.want, got); !c.refused && (d != "" || stepsOver != c.stepsOver) {
				t.Errorf("steps over: %v (-want +got)\n%s", stepsOver, d)
			}
		})
	}
}

// Which turn a request follows, by how its input agrees with the paths of its session.
func TestPlanMatched(t *testing.T) {
	head, other, third := turnID(1), turnID(2), turnID(3)
	at := Plan{Session: turnID(5), Parent: head, InPlace: true, Tips: []turns.ID{other, third}}
	many := at
	many.Tips = nil
	for n := range byte(20) {
		many.Tips = append(many.Tips, turnID(100+n))
	}
	whole := func(p Plan) Plan { p.Whole = true; return p }
	to := func(p Plan, to turns.ID, tips ...turns.ID) Plan {
		p.Left, p.Moves, p.Parent, p.Tips = p.Parent, true, to, tips
		return p
	}
	for name, c := range map[string]struct {
		plan     Plan
		match    match
		want     Plan
		items    int
		compares bool
	}{
		"new input":                              {plan: at, match: match{named: true, sure: true}, want: at},
		"no session is named":                    {plan: at, match: match{whole: true, sure: true}, want: at},
		"a response is named":                    {plan: at, match: match{named: true, previous: true, whole: true, sure: true}, want: whole(at)},
		"an empty session":                       {plan: Plan{Session: turnID(5)}, match: match{named: true, whole: true, sure: true}, want: Plan{Session: turnID(5), Whole: true}},
		"all of the head's path":                 {plan: at, match: match{named: true, whole: true, sure: true, known: known{head, 7, true}}, want: whole(at), items: 7, compares: true},
		"all of another path":                    {plan: at, match: match{named: true, whole: true, sure: true, known: known{other, 7, true}}, want: whole(to(at, other, head, third)), items: 7, compares: true},
		"nothing that is known":                  {plan: at, match: match{named: true, whole: true, sure: true}, want: whole(to(at, turns.ID{}, head, other, third)), compares: true},
		"perhaps, and an answer is known":        {plan: at, match: match{named: true, whole: true, known: known{other, 4, true}}, want: to(at, other, head, third), items: 4, compares: true},
		"perhaps, and no answer is known":        {plan: at, match: match{named: true, whole: true, known: known{head, 2, false}}, want: at, compares: true},
		"what the connection remembers":          {plan: at, match: match{named: true, whole: true, sure: true, after: third}, want: whole(to(at, third, head, other))},
		"remembered, and a response's name":      {plan: at, match: match{named: true, previous: true, whole: true, sure: true, after: head}, want: whole(at)},
		"more paths than a turn remembers":       {plan: many, match: match{named: true, whole: true, sure: true, known: known{turnID(100), 1, true}}, want: whole(to(many, turnID(100), append([]turns.ID{head}, many.Tips[1:maxTips]...)...)), items: 1, compares: true},
		"all of it, but the path has a tip only": {plan: Plan{Session: turnID(5), InPlace: true, Tips: []turns.ID{other}}, match: match{named: true, whole: true, sure: true, known: known{other, 3, true}}, want: Plan{Session: turnID(5), InPlace: true, Parent: other, Moves: true, Whole: true, Tips: []turns.ID{}}, items: 3, compares: true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.plan.compares(c.match) != c.compares {
				t.Errorf("it is compared with the paths: %v", !c.compares)
			}
			got, items := c.plan.matched(c.match)
			if d := cmp.Diff(c.want, got); d != "" || items != c.items {
				t.Errorf("%d items, want %d (-want +got)\n%s", items, c.items, d)
			}
		})
	}
}

package login

import (
	"fmt"
	"testing"
	"time"
)

// clock is a time that a test moves.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

func TestACodeIsRedeemedOnce(t *testing.T) {
	at := &clock{time.Unix(1e9, 0)}
	d := NewDesk(at.now)
	who := Who{Tenant: "default", Agent: "main", Agents: []string{"main"}}
	code, till := d.Code(who, "/ui/s/1")
	if !till.Equal(at.Add(CodeTime)) || !d.Waits() {
		t.Errorf("it ends at %v", till)
	}
	if _, ok := d.Who(code); ok {
		t.Error("a code is a cookie")
	}
	secret, to, ok := d.Redeem(code)
	if !ok || to != "/ui/s/1" || secret == code {
		t.Fatalf("%v, to %q", ok, to)
	}
	if got, ok := d.Who(secret); !ok || fmt.Sprint(got) != fmt.Sprint(who) {
		t.Errorf("%v, %v", got, ok)
	}
	if _, _, ok := d.Redeem(code); ok {
		t.Error("it was redeemed twice")
	}
	if d.Waits() {
		t.Error("a code waits that was redeemed")
	}
	d.Forget(secret)
	if _, ok := d.Who(secret); ok {
		t.Error("a forgotten cookie is known")
	}
}

func TestCodesAndCookiesEnd(t *testing.T) {
	at := &clock{time.Unix(1e9, 0)}
	d := NewDesk(at.now)
	late, _ := d.Code(Who{}, "/ui/")
	at.Time = at.Add(CodeTime)
	if _, _, ok := d.Redeem(late); ok {
		t.Error("a code counts that ended")
	}
	code, _ := d.Code(Who{Agent: "main"}, "/ui/")
	secret, _, _ := d.Redeem(code)
	for range 3 { // each use begins the time anew
		at.Time = at.Add(IdleTime - time.Second)
		if _, ok := d.Who(secret); !ok {
			t.Fatal("a cookie ended that is in use")
		}
	}
	at.Time = at.Add(IdleTime)
	if _, ok := d.Who(secret); ok {
		t.Error("a cookie counts that nobody sent for half a day")
	}
	if _, ok := d.Who(""); ok {
		t.Error("no cookie is somebody")
	}
}

// Nobody drives out the logins of others: each person has a bound of their own, and where all are
// at the bound of all, whoever has the most gives way.
func TestCodesAndCookiesAreBoundedForEachPerson(t *testing.T) {
	at := &clock{time.Unix(1e9, 0)}
	d := NewDesk(at.now)
	login := func(w Who) string {
		t.Helper()
		at.Time = at.Add(time.Millisecond)
		code, _ := d.Code(w, "/ui/")
		secret, _, ok := d.Redeem(code)
		if !ok {
			t.Fatal("a new code does not count")
		}
		return secret
	}
	mine := Who{Tenant: "default", Agent: "mine", By: "me"}
	own := login(mine)
	waits, _ := d.Code(mine, "/ui/")
	flood := Who{Tenant: "default", By: "flood"}
	first, last := login(flood), ""
	for i := range 3 * maxOfOne {
		flood.Agent = fmt.Sprint("a", i) // a user who may act as many agents is one person
		last = login(flood)
	}
	if _, ok := d.Who(first); ok || len(d.cookies) > maxOfOne+1 {
		t.Errorf("%d cookies", len(d.cookies))
	}
	if _, ok := d.Who(last); !ok {
		t.Error("the newest gave way")
	}
	for range 3 * maxOfOne {
		d.Code(flood, "/ui/")
	}
	if len(d.codes) > maxOfOne+1 {
		t.Errorf("%d codes", len(d.codes))
	}
	if _, ok := d.Who(own); !ok {
		t.Error("a flood of another's logins ended mine")
	}
	if _, ok := d.Waiting(waits); !ok {
		t.Error("a flood of another's codes ended mine")
	}
	for i := range 2 * maxOfAll { // more persons than there is room for
		w := Who{Tenant: "default", Agent: fmt.Sprint("b", i)}
		login(w)
		d.Code(w, "/ui/")
	}
	if len(d.cookies) > maxOfAll || len(d.codes) > maxOfAll {
		t.Errorf("%d cookies, %d codes", len(d.cookies), len(d.codes))
	}
	many := 0
	for _, c := range d.cookies {
		if c.who.By == "flood" {
			many++
		}
	}
	if many > 1 {
		t.Errorf("of whoever had the most, %d are left", many)
	}
}

func TestACodeThatWaitsSaysWhomItLogsIn(t *testing.T) {
	at := &clock{time.Unix(1e9, 0)}
	d := NewDesk(at.now)
	who := Who{Tenant: "default", Agent: "main", Agents: []string{"main"}}
	code, _ := d.Code(who, "/ui/")
	if w, ok := d.Waiting(code); !ok || w.Agent != "main" {
		t.Errorf("%+v, %v", w, ok)
	}
	if _, _, ok := d.Redeem(code); !ok {
		t.Error("looking at it redeemed it")
	}
	if _, ok := d.Waiting(code); ok {
		t.Error("a redeemed code waits")
	}
}

func TestWhoMayChange(t *testing.T) {
	for _, tc := range []struct {
		who   Who
		agent string
		want  bool
	}{
		{Who{Agents: []string{"*"}}, "main", true},
		{Who{Agents: []string{"*"}}, "_", false},
		{Who{Agents: []string{"a"}}, "a", true},
		{Who{Agents: []string{"a"}}, "b", false},
		{Who{Agents: []string{"*"}, ReadOnly: true}, "main", false},
		{Who{}, "main", false},
	} {
		if got := tc.who.MayChange(tc.agent); got != tc.want {
			t.Errorf("%+v, %s: %v", tc.who, tc.agent, got)
		}
	}
}

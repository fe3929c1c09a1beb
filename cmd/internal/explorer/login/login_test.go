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

func TestCodesAndCookiesAreBounded(t *testing.T) {
	at := &clock{time.Unix(1e9, 0)}
	d := NewDesk(at.now)
	var first, last string
	for i := range 3 * maxCookies {
		at.Time = at.Add(time.Millisecond)
		code, _ := d.Code(Who{}, "/ui/")
		secret, _, ok := d.Redeem(code)
		if !ok {
			t.Fatal(i)
		}
		if last = secret; i == 0 {
			first = secret
		}
	}
	if _, ok := d.Who(first); ok || len(d.cookies) > maxCookies {
		t.Errorf("%d cookies", len(d.cookies))
	}
	if _, ok := d.Who(last); !ok {
		t.Error("the newest gave way")
	}
	for range 3 * maxCodes {
		d.Code(Who{}, "/ui/")
	}
	if len(d.codes) > maxCodes {
		t.Errorf("%d codes", len(d.codes))
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

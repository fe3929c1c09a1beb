package login

import (
	"crypto/rand"
	"crypto/sha256"
	"slices"
	"sync"
	"time"
)

const (
	// CodeTime is how long a code can be redeemed.
	CodeTime = time.Minute
	// IdleTime is how long a cookie counts that nobody sends.
	IdleTime = 12 * time.Hour
	// maxOfOne bounds the codes of one person that wait, and their cookies. The one that was used
	// longest ago gives way.
	maxOfOne = 16
	// maxOfAll bounds those of all. Whoever has the most gives way.
	maxOfAll = 1024
)

// Who is a person who looks, and what they may do: what the NATS user may do that asked for
// the code.
type Who struct {
	By     string // the NATS user who asked; "": not known
	Tenant string
	Agent  string   // as whom it reads; "_" reads all agents of the tenant
	Agents []string // as whom it may act; "*": every agent
	// ReadOnly allows no change.
	ReadOnly bool
}

// Person is whom the bounds of codes, cookies and streams count: the user of a tenant, or the agent
// where no user is known.
type Person struct{ tenant, by, agent string }

// Person returns who w is for what is bounded.
func (w Who) Person() Person {
	if w.By != "" {
		return Person{tenant: w.Tenant, by: w.By}
	}
	return Person{tenant: w.Tenant, agent: w.Agent}
}

// MayChange reports whether w may change a session of an agent.
func (w Who) MayChange(agent string) bool {
	return !w.ReadOnly && agent != "_" && (slices.Contains(w.Agents, "*") || slices.Contains(w.Agents, agent))
}

// MayExport reports whether w may have content keys: only the operator, as over NATS.
func (w Who) MayExport() bool { return !w.ReadOnly && w.Agent == "_" }

// Desk gives codes out and takes them in. Safe for concurrent use.
type Desk struct {
	now func() time.Time

	mu      sync.Mutex
	codes   map[digest]*code
	cookies map[digest]*cookie
}

type digest = [sha256.Size]byte

type code struct {
	who  Who
	to   string // the path that it leads to
	till time.Time
}

type cookie struct {
	who  Who
	used time.Time
}

// kept is what a desk remembers: whose it is, and when it was used or made.
type kept interface {
	person() Person
	last() time.Time
}

func (c *code) person() Person    { return c.who.Person() }
func (c *code) last() time.Time   { return c.till }
func (c *cookie) person() Person  { return c.who.Person() }
func (c *cookie) last() time.Time { return c.used }

// makeRoom removes what gives way to one more of a person: the oldest of theirs, if they have
// as many as one may; the oldest of whoever has the most, if all have as many as all may.
func makeRoom[T kept](all map[digest]T, p Person) {
	count := make(map[Person]int)
	for _, x := range all {
		count[x.person()]++
	}
	switch {
	case count[p] >= maxOfOne:
	case len(all) >= maxOfAll:
		for q, n := range count {
			if n > count[p] {
				p = q
			}
		}
	default:
		return
	}
	var oldest digest
	var found bool
	for k, x := range all {
		if x.person() == p && (!found || x.last().Before(all[oldest].last())) {
			oldest, found = k, true
		}
	}
	if found {
		delete(all, oldest)
	}
}

// NewDesk returns a desk that nobody is known at.
func NewDesk(now func() time.Time) *Desk {
	return &Desk{now: now, codes: make(map[digest]*code), cookies: make(map[digest]*cookie)}
}

// Code returns a new code for w that leads to a path, and when it ends.
func (d *Desk) Code(w Who, to string) (text string, till time.Time) {
	text, till = rand.Text(), d.now().Add(CodeTime)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire()
	makeRoom(d.codes, w.Person())
	d.codes[sha256.Sum256([]byte(text))] = &code{w, to, till}
	return text, till
}

// Waiting returns whom a code would log in; ok is as for Redeem. The code is not redeemed.
func (d *Desk) Waiting(text string) (w Who, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire()
	c, ok := d.codes[sha256.Sum256([]byte(text))]
	if !ok {
		return Who{}, false
	}
	return c.who, true
}

// Redeem takes a code in. It returns a cookie and where the code leads; ok is false for a
// code that was never given out, was redeemed before, or ended.
func (d *Desk) Redeem(text string) (secret, to string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire()
	k := sha256.Sum256([]byte(text))
	c, ok := d.codes[k]
	if !ok {
		return "", "", false
	}
	delete(d.codes, k)
	makeRoom(d.cookies, c.who.Person())
	secret = rand.Text()
	d.cookies[sha256.Sum256([]byte(secret))] = &cookie{c.who, d.now()}
	return secret, c.to, true
}

// Who returns who sends a cookie; ok is false if it is not known or was not sent for
// [IdleTime].
func (d *Desk) Who(secret string) (w Who, ok bool) {
	if secret == "" {
		return Who{}, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire()
	c := d.cookies[sha256.Sum256([]byte(secret))]
	if c == nil {
		return Who{}, false
	}
	c.used = d.now()
	return c.who, true
}

// Forget ends a cookie.
func (d *Desk) Forget(secret string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.cookies, sha256.Sum256([]byte(secret)))
}

// Waits reports whether a code can be redeemed.
func (d *Desk) Waits() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire()
	return len(d.codes) > 0
}

// expire removes what has ended. The lock is held.
func (d *Desk) expire() {
	now := d.now()
	for k, c := range d.codes {
		if !now.Before(c.till) {
			delete(d.codes, k)
		}
	}
	for k, c := range d.cookies {
		if now.Sub(c.used) >= IdleTime {
			delete(d.cookies, k)
		}
	}
}

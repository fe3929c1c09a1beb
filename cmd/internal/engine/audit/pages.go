package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// A verification waits at most pageWait for the request of its next page, and at most allWaits for all of
// them.
const pageWait, allWaits = 5 * time.Second, 5 * time.Minute

// maxPage bounds the events that a page checks. rowsPerEvent is how many rows take a page about as long
// as an event.
const maxPage, rowsPerEvent = 10_000, 8

// pagedVerifications are the verifications of sessions that answer page after page. Each is one
// verification that waits between its pages, so it finds what one without pages finds:
//
//   - An event alone decides on its bytes and hash, its body, and its blobs.
//   - Events before it decide on its place on the chain and the hash that it names, on its parent,
//     on what a fork inherits, on what a compaction covers, and on which calls are open. They are
//     in the rows that the verification makes, which wait with it: a cursor has no room for them.
//   - All events decide on the rows of the projections, as a later one may change any of them, and on
//     how a chain ends. So rows are compared after the last event, in stretches, and what differs is
//     reported on the last page, with the chains that were set aside.
//
// The position that it ends at, and the rows that it compares, are those of the first page. What is
// appended between pages is not verified, as what comes while one without pages runs. An event
// whose key went between pages, as its session was erased or it was redacted, counts as erased if it was
// not checked before.
//
// The client holds nothing that is trusted: a cursor is a random name of a verification of this
// agent, and the number of its pages. Another is malformed, or a conflict.
//
// While it waits, a verification keeps its place, a snapshot of the rows, and the rows that it made; no
// content. Each agent has one. Safe for concurrent use.
type pagedVerifications struct {
	mu      sync.Mutex
	byAgent map[string]*paged // no entry: none
	closed  bool
}

// paged is one of them.
type paged struct {
	name     string
	sessions []turns.ID
	v        *verifier     // nil: the last page was made
	pages    int           // made
	newest   *api.Verified // the newest page, for a caller that did not get it
	working  bool          // on the next page
	since    time.Time     // when the newest page was made
	waits    time.Duration // how long it may wait yet
	timer    *time.Timer   // ends its wait
}

// parseCursor parses the next of a page.
func parseCursor(after string) (name string, pages int, err error) {
	name, n, _ := strings.Cut(after, "~")
	if pages, err = strconv.Atoi(n); err != nil || pages < 1 || name == "" {
		return "", 0, api.FieldErrorf("/after", "not what a page gave as next")
	}
	return name, pages, nil
}

// nextPage is the page at a cursor, which may be the newest one again. Errors:
// [ledger.ErrConflict] if the verification ended.
func (au *Audit) nextPage(ctx context.Context, c reader.Caller, req api.Verify, limit int) (*api.Verified, error) {
	name, pages, err := parseCursor(req.After)
	if err != nil {
		return nil, err
	}
	p, newest, err := au.paged.take(c, name, pages, req.Sessions)
	if err != nil || newest != nil {
		return newest, err
	}
	return au.makePage(ctx, p, req, limit)
}

// take makes the verification of a cursor a working one, and returns it; or the newest page, if the
// cursor is that of it.
func (all *pagedVerifications) take(c reader.Caller, name string, pages int, sessions []turns.ID) (p *paged, newest *api.Verified, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	p = all.byAgent[c.Actor()]
	switch {
	case p == nil || p.name != name || pages != p.pages && pages != p.pages-1:
		return nil, nil, page.StaleCursor("verification")
	case !slices.Equal(p.sessions, sessions):
		return nil, nil, api.FieldErrorf("/after", "the next of a verification of other sessions")
	case pages == p.pages-1:
		return nil, p.newest, nil
	case p.v == nil: // the last page has no next
		return nil, nil, page.StaleCursor("verification")
	case p.working:
		return nil, nil, &api.Error{Code: api.Busy, Message: "this page is being made", Details: map[string]any{"retry_after_ms": 1000}}
	}
	p.working = true
	p.timer.Stop()
	p.waits -= time.Since(p.since)
	return p, nil, nil
}

// makePage makes the next page of a working verification. Then that waits, or ends.
func (au *Audit) makePage(ctx context.Context, p *paged, req api.Verify, limit int) (out *api.Verified, err error) {
	more, agent, all := false, p.v.caller.Actor(), &au.paged
	defer func() { // after a panic too
		all.mu.Lock()
		defer all.mu.Unlock()
		p.working = false
		if more && all.closed {
			out, err = nil, fmt.Errorf("%w: the daemon ends", ledger.ErrUnavailable)
		}
		if !more || out == nil {
			v := p.v
			p.v = nil
			all.mu.Unlock() // a disk may be slow
			err = errors.Join(err, v.close())
			all.mu.Lock()
		}
		if other := all.byAgent[agent]; other != nil && other != p && other.v != nil {
			return // begun since this one gave its place back
		}
		if err != nil || out == nil {
			delete(all.byAgent, agent)
			return
		}
		if p.pages++; more {
			out.Next = p.name + "~" + strconv.Itoa(p.pages)
		}
		if all.byAgent == nil {
			all.byAgent = make(map[string]*paged)
		}
		all.byAgent[agent] = p
		p.newest, p.since = out, time.Now()
		pages := p.pages
		p.timer = time.AfterFunc(min(pageWait, p.waits), func() { all.waited(agent, p, pages) })
	}()
	if more, err = p.v.advance(ctx, req, limit); err != nil {
		return nil, err
	}
	v := *p.v.out
	if more {
		through := p.v.through
		v.Through, v.Total = &through, p.v.total
	}
	return &v, nil
}

// waited ends a verification whose next page nobody asked for since a number of them was made.
func (all *pagedVerifications) waited(agent string, p *paged, pages int) {
	all.mu.Lock()
	var v *verifier
	if all.byAgent[agent] == p && p.pages == pages && !p.working {
		v = all.end(agent, p)
	}
	all.mu.Unlock()
	if v != nil {
		_ = v.close() // nobody is there to hear it
	}
}

// giveWay ends a verification that waits for its next page, so that an agent has a place for another one: the agent's
// own, or else the one that waits longest. It reports whether there was one.
func (all *pagedVerifications) giveWay(agent string) bool {
	all.mu.Lock()
	of, oldest := "", (*paged)(nil)
	for other, p := range all.byAgent {
		if !p.working && p.v != nil && (oldest == nil || other == agent || of != agent && p.since.Before(oldest.since)) {
			of, oldest = other, p
		}
	}
	var v *verifier
	if oldest != nil {
		oldest.timer.Stop()
		v = all.end(of, oldest)
	}
	all.mu.Unlock()
	return v != nil && v.close() == nil
}

// end ends a verification that waits, and returns it, to be closed without the lock; nil after the last page.
func (all *pagedVerifications) end(agent string, p *paged) *verifier {
	v := p.v
	delete(all.byAgent, agent)
	p.v = nil
	return v
}

// Close ends the verifications that wait for their next page. Those that are working end with it.
func (au *Audit) Close() (err error) {
	all := &au.paged
	var waiting []*verifier
	all.mu.Lock()
	all.closed = true
	for agent, p := range all.byAgent {
		if p.working {
			continue
		}
		p.timer.Stop()
		if v := all.end(agent, p); v != nil {
			waiting = append(waiting, v)
		}
	}
	all.mu.Unlock()
	for _, v := range waiting {
		err = errors.Join(err, v.close())
	}
	return err
}

package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
	"nexus/ledger/jetstream/mark"
	"nexus/turns"
)

// A server of others may come back with an older copy of its files. If the servers that have
// the newest records are away, it and a server that is behind are a quorum: a log without
// records that were acknowledged, which takes appends and gives their positions out again.
// Each process that knows such a record can tell. What no running process knows, none can.
//
// Within one leadership a log only grows. So a process compares what it knows with the log once
// a leadership, and asks the other processes then; before anybody is told of an append it asks
// only for the leadership and the end of the log, once for all that wait at the time.
// Decision 87 has the contract.

const (
	// maxUnconfirmed bounds the records that were read or acknowledged since the last comparison.
	maxUnconfirmed = 2 << 10
	// confirmIdle is how often the log is compared while nothing is appended.
	confirmIdle = time.Second
)

// ShorterError says that the log lacks a record that it had. Unwrap gives [ledger.ErrCorrupt].
type ShorterError struct {
	Place mark.Place // a record that the log had
	Why   string
}

func (e *ShorterError) Error() string {
	return fmt.Sprintf("the log came back without records that it had: %s; appends are refused", e.Why)
}

// Unwrap gives ErrCorrupt.
func (e *ShorterError) Unwrap() error { return ledger.ErrCorrupt }

// errUnsettled: the servers do not show the log that was there, and may yet.
var errUnsettled = fmt.Errorf("%w: the servers show a log that is too short, which may be a new leader that has not applied all of it", ledger.ErrUnavailable)

// confirmer compares the log with what this process knows of it. Safe for concurrent use.
//
// Crash states: all of it is in memory. A start compares what the projections have applied.
type confirmer struct {
	log    *Log
	others func(context.Context) ([]mark.Place, error) // the newest records that other processes know
	lost   func(*ShorterError)                         // called once

	mu      sync.Mutex
	anchor  mark.Place   // the newest record that was compared; zero: none yet
	fresh   []mark.Place // known since, in any order
	next    *round       // that callers join
	runs    bool
	doubted bool // a comparison under the same leader is of everything, once
	why     *ShorterError

	// Of the goroutine that runs the rounds.
	leader string    // the leadership under which anchor was compared; "": it has no name
	short  time.Time // since when the log is too short under one leadership; zero: it is not
	shown  string    // that leadership
	copies int       // servers that hold the log, as it is now
}

// round is one comparison, for all that wait for it.
type round struct {
	done chan struct{}
	err  error
}

func newConfirmer(l *Log, c Config) *confirmer {
	k := &confirmer{log: l, others: c.Others, lost: c.Lost}
	if k.others == nil {
		k.others = func(context.Context) ([]mark.Place, error) { return nil, nil }
	}
	if k.lost == nil {
		k.lost = func(*ShorterError) {}
	}
	return k
}

// know notes a record that the log has, to be compared.
func (k *confirmer) know(p mark.Place) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fresh = append(k.fresh, p)
}

// read notes a record that a reader that follows the log was given. Where too many were not
// compared yet, it waits for that. [*ShorterError]: the reader must not go on.
func (k *confirmer) read(ctx context.Context, p mark.Place) error {
	k.mu.Lock()
	why, full := k.why, len(k.fresh) >= maxUnconfirmed
	k.mu.Unlock()
	switch {
	case why != nil:
		return why
	case full:
		if err := k.confirm(ctx); err != nil {
			return err
		}
	}
	k.know(p)
	return nil
}

// doubt notes a record that another process misses, and makes the next comparison one of all.
func (k *confirmer) doubt(p mark.Place) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.fresh) < maxUnconfirmed { // else the comparison that is due comes first
		k.fresh = append(k.fresh, p)
		k.doubted = true
	}
}

// newest returns the newest record that was compared with the log.
func (k *confirmer) newest() mark.Place {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.anchor
}

// confirm returns once the log is found to have all that was known when it was called.
// [*ShorterError]: it has not. [ledger.ErrUnavailable]: ctx ended first.
func (k *confirmer) confirm(ctx context.Context) error {
	pause := newPause(20*time.Millisecond, time.Second)
	for {
		r, err := k.join()
		if err != nil {
			return err
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return fmt.Errorf("%w: the end of the log is not known: %w", ledger.ErrUnavailable, context.Cause(ctx))
		}
		if r.err == nil || errors.Is(r.err, ledger.ErrCorrupt) {
			return r.err
		}
		if !pause.wait(ctx) {
			return r.err
		}
	}
}

// join returns a comparison that has not begun.
func (k *confirmer) join() (*round, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.why != nil {
		return nil, k.why
	}
	if k.next == nil {
		k.next = &round{done: make(chan struct{})}
	}
	if !k.runs {
		k.runs = true
		go k.run()
	}
	return k.next, nil
}

// run makes the comparisons that somebody waits for, one after the other.
func (k *confirmer) run() {
	for {
		k.mu.Lock()
		r, known := k.next, append(slices.Clone(k.fresh), k.anchor)
		k.next = nil
		if k.doubted {
			k.leader, k.doubted = "", false
		}
		if k.runs = r != nil; !k.runs {
			k.mu.Unlock()
			return
		}
		k.mu.Unlock()
		if r.err = k.compare(known); r.err == nil {
			k.compared(known)
		}
		close(r.done)
	}
}

// compared notes that the log has what was known, of which the newest is enough from now on.
func (k *confirmer) compared(known []mark.Place) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.anchor = newestOf(known)
	k.fresh = append([]mark.Place(nil), k.fresh[len(known)-1:]...)
}

func newestOf(places []mark.Place) mark.Place {
	return slices.MaxFunc(places, func(a, b mark.Place) int { return cmp.Compare(a.Seq, b.Seq) })
}

// compare finds out whether the log has what is known.
func (k *confirmer) compare(known []mark.Place) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	leader, last, copies, err := k.log.leadership(ctx)
	if err != nil {
		k.short = time.Time{}
		return err
	}
	k.copies = copies
	if leader != k.shown {
		k.short, k.shown = time.Time{}, leader
	}
	if newest := newestOf(known); last < newest.Seq {
		return k.tooShort(newest, fmt.Sprintf("it ends at %d, and had a record %d", last, newest.Seq))
	}
	if leader != "" && leader == k.leader {
		k.short = time.Time{}
		return nil
	}
	if leader == "" { // each time, so not all of it
		known = []mark.Place{newestOf(known), known[len(known)-1]}
	} else {
		others, err := k.others(ctx)
		if err != nil {
			return err
		}
		known = append(slices.Clip(known), others...)
	}
	for _, p := range known {
		if err := k.comparePlace(ctx, p, leader); err != nil {
			return err
		}
	}
	again, _, _, err := k.log.leadership(ctx)
	if err != nil {
		return err
	}
	if again != leader {
		return fmt.Errorf("%w: the leader changed while the log was compared", ledger.ErrUnavailable)
	}
	k.leader, k.short = leader, time.Time{}
	return nil
}

// comparePlace compares one record.
func (k *confirmer) comparePlace(ctx context.Context, p mark.Place, leader string) error {
	if p.Seq == 0 {
		return nil
	}
	m, err := k.log.get(ctx, p.Seq)
	if errors.Is(err, js.ErrMsgNotFound) {
		return k.tooShort(p, fmt.Sprintf("it has no record %d, and had one", p.Seq))
	}
	if err != nil {
		return readError(err)
	}
	if hasSum(m, p.Sum) {
		return nil
	}
	again, _, _, err := k.log.leadership(ctx)
	if err != nil || again != leader { // whose record it is is not known
		return errors.Join(errUnsettled, err)
	}
	return k.lose(&ShorterError{Place: p, Why: fmt.Sprintf("it has another record %d than it had", p.Seq)})
}

// hasSum reports whether a message is the record with a hash. Who may publish to the stream can
// store another one beside the payload; then readers have that.
func hasSum(m *js.RawStreamMsg, sum turns.Hash) bool {
	return turns.HashEvent(m.Data) == sum || recordOf(m.Sequence, m.Subject, m.Data, m.Header.Get(hashHeader), m.Time).Hash == sum
}

// tooShort counts only if it goes on: a leader that was just elected may not have applied its
// log, and one that was deposed may not know it. One copy is on one server, and its answer counts.
func (k *confirmer) tooShort(p mark.Place, why string) error {
	if k.short.IsZero() {
		k.short = time.Now()
	}
	if k.copies > 1 && time.Since(k.short) < k.log.agree {
		return errUnsettled
	}
	return k.lose(&ShorterError{Place: p, Why: why})
}

// lose ends appends for good. It returns the first error that it was called with.
func (k *confirmer) lose(err *ShorterError) error {
	k.mu.Lock()
	first := k.why == nil
	if first {
		k.why = err
	}
	err = k.why
	k.mu.Unlock()
	if first {
		k.log.Refuse(err)
		go k.lost(err)
	}
	return err
}

// follow compares the log with what this process knows of it now and then, until ctx ends, so that
// a process that appends nothing learns of a loss, too.
func (k *confirmer) follow(ctx context.Context) {
	t := time.NewTicker(confirmIdle)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if err := k.confirm(ctx); errors.Is(err, ledger.ErrCorrupt) {
				return
			}
		}
	}
}

// leadership returns a name for who leads the log and since when, where the log ends, and how many servers hold it. The
// name is "" of servers that do not tell the instant of an election, and for one copy on another server than the connection's:
// then each answer may be of another.
func (l *Log) leadership(ctx context.Context) (name string, last uint64, copies int, err error) {
	nc := l.js.Conn()
	server := nc.ConnectedServerId()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	info, err := l.stream.Info(ctx)
	if err != nil {
		return "", 0, 0, fmt.Errorf("leader of the log: %w", readError(err))
	}
	if !info.Created.Equal(l.created) {
		return "", 0, 0, fmt.Errorf("%w: the stream was created anew at %v", ledger.ErrCorrupt, info.Created)
	}
	copies = max(info.Config.Replicas, l.copies)
	switch c := info.Cluster; {
	case c != nil && c.Leader != "" && c.LeaderSince != nil:
		name = c.Leader + " " + c.LeaderSince.UTC().Format(time.RFC3339Nano)
	case copies > 1 && (c == nil || c.Leader == ""):
		return "", 0, 0, fmt.Errorf("%w: the log has no leader", ledger.ErrUnavailable)
	case copies > 1: // of a server before leader_since
	case c != nil && c.Leader == nc.ConnectedServerName() && server == nc.ConnectedServerId(): // it has its id for one run
		name = server
	}
	return name, info.State.LastSeq, copies, nil
}

// Knows says that the log had records, as the projections know at a start. They are compared
// with it by [Log.Confirm].
func (l *Log) Knows(places ...mark.Place) {
	for _, p := range places {
		l.Reached(p.Seq)
		if l.confirmer != nil {
			l.confirmer.know(p)
		}
	}
}

// Confirm returns once the log is found to have all that this process and the others know of
// it. [*ShorterError]: it has not. [ledger.ErrUnavailable]: ctx ended first. A log without
// [Config].Confirm has all.
func (l *Log) Confirm(ctx context.Context) error {
	if l.confirmer == nil {
		return nil
	}
	return l.confirmer.confirm(ctx)
}

// Watch confirms the log every second until ctx ends or the log is known to have lost records.
func (l *Log) Watch(ctx context.Context) {
	if l.confirmer != nil {
		l.confirmer.follow(ctx)
	}
}

// Confirmed is the newest record that the log was found to have; zero: none yet.
func (l *Log) Confirmed() mark.Place {
	if l.confirmer == nil {
		return mark.Place{}
	}
	return l.confirmer.newest()
}

// Lost returns how the log is known to have lost records; nil: it is not.
func (l *Log) Lost() *ShorterError {
	if l.confirmer == nil {
		return nil
	}
	l.confirmer.mu.Lock()
	defer l.confirmer.mu.Unlock()
	return l.confirmer.why
}

// Held returns a record that this process appended lately; false: it holds none at seq.
func (l *Log) Held(seq uint64) (ledger.Record, bool) {
	r, ok, _ := l.own.get(seq)
	return r, ok
}

// Doubt says that another process misses a record which it knew the log to have.
func (l *Log) Doubt(p mark.Place) {
	if l.confirmer != nil {
		l.confirmer.doubt(p)
	}
}

// End is the newest position that the log is known to have had.
func (l *Log) End() uint64 { return l.reached.Load() }

// Find returns the record that the log's leader has at a position, without its payload; zero:
// it has none.
func (l *Log) Find(ctx context.Context, seq uint64) (mark.Place, error) {
	m, err := l.get(ctx, seq)
	if errors.Is(err, js.ErrMsgNotFound) {
		return mark.Place{}, nil
	}
	if err != nil {
		return mark.Place{}, readError(err)
	}
	return mark.Place{Seq: seq, Sum: turns.HashEvent(m.Data)}, nil
}

// Server is a server that holds a copy of the log.
type Server struct {
	Name   string
	Leader bool
	Online bool
	Behind uint64        // records that it lacks, as the leader knows
	Active time.Duration // since the leader heard of it
}

// Servers returns the servers that hold the log, as the leader sees them.
func (l *Log) Servers(ctx context.Context) (out []Server, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	info, err := l.stream.Info(ctx)
	if err != nil || info.Cluster == nil {
		return nil, err
	}
	if info.Cluster.Leader != "" {
		out = append(out, Server{Name: info.Cluster.Leader, Leader: true, Online: true})
	}
	for _, p := range info.Cluster.Replicas {
		s := Server{Name: p.Name, Online: !p.Offline, Behind: p.Lag, Active: p.Active}
		if !p.Current && s.Behind == 0 {
			s.Behind = 1
		}
		out = append(out, s)
	}
	return out, nil
}

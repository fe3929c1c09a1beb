package memlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"nexus/ledger"
	"nexus/turns"
)

// Config shapes a log in memory. The zero Config is usable.
type Config struct {
	Identity   string           // "": a fresh UUID
	MaxPayload int              // bytes; 0: 8 MiB
	Now        func() time.Time // nil: time.Now
}

// Log implements [ledger.Log] in memory. Safe for concurrent use. Records stay
// for the life of the value.
type Log struct {
	cfg     Config
	created time.Time

	mu      sync.Mutex
	records []ledger.Record     // records[i].Seq == i+1
	chains  map[string][]uint64 // subject to its positions, ascending
	grown   chan struct{}       // closed, and replaced, when the log changes
}

var _ ledger.Log = (*Log)(nil)

// New makes an empty log.
func New(cfg Config) *Log {
	if cfg.Identity == "" {
		cfg.Identity = uuid.NewString()
	}
	if cfg.MaxPayload == 0 {
		cfg.MaxPayload = 8 << 20
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Log{cfg: cfg, created: cfg.Now(), chains: map[string][]uint64{}, grown: make(chan struct{})}
}

// Append implements [ledger.Log].
func (l *Log) Append(ctx context.Context, subject string, expect uint64, payload []byte) (uint64, error) {
	if _, _, err := ledger.ParseSubject(subject); err != nil {
		return 0, fmt.Errorf("append: %w", err)
	}
	if len(payload) > l.cfg.MaxPayload {
		return 0, fmt.Errorf("append to %s: %w: %d bytes, the limit is %d", subject, ledger.ErrTooLarge, len(payload), l.cfg.MaxPayload)
	}
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("append to %s: %w: %w", subject, ledger.ErrUnavailable, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	chain := l.chains[subject]
	if last := lastOf(chain); last != expect {
		got := following(chain, expect)
		if got != 0 && string(l.records[got-1].Payload) == string(payload) {
			return got, nil // an earlier try of the same append
		}
		return 0, &ledger.ConflictError{Subject: subject, Want: expect, Got: got}
	}
	seq := uint64(len(l.records)) + 1
	l.records = append(l.records, ledger.Record{
		Seq: seq, Subject: subject, Payload: slices.Clone(payload), Hash: turns.HashEvent(payload), Stored: l.cfg.Now(),
	})
	l.chains[subject] = append(chain, seq)
	l.wake()
	return seq, nil
}

// Last implements [ledger.Log].
func (l *Log) Last(ctx context.Context, subject string) (ledger.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seq := lastOf(l.chains[subject])
	if strings.Contains(subject, "*") {
		for s, chain := range l.chains {
			if matches(subject, s) {
				seq = max(seq, lastOf(chain))
			}
		}
	}
	return l.at(ctx, seq, "the last record of %s", subject)
}

// Get implements [ledger.Log].
func (l *Log) Get(ctx context.Context, seq uint64) (ledger.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at(ctx, seq, "the record at %d", seq)
}

// Read implements [ledger.Log].
func (l *Log) Read(ctx context.Context, from uint64, follow bool) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		l.mu.Lock()
		end := uint64(len(l.records))
		l.mu.Unlock()
		for next := max(from, 1); ; next++ {
			r, err := l.await(ctx, next, end, follow)
			if errors.Is(err, errEnd) {
				return
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// Chain implements [ledger.Log].
func (l *Log) Chain(ctx context.Context, subject string, after uint64) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		for {
			l.mu.Lock()
			r, err := l.at(ctx, following(l.chains[subject], after), "the record of %s after %d", subject, after)
			l.mu.Unlock()
			if errors.Is(err, ledger.ErrNotFound) || !yield(r, err) || err != nil {
				return
			}
			after = r.Seq
		}
	}
}

// errEnd ends a read without an error.
var errEnd = errors.New("end of the read")

// await waits for the record at seq and returns it. end is the last position of a
// read that does not follow.
func (l *Log) await(ctx context.Context, seq, end uint64, follow bool) (ledger.Record, error) {
	for {
		if err := ctx.Err(); err != nil {
			if follow {
				return ledger.Record{}, errEnd
			}
			return ledger.Record{}, fmt.Errorf("read from %d: %w: %w", seq, ledger.ErrUnavailable, err)
		}
		l.mu.Lock()
		last, grown := uint64(len(l.records)), l.grown
		var r ledger.Record
		if seq <= last {
			r = l.copy(seq)
		}
		l.mu.Unlock()
		switch {
		case seq > last+1:
			return r, fmt.Errorf("%w: read from %d, but the log ends at %d", ledger.ErrCorrupt, seq, last)
		case !follow && seq > end:
			return r, errEnd
		case seq <= last:
			return r, nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
		}
	}
}

// State implements [ledger.Log].
func (l *Log) State(ctx context.Context) (ledger.State, error) {
	if err := ctx.Err(); err != nil {
		return ledger.State{}, fmt.Errorf("state of the log: %w: %w", ledger.ErrUnavailable, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := uint64(len(l.records))
	return ledger.State{Identity: l.cfg.Identity, Created: l.created, First: 1, Last: n, Count: n}, nil
}

// Truncate removes the records after last, for tests of a store that lost its
// tail.
func (l *Log) Truncate(last uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last >= uint64(len(l.records)) {
		return
	}
	l.records = slices.Clone(l.records[:last])
	for s, chain := range l.chains {
		n, _ := slices.BinarySearch(chain, last+1)
		l.chains[s] = slices.Clone(chain[:n])
	}
	l.wake()
}

// wake makes every follower read again. The caller holds l.mu.
func (l *Log) wake() {
	close(l.grown)
	l.grown = make(chan struct{})
}

// at returns a copy of the record at seq. The format and its arguments describe the
// read, for errors. The caller holds l.mu.
func (l *Log) at(ctx context.Context, seq uint64, format string, args ...any) (ledger.Record, error) {
	if err := ctx.Err(); err != nil {
		return ledger.Record{}, fmt.Errorf("get "+format+": %w: %w", append(args, ledger.ErrUnavailable, err)...)
	}
	if seq == 0 || seq > uint64(len(l.records)) {
		return ledger.Record{}, fmt.Errorf("get "+format+": %w", append(args, ledger.ErrNotFound)...)
	}
	return l.copy(seq), nil
}

// copy returns the record at seq with a copy of its payload. The caller holds l.mu.
func (l *Log) copy(seq uint64) ledger.Record {
	r := l.records[seq-1]
	r.Payload = slices.Clone(r.Payload)
	return r
}

// lastOf returns the last position of a chain; 0 if it is empty.
func lastOf(chain []uint64) uint64 {
	if len(chain) == 0 {
		return 0
	}
	return chain[len(chain)-1]
}

// following returns the first position of chain after a position; 0 if there is none.
func following(chain []uint64, after uint64) uint64 {
	i, found := slices.BinarySearch(chain, after)
	if found {
		i++
	}
	if i == len(chain) {
		return 0
	}
	return chain[i]
}

// matches reports whether subject fits pattern, token by token; "*" fits any
// one token.
func matches(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	return slices.EqualFunc(p, s, func(p, s string) bool { return p == "*" || p == s })
}

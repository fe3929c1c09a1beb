package jetstream

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
	"nexus/ledger/ledgertest"
)

// lagging is the stream as a server sees it that lacks records: for the next answers,
// it ends at last.
type lagging struct {
	js.Stream
	last    uint64
	answers int // of each kind
	infos   int // asked for
	reads   int
}

func (l *lagging) Info(ctx context.Context, opts ...js.StreamInfoOpt) (*js.StreamInfo, error) {
	info, err := l.Stream.Info(ctx, opts...)
	if l.infos++; err == nil && l.infos <= l.answers {
		short := *info
		short.State.LastSeq, short.State.Msgs = l.last, l.last
		return &short, nil
	}
	return info, err
}

func (l *lagging) GetMsg(ctx context.Context, seq uint64, opts ...js.GetMsgOpt) (*js.RawStreamMsg, error) {
	if l.reads++; l.reads <= l.answers && seq > l.last {
		return nil, js.ErrMsgNotFound
	}
	return l.Stream.GetMsg(ctx, seq, opts...)
}

// fill appends five records.
func fill(t *testing.T, ctx context.Context, l *Log) {
	t.Helper()
	var tail uint64
	for i := range 5 {
		var err error
		if tail, err = l.Append(ctx, subjectA, tail, fmt.Append(nil, "record ", i)); err != nil {
			t.Fatal(err)
		}
	}
}

// A server that lags answers first, the leader after it: nothing is damaged.
func TestR3AShorterLogIsReadAgainBeforeItIsDamage(t *testing.T) {
	l, ctx := newCluster(t).log(t, 0), ledgertest.Within(t)
	fill(t, ctx, l)
	stream := l.stream
	for name, use := range map[string]func() error{
		"state": func() error {
			st, err := l.State(ctx)
			if err == nil && st.Last != 5 {
				err = fmt.Errorf("it ends at %d", st.Last)
			}
			return err
		},
		"read": func() error {
			for r, err := range l.Read(ctx, 5, false) {
				if err != nil || r.Seq != 5 {
					return fmt.Errorf("record %d: %w", r.Seq, err)
				}
			}
			return nil
		},
		"get": func() error { _, err := l.Get(ctx, 5); return err },
	} {
		l.stream = &lagging{Stream: stream, last: 3, answers: 2}
		if err := use(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	l.stream = stream
	if _, err := l.Append(ctx, subjectA, 5, []byte("record 5")); err != nil {
		t.Errorf("append after that: %v", err)
	}
}

// A log that stays shorter has lost its tail: it is read, and takes no appends.
func TestR3ALogThatStaysShorterTakesNoAppends(t *testing.T) {
	l, ctx := newCluster(t).log(t, 0), ledgertest.Within(t)
	fill(t, ctx, l)
	l.stream, l.agree = &lagging{Stream: l.stream, last: 3, answers: 1 << 30}, 10*time.Millisecond
	if st, err := l.State(ctx); err != nil || st.Last != 3 {
		t.Errorf("state %+v, %v; want the end at 3", st, err)
	}
	if _, err := l.Append(ctx, subjectA, 5, []byte("record 5")); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("append: %v, want corrupt", err)
	}
	for _, err := range l.Read(ctx, 6, true) {
		if !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("read: %v, want corrupt", err)
		}
	}
	// Who can't wait so long hears that the log can't be read now.
	l.agree = time.Hour
	soon, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	if _, err := l.State(soon); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("state within half a second: %v, want unavailable", err)
	}
}

// One copy is on one server, and its answer counts.
func TestR1AShorterLogIsBelievedAtOnce(t *testing.T) {
	l, ctx := single(t), ledgertest.Within(t)
	fill(t, ctx, l)
	s := &lagging{Stream: l.stream, last: 3, answers: 1 << 30}
	l.stream = s
	if st, err := l.State(ctx); err != nil || st.Last != 3 || s.infos != 1 {
		t.Errorf("state %+v, %v after %d questions; want the end at 3 after one", st, err, s.infos)
	}
}

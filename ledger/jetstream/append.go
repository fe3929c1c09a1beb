package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
	"nexus/turns"
)

const (
	hashHeader   = "Nexus-Hash"
	expectHeader = "Nats-Expected-Last-Subject-Sequence"
	// headerRoom is what headers may take of a message.
	headerRoom = 512
	// tries is how often an append is sent under one expectation.
	tries = 5
)

// Append implements [ledger.Log].
//
// Crash states: before the server stores it, nothing; after, the record, whose
// ack the caller may never see. R1 and R3 answer a repeated append differently
// (10071, 10164), so no answer but an ack is believed: the record that follows
// expect on the subject decides. It can be there once only, so the same bytes
// can be sent again without fear.
func (l *Log) Append(ctx context.Context, subject string, expect uint64, payload []byte) (uint64, error) {
	if err := checkSubject(subject); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("%w: append to %s: %w", ledger.ErrUnavailable, subject, err)
	}
	if int64(len(payload)) > l.max {
		return 0, fmt.Errorf("%w: append to %s: %d bytes, a message may have %d", ledger.ErrTooLarge, subject, len(payload), l.max)
	}
	hash := turns.HashEvent(payload).String()
	sent := false
	try := func() (uint64, error) {
		seq, err := l.send(ctx, subject, expect, payload, hash)
		if err == nil {
			return seq, nil
		}
		sent = sent || !neverSent(err)
		seq, rerr := l.resolve(ctx, subject, expect, payload, err)
		if rerr == nil || errors.Is(rerr, ledger.ErrConflict) {
			if rerr != nil {
				rerr = backoff.Permanent(rerr)
			}
			return seq, rerr
		}
		return 0, fmt.Errorf("append to %s: %w", subject, err)
	}
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = 20*time.Millisecond, time.Second
	seq, err := backoff.Retry(ctx, try, backoff.WithBackOff(b), backoff.WithMaxTries(tries))
	var p *backoff.PermanentError
	switch {
	case err == nil:
		return seq, nil
	case errors.As(err, &p):
		return 0, p.Unwrap()
	case errors.Is(err, ledger.ErrConflict):
		return 0, err
	case sent:
		return 0, fmt.Errorf("%w: %w", ledger.ErrIndeterminate, err)
	}
	return 0, fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
}

// publish is one try.
func (l *Log) publish(ctx context.Context, subject string, expect uint64, payload []byte, hash string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	m := &nats.Msg{Subject: subject, Data: payload, Header: nats.Header{
		expectHeader: {strconv.FormatUint(expect, 10)}, hashHeader: {hash},
	}}
	ack, err := l.js.PublishMsg(ctx, m, js.WithRetryAttempts(0))
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// resolve looks at what follows expect on the subject: these bytes, and the
// append was stored; others, and it never will be; nothing, and it is open,
// unless the server said that the tail is elsewhere and it is.
func (l *Log) resolve(ctx context.Context, subject string, expect uint64, payload []byte, answer error) (uint64, error) {
	seq, err := l.follows(ctx, subject, expect, payload)
	if !errors.Is(err, ledger.ErrNotFound) || !wrongTail(answer) {
		return seq, err
	}
	tail, err := l.Last(ctx, subject)
	switch {
	case err == nil && tail.Seq > expect: // stored between the two looks, ours or another's
		return l.follows(ctx, subject, expect, payload)
	case err == nil && tail.Seq < expect, errors.Is(err, ledger.ErrNotFound) && expect != 0:
		return 0, &ledger.ConflictError{Subject: subject, Want: expect}
	}
	return 0, errors.Join(ledger.ErrNotFound, err) // another append to the subject is in flight
}

func (l *Log) follows(ctx context.Context, subject string, expect uint64, payload []byte) (uint64, error) {
	r, err := l.Next(ctx, subject, expect)
	if err != nil {
		return 0, err
	}
	if bytes.Equal(r.Payload, payload) {
		return r.Seq, nil
	}
	return 0, &ledger.ConflictError{Subject: subject, Want: expect, Got: r.Seq}
}

// wrongTail reports whether the server refused the expectation. It says so by
// two codes: 10071, and 10164 where another append is in flight.
func wrongTail(err error) bool {
	var api *js.APIError
	return errors.As(err, &api) && (api.ErrorCode == js.JSErrCodeStreamWrongLastSequence || api.ErrorCode == 10164)
}

// checkSubject refuses what is not one chain's subject.
func checkSubject(s string) error {
	t := strings.Split(s, ".")
	if len(t) != 5 || t[0] != "agents" {
		return fmt.Errorf("%w: subject %q is not agents.<shard>.<tenant>.<entity>.<id>", ledger.ErrMalformed, s)
	}
	for _, token := range t {
		if token == "" || strings.ContainsAny(token, "*> \t\r\n") {
			return fmt.Errorf("%w: subject %q has the token %q", ledger.ErrMalformed, s, token)
		}
	}
	return nil
}

// neverSent reports whether a failed publish certainly reached no server.
func neverSent(err error) bool {
	return errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrMaxPayload) ||
		errors.Is(err, nats.ErrNoResponders) || errors.Is(err, js.ErrNoStreamResponse)
}

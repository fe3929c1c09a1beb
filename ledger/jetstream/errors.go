package jetstream

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
)

// Codes of the JetStream API, from the server's errors.json.
const (
	codeWrongLast      js.ErrorCode = 10071 // "wrong last sequence: N"
	codeWrongLastBusy  js.ErrorCode = 10164 // the same, while another write to the subject is in flight
	codeTooManyPending js.ErrorCode = 10167 // 429: the queue of the stream's leader is full
	codeMsgTooLarge    js.ErrorCode = 10054
	codeHeaderTooLarge js.ErrorCode = 10097
	codeInsufficient   js.ErrorCode = 10023 // the server's storage limit is reached
)

// verdict is what the answer to one try proves, without further reads.
type verdict int

const (
	// open: stored, not stored, or still under way: time-outs, 10158, 10201,
	// 503, a lost connection, and every code that is not known here.
	open verdict = iota
	// moved: refused by the compare-and-set (10071). An earlier try of the same
	// append may be why.
	moved
	// busy: refused because another write to the subject is in flight (10164).
	// That write may yet fail.
	busy
	// refused: this try did not reach a stream's leader, or the leader refused it
	// before it decided anything. The server will not store it.
	refused
	// tooLarge: refused for its size.
	tooLarge
	// full: refused because the server's storage limit is reached, before the
	// server stored or proposed anything. It stores no try until there is more room.
	full
)

// classify returns the verdict on a failed try. With moved, tail is the subject's
// last position if the leader reported it.
func classify(err error) (v verdict, tail uint64, known bool) {
	var api *js.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode {
		case codeWrongLast:
			tail, known = lastSequence(api.Description)
			return moved, tail, known
		case codeWrongLastBusy:
			return busy, 0, false
		case codeTooManyPending:
			return refused, 0, false
		case codeMsgTooLarge, codeHeaderTooLarge:
			return tooLarge, 0, false
		case codeInsufficient:
			return full, 0, false
		}
		return open, 0, false
	}
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return tooLarge, 0, false
	case errors.Is(err, errNotSent), errors.Is(err, js.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders),
		errors.Is(err, nats.ErrReconnectBufExceeded):
		return refused, 0, false
	}
	return open, 0, false
}

// errNotSent: the connection was closed, or the context ended, before the try.
var errNotSent = errors.New("not sent")

var trailingNumber = regexp.MustCompile(`: (\d+)$`)

// lastSequence reads the number of "wrong last sequence: N". The number has no
// field of its own; without it the append is resolved by looking.
func lastSequence(description string) (uint64, bool) {
	m := trailingNumber.FindStringSubmatch(description)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseUint(m[1], 10, 64)
	if err != nil {
		return 0, false
	}
	return n, true
}

// readError maps the error of a read.
func readError(err error) error {
	switch {
	case errors.Is(err, js.ErrMsgNotFound):
		return ledger.ErrNotFound
	case errors.Is(err, js.ErrStreamNotFound):
		return fmt.Errorf("%w: the stream is gone: %w", ledger.ErrCorrupt, err)
	}
	return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
}

// ended returns an error if ctx has ended.
func ended(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("%w: %w", errNotSent, errors.Join(err, ctx.Err()))
	}
	return nil
}

package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
	"nexus/ledger/jetstream/mark"
	"nexus/turns"
)

const (
	hashHeader   = "Nexus-Hash"
	expectHeader = "Nats-Expected-Last-Subject-Sequence"
	// syncedHeader is the position that was on the disk when a chunk was sent.
	syncedHeader = "Nexus-Synced"
	// headerRoom is the bytes of a message that its headers may take.
	headerRoom = 512
)

// Append implements [ledger.Log]. The log keeps payload, for readers that follow it.
//
// Crash states: before the server stores it, nothing; after, the record, whose
// ack the caller may never see. [ledger.ErrUnavailable] speaks of this call
// only: an earlier append that was indeterminate stays so. With [Config].Confirm nobody may be
// told of an append before [Log.Confirm] has returned.
func (l *Log) Append(ctx context.Context, subject string, expect uint64, payload []byte) (uint64, error) {
	era := l.own.now() // before anything is asked of the log
	if _, _, err := ledger.ParseSubject(subject); err != nil {
		return 0, fmt.Errorf("append: %w", err)
	}
	if int64(len(payload)) > l.max {
		return 0, fmt.Errorf("%w: append to %s: %d bytes, a message may have %d", ledger.ErrTooLarge, subject, len(payload), l.max)
	}
	if err := l.refused(); err != nil {
		return 0, fmt.Errorf("append to %s: %w", subject, err)
	}
	sum := turns.HashEvent(payload)
	hash := sum.String()
	w := l.sync.Begin()
	defer w.End()
	seq, err := settle(ctx, write{
		action: "append to", subject: subject, expect: expect,
		send: func(ctx context.Context) (uint64, error) {
			had := l.reached.Load()
			seq, err := l.send(ctx, subject, expect, payload, hash)
			if err == nil && l.confirmer != nil && seq <= had { // this position was another record's
				why := fmt.Sprintf("it gave the position %d to a new record, and had a record %d", seq, had)
				return 0, l.confirmer.lose(&ShorterError{Place: mark.Place{Seq: had}, Why: why})
			}
			return seq, err
		},
		next: func(ctx context.Context) (*js.RawStreamMsg, error) { return next(ctx, l.stream, subject, expect) },
		isOwn: func(m *js.RawStreamMsg) (bool, error) {
			_, err := checked(m.Sequence, m.Subject, m.Data, m.Header.Get(hashHeader), m.Time)
			own := bytes.Equal(m.Data, payload)
			if refused := l.refused(); own && refused != nil { // it may be in the server's memory only
				return false, fmt.Errorf("%w: %w", ledger.ErrIndeterminate, refused)
			}
			return own, err
		},
	})
	if err == nil && (l.sync != nil || l.confirmer != nil) {
		l.own.add(era, ledger.Record{Seq: seq, Subject: subject, Payload: payload, Hash: sum, Hashed: true, Stored: time.Now()})
		err = w.Wait(ctx, seq)
	}
	if err == nil && l.confirmer != nil {
		l.confirmer.know(mark.Place{Seq: seq, Sum: sum})
	}
	if err == nil && l.own.now() != era { // the position may be another record's
		err = fmt.Errorf("append to %s: %w: %w", subject, ledger.ErrIndeterminate, errInterrupted)
	}
	if err == nil {
		l.Reached(seq)
		l.acked(mark.Place{Seq: seq, Sum: sum}, mark.Place{})
	}
	return seq, err
}

// errInterrupted: [Log.Pause] came while a write was under way, and the files may be others.
var errInterrupted = errors.New("the disk took no writes meanwhile")

// publish sends a payload once.
func (l *Log) publish(ctx context.Context, subject string, expect uint64, payload []byte, hash string) (uint64, error) {
	return publish(ctx, l.js, &nats.Msg{Subject: subject, Data: payload, Header: nats.Header{
		expectHeader: {strconv.FormatUint(expect, 10)}, hashHeader: {hash},
	}})
}

// publish sends m once and waits for the answer. It does without the client's own publish,
// whose retry would hide which try was answered.
func publish(ctx context.Context, j js.JetStream, m *nats.Msg) (uint64, error) {
	if err := ended(ctx); err != nil {
		return 0, err
	}
	if j.Conn().IsClosed() { // asked before, because a connection closed later says the same
		return 0, fmt.Errorf("%w: %w", errNotSent, nats.ErrConnectionClosed)
	}
	ctx, cancel := context.WithTimeout(ctx, tryPatience)
	defer cancel()
	answer, err := j.Conn().RequestMsgWithContext(ctx, m)
	if err != nil {
		return 0, err
	}
	return readAck(answer.Data)
}

// readAck returns the position that the server's answer to a publish acknowledges, or the
// error that it holds.
func readAck(answer []byte) (uint64, error) {
	if seq, ok := plainAck(answer); ok {
		return seq, nil
	}
	var a struct {
		Stream string       `json:"stream"`
		Seq    uint64       `json:"seq"`
		Error  *js.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer, &a); err != nil || a.Error == nil && a.Stream == "" {
		return 0, js.ErrInvalidJSAck
	}
	if a.Error != nil {
		return 0, fmt.Errorf("nats: %w", a.Error)
	}
	return a.Seq, nil
}

// plainAck reads an answer that holds a stream and a position and nothing else, as the server
// writes it. To decode it as JSON takes longer than to find its record.
func plainAck(answer []byte) (seq uint64, ok bool) {
	rest, ok := bytes.CutPrefix(answer, []byte(`{"stream":"`))
	if !ok {
		return 0, false
	}
	name, rest, ok := bytes.Cut(rest, []byte(`","seq":`))
	if digits, closed := bytes.CutSuffix(rest, []byte("}")); ok && closed && len(name) > 0 && !bytes.ContainsAny(name, `"\`) {
		seq, err := strconv.ParseUint(string(digits), 10, 64)
		return seq, err == nil && digits[0] != '+'
	}
	return 0, false
}

// next reads the first message of subject after position after from the stream's leader.
func next(ctx context.Context, s js.Stream, subject string, after uint64) (*js.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.GetMsg(ctx, after+1, js.WithGetMsgSubject(subject))
}

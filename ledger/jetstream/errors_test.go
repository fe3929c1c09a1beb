package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
	"nexus/turns"
)

func TestClassifyKnowsTheServersAnswers(t *testing.T) {
	type answer struct {
		V     verdict
		Tail  uint64
		Known bool
	}
	api := func(code js.ErrorCode, text string) error {
		return fmt.Errorf("nats: %w", &js.APIError{ErrorCode: code, Description: text})
	}
	for _, c := range []struct {
		err  error
		want answer
	}{
		{api(10071, "wrong last sequence: 42"), answer{moved, 42, true}},
		{api(10071, "wrong last sequence: 0"), answer{moved, 0, true}},
		{api(10071, "wrong last sequence"), answer{V: moved}},
		{api(10071, "wrong last sequence: 99999999999999999999999"), answer{V: moved}},
		{api(10164, "wrong last sequence"), answer{V: busy}},
		{api(10158, "duplicate message id is in process"), answer{V: open}},
		{api(10201, "contains duplicate message id"), answer{V: open}},
		{api(10077, "write error"), answer{V: open}},
		{api(10008, "temporarily unavailable"), answer{V: open}},
		{api(10167, "too many requests"), answer{V: refused}},
		{api(10023, "insufficient resources"), answer{V: full}},
		{api(10054, "message size exceeds maximum allowed"), answer{V: tooLarge}},
		{nats.ErrMaxPayload, answer{V: tooLarge}},
		{js.ErrNoStreamResponse, answer{V: refused}},
		{nats.ErrNoResponders, answer{V: refused}},
		{fmt.Errorf("%w: %w", errNotSent, nats.ErrConnectionClosed), answer{V: refused}},
		{nats.ErrConnectionClosed, answer{V: open}}, // closed while the try was under way
		{nats.ErrTimeout, answer{V: open}},
		{context.DeadlineExceeded, answer{V: open}},
		{js.ErrInvalidJSAck, answer{V: open}},
		{errors.New("anything else"), answer{V: open}},
	} {
		var got answer
		got.V, got.Tail, got.Known = classify(c.err)
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%v (-want +got):\n%s", c.err, d)
		}
	}
}

// TestSettleBelievesOnlyAcksAndTheRecordThatFollows scripts the store: what each try and each read answers.
func TestSettleBelievesOnlyAcksAndTheRecordThatFollows(t *testing.T) {
	const mine, other = "mine", "other"
	moved42 := &js.APIError{ErrorCode: 10071, Description: "wrong last sequence: 42"}
	moved3 := &js.APIError{ErrorCode: 10071, Description: "wrong last sequence: 3"}
	busy := &js.APIError{ErrorCode: 10164, Description: "wrong last sequence"}
	none := js.ErrMsgNotFound
	type answer struct {
		data string
		err  error
	}
	for _, c := range []struct {
		name  string
		tries []error  // the last one repeats
		reads []answer // the same
		kind  error
		got   uint64 // of a conflict
		seq   uint64
	}{
		{name: "acked", tries: []error{nil}, seq: 8},
		{name: "refused by my own record", tries: []error{moved42}, reads: []answer{{data: mine}}, seq: 9},
		{name: "refused by another's", tries: []error{moved42}, reads: []answer{{data: other}}, kind: ledger.ErrConflict, got: 9},
		{name: "a stale read finds nothing, the next finds mine", tries: []error{busy}, reads: []answer{{err: none}, {data: mine}}, seq: 9},
		{name: "a stale read never makes a conflict", tries: []error{busy}, reads: []answer{{err: none}}, kind: ledger.ErrIndeterminate},
		{name: "moved, but nobody shows by what", tries: []error{moved42}, reads: []answer{{err: none}}, kind: ledger.ErrIndeterminate},
		{name: "the tail never was there", tries: []error{moved3}, kind: ledger.ErrConflict},
		{name: "busy, then free", tries: []error{busy, nil}, reads: []answer{{err: none}}, seq: 8},
		{name: "no leader at all", tries: []error{js.ErrNoStreamResponse}, reads: []answer{{err: js.ErrNoStreamResponse}}, kind: ledger.ErrUnavailable},
		{name: "no answer, then no leader", tries: []error{nats.ErrTimeout, js.ErrNoStreamResponse}, reads: []answer{{err: nats.ErrTimeout}}, kind: ledger.ErrIndeterminate},
		{name: "no answer, then the tail never was there", tries: []error{nats.ErrTimeout, moved3}, reads: []answer{{err: none}}, kind: ledger.ErrIndeterminate},
		{name: "too large", tries: []error{nats.ErrMaxPayload}, kind: ledger.ErrTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			tried, read := 0, 0
			seq, err := settle(context.Background(), write{
				action: "append to", subject: "s", expect: 7,
				send: func(context.Context) (uint64, error) {
					tried++
					return 8, c.tries[min(tried, len(c.tries))-1]
				},
				next: func(context.Context) (*js.RawStreamMsg, error) {
					read++
					a := c.reads[min(read, len(c.reads))-1]
					return &js.RawStreamMsg{Sequence: 9, Data: []byte(a.data)}, a.err
				},
				isOwn: func(m *js.RawStreamMsg) (bool, error) { return string(m.Data) == mine, nil },
			})
			if !errors.Is(err, c.kind) || seq != c.seq {
				t.Fatalf("%d, %v; want %d, %v", seq, err, c.seq, c.kind)
			}
			var conflict *ledger.ConflictError
			if errors.As(err, &conflict) {
				if d := cmp.Diff(&ledger.ConflictError{Subject: "s", Want: 7, Got: c.got}, conflict); d != "" {
					t.Errorf("conflict (-want +got):\n%s", d)
				}
			}
			if tried > tries {
				t.Errorf("%d tries, at most %d", tried, tries)
			}
		})
	}
}

func TestSettleIsIndeterminateWhenTheContextEndsDuringATry(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	_, err := settle(ctx, write{subject: "s",
		send: func(context.Context) (uint64, error) { cancel(); return 0, context.Canceled },
		next: func(ctx context.Context) (*js.RawStreamMsg, error) { return nil, ctx.Err() },
	})
	if !errors.Is(err, ledger.ErrIndeterminate) || !errors.Is(err, context.Canceled) {
		t.Errorf("ended while a try was under way: %v; want indeterminate, canceled", err)
	}
}

// An error says what was being done: a blob's chunk is stored, a record appended.
func TestAnErrorOfSettleNamesTheAction(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := single(t).Blobs()
	err := b.PutBlob(ctx, "t", turns.Hash{1}, []byte("x"))
	if want := "put blob "; err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "store chunk at nexus.blobs.t.") || strings.Contains(err.Error(), "append") {
		t.Errorf("%v", err)
	}
	if s := (write{action: "append to", subject: "s", expect: 7}).String(); s != "append to s after 7" {
		t.Error(s)
	}
}

// What the server answers to a publish is read as JSON is, also where it is read without.
func TestAnAckIsReadAsItsJSON(t *testing.T) {
	for answer, want := range map[string]uint64{
		`{"stream":"NEXUS_LEDGER","seq":1}`:                      1,
		`{"stream":"NEXUS_LEDGER","seq":18446744073709551615}`:   1<<64 - 1,
		`{"stream":"NEXUS_LEDGER","seq":7,"duplicate":true}`:     7,
		`{"stream":"NEXUS_LEDGER","domain":"hub","seq":8}`:       8,
		`{"seq":9,"stream":"NEXUS_LEDGER"}`:                      9,
		`{"stream":"a\"b","seq":10}`:                             10,
		` { "stream" : "NEXUS_LEDGER" , "seq" : 11 } `:           11,
		`{"stream":"X","seq":12,"val":"1","batch":"b","seq2":1}`: 12,
	} {
		if seq, err := readAck([]byte(answer)); err != nil || seq != want {
			t.Errorf("%s: %d, %v; want %d", answer, seq, err, want)
		}
	}
	for _, answer := range []string{``, `{}`, `null`, `{"seq":1}`, `{"stream":"","seq":1}`, `{"stream":"X","seq":}`, `{"stream":"X","seq":+1}`, `{"stream":"X","seq":-1}`,
		`{"stream":"X","seq":18446744073709551616}`, `{"stream":"X","seq":1`, `{"stream":"X","seq":1}}`} {
		if seq, err := readAck([]byte(answer)); !errors.Is(err, js.ErrInvalidJSAck) {
			t.Errorf("%s: %d, %v; want that it is no ack", answer, seq, err)
		}
	}
	_, err := readAck([]byte(`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 5"},"stream":"NEXUS_LEDGER","seq":0}`))
	if v, tail, known := classify(err); v != moved || tail != 5 || !known {
		t.Errorf("%v is classified as %v, %d, %v", err, v, tail, known)
	}
}

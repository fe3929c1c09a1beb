package jetstream

import (
	"fmt"
	"iter"
	"testing"

	"nexus/ledger"
	"nexus/ledger/ledgertest"
)

// A chain is read with few requests, whatever its length and whatever lies between its records.
func TestAChainIsReadWithoutARequestForEachRecord(t *testing.T) {
	ctx, l := ledgertest.Within(t), single(t)
	const n = 1200 // more than a consumer has in flight
	const chain, beside = "nexus.log.00.t.s.LONG", "nexus.log.00.t.s.OTHER"
	var tail, other uint64
	for i := range n {
		var err error
		if tail, err = l.Append(ctx, chain, tail, fmt.Append(nil, "record ", i)); err == nil && i%3 == 0 {
			other, err = l.Append(ctx, beside, other, []byte("of another chain"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	all := func(records iter.Seq2[ledger.Record, error]) (out []ledger.Record) {
		for r, err := range records {
			if err != nil {
				t.Fatalf("after %d records: %v", len(out), err)
			}
			out = append(out, r)
		}
		return out
	}
	before := l.js.Conn().Stats().OutMsgs
	got := all(l.Chain(ctx, chain, 0))
	if sent := l.js.Conn().Stats().OutMsgs - before; sent > n/20 {
		t.Errorf("%d messages were sent to read %d records", sent, n)
	}
	if len(got) != n {
		t.Fatalf("%d records, want %d", len(got), n)
	}
	for i, r := range got {
		if r.Subject != chain || string(r.Payload) != fmt.Sprint("record ", i) {
			t.Fatalf("record %d is %q of %s", i, r.Payload, r.Subject)
		}
	}
	if rest := all(l.Chain(ctx, chain, got[n-3].Seq)); len(rest) != 2 || rest[0].Seq != got[n-2].Seq {
		t.Errorf("behind the last but two there are %d records", len(rest))
	}
	if none := all(l.Chain(ctx, chain, tail)); len(none) != 0 {
		t.Errorf("behind the last there are %d records", len(none))
	}
	for r, err := range l.Chain(ctx, chain, 0) { // the caller may stop
		if err != nil || r.Seq != got[0].Seq {
			t.Errorf("the first record is %d (%v)", r.Seq, err)
		}
		break
	}
}

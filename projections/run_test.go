package projections

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/ledger"
	"nexus/projections/apply"
	"nexus/turns"
)

// other is a log that says something else of itself.
type other struct {
	ledger.Log
	state  func(*ledger.State)
	record func(*ledger.Record)
	fails  error // of Get
}

func (l other) State(ctx context.Context) (ledger.State, error) {
	st, err := l.Log.State(ctx)
	if l.state != nil {
		l.state(&st)
	}
	return st, err
}

func (l other) Get(ctx context.Context, seq uint64) (ledger.Record, error) {
	r, err := l.Log.Get(ctx, seq)
	if l.record != nil {
		l.record(&r)
	}
	return r, errors.Join(err, l.fails)
}

// Check takes the log that was applied, also when it has grown, and no other.
func TestCheckTakesOnlyTheLogThatWasApplied(t *testing.T) {
	gone := errors.New("gone")
	for name, tc := range map[string]struct {
		log      other
		diverged string // "": it is no *DivergedError
		is       error
	}{
		"the same":            {},
		"grown":               {log: other{state: func(st *ledger.State) { st.Last++; st.Count++ }}},
		"another identity":    {log: other{state: func(st *ledger.State) { st.Identity = "x" }}, diverged: "another log", is: ledger.ErrCorrupt},
		"one record shorter":  {log: other{state: func(st *ledger.State) { st.Last--; st.Count-- }}, diverged: "last 1 records are gone", is: ledger.ErrCorrupt},
		"a record is missing": {log: other{state: func(st *ledger.State) { st.Count-- }}, is: ledger.ErrCorrupt},
		"its start is gone":   {log: other{state: func(st *ledger.State) { st.First = 2 }}, is: ledger.ErrCorrupt},
		"another last event":  {log: other{record: func(r *ledger.Record) { r.Payload = append(r.Payload, 0) }}, diverged: "has hash", is: ledger.ErrCorrupt},
		"it can't be read":    {log: other{fails: gone}, is: gone},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthor(t, 14)
			a.write(30)
			s := openStore(t, vfs.NewMem())
			defer s.Close()
			// A store without anything takes any sound log.
			if err := s.Check(t.Context(), tc.log.with(a.log)); tc.diverged != "" && err != nil {
				t.Errorf("an empty store: %v", err)
			}
			run(t, s, a.log, last(t, a.log))
			err := s.Check(t.Context(), tc.log.with(a.log))
			if tc.is == nil && err != nil || tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("%v, want %v", err, tc.is)
			}
			var d *DivergedError
			if errors.As(err, &d) != (tc.diverged != "") || d != nil && (!strings.Contains(d.Error(), tc.diverged) || d.Have != s.Applied()) {
				t.Errorf("%v, want diverged: %q", err, tc.diverged)
			}
		})
	}
}

func (l other) with(log ledger.Log) other {
	l.Log = log
	return l
}

// A batch ends at its number of records and of bytes, and where no more is ready.
func TestBatchesAreBounded(t *testing.T) {
	for name, tc := range map[string]struct{ records, size, want int }{
		"records": {apply.BatchRecords + 7, 10, apply.BatchRecords}, "bytes": {9, apply.BatchBytes/3 + 1, 3}, "all that is ready": {20, 10, 20},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, vfs.NewMem())
			defer s.Close()
			more := make(chan queued, tc.records)
			for i := range tc.records {
				// What can't be read is kept: any bytes do.
				p := make([]byte, tc.size)
				more <- queued{Parsed: s.db().Parse(ledger.Record{Seq: uint64(i) + 1, Subject: ledger.Subject("default", "x", turns.Chain{Entity: turns.LabelEntity, ID: "x"}), Payload: p, Hash: turns.HashEvent(p)})}
			}
			if err := s.applyBatch(s.db(), "log", <-more, more); err != nil {
				t.Fatal(err)
			}
			if at := s.Applied(); at.Seq != uint64(tc.want) || len(more) != tc.records-tc.want {
				t.Errorf("a batch of %d records, %d are left; want %d", at.Seq, len(more), tc.want)
			}
		})
	}
}

// A record whose hash is not that of its bytes, whose bytes are no event, or whose
// event is of another chain sets its chain aside; a chain of another kind is kept.
func TestRecordsThatAreNoEventsOfTheirChain(t *testing.T) {
	a := newAuthor(t, 15)
	x := a.open(nil)
	first, err := a.log.Get(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	channel := turns.Chain{Entity: turns.ChannelEntity, ID: "x"}
	none := []byte("no event")
	for name, tc := range map[string]struct {
		record ledger.Record
		why    string
	}{
		"another hash":      {ledger.Record{Subject: first.Subject, Payload: first.Payload, Hash: turns.Hash{1}}, "stored with it"},
		"no event":          {ledger.Record{Subject: first.Subject, Payload: none, Hash: turns.HashEvent(none)}, "event"},
		"another chain's":   {ledger.Record{Subject: ledger.SessionSubject("default", turns.ID{1}, turns.ID{1}), Payload: first.Payload, Hash: first.Hash}, "holds an event of chain"},
		"no subject":        {ledger.Record{Subject: "agents", Payload: first.Payload, Hash: first.Hash}, "subject"},
		"a later kind":      {record: ledger.Record{Subject: ledger.Subject("default", "x", channel), Payload: none, Hash: turns.HashEvent(none)}, why: "event"},
		"a sound first one": {record: first},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, vfs.NewMem())
			defer s.Close()
			tc.record.Seq = 1
			if err := s.applyBatch(s.db(), "log", queued{Parsed: s.db().Parse(tc.record)}, nil); err != nil {
				t.Fatal(err)
			}
			why, err := s.WhyAside(tc.record.Subject)
			if err != nil || (why == "") != (tc.why == "") || !strings.Contains(why, tc.why) {
				t.Errorf("aside because of %q, %v; want %q", why, err, tc.why)
			}
			r, err := s.Record(1)
			if tc.record.Hash = turns.HashEvent(tc.record.Payload); tc.why != "" {
				same(t, "Record", r.Payload, tc.record.Payload, err)
			}
			if _, err := s.Session(x.ID); (err == nil) != (tc.why == "") {
				t.Errorf("the session: %v", err)
			}
		})
	}
	// Positions without a gap are all that is applied.
	s := openStore(t, vfs.NewMem())
	defer s.Close()
	first.Seq = 2
	if err := s.applyBatch(s.db(), "log", queued{Parsed: s.db().Parse(first)}, nil); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("a gap: %v, want corrupt", err)
	}
}

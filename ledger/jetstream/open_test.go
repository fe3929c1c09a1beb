package jetstream

import (
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/ledgertest"
	"nexus/turns"
)

// ledgerConn is a connection into the ledger's account of a fresh embedded server.
func ledgerConn(t testing.TB) *nats.Conn {
	t.Helper()
	s, err := embed.Start(embed.Config{DataDir: t.TempDir(), MaxStore: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	nc, err := s.LedgerConn()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func stream(t testing.TB, nc *nats.Conn) js.JetStream {
	t.Helper()
	j, err := js.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

const subjectA = "nexus.log.00.t.s.A"

func TestOpenCreatesAStreamOnlyWhereAllowed(t *testing.T) {
	j, ctx := stream(t, ledgerConn(t)), ledgertest.Within(t)
	if _, err := Open(ctx, j, Config{}); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("no stream, not to be created: %v, want not found", err)
	}
	if _, err := j.Stream(ctx, StreamName); !errors.Is(err, js.ErrStreamNotFound) {
		t.Errorf("the refused open left a stream: %v", err)
	}
	if _, err := Open(ctx, j, Config{Create: true}); !errors.Is(err, ledger.ErrMalformed) {
		t.Errorf("create without a UUID: %v, want malformed", err)
	}
	if _, err := Open(ctx, j, Config{Replicas: 2}); !errors.Is(err, ledger.ErrMalformed) {
		t.Errorf("two replicas: %v, want malformed", err)
	}
	// A crash between the two streams: only the first is there.
	if _, err := openStream(ctx, j, streamConfig(Config{Ledger: "L1"}), Config{Create: true, Ledger: "L1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, j, Config{}); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("no blobs: %v, want not found", err)
	}
	l, err := Open(ctx, j, Config{Create: true, Ledger: "L2"})
	if err != nil || l.Ledger() != "L1" {
		t.Fatalf("create what is missing: %v; ledger %s, want L1, which the stream has", err, l.Ledger())
	}
	for id, want := range map[string]error{"": nil, "L1": nil, "L2": ledger.ErrCorrupt} {
		if _, err := Open(ctx, j, Config{Ledger: id}); !errors.Is(err, want) {
			t.Errorf("open as ledger %q: %v, want %v", id, err, want)
		}
	}
}

func TestOpenRefusesAStreamOfAnotherConfiguration(t *testing.T) {
	for _, c := range []struct {
		stream, field string
		change        func(*js.StreamConfig)
	}{
		{StreamName, "MaxMsgs", func(c *js.StreamConfig) { c.MaxMsgs = 3 }},
		{StreamName, "MaxAge", func(c *js.StreamConfig) { c.MaxAge = time.Hour }},
		{StreamName, "MaxMsgsPerSubject", func(c *js.StreamConfig) { c.MaxMsgsPerSubject = 1 }},
		{StreamName, "AllowDirect", func(c *js.StreamConfig) { c.AllowDirect = true }},
		{StreamName, "Subjects", func(c *js.StreamConfig) { c.Subjects = []string{ledger.LogSubjects, "more.>"} }},
		{StreamName, "Duplicates", func(c *js.StreamConfig) { c.Duplicates = time.Minute }},
		{StreamName, "nexus-format", func(c *js.StreamConfig) { c.Metadata[metaFormat] = "2" }},
		{StreamName, "AllowBatchPublish", func(c *js.StreamConfig) { c.AllowBatchPublish = true }},
		{BlobsName, "MaxBytes", func(c *js.StreamConfig) { c.MaxBytes = 1 << 20 }},
	} {
		t.Run(c.field, func(t *testing.T) {
			j, ctx := stream(t, ledgerConn(t)), ledgertest.Within(t)
			if _, err := Open(ctx, j, Config{Create: true, Ledger: "L"}); err != nil {
				t.Fatal(err)
			}
			s, err := j.Stream(ctx, c.stream)
			if err != nil {
				t.Fatal(err)
			}
			cfg := s.CachedInfo().Config
			c.change(&cfg)
			if _, err := j.UpdateStream(ctx, cfg); err != nil {
				t.Fatal(err)
			}
			_, err = Open(ctx, j, Config{})
			if !errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), c.field) {
				t.Errorf("%v; want corrupt, naming %s", err, c.field)
			}
		})
	}
}

// TestALogThatLostRecordsTakesNoAppends removes a record the way a limit does, under the log's feet.
func TestALogThatLostRecordsTakesNoAppends(t *testing.T) {
	j, ctx := stream(t, ledgerConn(t)), ledgertest.Within(t)
	l, err := Open(ctx, j, Config{Create: true, Ledger: "L"})
	if err != nil {
		t.Fatal(err)
	}
	var tail uint64
	for _, p := range []string{"a", "b", "c", "d"} {
		if tail, err = l.Append(ctx, subjectA, tail, []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := j.Stream(ctx, StreamName)
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.MaxMsgs, cfg.Discard = 2, js.DiscardOld
	if _, err := j.UpdateStream(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	st, err := l.State(ctx)
	if err != nil || !errors.Is(st.Sound(), ledger.ErrCorrupt) {
		t.Errorf("state %+v, %v: want unsound", st, err)
	}
	if _, err := l.Append(ctx, subjectA, tail, []byte("e")); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("append to an unsound log: %v, want corrupt", err)
	}
	if _, err := l.Get(ctx, 1); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("get of a record that is gone: %v, want corrupt", err)
	}
	for r, err := range l.Read(ctx, 1, false) {
		if !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("read over the gap: record %d, %v; want corrupt", r.Seq, err)
		}
	}
}

// TestARecordWithAnotherHashIsCorrupt stores what this code never does.
func TestARecordWithAnotherHashIsCorrupt(t *testing.T) {
	j, ctx := stream(t, ledgerConn(t)), ledgertest.Within(t)
	l, err := Open(ctx, j, Config{Create: true, Ledger: "L"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.PublishMsg(ctx, &nats.Msg{Subject: subjectA, Data: []byte("x"), Header: nats.Header{hashHeader: {"sha256:00"}}}); err != nil {
		t.Fatal(err)
	}
	for name, look := range map[string]func() error{
		"Get":    func() error { _, err := l.Get(ctx, 1); return err },
		"Last":   func() error { _, err := l.Last(ctx, subjectA); return err },
		"Append": func() error { _, err := l.Append(ctx, subjectA, 0, []byte("x")); return err },
	} {
		if err := look(); !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("%s: %v, want corrupt", name, err)
		}
	}
	for name, records := range map[string]iter.Seq2[ledger.Record, error]{"Read": l.Read(ctx, 1, false), "Chain": l.Chain(ctx, subjectA, 0)} {
		n := 0
		for r, err := range records { // one record stops no reader
			if n++; err != nil || r.Hash == turns.HashEvent(r.Payload) {
				t.Errorf("%s: %v with the hash %v, %v; want the record with another hash", name, r.Seq, r.Hash, err)
			}
		}
		if n != 1 {
			t.Errorf("%s yields %d records, want 1", name, n)
		}
	}
}

// TestAStreamThatIsCreatedAgainIsAnotherLog deletes the stream and makes another under the same UUID.
func TestAStreamThatIsCreatedAgainIsAnotherLog(t *testing.T) {
	j, ctx := stream(t, ledgerConn(t)), ledgertest.Within(t)
	open := func() (*Log, ledger.State) {
		l, err := Open(ctx, j, Config{Create: true, Ledger: "L"})
		if err != nil {
			t.Fatal(err)
		}
		st, err := l.State(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return l, st
	}
	old, before := open()
	if err := j.DeleteStream(ctx, StreamName); err != nil {
		t.Fatal(err)
	}
	if _, err := old.State(ctx); err == nil {
		t.Error("the state of a log whose stream is gone")
	}
	_, after := open()
	if before.Identity == after.Identity {
		t.Errorf("the identity stayed %s", after.Identity)
	}
	for _, err := range old.Read(ctx, 1, true) {
		if !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("read through the old log: %v, want corrupt", err)
		}
	}
	if _, err := old.Append(ctx, subjectA, 0, []byte("a")); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("append through the old log: %v, want corrupt", err)
	}
}

func TestAClosedConnectionIsUnavailable(t *testing.T) {
	nc, ctx := ledgerConn(t), ledgertest.Within(t)
	l, err := Open(ctx, stream(t, nc), Config{Create: true, Ledger: "L"})
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if _, err := l.Append(ctx, subjectA, 0, []byte("a")); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("append: %v, want unavailable: nothing was sent", err)
	}
	for _, follow := range []bool{false, true} {
		for _, err := range l.Read(ctx, 1, follow) {
			if !errors.Is(err, ledger.ErrUnavailable) {
				t.Errorf("read, follow %v: %v, want unavailable", follow, err)
			}
		}
	}
}

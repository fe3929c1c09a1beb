package blocks

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger/jetstream/embed"
	"nexus/ledger/ledgertest"
)

const streamName = "S"

// server is a real one, with the stream S that is configured like a ledger.
type server struct {
	data   string
	server *embed.Server
	conn   *nats.Conn
	stream js.Stream
}

// start starts a server on a data folder, and creates the stream if there is none.
func start(t testing.TB, data string, change ...func(*js.StreamConfig)) *server {
	t.Helper()
	s := &server{data: data}
	var err error
	if s.server, err = embed.Start(embed.Config{DataDir: data, MaxStore: 1 << 30}); err != nil {
		t.Fatal(err)
	}
	if s.conn, err = s.server.LedgerConn(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop(t) })
	j, err := js.New(s.conn)
	if err != nil {
		t.Fatal(err)
	}
	cfg := js.StreamConfig{
		Name: streamName, Subjects: []string{"a.>"}, Storage: js.FileStorage, MaxBytes: -1, Discard: js.DiscardNew, DenyDelete: true, DenyPurge: true,
		Metadata: map[string]string{"nexus-ledger": "L"},
	}
	for _, f := range change {
		f(&cfg)
	}
	s.stream, err = j.Stream(ledgertest.Within(t), streamName)
	if errors.Is(err, js.ErrStreamNotFound) {
		s.stream, err = j.CreateStream(ledgertest.Within(t), cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// smallBlocks makes the server write blocks of 32,000 bytes: the size follows from the limit.
func smallBlocks(c *js.StreamConfig) { c.MaxBytes = 120_000 }

func (s *server) stop(t testing.TB) {
	t.Helper()
	if s.server == nil {
		return
	}
	s.conn.Close()
	if err := s.server.Close(); err != nil {
		t.Error(err)
	}
	s.server = nil
}

// folder is the folder of the stream.
func (s *server) folder() string {
	return filepath.Join(s.data, "jetstream", "jetstream", embed.LedgerAccount, "streams", streamName)
}

// message is one to publish. A header is there or not.
type message struct {
	subject string
	header  nats.Header
	data    []byte
}

func (s *server) publish(t testing.TB, messages ...message) {
	t.Helper()
	j, err := js.New(s.conn)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if _, err := j.PublishMsg(ledgertest.Within(t), &nats.Msg{Subject: m.subject, Header: m.header, Data: m.data}); err != nil {
			t.Fatal(err)
		}
	}
}

// messages returns one of each size, with headers, and without them where plain is set.
func messages(plain bool, sizes ...int) (out []message) {
	r := rand.New(rand.NewPCG(1, 2))
	for i, n := range sizes {
		m := message{subject: fmt.Sprintf("a.%d.%x", i%7, n), data: make([]byte, n)}
		for j := range m.data {
			m.data[j] = byte(r.Uint32())
		}
		if !plain || i%2 == 0 {
			m.header = nats.Header{"Nexus-Hash": {fmt.Sprintf("%x", r.Uint64())}}
		}
		out = append(out, m)
	}
	return out
}

// small is what fits in four small blocks.
func small(plain bool) []message {
	var sizes []int
	for range 5 {
		sizes = append(sizes, 0, 1, 2, 100, 511, 512, 513, 1024, 1<<10, 4096, 9000, 0, 300)
	}
	return messages(plain, sizes...)
}

// copied copies the stream's folder.
func copied(t testing.TB, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), streamName)
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// killed is what is on disk while the server runs: nobody has written index.db.
func killed(t testing.TB, s *server) string {
	t.Helper()
	dir := copied(t, s.folder())
	if err := os.Remove(filepath.Join(dir, msgsDir, indexFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return dir
}

func check(t testing.TB, dir string, o Options) Report {
	t.Helper()
	r, err := Check(context.Background(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// all reads all records.
func all(t testing.TB, dir string, from uint64) (out []Record) {
	t.Helper()
	for r, err := range Records(context.Background(), dir, from) {
		if err != nil {
			t.Fatal(err)
		}
		r.Header, r.Payload = bytes.Clone(r.Header), bytes.Clone(r.Payload)
		out = append(out, r)
	}
	return out
}

// encode is the format, written a second time: what the server should have on disk for r.
func encode(r Record) []byte {
	le := binary.LittleEndian
	length := uint32(22 + len(r.Subject) + len(r.Header) + len(r.Payload) + 8)
	if r.Header != nil {
		length = (length + 4) | 1<<31
	}
	b := le.AppendUint32(nil, length)
	b = le.AppendUint64(b, r.Seq)
	b = le.AppendUint64(b, uint64(r.Stored.UnixNano()))
	hashed := append(bytes.Clone(b[4:]), r.Subject+string(r.Header)+string(r.Payload)...)
	b = le.AppendUint16(b, uint16(len(r.Subject)))
	b = append(b, r.Subject...)
	if r.Header != nil {
		b = le.AppendUint32(b, uint32(len(r.Header)))
	}
	b = append(append(b, r.Header...), r.Payload...)
	c, err := newChecksum(fmt.Sprintf("%s-%d", streamName, r.Block))
	if err != nil {
		panic(err)
	}
	_, _ = c.digest.Write(hashed)
	return c.digest.Sum(b)
}

// equalServer compares a report, and the records, with what the server s says.
func equalServer(t *testing.T, s *server, dir string, sent []message) {
	t.Helper()
	ctx := ledgertest.Within(t)
	info, err := s.stream.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r := check(t, dir, Options{Acked: info.State.LastSeq})
	if err := r.Err(); err != nil || r.Torn != nil {
		t.Errorf("damage %v, torn %+v", err, r.Torn)
	}
	type state struct{ First, Last, Records, Bytes, Sent uint64 }
	got := state{r.First, r.Last, r.Records, r.Bytes, r.Records}
	want := state{info.State.FirstSeq, info.State.LastSeq, info.State.Msgs, info.State.Bytes, uint64(len(sent))}
	if d := cmp.Diff(want, got); d != "" || !r.Newest.Equal(info.State.LastTime) || r.Stream.Name != streamName || !r.Stream.Created.Equal(info.Created) {
		t.Errorf("state: %s; newest %v, the server has %v; stream %+v, created %v", d, r.Newest, info.State.LastTime, r.Stream, info.Created)
	}
	for i, rec := range all(t, dir, 0) {
		m, err := s.stream.GetMsg(ctx, rec.Seq)
		if err != nil {
			t.Fatal(err)
		}
		var header nats.Header
		if rec.Header != nil {
			if header, err = nats.DecodeHeadersMsg(rec.Header); err != nil {
				t.Fatal(err)
			}
		}
		if rec.Seq != uint64(i)+1 || rec.Subject != m.Subject || !bytes.Equal(rec.Payload, m.Data) || !rec.Stored.Equal(m.Time) ||
			cmp.Diff(header, m.Header) != "" || rec.Subject != sent[i].subject || !bytes.Equal(rec.Payload, sent[i].data) {
			t.Fatalf("record %d: %s, %d bytes, header %v; the server has %s, %d bytes, header %v", i+1, rec.Subject, len(rec.Payload), header, m.Subject, len(m.Data), m.Header)
		}
	}
}

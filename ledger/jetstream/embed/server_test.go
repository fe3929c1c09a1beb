package embed_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"nexus/ledger"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/ledgertest"
)

const subject = "nexus.log.00.t.s.A"

func start(t *testing.T, dir string) *embed.Server {
	t.Helper()
	s, err := embed.Start(embed.Config{DataDir: dir, Listen: "127.0.0.1:0", MaxStore: 1 << 30, Services: []string{"nexus.hello"},
		Users: func() ([]embed.User, error) { return []embed.User{{Name: "local"}}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// open is the ledger on s; close it before s.
func open(t *testing.T, s *embed.Server, create bool) (*jetstream.Log, *nats.Conn) {
	t.Helper()
	nc, err := s.LedgerConn()
	if err != nil {
		t.Fatal(err)
	}
	j, err := js.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	l, err := jetstream.Open(ledgertest.Within(t), j, jetstream.Config{Create: create, Ledger: "L"})
	if err != nil {
		t.Fatal(err)
	}
	return l, nc
}

func closed(t *testing.T, s *embed.Server) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func grow(t *testing.T, l ledger.Log, tail uint64, n int) uint64 {
	t.Helper()
	for i := range n {
		var err error
		if tail, err = l.Append(ledgertest.Within(t), subject, tail, fmt.Append(nil, "record ", tail, i)); err != nil {
			t.Fatal(err)
		}
	}
	return tail
}

func TestARestartKeepsTheLog(t *testing.T) {
	dir := t.TempDir()
	var tail uint64
	var identity string
	for round := range 3 {
		s := start(t, dir)
		l, nc := open(t, s, round == 0)
		st, err := l.State(ledgertest.Within(t))
		if err != nil || st.Last != tail || round > 0 && st.Identity != identity {
			t.Errorf("round %d: state %+v, %v; want %d records of %s", round, st, err, tail, identity)
		}
		identity = st.Identity
		tail = grow(t, l, tail, 20)
		ledgertest.CheckLog(t, l)
		nc.Close()
		closed(t, s)
	}
}

// The streams can be closed and opened under a server that runs: connections stay, and
// the log goes on behind its last record.
func TestStreamsStopAndStartUnderTheirConnections(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	l, nc := open(t, s, true)
	tail := grow(t, l, 0, 10)
	before, err := l.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.StopStreams(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := l.State(ctx); err == nil {
			t.Error("a closed stream answers")
		}
		cancel()
		if err := s.StartStreams(); err != nil {
			t.Fatal(err)
		}
		after, err := l.State(t.Context())
		if err != nil || after.Identity != before.Identity || after.Last != tail {
			t.Fatalf("%+v, %v; want %s up to %d", after, err, before.Identity, tail)
		}
		tail = grow(t, l, tail, 10)
	}
	if st := nc.Stats(); st.Reconnects != 0 {
		t.Errorf("the connection was lost %d times", st.Reconnects)
	}
	nc.Close()
	closed(t, s)
}

// A server that was asked to sync each write does so after its streams were opened again.
func TestStreamsThatStartAgainSyncEveryWrite(t *testing.T) {
	s := start(t, t.TempDir())
	if err := s.StopStreams(); err != nil {
		t.Fatal(err)
	}
	if err := s.StartStreams(); err != nil {
		t.Fatal(err)
	}
	if !s.SyncsAlways() {
		t.Error("the streams are not synced before an acknowledgement")
	}
	closed(t, s)
}

func TestASecondServerOnAFolderIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	_, err := embed.Start(embed.Config{DataDir: dir, Listen: "127.0.0.1:0", MaxStore: 1 << 30})
	if !errors.Is(err, embed.ErrLocked) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("a second server: %v; want locked, naming %s and process %d", err, dir, os.Getpid())
	}
	l, nc := open(t, s, true) // the first is unharmed
	grow(t, l, 0, 1)
	nc.Close()
	closed(t, s)
	closed(t, start(t, dir)) // and the folder is free again
}

func TestAServerWithoutAListenerHasNoURL(t *testing.T) {
	s, err := embed.Start(embed.Config{DataDir: t.TempDir(), MaxStore: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, s)
	if u := s.ClientURL(); u != "" {
		t.Errorf("a server that does not listen is at %s", u)
	}
	if s.Fsync <= 0 {
		t.Errorf("fsync takes %v", s.Fsync)
	}
}

func TestAStartWithABadAddressFails(t *testing.T) {
	dir := t.TempDir()
	for _, listen := range []string{"nowhere", "127.0.0.1:port"} {
		if s, err := embed.Start(embed.Config{DataDir: dir, Listen: listen, MaxStore: 1 << 30}); err == nil {
			t.Errorf("listens on %q", listen)
			closed(t, s)
		}
	}
	closed(t, start(t, dir)) // a failed start gives the lock back
}

// A start that can't have its port fails at once: it waited for two minutes.
func TestAStartOnATakenPortFailsAtOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	s, err := embed.Start(embed.Config{DataDir: dir, Listen: l.Addr().String(), MaxStore: 1 << 30})
	if err == nil {
		closed(t, s)
		t.Fatal("two listen on one port")
	}
	if !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("%q does not say why", err)
	}
	closed(t, start(t, dir)) // a failed start gives the lock back
}

// A client over TCP can't read, change or append to the streams.
func TestClientsCannotReachTheLedgersAccount(t *testing.T) {
	s := start(t, t.TempDir())
	defer closed(t, s)
	l, lnc := open(t, s, true)
	defer lnc.Close()
	tail := grow(t, l, 0, 3)
	service, err := s.ServiceConn()
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	ctx := ledgertest.Within(t)
	for name, opts := range map[string][]nats.Option{
		"without credentials": nil,
		"in process":          nil, // the service's own connection, below
		"as ledger":           {nats.UserInfo("ledger", "guess")},
	} {
		nc := service
		if name != "in process" {
			if nc, err = nats.Connect(s.ClientURL(), opts...); name == "as ledger" {
				if err == nil {
					t.Errorf("%s: connected", name)
					nc.Close()
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
		}
		for _, api := range []string{"$JS.API.INFO", "$JS.API.STREAM.INFO.NEXUS_LEDGER", "$JS.API.STREAM.DELETE.NEXUS_LEDGER", "$JS.API.STREAM.MSG.GET.NEXUS_LEDGER", subject} {
			if m, err := nc.RequestWithContext(ctx, api, []byte("{}")); !errors.Is(err, nats.ErrNoResponders) && !strings.Contains(answer(m), "not enabled") {
				t.Errorf("%s: %s answered %q, %v", name, api, answer(m), err)
			}
		}
		if err := errors.Join(nc.Publish(subject, []byte("intruder")), nc.FlushWithContext(ctx)); err != nil {
			t.Error(err)
		}
	}
	if r, err := l.Last(ctx, subject); err != nil || r.Seq != tail {
		t.Errorf("the tail is %d, %v; want %d", r.Seq, err, tail)
	}
	ledgertest.CheckLog(t, l)

	// A client and the service meet.
	sub, err := service.Subscribe("nexus.hello", func(m *nats.Msg) { _ = m.Respond([]byte("here")) })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	client, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := service.Flush(); err != nil {
		t.Fatal(err)
	}
	if m, err := client.RequestWithContext(ctx, "nexus.hello", nil); err != nil || string(m.Data) != "here" {
		t.Errorf("the service answered %q, %v", answer(m), err)
	}
}

func answer(m *nats.Msg) string {
	if m == nil {
		return ""
	}
	return string(m.Data)
}

// The test copies the store while appends go on, as a crash of the machine leaves
// it that keeps what was synced, and starts on the copy: it has every record that
// was acked before the copy began.
func TestACopyTakenDuringAppendsHasEveryAckedRecord(t *testing.T) {
	dir, copied := t.TempDir(), t.TempDir()
	s := start(t, dir)
	l, nc := open(t, s, true)
	acked := grow(t, l, 0, 200)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for tail := acked; ; {
			select {
			case <-stop:
				return
			default:
			}
			seq, err := l.Append(context.Background(), subject, tail, fmt.Append(nil, "during ", tail))
			if err != nil {
				t.Error(err)
				return
			}
			tail = seq
		}
	}()
	if err := copyDir(copied, dir); err != nil {
		t.Fatal(err)
	}
	close(stop)
	<-done
	nc.Close()
	closed(t, s)

	s = start(t, copied)
	defer closed(t, s)
	l, nc = open(t, s, false)
	defer nc.Close()
	all := ledgertest.CheckLog(t, l)
	if uint64(len(all)) < acked {
		t.Errorf("%d records in the copy, %d were acked before it", len(all), acked)
	}
	grow(t, l, uint64(len(all)), 5)
}

// copyDir copies dir file by file. A file that goes away meanwhile is a
// temporary one of the server's.
func copyDir(to, dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(target, b, 0o600)
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

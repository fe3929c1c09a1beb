package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"nexus/cmd/internal/build"
	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/jetstream/embed"
	"nexus/turns"
)

// child is a process of its own, a child, so that its CPU time is its own. It
// answers each line on its input with what it has used.
type child struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	dir  string
	conn []*nats.Conn
}

// served is the first line of a server: where it is.
type served struct {
	URL   string `json:"url"`
	Creds string `json:"creds,omitzero"`
}

func startServer(ctx context.Context, kind, dir string) (*child, served, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, served{}, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, served{}, err
	}
	s := &child{cmd: exec.CommandContext(ctx, self, "bench", "serve", kind, dir), dir: dir}
	s.cmd.Stderr = os.Stderr
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, served{}, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, served{}, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, served{}, err
	}
	s.out = bufio.NewScanner(out)
	var at served
	if err := s.read(&at); err != nil {
		return nil, at, errors.Join(err, s.close())
	}
	return s, at, nil
}

func (s *child) read(v any) error {
	if !s.out.Scan() {
		return errors.Join(errors.New("the server ended"), s.out.Err())
	}
	return turns.DecodeJSON(s.out.Bytes(), v)
}

func (s *child) counted() (c counted, err error) {
	if _, err := io.WriteString(s.in, "\n"); err != nil {
		return c, err
	}
	if err := s.read(&c); err != nil {
		return c, err
	}
	c.Disk, err = diskOf(s.dir)
	return c, err
}

func (s *child) close() error {
	for _, nc := range s.conn {
		nc.Close()
	}
	return errors.Join(s.in.Close(), s.cmd.Wait())
}

// Serve is a server of a kind in a folder: the other end of [startServer]. It ends with the
// standard input.
func Serve(ctx context.Context, term *terminal.Terminal, kind, dir string) error {
	var at served
	fsyncs := func() uint64 { return 0 }
	switch kind {
	case "nexus":
		if os.Getenv("GOGC") == "" { // as nexusd does
			defer daemon.PaceCollector(0)()
		}
		d, err := daemon.Open(ctx, config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", Version: build.Version()})
		if err != nil {
			return err
		}
		defer func() { _ = d.Close(context.Background()) }()
		at, fsyncs = served{d.ClientURL(), d.Credentials().Operator}, d.Fsyncs
	case "jetstream":
		s, err := embed.StartBare(dir)
		if err != nil {
			return err
		}
		defer s.Close()
		at = served{URL: s.URL()}
	default:
		return fault.Usage(fmt.Errorf("no system %q", kind))
	}
	if err := term.Print(at); err != nil {
		return err
	}
	for lines := bufio.NewScanner(term.In); lines.Scan(); {
		if err := term.Print(counted{CPU: cpuTime(), Fsyncs: fsyncs()}); err != nil {
			return err
		}
	}
	return nil
}

// cpuTime is the microseconds of CPU that this process has used.
func cpuTime() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return (u.Utime.Nano() + u.Stime.Nano()) / 1000
}

// nexusd is the ledger, over NATS.
type nexusd struct {
	*child
	load     Load
	clients  []*client.Client
	sessions []turns.ID
	turn     []int
}

func openNexus(ctx context.Context, l Load, dir string) (system, error) {
	s, at, err := startServer(ctx, "nexus", dir)
	if err != nil {
		return nil, err
	}
	n := &nexusd{child: s, load: l, sessions: make([]turns.ID, l.Writers), turn: make([]int, l.Writers)}
	for i := range l.Agents {
		o, err := nats.NkeyOptionFromSeed(filepath.Join(dir, "users", "agent.nk"))
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		nc, err := nats.Connect(at.URL, o)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.conn = append(s.conn, nc)
		n.clients = append(n.clients, client.New(nc, "default", fmt.Sprint("bench", i)))
	}
	for w := range n.sessions {
		x, err := n.clients[w%l.Agents].Create(ctx, api.CreateSession{})
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		n.sessions[w] = x.ID
	}
	return n, nil
}

func (n *nexusd) append(ctx context.Context, w int) error {
	n.turn[w]++
	half := Load{TurnBytes: n.load.TurnBytes / 2}
	answer := turns.TextMessage(turns.Assistant, half.text(w, -n.turn[w]))
	_, err := n.clients[w%n.load.Agents].Append(ctx, n.sessions[w], api.AppendTurn{Messages: []turns.Message{half.question(w, n.turn[w])}, Response: &answer})
	return err
}

// bareStream is a stream of a NATS server that does an fsync for each message; each
// writer has a subject of its own and expects its tail there, as the ledger does.
type bareStream struct {
	*child
	load Load
	js   []jetstream.JetStream
	tail []uint64
	n    []int
}

func openJetStream(ctx context.Context, l Load, dir string) (system, error) {
	s, at, err := startServer(ctx, "jetstream", dir)
	if err != nil {
		return nil, err
	}
	b := &bareStream{child: s, load: l, tail: make([]uint64, l.Writers), n: make([]int, l.Writers)}
	for range l.Agents {
		nc, err := nats.Connect(at.URL)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.conn = append(s.conn, nc)
		j, err := jetstream.New(nc)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		b.js = append(b.js, j)
	}
	if _, err := b.js[0].CreateStream(ctx, jetstream.StreamConfig{Name: "BENCH", Subjects: []string{"bench.>"}}); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return b, nil
}

func (b *bareStream) append(ctx context.Context, w int) error {
	b.n[w]++
	ack, err := b.js[w%b.load.Agents].PublishMsg(ctx, &nats.Msg{Subject: "bench." + strconv.Itoa(w), Data: []byte(b.load.text(w, b.n[w])),
		Header: nats.Header{"Nats-Expected-Last-Subject-Sequence": {strconv.FormatUint(b.tail[w], 10)}}})
	if err != nil {
		return err
	}
	b.tail[w] = ack.Sequence
	return nil
}

func (b *bareStream) counted() (counted, error) {
	c, err := b.child.counted()
	for _, n := range b.n { // one for each message: that is what always means
		c.Fsyncs += uint64(n)
	}
	return c, err
}

// rows is a Pebble database in this process.
type rows struct {
	db   *pebble.DB
	load Load
	dir  string
	n    []int
}

func openPebble(_ context.Context, l Load, dir string) (system, error) {
	db, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Logger: quietPebble{}})
	if err != nil {
		return nil, err
	}
	return &rows{db: db, load: l, dir: dir, n: make([]int, l.Writers)}, nil
}

func (r *rows) append(_ context.Context, w int) error {
	r.n[w]++
	key := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, uint32(w)), uint64(r.n[w]))
	return r.db.Set(key, []byte(r.load.text(w, r.n[w])), pebble.Sync)
}

func (r *rows) counted() (c counted, err error) {
	c.Disk, err = diskOf(r.dir)
	return c, err
}

func (r *rows) close() error { return r.db.Close() }

type quietPebble struct{}

func (quietPebble) Infof(string, ...any) {}

func (quietPebble) Errorf(string, ...any) {}

func (quietPebble) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

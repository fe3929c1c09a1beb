package embed

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// The accounts of the daemon. LEDGER owns JetStream: a client that could publish
// to the stream's subjects could leave out the expectation that makes an append a
// compare-and-set. AGENTS holds the service. Only the daemon's own connections are
// in them. Each user of [Config.Users] has an account of its own, which imports the
// service.
const (
	LedgerAccount = "LEDGER"
	AgentsAccount = "AGENTS"
)

// MaxPayload is the largest message, in bytes. The server warns above it.
const MaxPayload = 8 << 20

// storeDir is under the data folder.
const storeDir = "jetstream"

// ErrLocked: another process uses the data folder.
var ErrLocked = errors.New("data folder is in use")

// maxPending is how many bytes may wait for one connection before the server closes
// it. The service takes requests in up to a bound and refuses the rest as busy; the door
// bounds what is before it, unless the service hangs. Its own connection must not be closed, which
// would leave every client without an answer. The server has one bound for all connections;
// the service keeps those of clients far below it, by [Server.Unread].
const maxPending = 640 << 20

// Config says how the server runs.
type Config struct {
	DataDir  string      // store under DataDir/jetstream, lock at DataDir/lock
	Listen   string      // host:port for clients; port 0 picks one; "" none
	TLS      *tls.Config // of the listener; nil: none
	Services []string    // subjects that users may send requests to; each with its wildcards
	Streams  []string    // subjects of the service that users may subscribe to, as far as their rows say
	// Users returns who may connect to the listener. It is called once, with the
	// folder locked, so it may make files there. nil: nobody may.
	Users    func() ([]User, error)
	MaxStore int64        // bytes of the stream's files; 0: 45 % of what is free and what the folder takes already
	NoSync   bool         // the server acknowledges before its fsync: for one who does it himself (package groupsync), and benchmarks
	Logger   *slog.Logger // nil: silent
	// Failed is called when the disk refused a write of a stream, before anyone can
	// read what was not written. From then on the stream takes no appends, even when
	// there is room again, until [Server.StopStreams] and [Server.StartStreams]. It is
	// called with locks of the server held: it must not block, nor call the server.
	// nil: the failure is only logged.
	Failed func(error)

	// BeforeStart is called, if not nil, when the folder is locked and before the
	// server opens its files; its error refuses the start. AfterStop is called when
	// the server has closed them, before the lock is released.
	BeforeStart, AfterStop func() error
}

// StreamDir is the folder of a stream of the account [LedgerAccount].
func StreamDir(dataDir, stream string) string {
	return filepath.Join(dataDir, storeDir, server.JetStreamStoreDir, LedgerAccount, "streams", stream)
}

// ErrDisk: the disk refused a write of a stream.
var ErrDisk = errors.New("the stream's disk failed")

// Server is a running server. Close it after all connections to it.
type Server struct {
	srv      *server.Server
	lock     *os.File
	password string
	logger   *slog.Logger
	stopped  func() error           // AfterStop
	streams  server.JetStreamConfig // for StartStreams
	users    map[string]User        // by the name of their account
	scheme   string                 // of ClientURL
	door     *door                  // of the clients; nil: nobody may connect

	// Fsync is the median time of one write and fsync of 4 KiB in DataDir, measured
	// by Start. A fsync of less than 50 µs probably does not reach a disk.
	Fsync time.Duration
}

// Start locks the data folder and starts the server. [ErrLocked] names the
// folder, and the process that has it if the lock says so.
func Start(c Config) (*Server, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{logger: c.Logger}
	var err error
	if s.lock, err = lock(c.DataDir); err != nil {
		return nil, err
	}
	if c.BeforeStart != nil {
		err = c.BeforeStart()
	}
	if err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	s.stopped = c.AfterStop
	if err := s.start(c); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *Server) start(c Config) error {
	var err error
	if s.Fsync, err = probe(c.DataDir); err != nil {
		return fmt.Errorf("fsync in %s: %w", c.DataDir, err)
	}
	if c.MaxStore == 0 {
		if c.MaxStore, err = defaultStore(c.DataDir); err != nil {
			return err
		}
	}
	var secret [24]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return err
	}
	s.password = hex.EncodeToString(secret[:])
	ledger, agents := server.NewAccount(LedgerAccount), server.NewAccount(AgentsAccount)
	o := &server.Options{
		ServerName: "nexusd", NoSigs: true, NoLog: true, MaxPayload: MaxPayload, DontListen: true,
		JetStream: true, StoreDir: filepath.Join(c.DataDir, storeDir), JetStreamMaxStore: c.MaxStore, JetStreamMaxMemory: 64 << 20,
		SyncAlways: !c.NoSync, NoSystemAccount: false, MaxPending: maxPending,
		Accounts: []*server.Account{ledger, agents},
		Users: []*server.User{
			{Username: "ledger", Password: s.password, Account: ledger, AllowedConnectionTypes: map[string]struct{}{"IN_PROCESS": {}}},
			{Username: "service", Password: s.password + "-service", Account: agents, AllowedConnectionTypes: map[string]struct{}{"IN_PROCESS": {}}},
		},
	}
	if s.users, err = addUsers(o, agents, c); err != nil {
		return fmt.Errorf("users: %w", err)
	}
	if s.scheme = "nats"; c.TLS != nil {
		s.scheme, o.AuthTimeout = "tls", (handshakeTime + connectTime).Seconds() // the server's clock runs from the connect
	}
	if c.Listen != "" {
		if s.door, err = openDoor(c.Listen, c.TLS, c.Logger); err != nil {
			return fmt.Errorf("nats server: %w", err)
		}
	}
	if s.srv, err = server.NewServer(o); err != nil {
		return fmt.Errorf("nats server: %w", err)
	}
	log := &serverLog{l: c.Logger, failed: c.Failed}
	s.srv.SetLoggerV2(log, false, false, false)
	s.srv.Start()
	if why := log.fatal.Load(); why != nil { // it would never be ready
		s.shutdown()
		return fmt.Errorf("nats server: %s", *why)
	}
	if !s.srv.ReadyForConnections(2 * time.Minute) {
		s.shutdown()
		return fmt.Errorf("nats server: not ready on %s after 2 minutes; the log says why", c.Listen)
	}
	if err := s.enableAccount(); err != nil {
		s.shutdown()
		return err
	}
	s.streams = *s.srv.JetStreamConfig()
	s.streams.StoreDir = o.StoreDir // without the folder that the server adds
	if s.door != nil {
		s.door.open(s.srv)
	}
	return nil
}

// enableAccount gives the ledger's account its streams.
func (s *Server) enableAccount() error {
	acc, err := s.srv.LookupAccount(LedgerAccount)
	if err == nil && !acc.JetStreamEnabled() {
		err = acc.EnableJetStream(nil, nil)
	}
	if err != nil {
		return fmt.Errorf("jetstream of the ledger's account: %w", err)
	}
	return nil
}

// StopStreams closes the streams and their files. Clients stay connected, and a
// request to a stream gets no answer. It waits for the disk.
func (s *Server) StopStreams() error {
	if err := s.srv.ShutdownJetStream(); err != nil {
		return fmt.Errorf("stop the streams: %w", err)
	}
	return nil
}

// StartStreams opens the streams that [Server.StopStreams] closed. The server repairs
// what it can't read by cutting it off: look at the files before. After an error the
// streams are closed.
func (s *Server) StartStreams() error {
	c := s.streams
	err := s.srv.EnableJetStream(&c)
	if err == nil {
		err = s.enableAccount()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("start the streams: %w", err), s.StopStreams())
	}
	return nil
}

// LedgerConn is a new in-process connection into the account that owns the
// stream. The caller closes it.
func (s *Server) LedgerConn() (*nats.Conn, error) { return s.connect("ledger", s.password) }

// ServiceConn is a new in-process connection into the account of the service. The
// caller closes it.
func (s *Server) ServiceConn() (*nats.Conn, error) {
	return s.connect("service", s.password+"-service")
}

// UserConn is a new in-process connection as the user with a key, or as whoever connects
// without credentials if pair is nil. The caller closes it.
func (s *Server) UserConn(pair nkeys.KeyPair) (*nats.Conn, error) {
	if pair == nil {
		return s.dial("user")
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, err
	}
	return s.dial("user", nats.Nkey(public, pair.Sign))
}

// HasSubscribers reports whether any client would get a message that the service
// publishes on subject.
func (s *Server) HasSubscribers(subject string) bool {
	a, err := s.srv.LookupAccount(AgentsAccount)
	return err != nil || a.SubscriptionInterest(subject)
}

func (s *Server) connect(user, password string) (*nats.Conn, error) {
	return s.dial(user, nats.UserInfo(user, password))
}

func (s *Server) dial(name string, opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("", append(opts, nats.InProcessServer(s.srv), nats.Name("nexusd "+name),
		nats.ReconnectBufSize(-1), // the client sends a write now or refuses it; it keeps none for later
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			s.logger.Warn("nats connection", "user", name, "err", err)
		}))...)
}

// ClientURL is where clients connect; "" if the server does not listen.
func (s *Server) ClientURL() string {
	if s.door == nil {
		return ""
	}
	return s.scheme + "://" + s.door.listener.Addr().String()
}

// Clients returns how many clients are connected, and how many ever were.
func (s *Server) Clients() (open int, ever uint64) { return s.door.clients() }

// Quiesce lets no client in any more if none is connected, and reports whether that is so.
func (s *Server) Quiesce() bool { return s.door.quiesce() }

// Pace makes clients wait while the service has not seen what they sent: at most 128
// KiB of short messages and 16 MiB of long ones are on their way to it. probe calls
// its argument, once, when the service has seen everything that the server sent to it
// before the call. Without Pace the server takes what comes. A nil probe ends the pacing.
func (s *Server) Pace(probe func(seen func())) {
	if s.door != nil {
		s.door.flow.bound(probe)
	}
}

// Slow lets short messages of a user's agent wait a little before the server reads them:
// the service refused one of them, since there were too many. user is the public NKey, ""
// if the user has none, agent "TENANT.AGENT".
func (s *Server) Slow(user, agent string) {
	if s.door != nil {
		s.door.flow.slow(user, agent)
	}
}

// Unread returns how many bytes wait for each connection that has not read everything, by
// the number of the connection in [RequestHeader].
func (s *Server) Unread() map[uint64]int64 {
	out := make(map[uint64]int64)
	all, err := s.srv.Connz(&server.ConnzOptions{Limit: math.MaxInt32})
	if err != nil {
		return out // for options that it doesn't know
	}
	for _, c := range all.Conns {
		if c.Pending > 0 {
			out[c.Cid] = int64(c.Pending)
		}
	}
	return out
}

// Close shuts the server down, waits until its files are closed, and releases the
// folder's lock. A process that exits earlier can corrupt the store.
func (s *Server) Close() error {
	s.shutdown()
	return s.close()
}

// close ends what Start began before the server.
func (s *Server) close() error {
	var err error
	if s.door != nil {
		s.door.stop() // if the start failed before the server
	}
	if s.stopped != nil {
		err = s.stopped()
	}
	return errors.Join(err, s.lock.Close())
}

func (s *Server) shutdown() {
	if s.door != nil {
		s.door.stop()
	}
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
	// A timer of each service that was called holds the server for up to answerTime from here
	// on, and must not hold what the logger holds: the daemon.
	s.srv.SetLoggerV2(nil, false, false, false)
	if s.door != nil {
		s.door.wait()
	}
}

// Lock locks a data folder that no server shall open meanwhile. Closing the result
// releases it. Errors as of [Start].
func Lock(dataDir string) (io.Closer, error) { return lock(dataDir) }

// Holder returns the process that locked dir last; only while the lock is held is it
// the one that has it. 0: none is known.
func Holder(dir string) int {
	b, err := os.ReadFile(filepath.Join(dir, "lock"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return pid
}

// lock locks DataDir/lock for this process. The kernel releases the lock when the
// process ends, however it ends, so a stale file does no harm.
func lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
	if err != nil {
		_ = f.Close()
		if pid := Holder(dir); pid != 0 {
			return nil, fmt.Errorf("%w: %s, by process %d", ErrLocked, dir, pid)
		}
		return nil, fmt.Errorf("%w: %s", ErrLocked, dir)
	}
	if err := errors.Join(f.Truncate(0), writePID(f)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func writePID(f *os.File) error {
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// probe measures write and fsync.
func probe(dir string) (time.Duration, error) {
	f, err := os.CreateTemp(dir, "fsync-*")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := make([]byte, 4096)
	var took []time.Duration
	for range 9 {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// defaultStore returns 45 % of the space that the folder uses and that is free. A
// share of the free space alone would put a store that has grown over its limit at
// the next start, and it would take no more appends. The projections hold every
// event too; the rest is room for what both write meanwhile. At the limit the
// server refuses appends and nothing else stops; on a full disk its store fails.
func defaultStore(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	used, err := size(dir)
	if err != nil {
		return 0, fmt.Errorf("size of the store: %w", err)
	}
	return (int64(st.Bavail)*int64(st.Bsize) + used) / 100 * 45, nil
}

// size returns the bytes of the files under dir; 0 if dir does not exist.
func size(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return sum, nil
	}
	return sum, err
}

// serverLog passes the server's log on; its notices become debug lines.
type serverLog struct {
	l      *slog.Logger
	failed func(error)
	fatal  atomic.Pointer[string] // why the server's start failed; nil: it did not
}

// criticalWrite is in the server's log lines about a store that failed. The first is
// written by the store, under the lock that readers need. The server reports such a
// failure in no other way.
var criticalWrite = regexp.MustCompile(`(?i)critical write error: `)

func (s *serverLog) Noticef(f string, a ...any) { s.l.Debug("nats", "msg", fmt.Sprintf(f, a...)) }
func (s *serverLog) Warnf(f string, a ...any) {
	if strings.HasPrefix(f, "Plaintext passwords") {
		return // Start made them, and only this process knows them
	}
	s.l.Warn("nats", "msg", fmt.Sprintf(f, a...))
}

func (s *serverLog) Errorf(f string, a ...any) {
	msg := fmt.Sprintf(f, a...)
	s.l.Error("nats", "msg", msg)
	if at := criticalWrite.FindStringIndex(msg); s.failed != nil && at != nil {
		s.failed(fmt.Errorf("%w: %s", ErrDisk, msg[at[1]:]))
	}
}

// Fatalf notes why the server can't start: the server goes on without what failed.
func (s *serverLog) Fatalf(f string, a ...any) {
	msg := fmt.Sprintf(f, a...)
	s.l.Error("nats", "msg", msg)
	s.fatal.CompareAndSwap(nil, &msg)
}
func (s *serverLog) Debugf(string, ...any) {}
func (s *serverLog) Tracef(string, ...any) {}

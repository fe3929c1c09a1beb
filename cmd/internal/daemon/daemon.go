package daemon

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/prometheus/client_golang/prometheus"

	"nexus/cmd/internal/checkpoint"
	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/daemon/folder"
	"nexus/cmd/internal/daemon/outage"
	"nexus/cmd/internal/daemon/storage"
	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/explorer"
	"nexus/cmd/internal/files"
	"nexus/cmd/internal/natsapi"
	"nexus/cmd/internal/responses"
	"nexus/compactor"
	"nexus/compactor/extractive"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/jetstream/embed"
	"nexus/projections/search"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Daemon is a running nexusd.
type Daemon struct {
	cfg        config.Config
	logger     *slog.Logger
	storage    *storage.Storage
	engine     *engine.Engine
	service    *natsapi.Service
	server     *embed.Server // nil on an external server
	url        string
	sync       string // what is known of the server's fsync
	web        *webServer
	door       *responses.Server
	pages      *explorer.Explorer // nil with HTTP off
	webKey     nkeys.KeyPair      // of HTTP's connection to the embedded server; nil with auth off
	watchKey   nkeys.KeyPair      // of the connection of Follow; nil with auth off
	ledgerConn *nats.Conn         // where the streams are
	client     *nats.Conn         // where the service lives

	credentials  config.Credentials
	users        natsapi.Users // nil on an external server
	peersRefused sync.Once
	signer       *checkpoint.Signer // nil on an external server

	failed  chan error                    // why parts ended by themselves
	abandon context.CancelCauseFunc       // ends a start that can't succeed
	served  bool                          // Open returned it
	closing atomic.Bool                   // Close was called
	closers []func(context.Context) error // in the order of opening
	once    sync.Once
	closed  error
}

// Open starts a daemon and returns when it can serve: the projections have
// applied all that was on the log. On an error everything that was opened is
// closed again.
func Open(ctx context.Context, cfg config.Config) (_ *Daemon, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("%w: configuration: %w", turns.ErrMalformed, err)
	}
	d := &Daemon{cfg: cfg.WithDefaults(), sync: syncAlways, failed: make(chan error, 4)}
	d.logger = d.cfg.Logger
	d.storage = storage.New(storage.Config{Config: d.cfg, Opened: d.opened, Run: d.run, Fail: d.fail})
	ctx, d.abandon = context.WithCancelCause(ctx)
	defer d.abandon(nil)
	defer func() {
		if err == nil {
			return
		}
		d.storage.AwaitLoss() // it ends the start, with what is lost
		if cause := (*failure)(nil); errors.As(context.Cause(ctx), &cause) {
			err = cause.error // err is what followed from it
		}
		if d.cfg.NATS != "" {
			err = d.withRemedy(err)
		}
		err = errors.Join(err, d.Close(context.WithoutCancel(ctx)))
	}()
	if err := os.MkdirAll(d.cfg.Data, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := config.OwnerOnly(d.cfg.Data); err != nil { // one that was made with other permissions
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if d.ledgerConn, err = d.connect(ctx); err != nil {
		return nil, err
	}
	if err := d.storage.OpenLog(ctx, d.ledgerConn); err != nil {
		return nil, err
	}
	if d.server == nil {
		if err := permitted(ctx, ledgerRole, d.ledgerConn); err != nil {
			return nil, err
		}
		d.warnAboutSync()
	}
	if err := d.storage.OpenProjections(ctx); err != nil {
		return nil, err
	}
	if err := d.serve(ctx); err != nil {
		return nil, err
	}
	d.served = true
	d.logger.Info("serving", "version", d.cfg.Version, "ledger", d.storage.Log.Ledger(), "position", d.storage.Projections.Applied().Seq, "nats", d.ClientURL())
	return d, nil
}

// connect opens the server, if it is the embedded one, and both connections.
func (d *Daemon) connect(ctx context.Context) (*nats.Conn, error) {
	if d.cfg.NATS != "" {
		return d.connectExternal()
	}
	server, err := d.startServer(ctx)
	if err != nil {
		return nil, portInUse("%w", "--listen", "NEXUS_LISTEN", err)
	}
	d.server, d.url = server, server.ClientURL()
	d.opened(func(context.Context) error { return server.Close() })
	ledgerConn, err := server.LedgerConn()
	if err != nil {
		return nil, err
	}
	d.opened(func(context.Context) error { ledgerConn.Close(); return nil })
	if d.client, err = server.ServiceConn(); err != nil {
		return nil, err
	}
	client := d.client
	d.opened(func(context.Context) error { client.Close(); return nil })
	return ledgerConn, nil
}

// startServer starts the embedded server with its users.
func (d *Daemon) startServer(ctx context.Context) (*embed.Server, error) {
	var byName map[string]natsapi.User
	c := embed.Config{Listen: d.cfg.Listen, Services: natsapi.Subjects(), Streams: []string{natsapi.Notifications("*", "*")}}
	c.Users = func() (rows []embed.User, err error) {
		var users []natsapi.User
		if users, d.credentials, err = d.cfg.Users(); err != nil {
			return nil, err
		}
		if d.cfg.Auth != "off" && d.cfg.HTTP != "off" {
			u, err := d.webUser()
			if err != nil {
				return nil, err
			}
			users = append(users, u)
		}
		if d.cfg.Auth != "off" && d.cfg.Follow != nil {
			u, err := d.watchUserRow()
			if err != nil {
				return nil, err
			}
			users = append(users, u)
		}
		rows, byName = config.Embedded(users)
		return rows, nil
	}
	if d.cfg.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(d.cfg.TLSCert, d.cfg.TLSKey)
		if err != nil {
			return nil, fmt.Errorf("tls_cert, tls_key: %w", err)
		}
		c.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	if d.cfg.Auth == "off" {
		d.logger.Warn("auth is off: every program on this machine may act as any agent and as the operator")
	}
	server, err := d.storage.StartServer(ctx, c)
	if err != nil {
		return nil, err
	}
	d.users = func(account string) (natsapi.User, bool) {
		u, ok := server.UserOf(account)
		return byName[u.Name], ok
	}
	return server, nil
}

// failure is why a part of the daemon ended by itself.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

// fail ends the daemon, or its start, because a part of it ended by itself. The
// first failure counts; fail never blocks.
func (d *Daemon) fail(err error) {
	d.abandon(&failure{err})
	select {
	case d.failed <- err:
	default:
	}
}

func (d *Daemon) serve(ctx context.Context) error {
	uid, err := d.storage.LedgerID()
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	d.countConnections(registry)
	d.countFacts(registry)
	d.storage.Register(registry)
	counter := tokens.Approx{}
	extract := compactor.Tier{Name: "extractive", Summarizer: extractive.New(extractive.Config{Counter: counter}), Local: true, Version: extractive.Version}
	var ends *outage.Ends // nil: others may append to the log, too
	if d.server != nil {
		applied := func() uint64 { return d.storage.Projections.Applied().Seq }
		ends = outage.NewEnds(applied, applied())
	}
	c := engine.Config{
		Ledger: uid, Log: d.storage.Outage.Log(d.storage.Log, d.storage.Projections, ends), Blobs: d.storage.Outage.Blobs(d.storage.Log.Blobs()), Projections: d.storage.Projections, Counter: counter,
		Tiers: append(slices.Clip(d.cfg.Models), extract), ModelTiers: d.cfg.ModelTiers,
		Now: time.Now, Rand: rand.Reader, Logger: d.logger, Registry: registry, Notify: d.notify,
		MaxPayload: int(d.client.MaxPayload()), CacheBytes: int(d.cfg.CacheBytes), Models: d.cfg.ModelTable(), Access: d.storage.Outage.Access, MayOpenMain: d.cfg.MayOpenMain,
	}
	if d.server != nil {
		c.Backup = d.storage.Backup()
		c.Acknowledged, c.AllAcknowledged = ends.End, ends.All
		if err := d.startSigner(ctx, registry); err != nil {
			return err
		}
		c.Checkpoints = d.signer
	} else {
		c.Confirm = d.storage.Log.Confirm
	}
	if c.Keys, err = d.storage.OpenKeys(ctx, c.Ledger); err != nil {
		return err
	}
	if d.cfg.Search == "on" {
		c.Search = search.New(search.Config{Dir: filepath.Join(d.cfg.Data, folder.SearchDir), Logger: d.logger, Linger: searchLinger, Rest: searchRest, Delay: searchDelay})
	}
	d.engine = engine.New(c)
	d.engine.Audit.Damaged = d.storage.Doubt
	d.opened(func(context.Context) error { return d.engine.Audit.Close() })
	d.work()
	d.startSearch(registry)
	d.storage.StartScrub()
	d.storage.StartCollector()
	x, err := d.startFiles(registry)
	if err != nil {
		return err
	}
	d.reachErasures(x)
	if err := d.finishErasures(ctx); err != nil {
		return err
	}
	d.storage.StartWatch(d.engine.Writer.Forget)
	if d.service, err = natsapi.Start(d.client, d.engine, d.users, d.cfg.Version, d.logger); err != nil {
		return err
	}
	d.opened(d.service.Stop)
	if d.server != nil {
		d.server.Pace(d.service.Probe)
		d.service.OnRefused(d.server.Slow)
		d.service.BoundUnread(d.server.Unread)
		d.opened(func(context.Context) error { d.server.Pace(nil); return nil })
	}
	go func() {
		<-d.service.Stopped()
		if !d.closing.Load() {
			err := d.service.Err()
			if errors.Is(err, nats.ErrPermissionViolation) {
				err = notPermitted(serviceRole, err)
			}
			d.fail(err)
		}
	}()
	if d.cfg.HTTP != "off" {
		nc, err := d.connectSelf(httpRole, d.webKey)
		if err != nil {
			return err
		}
		client := client.New(nc, "default", "main")
		d.pages = d.newExplorer(client)
		var mcp, v1 http.Handler
		if !d.cfg.PagesOnly {
			if mcp, err = d.mcpHandler(client); err != nil {
				return err
			}
			if v1, err = d.responsesHandler(client, registry); err != nil {
				return err
			}
		}
		if d.web, err = startWeb(d.cfg, registry, d.ready, d.notes, d.newestCheckpoint, mcp, v1, d.pages, d.fail); err != nil {
			return err
		}
		d.service.ServePages(d.openPages)
		d.opened(d.web.stop)
		if d.door != nil {
			d.opened(d.door.Close) // first: the listener waits for its replies
		}
		d.opened(func(context.Context) error { d.pages.Close(); return nil }) // and for the streams of pages
	}
	if err := d.eraseAnswers(); err != nil {
		return err
	}
	if err := d.startFollow(); err != nil {
		return err
	}
	return permitted(ctx, serviceRole, d.client)
}

// countConnections makes the metric of the two connections.
func (d *Daemon) countConnections(registry *prometheus.Registry) {
	for role, nc := range map[string]*nats.Conn{ledgerRole: d.ledgerConn, serviceRole: d.client} {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "nexus_nats_connected", Help: "1 while the connection to NATS is up, 0 while it reconnects.",
			ConstLabels: prometheus.Labels{"connection": role},
		}, func() float64 {
			if nc.IsConnected() {
				return 1
			}
			return 0
		}))
	}
}

// modelWorkers is the number of compactions that may wait for models at a time.
const modelWorkers = 8

// workGrace is how long compactions may take to end once they are cancelled.
const workGrace = 5 * time.Second

// work starts the timers of resets, and the workers that compact in the background: one for four processors,
// or modelWorkers where models write the summaries, since those mostly wait.
func (d *Daemon) work() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	n := max(1, runtime.GOMAXPROCS(0)/4)
	if len(d.cfg.Models) > 0 {
		n = max(n, modelWorkers)
	}
	for range n {
		running.Go(func() { d.engine.Compactions.Work(ctx) })
	}
	running.Go(func() { d.engine.Resets.RunResets(ctx) })
	running.Go(func() { d.engine.Extraction.RunExtractions(ctx) })
	running.Go(func() { d.engine.Episodes.RunEpisodes(ctx) })
	d.opened(func(context.Context) error {
		cancel()
		done := make(chan struct{})
		go func() { running.Wait(); close(done) }()
		select {
		case <-done:
			return nil
		case <-time.After(workGrace):
			return fmt.Errorf("compactions did not end within %v after they were cancelled", workGrace)
		}
	})
}

// searchLinger is how long the search index waits for more events before it stores a batch,
// which costs fsyncs.
const searchLinger = 50 * time.Millisecond

// searchDelay lets a start serve its first requests before the search index reads its files.
const searchDelay = time.Second

// searchRest lets the index take a thirtieth of a processor while events come and nobody
// searches: an event takes longer to index than to store, and the library merges besides.
const searchRest = 30

// startSearch begins to follow the projections with the search index, if there is one.
func (d *Daemon) startSearch(registry prometheus.Registerer) {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "nexus_search_behind", Help: "Events that the search index has not seen yet."},
		func() float64 { return float64(d.engine.Search.Behind()) }))
	d.run(d.engine.Search.Run)
}

// startFiles begins to write the files that policies ask for, unless the
// configuration says "off".
func (d *Daemon) startFiles(registry prometheus.Registerer) (*files.Exporter, error) {
	if d.cfg.Files == "off" {
		return nil, nil
	}
	x, err := files.Open(files.Config{Dir: d.cfg.Files, Source: d.engine.Archive, Logger: d.logger, Registry: registry})
	if err != nil {
		return nil, err
	}
	d.opened(func(context.Context) error { return x.Close() })
	d.run(x.Run)
	return x, nil
}

// ready returns why the daemon can't serve; nil if it can. A chain that is set
// aside concerns one session and is no reason: the metric nexus_chains_set_aside
// counts such chains, the log and audit.verify name them.
func (d *Daemon) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := errors.Join(connected(ledgerRole, d.ledgerConn), connected(serviceRole, d.client)); err != nil {
		return err
	}
	if err := d.storage.Sound(); err != nil {
		return err
	}
	if d.signer != nil {
		if err := d.signer.Inconsistent(); err != nil {
			return err
		}
	}
	st, err := d.storage.Log.State(ctx)
	if err != nil {
		return err
	}
	if err := st.Sound(); err != nil {
		return err
	}
	return d.storage.Projections.WaitFor(ctx, st.Last)
}

// notes are what an operator of a ledger that serves should know.
func (d *Daemon) notes() (out []string) {
	if d.signer != nil {
		if _, err := d.signer.Elsewhere(); err != nil {
			out = append(out, "checkpoints are not written elsewhere: "+err.Error())
		}
	}
	return append(out, d.storage.Notes()...)
}

func (d *Daemon) notify(tenant, agent string, n api.Notification) {
	of := n.Session.String()
	if n.ChannelID != "" {
		of = n.ChannelID
	}
	subject := "nexus.v1." + tenant + "." + agent + ".notify." + of + "." + n.Kind
	if d.server != nil && !d.server.HasSubscribers(subject) {
		return // the server would drop it
	}
	b, err := turns.EncodeJSON(n)
	if err != nil {
		return
	}
	// A hint: what is lost here is found by listing after the last position.
	if err := d.client.Publish(subject, b); err != nil {
		d.logger.Warn("notify", "err", err)
	}
}

// CheckpointKey returns the public key of the checkpoints; "" where none are signed.
func (d *Daemon) CheckpointKey() string {
	if d.signer == nil {
		return ""
	}
	return d.signer.Public()
}

// ClientURL returns where clients connect, without user and password.
func (d *Daemon) ClientURL() string { return d.url }

// Clients returns how many clients are connected to the embedded server, and how many ever were.
func (d *Daemon) Clients() (open int, ever uint64) { return d.server.Clients() }

// Quiesce lets no client in any more if none is connected, and reports whether that is so.
func (d *Daemon) Quiesce() bool { return d.server.Quiesce() }

// HTTPURL returns where health and metrics are; "" when off.
func (d *Daemon) HTTPURL() string {
	if d.web == nil {
		return ""
	}
	return d.web.url
}

// Fsyncs counts the fsyncs of the log and the blobs since the start; 0 on an external server.
func (d *Daemon) Fsyncs() uint64 { return d.storage.Fsyncs() }

// Failed yields the error of a part that failed. The caller then closes the daemon.
func (d *Daemon) Failed() <-chan error { return d.failed }

func (d *Daemon) opened(f func(context.Context) error) { d.closers = append(d.closers, f) }

// run runs f beside requests. What it opened before is closed after f has ended.
func (d *Daemon) run(f func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { f(ctx); close(done) }()
	d.opened(func(context.Context) error { cancel(); <-done; return nil })
}

// Close stops serving, lets requests end as long as ctx lets them, and closes
// everything in reverse order of opening. It can be called twice.
func (d *Daemon) Close(ctx context.Context) error {
	d.once.Do(func() {
		d.closing.Store(true)
		var errs []error
		for i := len(d.closers) - 1; i >= 0; i-- {
			errs = append(errs, d.closers[i](ctx))
		}
		if d.closed = errors.Join(errs...); d.closed != nil {
			d.logger.Error("stopped with errors", "err", d.closed)
			return
		}
		if d.served { // else whoever opened it has the error, and may try again
			d.logger.Info("stopped")
		}
	})
	return d.closed
}

// Credentials returns the files of the daemon's own users; none with auth off, and
// on an external server.
func (d *Daemon) Credentials() config.Credentials { return d.credentials }

// Connect connects to the daemon's NATS server as its operator would.
func (d *Daemon) Connect(opts ...nats.Option) (*nats.Conn, error) {
	return client.Dial(d.ClientURL(), d.credentials.Operator, opts...)
}

package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

const (
	ledgerUser, serviceUser = "ledger", "service"
	secret                  = "s3cr3t-w0rd"
)

// twoAccounts gives a server the accounts of decision 4: LEDGER owns JetStream,
// AGENTS is where clients and the service are.
func twoAccounts(o *server.Options) {
	ledgerAccount, agents := server.NewAccount("LEDGER"), server.NewAccount("AGENTS")
	o.Accounts = []*server.Account{ledgerAccount, agents}
	o.Users = []*server.User{{Username: ledgerUser, Password: secret, Account: ledgerAccount}, {Username: serviceUser, Password: secret, Account: agents}}
}

// as returns the server's URL with a user of the tests.
func as(s *server.Server, user string) string {
	return strings.Replace(s.ClientURL(), "nats://", "nats://"+user+":"+secret+"@", 1)
}

// withAccounts returns a server with [twoAccounts].
func withAccounts(t *testing.T, change func(*server.Options)) *server.Server {
	t.Helper()
	s := natsServer(t, func(o *server.Options) {
		twoAccounts(o)
		if change != nil {
			change(o)
		}
	})
	a, err := s.LookupAccount("LEDGER")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.EnableJetStream(nil, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// On an external server too, clients of another account can't reach the streams.
func TestTheServiceCanLiveInAnotherAccountThanTheStreams(t *testing.T) {
	s := withAccounts(t, nil)
	d, err := Open(t.Context(), config.Config{Plaintext: true, NATS: as(s, ledgerUser), NATSService: as(s, serviceUser), Replicas: 1, Create: true, Data: t.TempDir(), HTTP: "off"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	nc, err := nats.Connect(as(s, serviceUser))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := client.New(nc, "default", "main").Create(t.Context(), api.CreateSession{}); err != nil {
		t.Error(err)
	}
	for _, subject := range []string{"$JS.API.STREAM.DELETE.NEXUS_LEDGER", "nexus.log.00.default.s.X", "nexus.blobs.x"} {
		m, err := nc.Request(subject, nil, untilTheTestEnds(t))
		if !errors.Is(err, nats.ErrNoResponders) && (err != nil || !strings.Contains(string(m.Data), "not enabled")) {
			t.Errorf("%s: %v, %+v; want nobody to answer", subject, err, m)
		}
	}
	if st, err := d.storage.Log.State(t.Context()); err != nil || st.Last != 2 {
		t.Errorf("the log: %+v, %v; want a policy and a session", st, err)
	}
}

// While a connection is down the daemon says so, in log, metric and readyz; it
// comes back by itself and serves again.
func TestADaemonReconnectsToTheServerAndTellsMeanwhile(t *testing.T) {
	store := t.TempDir()
	fixed := func(port int) func(*server.Options) {
		return func(o *server.Options) { o.StoreDir, o.Port = store, port }
	}
	s := natsServer(t, fixed(server.RANDOM_PORT))
	port := s.Addr().(*net.TCPAddr).Port
	logs := new(lockedBuffer)
	d, c := startWith(t, config.Config{Plaintext: true, NATS: s.ClientURL(), Replicas: 1, Create: true, Data: t.TempDir(), HTTP: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(logs, nil))})
	sess, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	if n := s.NumClients(); n != 4 {
		t.Errorf("%d connections to the server, want the client's and three of the daemon: of the log, of the service, of its tools", n)
	}
	s.Shutdown()
	s.WaitForShutdown()
	await(t, d, "readyz, disconnected", func() bool {
		body := read(t, d.HTTPURL()+"/readyz")
		return strings.Contains(body, "ledger connection") && strings.Contains(body, "service connection")
	})
	for _, role := range []string{"ledger", "service"} {
		if body := read(t, d.HTTPURL()+"/metrics"); !strings.Contains(body, `nexus_nats_connected{connection="`+role+`"} 0`) {
			t.Errorf("no metric of the %s connection that is down", role)
		}
		await(t, d, "the log of the "+role+" connection", func() bool { // it comes from a goroutine of the connection
			return strings.Contains(logs.String(), `msg="disconnected from NATS; it reconnects for ever" connection=`+role)
		})
	}
	natsServer(t, fixed(port))
	await(t, d, "readyz, connected", func() bool { return read(t, d.HTTPURL()+"/readyz") == "ok\n" })
	for _, role := range []string{"ledger", "service"} {
		if body := read(t, d.HTTPURL()+"/metrics"); !strings.Contains(body, `nexus_nats_connected{connection="`+role+`"} 1`) {
			t.Errorf("no metric of the %s connection that is up again", role)
		}
	}
	m := turns.TextMessage(turns.Assistant, "here")
	r := api.AppendTurn{ID: api.NewID(), Messages: []turns.Message{turns.TextMessage(turns.User, "there?")}, Response: &m}
	await(t, d, "an append", func() bool { // the client's own connection comes back too
		_, err := c.Append(t.Context(), sess.ID, r)
		return err == nil
	})
	if got, err := c.Session(t.Context(), sess.ID); err != nil || got.Depth != 1 {
		t.Errorf("%+v, %v; want one turn", got, err)
	}
}

// await asks until it is so, the daemon ends, or the test's time is up.
func await(t *testing.T, d *Daemon, what string, isSo func() bool) {
	t.Helper()
	end := time.After(untilTheTestEnds(t))
	for !isSo() {
		select {
		case err := <-d.Failed():
			t.Fatalf("%s: the daemon ended: %v", what, err)
		case <-end:
			t.Fatalf("%s: not before the test's time is up", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func read(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The error that stops a start on an external server is in plain words, with what to
// do, soon, and without the password.
func TestAStartOnAnExternalServerNamesTheRemedy(t *testing.T) {
	deny := func(user string, publish, subscribe []string) func(*server.Options) {
		return func(o *server.Options) {
			for _, u := range o.Users {
				if u.Username == user {
					u.Permissions = &server.Permissions{Publish: &server.SubjectPermission{Deny: publish}, Subscribe: &server.SubjectPermission{Deny: subscribe}}
				}
			}
		}
	}
	accounts := func(change func(*server.Options)) func(*testing.T) config.Config {
		return func(t *testing.T) config.Config {
			s := withAccounts(t, change)
			return config.Config{Plaintext: true, NATS: as(s, ledgerUser), NATSService: as(s, serviceUser), Replicas: 1, Create: true}
		}
	}
	for name, tc := range map[string]struct {
		config func(*testing.T) config.Config
		kind   error
		want   []string
	}{
		"no stream": {func(t *testing.T) config.Config {
			return config.Config{Plaintext: true, NATS: natsServer(t, nil).ClientURL(), Replicas: 1}
		}, ledger.ErrNotFound, []string{"stream NEXUS_LEDGER", "--create"}},
		"three copies on one server": {func(t *testing.T) config.Config {
			return config.Config{Plaintext: true, NATS: natsServer(t, nil).ClientURL(), Create: true}
		}, nil, []string{"3 copies", "--replicas 1"}},
		"a stream with one copy": {func(t *testing.T) config.Config {
			c := config.Config{Plaintext: true, NATS: natsServer(t, nil).ClientURL(), Replicas: 1, Create: true, Data: t.TempDir(), HTTP: "off"}
			d, err := Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.Replicas, c.Create = 0, false
			return c
		}, nil, []string{"1 replicas", "--replicas 1"}},
		"no JetStream on the server": {func(t *testing.T) config.Config {
			return config.Config{Plaintext: true, NATS: natsServer(t, func(o *server.Options) { o.JetStream = false }).ClientURL(), Replicas: 1, Create: true}
		}, nil, []string{"enable JetStream"}},
		"no JetStream in the account": {func(t *testing.T) config.Config {
			s := natsServer(t, twoAccounts)
			return config.Config{Plaintext: true, NATS: as(s, ledgerUser), NATSService: as(s, serviceUser), Replicas: 1, Create: true}
		}, nil, []string{"enable JetStream"}},
		"a wrong password": {func(t *testing.T) config.Config {
			s := withAccounts(t, nil)
			return config.Config{Plaintext: true, NATS: strings.Replace(as(s, ledgerUser), secret, secret+"x", 1), Replicas: 1}
		}, nats.ErrAuthorization, []string{"for the ledger", "check the user and the password"}},
		"a wrong password of the service": {func(t *testing.T) config.Config {
			s := withAccounts(t, nil)
			return config.Config{Plaintext: true, NATS: as(s, ledgerUser), NATSService: strings.Replace(as(s, serviceUser), secret, secret+"x", 1), Replicas: 1}
		}, nats.ErrAuthorization, []string{"for the service", "check the user and the password"}},
		"no server": {func(t *testing.T) config.Config {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close() // before the start: nobody listens then
			return config.Config{Plaintext: true, NATS: "nats://u:" + secret + "@" + l.Addr().String(), Replicas: 1}
		}, nats.ErrNoServers, []string{"check that the server runs"}},
		"no permission for the API":        {accounts(deny(ledgerUser, []string{"$JS.API.>"}, nil)), ErrRefused, []string{"ledger connection", "$JS.API.STREAM.INFO"}},
		"no permission to make a consumer": {accounts(deny(ledgerUser, []string{"$JS.API.CONSUMER.CREATE.>"}, nil)), ErrRefused, []string{"ledger connection", "CONSUMER.CREATE"}},
		"no permission to append":          {accounts(deny(ledgerUser, []string{"nexus.log.>"}, nil)), ErrRefused, []string{"ledger connection", "nexus.log."}},
		"no permission to store blobs":     {accounts(deny(ledgerUser, []string{"nexus.blobs.>"}, nil)), ErrRefused, []string{"ledger connection", "nexus.blobs."}},
		"no permission to hear answers":    {accounts(deny(ledgerUser, nil, []string{"_INBOX.>"})), ErrRefused, []string{"ledger connection", "_INBOX"}},
		"no permission to serve":           {accounts(deny(serviceUser, nil, []string{"nexus.v1.>"})), ErrRefused, []string{"service connection", "nexus.v1."}},
		"a URL that can't be read": {func(*testing.T) config.Config {
			return config.Config{Plaintext: true, NATS: "nats://u:" + secret + "%zz@127.0.0.1:1"}
		}, turns.ErrMalformed, []string{"nats: URL 1"}},
		"another URL for the service, inside": {func(*testing.T) config.Config { return config.Config{NATSService: "nats://127.0.0.1:1"} }, turns.ErrMalformed, []string{"nats_service"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := tc.config(t)
			if c.Data == "" {
				c.Data = t.TempDir()
			}
			logs := new(lockedBuffer)
			c.HTTP, c.Logger = "off", slog.New(slog.NewTextHandler(logs, nil))
			d, err := Open(t.Context(), c)
			if err == nil {
				_ = d.Close(t.Context())
				t.Fatal("it started")
			}
			if tc.kind != nil && !errors.Is(err, tc.kind) {
				t.Errorf("%v, want %v", err, tc.kind)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if strings.Contains(err.Error()+logs.String(), secret) {
				t.Errorf("the password shows: %v\n%s", err, logs)
			}
		})
	}
}

// The ready line shows no password and no token, and the log neither.
func TestTheClientURLShowsNoPassword(t *testing.T) {
	s := withAccounts(t, nil)
	for name, url := range map[string]string{"one URL": as(s, ledgerUser), "two": as(s, ledgerUser) + "," + as(s, ledgerUser)} {
		t.Run(name, func(t *testing.T) {
			logs := new(lockedBuffer)
			d, err := Open(t.Context(), config.Config{Plaintext: true, NATS: url, Replicas: 1, Create: true, Data: t.TempDir(), HTTP: "off", Logger: slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close(t.Context())
			if want := strings.ReplaceAll(url, ledgerUser+":"+secret+"@", ""); d.ClientURL() != want || strings.Contains(logs.String(), secret) {
				t.Errorf("%s, want %s; the log:\n%s", d.ClientURL(), want, logs)
			}
		})
	}
}

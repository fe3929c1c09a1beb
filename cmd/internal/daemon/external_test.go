package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/engine/page"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Two daemons on one external server, each with projections of its own: the
// service spreads requests over both, and it makes no difference which one
// answers. A retry through the other stores nothing twice.
func TestTwoDaemonsOnAnExternalServer(t *testing.T) {
	s := natsServer(t, nil)
	for i := range 2 {
		d, err := Open(t.Context(), config.Config{Plaintext: true, NATS: s.ClientURL(), Replicas: 1, Create: i == 0, Data: t.TempDir(), HTTP: "off"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), untilTheTestEnds(t))
			defer cancel()
			if err := d.Close(ctx); err != nil {
				t.Error(err)
			}
		}()
	}
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := client.New(nc, "default", "main")
	ctx := t.Context()
	sess, err := c.Create(ctx, api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		m := turns.TextMessage(turns.Assistant, fmt.Sprint("answer ", i))
		r := api.AppendTurn{ID: api.NewID(), Messages: []turns.Message{turns.TextMessage(turns.User, fmt.Sprint("question ", i))}, Response: &m}
		first, err := c.Append(ctx, sess.ID, r)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // by chance on one daemon or the other
			again, err := c.Append(ctx, sess.ID, r)
			if err != nil || again.Hash != first.Hash || !again.Duplicate {
				t.Fatalf("retry: %+v, %v; first %+v", again, err, first)
			}
		}
		if got, err := c.Session(ctx, sess.ID); err != nil || got.Depth != uint64(i+1) {
			t.Fatalf("after turn %d: depth %d, %v", i, got.Depth, err)
		}
	}
	v, err := c.As(api.Operator).Verify(ctx)
	if err != nil || !v.OK || v.Turns != 60 {
		t.Errorf("verify: %+v, %v", v, err)
	}
}

// On a server of somebody else's anyone with the permission can store what is no event, on
// a session's subject or on another. It sets that chain aside, on every daemon and after a
// restart, and stops nothing else.
func TestAForeignMessageStopsNoDaemon(t *testing.T) {
	s := natsServer(t, nil)
	dir := t.TempDir()
	open := func(create bool, data string) *Daemon {
		d, err := Open(t.Context(), config.Config{Plaintext: true, NATS: s.ClientURL(), Replicas: 1, Create: create, Data: data, HTTP: "off"})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	closed := func(d *Daemon) {
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	d := open(true, dir)
	nc := must[*nats.Conn](t)(nats.Connect(s.ClientURL()))
	defer nc.Close()
	c := client.New(nc, "default", "main")
	hit, other := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{})), must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, hit.ID, 2)
	for _, subject := range []string{"nexus.log.no.chain", ledger.SessionSubject("default", hit.ID, hit.ID)} { // the last record is foreign
		if _, err := nc.Request(subject, []byte("not an event"), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	rounds := func(d *Daemon, aside int) {
		t.Helper()
		seq := must[uint64](t)(page.ParsePosition(extend(t, c, other.ID, 1).Position))
		if err := d.storage.Projections.WaitFor(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
		if n := d.storage.Projections.SetAside(); n != aside || d.ready() != nil {
			t.Errorf("%d chains are set aside, ready: %v; want %d", n, d.ready(), aside)
		}
		if _, err := c.Append(t.Context(), hit.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "go on")}}); !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("append to the session that was hit: %v, want corrupt", err)
		}
		v, err := c.As(api.Operator).Verify(t.Context())
		if err != nil || v.OK || len(v.Problems) < 2 {
			t.Errorf("verify: %+v, %v; want both messages named", v, err)
		}
	}
	rounds(d, 2)
	closed(d)
	d = open(false, dir)
	rounds(d, 2)
	closed(d)
	d = open(false, t.TempDir()) // with projections of its own
	rounds(d, 2)
	closed(d)
}

func TestAnExternalServerNeedsPlaintextInSoManyWords(t *testing.T) {
	for name, tc := range map[string]struct {
		config config.Config
		want   string // in the error; "" for none
	}{
		"plaintext":                  {config.Config{NATS: "nats://x:4222", Plaintext: true}, ""},
		"plaintext and seal off":     {config.Config{NATS: "nats://x:4222", Plaintext: true, Seal: "off"}, ""},
		"nothing":                    {config.Config{NATS: "nats://x:4222"}, "--plaintext"},
		"seal off alone":             {config.Config{NATS: "nats://x:4222", Seal: "off"}, "--plaintext"},
		"seal on":                    {config.Config{NATS: "nats://x:4222", Seal: "on"}, "shared key store"},
		"seal on and plaintext":      {config.Config{NATS: "nats://x:4222", Seal: "on", Plaintext: true}, "shared key store"},
		"the embedded server":        {config.Config{}, ""},
		"plaintext of the embedded":  {config.Config{Plaintext: true}, "external server"},
		"seal off with the embedded": {config.Config{Seal: "off"}, ""},
	} {
		if err := tc.config.Validate(); tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	if _, err := Open(t.Context(), config.Config{NATS: "nats://x:4222", Data: t.TempDir()}); !errors.Is(err, turns.ErrMalformed) {
		t.Errorf("a start: %v, want malformed", err)
	}
}

// The servers tell their fsync policy to an account that imports it from the system
// account, and to no other. The start says which it is, or that it is not known.
func TestAStartSaysWhetherTheServersSync(t *testing.T) {
	const accounts = `
accounts {
  SYS { users: [{user: sys, password: x}], exports: [{service: "$SYS.REQ.SERVER.PING.VARZ", response_type: "stream", accounts: [LEDGER]}] }
  LEDGER { jetstream: enabled, users: [{user: ledger, password: x}], imports: [{service: {account: SYS, subject: "$SYS.REQ.SERVER.PING.VARZ"}}] }
}
system_account: SYS
`
	for _, tc := range []struct {
		name, config, user string
		always             bool
		want               string
	}{
		{"not permitted", "", "", true, "it can't be known here"},
		{"always", accounts, "ledger", true, "write each event to the disk before they acknowledge it"},
		{"every two minutes", accounts, "ledger", false, "a power cut can take acknowledged events"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := natsServer(t, func(o *server.Options) {
				o.SyncAlways, o.SyncInterval = tc.always, 2*time.Minute
				if tc.config == "" {
					return
				}
				file := filepath.Join(t.TempDir(), "nats.conf")
				if err := os.WriteFile(file, []byte(tc.config), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := o.ProcessConfigFile(file); err != nil {
					t.Fatal(err)
				}
			})
			url, logs := s.ClientURL(), new(lockedBuffer)
			if tc.user != "" {
				url = strings.Replace(url, "://", "://"+tc.user+":x@", 1)
			}
			d, err := Open(t.Context(), config.Config{Plaintext: true, NATS: url, Replicas: 1, Create: true, Data: t.TempDir(), HTTP: "off", Logger: slog.New(slog.NewTextHandler(logs, nil))})
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if !strings.Contains(logs.String(), tc.want) {
				t.Errorf("it says %s; want %q", logs, tc.want)
			}
		})
	}
}

// The accounts that the page for operators shows keep users apart on an external
// server.
func TestAccountsOfTheOperationsPageKeepUsersApart(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "TEAM.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(page), "```text\naccounts {")
	text, _, ended := strings.Cut(text, "```")
	if !ok || !ended {
		t.Fatal("the page has no accounts")
	}
	key, seed := newKey(t)
	text = "accounts {" + strings.NewReplacer("password: …", "password: x", "U…", key).Replace(text)
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := natsServer(t, func(o *server.Options) {
		if err := o.ProcessConfigFile(file); err != nil {
			t.Fatal(err)
		}
	})
	as := func(user string) string { return strings.Replace(s.ClientURL(), "://", "://"+user+":x@", 1) }
	d, err := Open(t.Context(), config.Config{Plaintext: true, NATS: as("ledger"), NATSService: as("service"), Replicas: 1, Create: true, Data: t.TempDir(), HTTP: "off"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if d.Credentials() != (config.Credentials{}) {
		t.Error("it made credentials that the server does not know")
	}
	nc := dial(t, d, seed)
	hints, err := nc.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	created, err := client.New(nc, "default", "alice").Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.New(nc, "default", "alice").Append(t.Context(), created.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "q")}}); err != nil {
		t.Fatal(err)
	}
	for m := (*nats.Msg)(nil); m == nil || !strings.HasSuffix(m.Subject, ".turn.appended"); {
		if m, err = hints.NextMsg(untilTheTestEnds(t)); err != nil {
			t.Fatal(err)
		}
	}
	if err := hints.Unsubscribe(); err != nil { // it would count as a responder
		t.Fatal(err)
	}
	for _, subject := range []string{"nexus.v1.default.bob.session.list", "nexus.v1.default._.session.list", "nexus.log.00.default.s.X", "$JS.API.INFO"} {
		if m, err := nc.Request(subject, []byte("{}"), untilTheTestEnds(t)); !errors.Is(err, nats.ErrNoResponders) && (err != nil || !strings.Contains(string(m.Data), "not enabled")) {
			t.Errorf("%s: %v, %v", subject, m, err)
		}
	}
}

// The configuration of three servers that the page for operators shows makes a cluster that
// serves a ledger of three copies, also when a server has stopped. The agents' user can't act
// as the operator.
func TestThreeServersOfTheOperationsPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "TEAM.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(page), "```text\nserver_name: n1\n")
	text, _, ended := strings.Cut(text, "```")
	if !ok || !ended {
		t.Fatal("the page has no configuration of three servers")
	}
	ports := freePorts(t, 6) // of clients, then of routes
	dir, ss, logs := t.TempDir(), make([]*server.Server, 3), new(lockedBuffer)
	for i := range ss {
		replace := []string{"0.0.0.0:4222", fmt.Sprint("127.0.0.1:", ports[i]), "0.0.0.0:6222", fmt.Sprint("127.0.0.1:", ports[3+i]),
			"/var/lib/nats", filepath.Join(dir, fmt.Sprint("js", i)), "200GB", "1GB"}
		for k := range ss {
			replace = append(replace, fmt.Sprintf("@n%d:6222", k+1), fmt.Sprint("@127.0.0.1:", ports[3+k]))
		}
		file := filepath.Join(dir, fmt.Sprintf("n%d.conf", i+1))
		if err := os.WriteFile(file, fmt.Appendf(nil, "server_name: n%d\n%s", i+1, strings.NewReplacer(replace...).Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := server.ProcessConfigFile(file)
		if err != nil {
			t.Fatal(err)
		}
		o.NoSigs, o.NoLog = true, true
		if ss[i], err = server.NewServer(o); err != nil {
			t.Fatal(err)
		}
		ss[i].Start()
		defer func() { ss[i].Shutdown(); ss[i].WaitForShutdown() }()
	}
	as := func(user, password string) string {
		var urls []string
		for _, port := range ports[:3] {
			urls = append(urls, fmt.Sprintf("nats://%s:%s@127.0.0.1:%d", user, password, port))
		}
		return strings.Join(urls, ",")
	}
	var d *Daemon
	for d == nil { // until the servers have a leader
		d, err = Open(t.Context(), config.Config{Plaintext: true, NATS: as("ledger", "LEDGERWORD"), NATSService: as("service", "SERVICEWORD"), Replicas: 3, Create: true,
			Data: t.TempDir(), HTTP: "off", Logger: slog.New(slog.NewTextHandler(logs, nil))})
		if deadline, ok := t.Deadline(); err != nil && ok && time.Until(deadline) < 10*time.Second {
			t.Fatal(err)
		}
	}
	defer func() {
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if want := "write each event to the disk before they acknowledge it"; !strings.Contains(logs.String(), want) {
		t.Errorf("it says %s; want %q", logs, want)
	}
	connect := func(user, password string) *nats.Conn {
		nc, err := nats.Connect(as(user, password))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	agents := connect("agents", "AGENTSWORD")
	c := client.New(agents, "default", "main")
	ask := func() api.AppendTurn {
		return api.AppendTurn{ID: api.NewID(), Messages: []turns.Message{turns.TextMessage(turns.User, "q")}}
	}
	created, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Append(t.Context(), created.ID, ask()); err != nil {
		t.Fatal(err)
	}
	ss[0].Shutdown()
	for r := ask(); ; { // the same turn again until a leader is chosen
		_, err := c.Append(t.Context(), created.ID, r)
		if err == nil {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	v, err := client.New(connect("operator", "OPERATORWORD"), "default", api.Operator).Verify(t.Context())
	if err != nil || !v.OK || v.Turns != 2 {
		t.Errorf("verify: %+v, %v", v, err)
	}
	if _, err := c.As(api.Operator).Verify(t.Context()); err == nil {
		t.Error("the user of the agents acts as the operator")
	}
	if m, err := agents.Request("$JS.API.INFO", nil, untilTheTestEnds(t)); !errors.Is(err, nats.ErrNoResponders) && (err != nil || !strings.Contains(string(m.Data), "not enabled")) {
		t.Errorf("the user of the agents reaches the streams: %v, %v", m, err)
	}
}

// freePorts returns n ports that were free at the same time.
func freePorts(t *testing.T, n int) (out []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		out = append(out, l.Addr().(*net.TCPAddr).Port)
	}
	return out
}

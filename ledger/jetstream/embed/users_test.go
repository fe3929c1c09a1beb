package embed_test

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"nexus/ledger/jetstream/embed"
	"nexus/ledger/ledgertest"
)

// world is a server with the users alice and bob, and the service's connection.
type world struct {
	*embed.Server
	service *nats.Conn
	seeds   map[string]string // files, by the name of the user
	options []nats.Option     // of every client
	trust   *tls.Config       // nil: without TLS
}

func newWorld(t *testing.T) *world { return newWorldWith(t, nil) }

// newWorldWith is newWorld with TLS, if secured is not nil.
func newWorldWith(t *testing.T, secured *tls.Config) *world {
	t.Helper()
	w := &world{seeds: make(map[string]string)}
	var users []embed.User
	c := embed.Config{DataDir: t.TempDir(), Listen: "127.0.0.1:0", MaxStore: 1 << 30, TLS: secured,
		Services: []string{"nexus.v1.*.*.session.>", "nexus.v1.*.*.turn.>", "$SRV.>"}, Streams: []string{"nexus.v1.*.*.notify.>"}}
	for _, name := range []string{"alice", "bob"} {
		pair, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		public, err := pair.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		seed, err := pair.Seed()
		if err != nil {
			t.Fatal(err)
		}
		w.seeds[name] = filepath.Join(t.TempDir(), name+".nk")
		if err := os.WriteFile(w.seeds[name], seed, 0o600); err != nil {
			t.Fatal(err)
		}
		users = append(users, embed.User{Name: name, NKey: public, Streams: []string{"nexus.v1.default." + name + ".notify.>"}})
	}
	c.Users = func() ([]embed.User, error) { return users, nil }
	var err error
	if w.Server, err = embed.Start(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, w.Server) })
	if w.service, err = w.ServiceConn(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.service.Close)
	return w
}

// as is a connection with stock nats.go and the seed of a user.
func (w *world) as(t *testing.T, user string) *nats.Conn {
	t.Helper()
	o, err := nats.NkeyOptionFromSeed(w.seeds[user])
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(w.ClientURL(), append(w.options, o)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// echo answers each request with the name of the user that it comes from.
func (w *world) echo(t *testing.T) {
	t.Helper()
	for _, subject := range []string{"nexus.v1.>"} {
		if _, err := w.service.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond([]byte(w.sender(m))) }); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, w.service)
}

func (w *world) sender(m *nats.Msg) string {
	var info struct {
		Acc string `json:"acc"`
	}
	if err := json.Unmarshal([]byte(m.Header.Get(embed.RequestHeader)), &info); err != nil {
		return "nobody"
	}
	u, ok := w.UserOf(info.Acc)
	if !ok {
		return "unknown"
	}
	return u.Name
}

// address is where clients connect.
func (w *world) address(t *testing.T) string {
	u, err := url.Parse(w.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func flush(t *testing.T, nc *nats.Conn) {
	t.Helper()
	if err := nc.FlushWithContext(ledgertest.Within(t)); err != nil {
		t.Fatal(err)
	}
}

func TestRequestNamesItsUser(t *testing.T) {
	w := newWorld(t)
	w.echo(t)
	for _, name := range []string{"alice", "bob"} {
		m, err := w.as(t, name).RequestWithContext(ledgertest.Within(t), "nexus.v1.default.alice.turn.append.X", nil)
		if err != nil || string(m.Data) != name {
			t.Errorf("a request of %s came from %q, %v", name, answer(m), err)
		}
	}
}

func TestConnectionWithoutKnownKeyIsRefused(t *testing.T) {
	w := newWorld(t)
	if err := os.WriteFile(w.seeds["bob"], []byte("SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTC4"), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := nats.NkeyOptionFromSeed(w.seeds["bob"])
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]nats.Option{
		"no credentials": nats.Name("x"), "another key": other,
		"the service's user": nats.UserInfo("service", ""), "the ledger's user": nats.UserInfo("ledger", ""),
	} {
		if nc, err := nats.Connect(w.ClientURL(), o); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v, want an authorization violation", name, err)
			if err == nil {
				nc.Close()
			}
		}
	}
}

// A subscriber to everything, and a member of a queue group on the service's
// subjects, get what their own user publishes and nothing of another.
func TestUserHearsOnlyItself(t *testing.T) {
	w := newWorld(t)
	w.echo(t)
	bob, alice := w.as(t, "bob"), w.as(t, "alice")
	heard := make(chan *nats.Msg, 1000)
	for _, subject := range []string{">", "nexus.v1.*.*.turn.append.*", "nexus.v1.>", "_R_.>", "_INBOX.>", "nexus.v1.default.alice.notify.>"} {
		if _, err := bob.ChanSubscribe(subject, heard); err != nil {
			t.Fatal(err)
		}
		if _, err := bob.ChanQueueSubscribe(subject, "q", heard); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, bob)
	const requests = 60
	for range requests {
		m, err := alice.RequestWithContext(ledgertest.Within(t), "nexus.v1.default.alice.turn.append.X", []byte("secret"))
		if err != nil || string(m.Data) != "alice" {
			t.Fatalf("answered %q, %v", answer(m), err)
		}
	}
	if err := errors.Join(w.service.Publish("nexus.v1.default.alice.notify.S.turn.appended", nil), alice.Publish("any", nil)); err != nil {
		t.Fatal(err)
	}
	flush(t, w.service)
	flush(t, alice)
	if err := bob.Publish("nexus.v1.default.bob.own", nil); err != nil {
		t.Fatal(err)
	}
	flush(t, bob) // all that came before is delivered
	for len(heard) > 0 {
		if m := <-heard; m.Subject != "nexus.v1.default.bob.own" {
			t.Errorf("bob heard %s: %q", m.Subject, m.Data)
		}
	}
}

func TestNotificationsReachTheirUserOnly(t *testing.T) {
	w := newWorld(t)
	subs := make(map[string]*nats.Subscription)
	for _, name := range []string{"alice", "bob"} {
		nc := w.as(t, name)
		var err error
		if subs[name], err = nc.SubscribeSync("nexus.v1.>"); err != nil {
			t.Fatal(err)
		}
		flush(t, nc)
	}
	// A forged one, published by bob, reaches bob alone.
	bob := w.as(t, "bob")
	if err := bob.Publish("nexus.v1.default.alice.notify.S.forged", nil); err != nil {
		t.Fatal(err)
	}
	flush(t, bob)
	for _, name := range []string{"alice", "bob"} {
		if err := w.service.Publish("nexus.v1.default."+name+".notify.S.turn.appended", nil); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, w.service)
	want := map[string][]string{
		"alice": {"nexus.v1.default.alice.notify.S.turn.appended"},
		"bob":   {"nexus.v1.default.alice.notify.S.forged", "nexus.v1.default.bob.notify.S.turn.appended"},
	}
	for name, subjects := range want {
		for _, subject := range subjects {
			m, err := subs[name].NextMsgWithContext(ledgertest.Within(t))
			if err != nil || m.Subject != subject {
				t.Fatalf("%s heard %v, %v; want %s", name, m, err, subject)
			}
		}
		if n, _, err := subs[name].Pending(); n != 0 || err != nil {
			t.Errorf("%s heard %d more, %v", name, n, err)
		}
	}
}

// A user reaches neither the streams, nor the API of JetStream, nor the system.
func TestUserCannotReachTheLedger(t *testing.T) {
	w := newWorld(t)
	l, nc := open(t, w.Server, true)
	t.Cleanup(nc.Close)
	tail := grow(t, l, 0, 3)
	alice := w.as(t, "alice")
	for _, to := range []string{subject, "nexus.blobs.x", "$JS.API.INFO", "$JS.API.STREAM.DELETE.NEXUS_LEDGER", "$JS.API.STREAM.MSG.GET.NEXUS_LEDGER",
		"$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT." + embed.LedgerAccount + ".CONNZ"} {
		m, err := alice.RequestWithContext(ledgertest.Within(t), to, []byte("{}"))
		if !errors.Is(err, nats.ErrNoResponders) && !strings.Contains(answer(m), "not enabled") {
			t.Errorf("%s answered %q, %v", to, answer(m), err)
		}
	}
	if r, err := l.Last(ledgertest.Within(t), subject); err != nil || r.Seq != tail {
		t.Errorf("the tail is %d, %v; want %d", r.Seq, err, tail)
	}
}

// The server removes the header that names a request's user, except from header
// blocks whose lines end with LF alone. The door disconnects who sends such a block, with TLS
// too. Besides, the name of an account is one that no other user knows.
func TestForgedHeaderNamesNobody(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *world{"without TLS": newWorld, "with TLS": newSecureWorld} {
		t.Run(name, func(t *testing.T) { forgeHeaders(t, start(t)) })
	}
}

func forgeHeaders(t *testing.T, w *world) {
	got := make(chan *nats.Msg, 1)
	if _, err := w.service.ChanSubscribe("nexus.v1.>", got); err != nil {
		t.Fatal(err)
	}
	flush(t, w.service)
	for _, account := range []string{embed.AgentsAccount, embed.LedgerAccount, "alice", "USER-alice", "$G", "$SYS", ""} {
		forged := "NATS/1.0\r\nNats-Request-Info: {\"acc\":\"" + account + "\",\"user\":\"alice\"}"
		for _, header := range []string{
			forged + "\r\n\r\n", forged + "\nX: \r\n", forged + "\n:\r\n", forged + "\n\n\r\n", forged + "\r\n" + strings.TrimPrefix(forged, "NATS/1.0\r\n") + "\r\n\r\n",
		} {
			if !w.publishRaw(t, "bob", "nexus.v1.default.alice.turn.append.X", header) {
				if !bareLF.MatchString(header) {
					t.Errorf("%q: disconnected", header)
				}
				continue
			}
			if bareLF.MatchString(header) {
				t.Errorf("%q is taken", header)
			}
			if from := w.sender(<-got); from != "bob" && from != "unknown" && from != "nobody" {
				t.Errorf("%q came from %s", header, from)
			}
		}
	}
}

// Nothing that the server sends to a user names another user's account.
func TestAccountNamesStaySecret(t *testing.T) {
	w := newWorld(t)
	w.echo(t)
	names := make(map[string]string)
	got := make(chan *nats.Msg, 1)
	if _, err := w.service.ChanSubscribe("nexus.v1.default.alice.turn.name", got); err != nil {
		t.Fatal(err)
	}
	flush(t, w.service)
	for _, name := range []string{"alice", "bob"} {
		nc := w.as(t, name)
		if err := nc.Publish("nexus.v1.default.alice.turn.name", nil); err != nil {
			t.Fatal(err)
		}
		names[name] = (<-got).Header.Get(embed.RequestHeader)
		_, names[name], _ = strings.Cut(names[name], `"acc":"`)
		names[name], _, _ = strings.Cut(names[name], `"`)
	}
	if len(names["alice"]) < 20 || names["alice"] == names["bob"] {
		t.Fatalf("accounts %v", names)
	}
	bob := w.as(t, "bob")
	trace := bob.NewRespInbox()
	heard := make(chan *nats.Msg, 100)
	for _, subject := range []string{">", "$SYS.>"} {
		if _, err := bob.ChanSubscribe(subject, heard); err != nil {
			t.Fatal(err)
		}
	}
	m := nats.NewMsg("nexus.v1.default.alice.turn.append.X")
	m.Header.Set("Nats-Trace-Dest", trace)
	m.Reply = bob.NewRespInbox()
	if err := bob.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"$SYS.REQ.USER.INFO", "$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.REQ.ACCOUNT.PING.STATZ"} {
		if m, err := bob.RequestWithContext(ledgertest.Within(t), to, nil); err == nil {
			heard <- m
		} else if !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("%s: %v", to, err)
		}
	}
	flush(t, bob)
	if len(heard) < 4 {
		t.Errorf("bob heard %d messages only", len(heard))
	}
	for len(heard) > 0 {
		if m := <-heard; strings.Contains(fmt.Sprint(m.Header, string(m.Data)), names["alice"]) {
			t.Errorf("%s names alice's account: %s", m.Subject, m.Data)
		}
	}
}

var bareLF = regexp.MustCompile("[^\r]\n")

// publishRaw publishes with a header block as it is given. It reports whether the server
// took it.
func (w *world) publishRaw(t *testing.T, user, subject, header string) bool {
	t.Helper()
	conn, r, line := dialRaw(t, w.address(t))
	defer conn.Close()
	if w.trust != nil {
		trust := w.trust.Clone()
		trust.ServerName = "127.0.0.1"
		conn = tls.Client(conn, trust)
		r = bufio.NewReader(conn)
	}
	var info struct {
		Nonce string `json:"nonce"`
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info); err != nil {
		t.Fatal(err)
	}
	seed, err := os.ReadFile(w.seeds[user])
	if err != nil {
		t.Fatal(err)
	}
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	signature, err := pair.Sign([]byte(info.Nonce))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"headers\":true,\"nkey\":%q,\"sig\":%q}\r\n", public, base64.RawURLEncoding.EncodeToString(signature))
	fmt.Fprintf(conn, "HPUB %s %d %d\r\n%s{}\r\nPING\r\n", subject, len(header), len(header)+2, header)
	line, err = r.ReadString('\n')
	if err == nil && line != "PONG\r\n" {
		t.Fatalf("the server answered %q", line)
	}
	return err == nil
}

// One user can't take all connections and subscriptions of the server: another still
// connects, and is answered.
func TestAUserReachesItsLimitsAndOthersGoOn(t *testing.T) {
	w := newWorld(t)
	if _, err := w.service.Subscribe("nexus.v1.default.bob.session.list", func(m *nats.Msg) { _ = m.Respond([]byte("ok")) }); err != nil {
		t.Fatal(err)
	}
	if err := w.service.Flush(); err != nil {
		t.Fatal(err)
	}
	first := w.as(t, "alice")
	o, err := nats.NkeyOptionFromSeed(w.seeds["alice"])
	if err != nil {
		t.Fatal(err)
	}
	for n := 2; ; n++ {
		nc, err := nats.Connect(w.ClientURL(), o, nats.NoReconnect(), nats.Timeout(time.Minute))
		if n > embed.MaxConnections {
			if !errors.Is(err, nats.ErrMaxAccountConnectionsExceeded) {
				t.Errorf("connection %d: %v, want that there are too many", n, err)
			}
			break
		}
		if err != nil {
			t.Fatalf("connection %d: %v", n, err)
		}
		defer nc.Close()
	}
	for range embed.MaxSubscriptions {
		if _, err := first.SubscribeSync("nexus.v1.default.alice.notify.>"); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Flush(); err != nil || first.LastError() != nil {
		t.Fatalf("%d subscriptions: %v, %v", embed.MaxSubscriptions, err, first.LastError())
	}
	if _, err := first.SubscribeSync("nexus.v1.default.alice.notify.one.more"); err != nil {
		t.Fatal(err)
	}
	if err := first.Flush(); err != nil || !errors.Is(first.LastError(), nats.ErrMaxSubscriptionsExceeded) {
		t.Errorf("one more subscription: %v, %v", err, first.LastError())
	}
	if m, err := w.as(t, "bob").RequestWithContext(ledgertest.Within(t), "nexus.v1.default.bob.session.list", nil); err != nil || string(m.Data) != "ok" {
		t.Errorf("another user: %v, %v", m, err)
	}
}

// A user's subscription counts as a subscriber of the service's notifications as soon as
// the server has it, on whatever subject with wildcards, and only for its own agent.
func TestHasSubscribersSeesSubscriptionsOfUsers(t *testing.T) {
	w := newWorld(t)
	const subject, other = "nexus.v1.default.alice.notify.X.turn.appended", "nexus.v1.default.bob.notify.X.turn.appended"
	check := func(when string, want bool) {
		t.Helper()
		if got := w.HasSubscribers(subject); got != want {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
		if w.HasSubscribers(other) {
			t.Errorf("%s: bob's notifications have subscribers", when)
		}
	}
	check("nobody subscribes", false)
	alice := w.as(t, "alice")
	for _, of := range []string{subject, "nexus.v1.default.alice.notify.>", "nexus.v1.*.*.notify.>", ">"} {
		sub, err := alice.SubscribeSync(of)
		if err != nil {
			t.Fatal(err)
		}
		flush(t, alice)
		check(of, true)
		if err := w.service.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := sub.NextMsgWithContext(ledgertest.Within(t)); err != nil {
			t.Errorf("%s: %v", of, err)
		}
		if err := sub.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
		flush(t, alice)
		check("after it was taken back", false)
	}
	if _, err := alice.QueueSubscribeSync("nexus.v1.*.*.notify.>", "group"); err != nil {
		t.Fatal(err)
	}
	flush(t, alice)
	check("a queue group", true)
}

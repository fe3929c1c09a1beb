package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// newKey makes an NKey: the public key, and the file of its seed.
func newKey(t *testing.T) (public, file string) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = pair.PublicKey(); err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "user.nk")
	if err := os.WriteFile(file, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	return public, file
}

// dial connects with a file of credentials.
func dial(t *testing.T, d *Daemon, file string) *nats.Conn {
	t.Helper()
	nc, err := client.Dial(d.ClientURL(), file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// readByOperator are the verbs that change nothing, whatever their request says.
var readByOperator = strings.Fields(`session.get session.list session.resolve session.export turn.get turn.list compaction.list compaction.get compaction.expand
	compaction.lost lineage.path lineage.base lineage.find lineage.tree blob.get policy.list policy.get event.get event.list event.channels memory.list memory.search
	search.query audit.proof`)

// Each kind of user calls every verb of the contract as each agent, and publishes
// to what is none. allowed is the agents that it may act as.
func TestUserMayCallOnlyWhatItsRowSays(t *testing.T) {
	alice, aliceFile := newKey(t)
	auditor, auditorFile := newKey(t)
	elsewhere, elsewhereFile := newKey(t)
	every, everyFile := newKey(t)
	d, c := startWith(t, config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30, User: []config.UserRow{
		{Name: "alice", NKey: alice, Agents: []string{"alice", "alice-tests"}},
		{Name: "auditor", NKey: auditor, Operator: true},
		{Name: "elsewhere", NKey: elsewhere, Tenant: "acme", Agents: []string{"*"}},
		{Name: "every", NKey: every, Agents: []string{"*"}},
	}})
	verbs := allVerbs(t, c.Conn())
	callers := []string{"default.alice", "default.alice-tests", "default.main", "default._", "acme.alice", "acme._"}
	for _, u := range []struct {
		name, file string
		allowed    []string
	}{
		{"operator", d.Credentials().Operator, callers},
		{"agent", d.Credentials().Agent, []string{"default.alice", "default.alice-tests", "default.main"}},
		{"alice", aliceFile, []string{"default.alice", "default.alice-tests"}},
		{"auditor", auditorFile, []string{"default._"}},
		{"elsewhere", elsewhereFile, []string{"acme.alice"}},
		{"every", everyFile, []string{"default.alice", "default.alice-tests", "default.main"}},
	} {
		nc := dial(t, d, u.file)
		for _, caller := range callers {
			for _, v := range verbs {
				subject := "nexus.v1." + caller + "." + v.name
				if v.session {
					subject += ".7ZZZZZZZZZZZZZZZZZZZZZZZZZ"
				}
				m, err := nc.Request(subject, []byte(`{"nothing":"of this"}`), untilTheTestEnds(t))
				if err != nil {
					t.Fatalf("%s: %s: %v", u.name, subject, err)
				}
				may := slices.Contains(u.allowed, caller)
				if u.name == "auditor" && strings.HasPrefix(caller, "default.") && !may {
					may = slices.Contains(readByOperator, v.name) // as any agent of its tenant
				}
				denied := m.Header.Get("Nats-Service-Error-Code") == string(api.Denied) && bytes.Contains(m.Data, []byte("user "+u.name))
				if denied == may {
					t.Errorf("%s: %s: %s; may it: %v", u.name, subject, m.Data, may)
				}
			}
		}
		for _, subject := range []string{"nexus.log.00.default.s.X", "nexus.blobs.x", "$JS.API.INFO", "$JS.API.STREAM.DELETE.NEXUS_LEDGER", "$SYS.REQ.SERVER.PING",
			"nexus.v1.default.alice.notify.X.turn.appended", "nexus.v1", "nexus.v2.default.alice.session.list", "nexus.v1.default.alice.other.verb"} {
			m, err := nc.Request(subject, nil, untilTheTestEnds(t))
			if !errors.Is(err, nats.ErrNoResponders) && (err != nil || !bytes.Contains(m.Data, []byte("not enabled"))) {
				t.Errorf("%s: %s answered %v, %v", u.name, subject, m, err)
			}
		}
	}
	if _, err := nats.Connect(d.ClientURL()); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("without credentials: %v", err)
	}
}

// A user hears the notifications of its agents, and no request, reply or
// notification of another.
func TestUserHearsItsAgentsOnly(t *testing.T) {
	alice, aliceFile := newKey(t)
	d, c := startWith(t, config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30, User: []config.UserRow{
		{Name: "alice", NKey: alice, Agents: []string{"alice"}},
	}})
	nc := dial(t, d, aliceFile)
	all, err := nc.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nc.QueueSubscribe("nexus.v1.*.*.turn.append.*", "q", func(m *nats.Msg) { _ = m.Respond([]byte(`{"depth":99}`)) }); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	m := turns.TextMessage(turns.User, "a secret")
	own := turns.ID{}
	for _, x := range []struct {
		agent   string
		appends uint64
	}{{"main", 60}, {"alice", 1}} {
		s, err := c.As(x.agent).Create(t.Context(), api.CreateSession{})
		if err != nil {
			t.Fatal(err)
		}
		for n := range x.appends {
			if a, err := c.As(x.agent).Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{m}}); err != nil || a.Depth != n+1 {
				t.Fatalf("append %d: %+v, %v", n, a, err)
			}
		}
		own = s.ID
	}
	got, err := all.NextMsg(untilTheTestEnds(t))
	if want := "nexus.v1.default.alice.notify." + own.String() + ".turn.appended"; err != nil || got.Subject != want {
		t.Errorf("the first that alice hears is %v, %v; want %s", got, err, want)
	}
	if n, _, err := all.Pending(); n > 0 || err != nil {
		t.Errorf("alice hears %d more, %v", n, err)
	}
}

// Each kind of user subscribes to everything that there may be, also as a queue, and publishes to
// the inboxes of the others. It hears the notifications that are its own, and nothing else:
// no request, no reply, nothing of the server, of the streams or of the service.
func TestEachKindOfUserReachesNothingOfAnother(t *testing.T) {
	alice, aliceFile := newKey(t)
	auditor, auditorFile := newKey(t)
	elsewhere, elsewhereFile := newKey(t)
	near, nearFile := newKey(t)
	far, farFile := newKey(t)
	d, _ := startWith(t, config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30, User: []config.UserRow{
		{Name: "alice", NKey: alice, Agents: []string{"alice"}},
		{Name: "auditor", NKey: auditor, Operator: true},
		{Name: "elsewhere", NKey: elsewhere, Tenant: "acme", Agents: []string{"*"}},
		{Name: "near", NKey: near, Agents: []string{"*"}}, // these two send the requests
		{Name: "far", NKey: far, Tenant: "acme", Agents: []string{"*"}},
	}})
	users := []struct {
		name, file string
		hears      []string // prefixes of notifications
		last       string   // of the agents below, the last one that it hears
		nc         *nats.Conn
		inbox      string
		subs       []*nats.Subscription
	}{
		{name: "operator", file: d.Credentials().Operator, hears: []string{"default.alice", "default.main", "acme.alice"}, last: "acme.alice"},
		{name: "agent", file: d.Credentials().Agent, hears: []string{"default.alice", "default.main"}, last: "default.main"},
		{name: "alice", file: aliceFile, hears: []string{"default.alice"}, last: "default.alice"},
		{name: "auditor", file: auditorFile, hears: []string{"default.alice", "default.main"}, last: "default.main"},
		{name: "elsewhere", file: elsewhereFile, hears: []string{"acme.alice"}, last: "acme.alice"},
	}
	for i := range users {
		u := &users[i]
		u.nc = dial(t, d, u.file)
		for _, verb := range []string{"$SRV.PING", "$SRV.PING.nexus", "$SRV.INFO", "$SRV.INFO.nexus", "$SRV.STATS", "$SRV.STATS.nexus"} {
			if m, err := u.nc.Request(verb, nil, untilTheTestEnds(t)); err != nil || !bytes.Contains(m.Data, []byte(`"name":"nexus"`)) {
				t.Errorf("%s: %s: %v, %v", u.name, verb, m, err)
			}
		}
		for _, subject := range []string{"nexus.v1.*.*.notify.>", ">", "nexus.>", "nexus.log.>", "nexus.blobs.>", "_INBOX.>", "$SYS.>", "$JS.>", "$SRV.>", "$KV.>", "$O.>"} {
			plain, err := u.nc.SubscribeSync(subject)
			if err != nil {
				t.Fatal(err)
			}
			u.subs = append(u.subs, plain)
		}
		for _, subject := range []string{"nexus.v1.*.*.turn.append.*", "$SRV.>", "_INBOX.>"} {
			queue, err := u.nc.QueueSubscribeSync(subject, "nexus")
			if err != nil {
				t.Fatal(err)
			}
			u.subs = append(u.subs, queue)
		}
		u.inbox = nats.NewInbox()
		if err := u.nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range users {
		for _, to := range users {
			if from.name == to.name {
				continue
			}
			for _, subject := range []string{to.inbox, "nexus.v1.default.alice.notify.X.turn.appended", "nexus.v1.acme.alice.notify.X.turn.appended"} {
				if subject == to.inbox {
					subject += ".from." + from.name
				}
				if err := from.nc.Publish(subject, []byte("forged")); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := from.nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	// Another user of each tenant sends requests, the last one of each agent a turn: what is heard
	// up to its notification is all that there is.
	ends := make(map[string]string)
	inDefault := client.New(dial(t, d, nearFile), "default", "main")
	for _, x := range []struct {
		of    *client.Client
		agent string
	}{{inDefault, "default.alice"}, {inDefault, "default.main"}, {client.New(dial(t, d, farFile), "acme", "alice"), "acme.alice"}} {
		_, agent, _ := strings.Cut(x.agent, ".")
		own := x.of.As(agent)
		s, err := own.Create(t.Context(), api.CreateSession{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := own.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "a secret")}}); err != nil {
			t.Fatal(err)
		}
		ends[x.agent] = "nexus.v1." + x.agent + ".notify." + s.ID.String() + ".turn.appended"
	}
	for _, u := range users {
		for {
			m, err := u.subs[0].NextMsg(untilTheTestEnds(t))
			if err != nil {
				t.Fatalf("%s: %v", u.name, err)
			}
			if m.Subject == ends[u.last] {
				break
			}
		}
		if err := u.nc.Flush(); err != nil {
			t.Fatal(err)
		}
		for _, sub := range u.subs {
			n, _, err := sub.Pending()
			if err != nil {
				t.Fatal(err)
			}
			for range n {
				m, err := sub.NextMsg(untilTheTestEnds(t))
				if err != nil {
					t.Fatal(err)
				}
				if string(m.Data) == "forged" && (strings.HasSuffix(m.Subject, ".from."+u.name) || strings.HasPrefix(m.Subject, "nexus.v1.")) {
					continue // what it published itself, in its own account
				}
				own := slices.ContainsFunc(u.hears, func(agent string) bool { return m.Subject == ends[agent] })
				if !own {
					t.Errorf("%s, subscribed to %s, hears %s: %.100s", u.name, sub.Subject, m.Subject, m.Data)
				}
			}
		}
	}
}

// An event has the key of the user whose request it follows from, and no other can
// take it.
func TestEventNamesTheKeyOfItsSender(t *testing.T) {
	alice, aliceFile := newKey(t)
	d, c := startWith(t, config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30, User: []config.UserRow{
		{Name: "alice", NKey: alice, Agents: []string{"alice"}},
	}})
	own := client.New(dial(t, d, aliceFile), "default", "alice")
	label := "work"
	s, err := own.Create(t.Context(), api.CreateSession{SessionSettings: api.SessionSettings{Label: &label}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := own.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "q")}}); err != nil {
		t.Fatal(err)
	}
	operator, err := config.Credential(d.Credentials().Operator)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.As("alice").Close(t.Context(), s.ID, api.CloseSession{}); err != nil { // the operator's user, as alice
		t.Fatal(err)
	}
	var got []string
	for r, err := range c.As("alice").Export(t.Context(), s.ID) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Event == nil {
			continue
		}
		ev, err := turns.Decode(r.Event.Payload)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(ev.Kind, " ", ev.Actor, " ", ev.Sender))
	}
	want := []string{"opened default/alice " + alice, "turn default/alice " + alice, "state default/alice " + operator}
	if !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	if v, err := c.As(api.Operator).Verify(t.Context()); err != nil || !v.OK {
		t.Errorf("verify: %+v, %v", v, err)
	}
}

// The successor of a reset has the key of the user who asked for the reset.
func TestSuccessorNamesTheKeyOfWhoReset(t *testing.T) {
	alice, aliceFile := newKey(t)
	d, c := startWith(t, config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30, User: []config.UserRow{
		{Name: "alice", NKey: alice, Agents: []string{"alice"}},
	}})
	label := "work"
	s, err := c.As("alice").Create(t.Context(), api.CreateSession{SessionSettings: api.SessionSettings{Label: &label}}) // by the operator's user
	if err != nil {
		t.Fatal(err)
	}
	next, err := client.New(dial(t, d, aliceFile), "default", "alice").Reset(t.Context(), s.ID, api.ResetSession{})
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range c.As("alice").Export(t.Context(), next.ID) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Event == nil {
			continue
		}
		ev, err := turns.Decode(r.Event.Payload)
		if err != nil || ev.Kind != turns.KindOpened || ev.Actor != "default/alice" || ev.Sender != alice {
			t.Errorf("%v by %s with the key %q, %v; want opened by default/alice with %s", ev.Kind, ev.Actor, ev.Sender, err, alice)
		}
		return
	}
	t.Error("the successor has no event")
}

// The credentials stay the same from start to start, an old folder gets them, and
// everything of the folder is its owner's alone.
func TestStartMakesCredentialsOnce(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30}
	var before []byte
	for round := range 4 {
		logs := new(lockedBuffer)
		cfg.Logger, cfg.Auth = slog.New(slog.NewTextHandler(logs, nil)), "on"
		if round == 0 {
			cfg.Auth = "off" // as a folder without credentials has it
		}
		d, err := Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		files := d.Credentials()
		if round == 0 {
			if files != (config.Credentials{}) || !strings.Contains(logs.String(), "auth is off") {
				t.Errorf("auth off: %+v, and the log says %s", files, logs)
			}
			nc, err := nats.Connect(d.ClientURL())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.New(nc, "default", "main").Create(t.Context(), api.CreateSession{}); err != nil {
				t.Error(err)
			}
			nc.Close()
		} else {
			var both []byte
			for _, file := range []string{files.Operator, files.Agent} {
				b, err := os.ReadFile(file)
				info, statErr := os.Stat(file)
				if err != nil || statErr != nil || info.Mode().Perm() != 0o600 || !filepath.IsAbs(file) {
					t.Errorf("%s: %v, %v, %v", file, info, err, statErr)
				}
				both = append(both, b...)
				if strings.Contains(logs.String(), strings.TrimSpace(string(b))) {
					t.Error("the log holds a seed")
				}
			}
			if before != nil && !bytes.Equal(both, before) {
				t.Error("the credentials changed")
			}
			before = both
			if err := os.Chmod(files.Agent, 0o644); err != nil { // the next start takes that back
				t.Fatal(err)
			}
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the folder: %v, %v", info.Mode(), err)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, config.UsersDir, "agent.nk"), []byte("SUsecret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), cfg); !errors.Is(err, turns.ErrCorrupt) || !strings.Contains(err.Error(), "agent.nk") || strings.Contains(err.Error(), "SUsecret") {
		t.Errorf("a damaged file: %v", err)
	}
}

func TestConfigurationOfUsersIsChecked(t *testing.T) {
	key, _ := newKey(t)
	seed := "SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTC4"
	row := config.UserRow{Name: "alice", NKey: key, Agents: []string{"alice"}}
	with := func(change func(*config.UserRow)) config.Config {
		r := row
		change(&r)
		return config.Config{User: []config.UserRow{r}}
	}
	for name, tc := range map[string]struct {
		config config.Config
		want   string // in the error; "" for none
	}{
		"a row":                        {config.Config{User: []config.UserRow{row}}, ""},
		"an operator without agents":   {with(func(r *config.UserRow) { r.Agents, r.Operator = nil, true }), ""},
		"every agent":                  {with(func(r *config.UserRow) { r.Agents = []string{"*"} }), ""},
		"auth off":                     {config.Config{Auth: "off"}, ""},
		"auth off on IPv6 loopback":    {config.Config{Auth: "off", Listen: "[::1]:0"}, ""},
		"auth off on localhost":        {config.Config{Auth: "off", Listen: "localhost:0"}, ""},
		"TLS everywhere":               {config.Config{Listen: "0.0.0.0:4222", TLSCert: "c", TLSKey: "k"}, ""},
		"auth neither on nor off":      {config.Config{Auth: "maybe"}, "auth"},
		"auth off everywhere":          {config.Config{Auth: "off", Listen: "0.0.0.0:4222", TLSCert: "c", TLSKey: "k"}, "auth is off"},
		"everywhere without TLS":       {config.Config{Listen: "0.0.0.0:4222"}, "tls_cert"},
		"all addresses without TLS":    {config.Config{Listen: ":4222"}, "tls_cert"},
		"a host name without TLS":      {config.Config{Listen: "ledger.example:4222"}, "tls_cert"},
		"a LAN address without TLS":    {config.Config{Listen: "192.168.0.7:4222"}, "tls_cert"},
		"a certificate without a key":  {config.Config{TLSCert: "c"}, "tls_key"},
		"rows with auth off":           {config.Config{Auth: "off", User: []config.UserRow{row}}, "auth off"},
		"rows on an external server":   {config.Config{Plaintext: true, NATS: "nats://x:4222", User: []config.UserRow{row}}, "external server"},
		"auth on an external server":   {config.Config{Plaintext: true, NATS: "nats://x:4222", Auth: "off"}, "external one"},
		"two rows of a name":           {config.Config{User: []config.UserRow{row, row}}, "taken"},
		"the name of the daemon's own": {with(func(r *config.UserRow) { r.Name = "operator" }), "taken"},
		"no name":                      {with(func(r *config.UserRow) { r.Name = "" }), "not a name"},
		"a seed for a key":             {with(func(r *config.UserRow) { r.NKey = seed }), "public key"},
		"no key":                       {with(func(r *config.UserRow) { r.NKey = "" }), "public key"},
		"no agents":                    {with(func(r *config.UserRow) { r.Agents = nil }), "no agents"},
		"the operator as an agent":     {with(func(r *config.UserRow) { r.Agents = []string{"_"} }), "agent"},
		"a pattern as an agent":        {with(func(r *config.UserRow) { r.Agents = []string{"al*"} }), "agent"},
		"a tenant that is none":        {with(func(r *config.UserRow) { r.Tenant = "*" }), "tenant"},
	} {
		err := tc.config.Validate()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) || err != nil && strings.Contains(err.Error(), seed) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"nexus/cmd/nexusd/internal/faulttest"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

var (
	flood       = flag.Duration("flood", 0, "how long TestFlood measures each load; 0 skips it. docs/TESTING.md has the figures")
	floodNexusd = flag.String("flood-nexusd", "", "the nexusd that TestFlood measures; empty: one built from this tree")
	floodTLS    = flag.Bool("flood-tls", false, "TestFlood's nexusd and its clients use TLS")
	floodLoads  = flag.String("flood-loads", "large,read,append", "the loads of TestFlood")
)

// TestFlood measures what a neighbour notices of another agent's load on a nexusd
// process, and how much memory the process takes. The load comes from a process of
// its own at the lowest priority. It asserts nothing: the figures are for people.
func TestFlood(t *testing.T) {
	if *flood == 0 {
		t.Skip("-flood is 0")
	}
	bin := *floodNexusd
	if bin == "" {
		bin = faulttest.Build(t, ".")
	}
	for load := range strings.SplitSeq(*floodLoads, ",") {
		if load == "large" {
			t.Run(load, func(t *testing.T) { measureLarge(t, bin) })
			continue
		}
		for _, conns := range []int{32, 1} {
			t.Run(fmt.Sprintf("%s over %d connections", load, conns), func(t *testing.T) { measureSmall(t, bin, load, conns) })
		}
	}
}

// measureLarge sends one append of 6 MB from each of 64 clients at once, five times.
func measureLarge(t *testing.T, bin string) {
	d := floodDaemon(t, bin)
	n := d.neighbour(t)
	ctx, cancel := context.WithCancel(t.Context())
	before := n.run(ctx, *flood/4)
	source := startSource(t, "large", d.url, d.creds, d.ca, 64)
	done := make(chan latencies, 1)
	for round := range 5 {
		rounding, stop := context.WithCancel(ctx)
		go func() { done <- n.run(rounding, time.Hour) }()
		result := source.round()
		stop()
		t.Logf("round %d: %s; neighbour %v; memory now %s, at most %s", round, result, <-done, d.status(t, "VmRSS"), d.status(t, "VmHWM"))
	}
	cancel()
	t.Logf("neighbour before: %v", before)
}

// measureSmall sends small requests of one agent without waiting for answers.
func measureSmall(t *testing.T, bin, load string, conns int) {
	d := floodDaemon(t, bin)
	n := d.neighbour(t)
	before := n.run(t.Context(), *flood/4)
	source := startSource(t, load, d.url, d.creds, d.ca, conns)
	source.begin()
	during := n.run(t.Context(), *flood)
	result := source.end()
	t.Logf("%s; neighbour before %v, while %v; memory at most %s", result, before, during, d.status(t, "VmHWM"))

	echo := startEcho(t)
	quiet := echo.run(t.Context(), *flood/4)
	source = startSource(t, "echo", echo.url, "", "", conns)
	source.begin()
	flooded := echo.run(t.Context(), *flood)
	t.Logf("bare echo: %s; before %v, while %v", source.end(), quiet, flooded)
}

// floodTarget is a process under load.
type floodTarget struct {
	cmd            *exec.Cmd
	url, creds, ca string
}

// dialFlood connects. ca is the server's certificate, "" without TLS.
func dialFlood(t *testing.T, url, creds, ca string) *nats.Conn {
	t.Helper()
	var opts []nats.Option
	if ca != "" {
		opts = append(opts, nats.RootCAs(ca))
	}
	nc, err := client.Dial(url, creds, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func floodDaemon(t *testing.T, bin string) *floodTarget {
	t.Helper()
	data := t.TempDir()
	var args []string
	ca := ""
	if *floodTLS {
		cert, key := certificate(t)
		args, ca = []string{"--tls-cert", cert, "--tls-key", key}, cert
	}
	cmd, url := launch(t, bin, data, args...)
	t.Cleanup(func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() })
	return &floodTarget{cmd, url, filepath.Join(data, "users", "agent.nk"), ca}
}

// status returns a row of the process's status.
func (d *floodTarget) status(t *testing.T, row string) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		t.Log(err)
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, row+":"); ok {
			kb, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(v), " kB"))
			return fmt.Sprintf("%d MiB", kb>>10)
		}
	}
	return "unknown"
}

// latencies are the times of requests, by what was asked.
type latencies map[string][]time.Duration

func (l latencies) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(l)) {
		ds := slices.Sorted(slices.Values(l[name]))
		if name == "failed" {
			fmt.Fprintf(&b, "[failed %d] ", len(ds))
			continue
		}
		at := func(q float64) time.Duration {
			return ds[min(len(ds)-1, int(q*float64(len(ds))))].Round(10 * time.Microsecond)
		}
		fmt.Fprintf(&b, "[%s n %d p50 %v p99 %v max %v] ", name, len(ds), at(.5), at(.99), ds[len(ds)-1].Round(10*time.Microsecond))
	}
	return strings.TrimSpace(b.String())
}

// floodNeighbour asks one request after the other.
type floodNeighbour struct {
	url   string
	calls map[string]func(context.Context) error
}

func (d *floodTarget) neighbour(t *testing.T) *floodNeighbour {
	t.Helper()
	nc := dialFlood(t, d.url, d.creds, d.ca)
	c := client.New(nc, "default", "neighbour")
	text := strings.Repeat("a kilobyte ", 100)
	var s *api.Session
	appends := 0 // a context that grows would be slower by itself
	raw := func(ctx context.Context, verb string, body any) error {
		b, err := turns.EncodeJSON(body)
		if err != nil {
			return err
		}
		m, err := nc.RequestWithContext(ctx, "nexus.v1.default.neighbour."+verb+"."+s.ID.String(), b)
		if err != nil {
			return err
		}
		if code := m.Header.Get(micro.ErrorCodeHeader); code != "" {
			return fmt.Errorf("%s: %s", verb, code)
		}
		return nil
	}
	return &floodNeighbour{d.url, map[string]func(context.Context) error{
		"append": func(ctx context.Context) (err error) {
			if appends++; appends%50 == 0 || s == nil {
				if s, err = c.Create(ctx, api.CreateSession{}); err != nil {
					return err
				}
			}
			m := turns.TextMessage(turns.Assistant, text)
			return raw(ctx, "turn.append", api.AppendTurn{ID: api.NewID(), Messages: []turns.Message{turns.TextMessage(turns.User, "go on")}, Response: &m})
		},
		"context": func(ctx context.Context) error { return raw(ctx, "context.get", api.GetContext{}) },
	}}
}

// run asks for d, or until ctx ends.
func (n *floodNeighbour) run(ctx context.Context, d time.Duration) latencies {
	out := make(latencies)
	for end := time.Now().Add(d); ctx.Err() == nil && time.Now().Before(end); {
		for _, name := range slices.Sorted(maps.Keys(n.calls)) {
			call := n.calls[name]
			began := time.Now()
			one, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			err := call(one)
			cancel()
			if err != nil {
				fmt.Fprintln(os.Stderr, "neighbour:", err)
				name = "failed"
			}
			out[name] = append(out[name], time.Since(began))
		}
	}
	return out
}

// startEcho starts a process with a NATS server and a service that echoes.
func startEcho(t *testing.T) *floodNeighbour {
	t.Helper()
	p := startChild(t, "echo-server", "", "", "", 0)
	url := strings.TrimSpace(p.line())
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return &floodNeighbour{url, map[string]func(context.Context) error{"echo": func(ctx context.Context) error {
		_, err := nc.RequestWithContext(ctx, "echo", []byte("a request"))
		return err
	}}}
}

// floodSource is a process that makes load.
type floodSource struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

const floodRole = "NEXUS_TEST_FLOOD"

func startChild(t *testing.T, role, url, creds, ca string, conns int) *floodSource {
	t.Helper()
	cmd := exec.Command("nice", "-n", "19", os.Args[0], "-test.run", "^TestFloodSource$")
	if role == "echo-server" || role == "large" { // the sender must keep up
		cmd = exec.Command(os.Args[0], "-test.run", "^TestFloodSource$")
	}
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%s|%s|%s|%d", floodRole, role, url, creds, ca, conns))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	return &floodSource{t, in, bufio.NewReader(out)}
}

func startSource(t *testing.T, role, url, creds, ca string, conns int) *floodSource {
	t.Helper()
	p := startChild(t, role, url, creds, ca, conns)
	if got := p.line(); got != "ready\n" {
		t.Fatalf("the source of load says %q", got)
	}
	return p
}

func (p *floodSource) line() string {
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("the child: %v", err)
	}
	return line
}

func (p *floodSource) begin() {
	if _, err := io.WriteString(p.in, "go\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *floodSource) round() string { p.begin(); return strings.TrimSpace(p.line()) }
func (p *floodSource) end() string   { return p.round() }

// TestFloodSource is the other process of TestFlood.
func TestFloodSource(t *testing.T) {
	role := strings.Split(os.Getenv(floodRole), "|")
	if len(role) != 5 {
		t.Skip("TestFlood runs it")
	}
	conns, err := strconv.Atoi(role[4])
	if err != nil {
		t.Fatal(err)
	}
	switch in := bufio.NewReader(os.Stdin); role[0] {
	case "echo-server":
		serveEcho(t, in)
	case "large":
		sendLarge(t, in, role[1], role[2], role[3], conns)
	default:
		sendSmall(t, in, role[0], role[1], role[2], role[3], conns)
	}
}

func serveEcho(t *testing.T, in io.Reader) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, MaxPending: 640 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(untilTheTestEnds(t)) {
		t.Fatal("the server is not ready")
	}
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	svc, err := micro.AddService(nc, micro.Config{Name: "echo", Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	err = svc.AddEndpoint("echo", micro.HandlerFunc(func(r micro.Request) { _ = r.Respond(r.Data()) }), micro.WithEndpointPendingLimits(1<<22, 512<<20))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(s.ClientURL())
	_, _ = io.Copy(io.Discard, in)
}

// floodClients connects n clients, each with a session of an agent that agent names.
func floodClients(t *testing.T, url, creds, ca string, n int, agent func(int) string) (out []*client.Client, sessions []turns.ID) {
	for i := range n {
		c := client.New(dialFlood(t, url, creds, ca), "default", agent(i))
		s, err := c.Create(t.Context(), api.CreateSession{})
		if err != nil {
			t.Fatal(err)
		}
		out, sessions = append(out, c), append(sessions, s.ID)
	}
	return out, sessions
}

// sendLarge sends, for each line that it reads, one append of each client, until
// all are stored.
func sendLarge(t *testing.T, in *bufio.Reader, url, creds, ca string, n int) {
	clients, sessions := floodClients(t, url, creds, ca, n, func(i int) string { return "large-" + strconv.Itoa(i) })
	fmt.Println("ready")
	for round := 0; ; round++ {
		if _, err := in.ReadString('\n'); err != nil {
			return
		}
		var mu sync.Mutex
		first, tries, began := make(map[string]int), 0, time.Now()
		var slowest time.Duration
		var all sync.WaitGroup
		for i, c := range clients {
			text := strings.Repeat(fmt.Sprintf("%d of round %d ", i, round), 6_000_000/16)
			b, err := turns.EncodeJSON(api.AppendTurn{ID: api.NewID(), Messages: []turns.Message{turns.TextMessage(turns.User, text)}})
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				for try := 0; ; try++ {
					m, err := c.Conn().Request("nexus.v1.default.large-"+strconv.Itoa(i)+".turn.append."+sessions[i].String(), b, 40*time.Second)
					code := "stored"
					if err != nil {
						code = err.Error()
					} else if code = cmp.Or(m.Header.Get(micro.ErrorCodeHeader), code); code == "busy" && !strings.Contains(string(m.Data), "retry_after_ms") {
						code = "busy without a hint"
					}
					mu.Lock()
					tries++
					if try == 0 {
						first[code]++
						slowest = max(slowest, time.Since(began))
					}
					mu.Unlock()
					if code == "stored" || err != nil || try > 200 {
						return
					}
					var e struct {
						Error api.Error `json:"error"`
					}
					_ = json.Unmarshal(m.Data, &e)
					ms, _ := e.Error.Details["retry_after_ms"].(float64)
					<-time.After(time.Duration(max(ms, 50)) * time.Millisecond * time.Duration(min(try+1, 8)))
				}
			})
		}
		all.Wait()
		fmt.Printf("first answers %v in %v, all stored after %d tries and %v\n", first, slowest.Round(time.Millisecond), tries, time.Since(began).Round(time.Millisecond))
	}
}

// sendSmall sends requests as fast as it can, from the first line to the second.
func sendSmall(t *testing.T, in *bufio.Reader, load, url, creds, ca string, n int) {
	var conns []*nats.Conn
	var sessions []turns.ID
	if load == "echo" {
		for range n {
			nc, err := nats.Connect(url)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			conns = append(conns, nc)
		}
	} else {
		var clients []*client.Client
		clients, sessions = floodClients(t, url, creds, ca, n, func(int) string { return "flooder" })
		for _, c := range clients {
			conns = append(conns, c.Conn())
		}
	}
	var sent, answered, errors atomic.Int64
	for i, nc := range conns {
		_, err := nc.Subscribe("_INBOX.flood."+strconv.Itoa(i), func(m *nats.Msg) {
			answered.Add(1)
			if m.Header.Get(micro.ErrorCodeHeader) != "" {
				errors.Add(1)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("ready")
	if _, err := in.ReadString('\n'); err != nil {
		return
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i, nc := range conns {
		reply := "_INBOX.flood." + strconv.Itoa(i)
		all.Go(func() {
			for ctx.Err() == nil {
				var err error
				switch load {
				case "echo":
					err = nc.PublishRequest("echo", reply, []byte("a request"))
				case "read":
					err = nc.PublishRequest("nexus.v1.default.flooder.session.get."+sessions[i].String(), reply, nil)
				default:
					b := fmt.Appendf(nil, `{"id":"%s","messages":[{"role":"user","parts":[{"type":"text","content":"a request"}]}]}`, api.NewID())
					err = nc.PublishRequest("nexus.v1.default.flooder.turn.append."+sessions[i].String(), reply, b)
				}
				if err != nil {
					if ctx.Err() == nil {
						fmt.Fprintln(os.Stderr, "flooder:", err)
					}
					return
				}
				sent.Add(1)
			}
		})
	}
	if _, err := in.ReadString('\n'); err != nil {
		stop()
		return
	}
	stop()
	for _, nc := range conns {
		nc.Close()
	}
	all.Wait()
	fmt.Printf("%d sent, %d answered, of them %d errors\n", sent.Load(), answered.Load(), errors.Load())
}

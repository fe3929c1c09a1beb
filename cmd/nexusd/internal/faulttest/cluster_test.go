package faulttest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

func TestMain(m *testing.M) { Main(m) }

// nexusdBinary is the nexusd of this checkout, natsServerBinary the NATS server of its go.mod.
func nexusdBinary(t *testing.T) string     { return Build(t, "nexus/cmd/nexusd") }
func natsServerBinary(t *testing.T) string { return Build(t, "github.com/nats-io/nats-server/v2") }

// lockedLog keeps the end of what processes log.
type lockedLog struct {
	mu sync.Mutex
	b  []byte
}

const logKept = 64 << 10

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, b...)
	if len(l.b) > 2*logKept {
		l.b = append([]byte(nil), l.b[len(l.b)-logKept:]...)
	}
	return len(b), nil
}

// newLog returns a log that the test prints if it fails.
func newLog(t *testing.T) *lockedLog {
	l := new(lockedLog)
	t.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if t.Failed() && len(l.b) > 0 {
			t.Logf("the end of the log of the processes:\n%s", l.b[max(0, len(l.b)-logKept):])
		}
	})
	return l
}

// cluster is NATS servers with JetStream, a process each.
type cluster struct {
	bin     string
	log     *lockedLog
	configs []string
	urls    []string
	servers []*Process
}

// newCluster starts n servers and waits until JetStream has a leader.
func newCluster(t *testing.T, n int) *cluster {
	t.Helper()
	c := &cluster{bin: natsServerBinary(t), log: newLog(t)}
	ports := freePorts(t, 2*n)
	var routes []string
	for i := range n {
		routes = append(routes, fmt.Sprintf("nats-route://127.0.0.1:%d", ports[n+i]))
	}
	dir := t.TempDir()
	for i := range n {
		// As docs/OPERATIONS.md has it for real use, but for the fsync of each message: a kill
		// of the process loses nothing that it has written.
		text := fmt.Sprintf("server_name: s%d\nlisten: \"127.0.0.1:%d\"\njetstream { store_dir: %q, max_file_store: 8GB }\n", i, ports[i], filepath.Join(dir, fmt.Sprint("s", i)))
		if n > 1 {
			text += fmt.Sprintf("cluster { name: test, listen: \"127.0.0.1:%d\", routes: [%s] }\n", ports[n+i], strings.Join(routes, ", "))
		}
		config := filepath.Join(dir, fmt.Sprintf("s%d.conf", i))
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c.configs, c.urls = append(c.configs, config), append(c.urls, fmt.Sprintf("nats://127.0.0.1:%d", ports[i]))
	}
	c.servers = make([]*Process, n)
	t.Cleanup(func() {
		for _, s := range c.servers {
			if s != nil {
				s.Kill()
			}
		}
	})
	for i := range n {
		c.start(t, i)
	}
	for _, url := range c.urls {
		nc, err := nats.Connect(url, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "JetStream has a leader at "+url, func(ctx context.Context) error {
			m, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.NAMES", nil)
			if err == nil && strings.Contains(string(m.Data), `"error"`) {
				err = errors.New(string(m.Data))
			}
			return err
		})
		nc.Close()
	}
	return c
}

func (c *cluster) start(t *testing.T, i int) {
	t.Helper()
	s, err := Start(c.log, c.bin, "-c", c.configs[i])
	if err != nil {
		t.Fatal(err)
	}
	c.servers[i] = s
}

func (c *cluster) url() string { return strings.Join(c.urls, ",") }

// startTime is how long a cluster and a daemon have to come up again.
const startTime = 2 * time.Minute

// eventually tries f until it succeeds. It ends the test after startTime.
func eventually(t *testing.T, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	for {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := f(try)
		cancel()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// daemon starts a nexusd on the cluster; one that can't start yet is started again.
func (c *cluster) daemon(t *testing.T, log *lockedLog, data string) *Nexusd {
	t.Helper()
	var d *Nexusd
	ctx := t.Context()
	args := []string{"--nats", c.url(), "--replicas", fmt.Sprint(len(c.servers)), "--create", "--plaintext", "--data", data, "--http", "off", "--log-level", "error"}
	eventually(t, "nexusd starts", func(context.Context) (err error) {
		d, err = StartNexusd(ctx, log, nexusdBinary(t), args...)
		return err
	})
	return d
}

// freePorts returns ports of the loopback that were free a moment ago. They are below those that a system gives out by
// itself: no other program gets one while a process that was killed is away from it.
func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	const low, high = 20_000, 32_000
	for tries := 0; len(ports) < n; tries++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", low+rand.IntN(high-low)))
		if err != nil {
			if tries == 1000 {
				t.Fatal(err)
			}
			continue
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// text is a message of so many bytes that differs from others.
func text(id turns.ID, bytes int) []turns.Message {
	s := "words of " + id.String() + " "
	return []turns.Message{turns.TextMessage(turns.User, strings.Repeat(s, 1+bytes/len(s)))}
}

// newSession opens a session with so many turns of 600 bytes.
func newSession(ctx context.Context, c *client.Client, n int) (session turns.ID, ids []turns.ID, err error) {
	s, err := c.Create(ctx, api.CreateSession{SessionSettings: api.SessionSettings{Limits: &turns.Limits{ContextWindow: 4000}}})
	if err != nil {
		return session, nil, err
	}
	for range n {
		id := api.NewID()
		if _, err := c.Append(ctx, s.ID, api.AppendTurn{ID: id, Messages: text(id, 600)}); err != nil {
			return session, nil, err
		}
		ids = append(ids, id)
	}
	return s.ID, ids, nil
}

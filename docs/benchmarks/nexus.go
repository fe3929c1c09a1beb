package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/nats-io/nats.go"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// nexusd is a nexusd that is ready.
type nexusd struct {
	*child
	dir             string
	url, http       string
	operator, agent string // files of credentials; "": a cluster without
}

// startNexusd starts nexusd with its data in dir.
func (r *run) startNexusd(ctx context.Context, dir string, args ...string) (*nexusd, error) {
	bin, err := r.bin.build(ctx, nexusdCommand)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	cmd := exec.Command(bin, append([]string{"--data", data, "--http", "127.0.0.1:0", "--log-level", "error"}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+filepath.Join(dir, "config")) // where it leaves how to reach it
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c, err := start(cmd)
	if err != nil {
		return nil, err
	}
	var ready struct {
		NATS        string `json:"nats_url"`
		HTTP        string `json:"http_url"`
		Credentials struct{ Operator, Agent string }
	}
	if err := readyLine(c, out, &ready); err != nil {
		return nil, err
	}
	return &nexusd{c, data, ready.NATS, ready.HTTP, ready.Credentials.Operator, ready.Credentials.Agent}, nil
}

func (d *nexusd) close() error { return d.end(syscall.SIGTERM) }

// fsyncs is what nexusd itself counts: fsyncs of the log.
func (d *nexusd) fsyncs(ctx context.Context) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.http+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), "nexus_fsyncs_total "); ok {
			return strconv.ParseFloat(v, 64)
		}
	}
	return 0, errors.New("nexusd does not say how many fsyncs it did")
}

// nexusLedger is Nexus: turns over NATS, sealed on R1, chained, projected.
type nexusLedger struct {
	d        *nexusd
	servers  *natsServers // of R3; nil: the embedded one
	conns    []*nats.Conn
	clients  []*client.Client
	sessions []turns.ID
	readers  []*client.ContextReader // of the agents' turns
	group    func(float64)           // told the mean appends an fsync at the end; nil: nobody is
}

func openNexus(ctx context.Context, r *run, l load, dir string) (system, error) {
	d, err := r.startNexusd(ctx, dir, "--listen", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n := &nexusLedger{d: d, group: func(g float64) { r.groups[l.clients] = g }}
	return n, n.open(ctx, l, d.url, d.agent)
}

func openNexusR3(ctx context.Context, r *run, l load, dir string) (system, error) {
	servers, err := r.startServers(ctx, dir, 3)
	if err != nil {
		return nil, err
	}
	d, err := r.startNexusd(ctx, filepath.Join(dir, "nexusd"), "--nats", servers.url(), "--replicas", "3", "--create", "--plaintext")
	if err != nil {
		return nil, errors.Join(err, servers.close())
	}
	n := &nexusLedger{d: d, servers: servers}
	return n, n.open(ctx, l, servers.url(), "")
}

// open makes a connection for each agent, and a session for each client.
func (n *nexusLedger) open(ctx context.Context, l load, url, credentials string) error {
	for i := range min(l.agents, l.clients) {
		nc, err := client.Dial(url, credentials)
		if err != nil {
			return errors.Join(err, n.close())
		}
		n.conns = append(n.conns, nc)
		n.clients = append(n.clients, client.New(nc, "default", fmt.Sprint("bench", i)))
	}
	n.sessions = make([]turns.ID, l.clients)
	errs := make([]error, l.clients)
	var wg sync.WaitGroup
	for c := range n.sessions {
		wg.Go(func() {
			s, err := n.client(c).Create(ctx, api.CreateSession{})
			if err != nil {
				errs[c] = err
				return
			}
			n.sessions[c] = s.ID
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return errors.Join(err, n.close())
	}
	return nil
}

func (n *nexusLedger) client(c int) *client.Client { return n.clients[c%len(n.clients)] }

func (n *nexusLedger) append(ctx context.Context, c, i int, t turn) error {
	answer := turns.TextMessage(turns.Assistant, t.answer)
	_, err := n.client(c).Append(ctx, n.sessions[c], api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, t.question)}, Response: &answer})
	return err
}

func (n *nexusLedger) check(ctx context.Context, l load, stored []int) error {
	for c, want := range stored {
		i := 0
		for got, err := range n.client(c).Turns(ctx, n.sessions[c], api.ListTurns{Full: true}) {
			if err != nil {
				return err
			}
			if got.Type != "normal" {
				continue
			}
			i++
			t := l.turn(c, i)
			if len(got.Messages) != 1 || textOf(got.Messages[0]) != t.question || got.Response == nil || textOf(*got.Response) != t.answer {
				return fmt.Errorf("turn %d of client %d has other content", i, c)
			}
		}
		if i != want {
			return fmt.Errorf("client %d has %d turns, %d were acknowledged", c, i, want)
		}
	}
	if n.group == nil {
		return nil
	}
	fsyncs, err := n.d.fsyncs(ctx)
	if err == nil && fsyncs > 0 {
		n.group(float64(total(stored)) / fsyncs)
	}
	return err
}

func textOf(m turns.Message) (text string) {
	for _, p := range m.Parts {
		text += p.Content
	}
	return text
}

func (n *nexusLedger) pids() []int {
	pids := []int{n.d.pid()}
	if n.servers != nil {
		pids = append(pids, n.servers.pids()...)
	}
	return pids
}

func (n *nexusLedger) dirs() []string {
	dirs := []string{n.d.dir}
	if n.servers != nil {
		dirs = append(dirs, n.servers.dirs()...)
	}
	return dirs
}

func (n *nexusLedger) close() error {
	for _, nc := range n.conns {
		nc.Close()
	}
	err := n.d.close()
	if n.servers != nil {
		err = errors.Join(err, n.servers.close())
	}
	return err
}

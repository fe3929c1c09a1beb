package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// natsServers are nats-server processes, each of which does a fsync for each message.
type natsServers struct {
	servers []*child
	urls    []string
	dir     string
}

// startServers starts n servers as one cluster, and waits until a stream of n copies can be made.
func (r *run) startServers(ctx context.Context, dir string, n int) (_ *natsServers, err error) {
	bin, err := r.bin.build(ctx, natsServerCommand)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	ports, err := freePorts(2 * n)
	if err != nil {
		return nil, err
	}
	var routes []string
	for _, p := range ports[n:] {
		routes = append(routes, fmt.Sprintf("nats-route://127.0.0.1:%d", p))
	}
	s := &natsServers{dir: dir}
	for i := range n {
		// The payload is what nexusd's embedded server takes.
		text := fmt.Sprintf("server_name: s%d\nlisten: \"127.0.0.1:%d\"\nmax_payload: 8MB\njetstream { store_dir: %q, sync_interval: always, max_file_store: 1TB }\n",
			i, ports[i], filepath.Join(dir, fmt.Sprint("s", i)))
		if n > 1 {
			text += fmt.Sprintf("cluster { name: bench, listen: \"127.0.0.1:%d\", routes: [%s] }\n", ports[n+i], strings.Join(routes, ", "))
		}
		config := filepath.Join(dir, fmt.Sprintf("s%d.conf", i))
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return nil, errors.Join(err, s.close())
		}
		c, err := start(exec.Command(bin, "-c", config))
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.servers, s.urls = append(s.servers, c), append(s.urls, fmt.Sprintf("nats://127.0.0.1:%d", ports[i]))
	}
	if err := s.wait(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%d NATS servers: %w: %s", n, err, &s.servers[0].log), s.close())
	}
	return s, nil
}

// wait makes and removes a stream with a copy on each server, until it works.
func (s *natsServers) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	nc, err := nats.Connect(s.url(), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	for {
		try, stop := context.WithTimeout(ctx, 5*time.Second)
		_, err := js.CreateStream(try, jetstream.StreamConfig{Name: "PROBE", Replicas: len(s.servers)})
		if err == nil {
			err = js.DeleteStream(try, "PROBE")
		}
		stop()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *natsServers) url() string { return strings.Join(s.urls, ",") }

func (s *natsServers) pids() (pids []int) {
	for _, c := range s.servers {
		pids = append(pids, c.pid())
	}
	return pids
}

func (s *natsServers) dirs() []string { return []string{s.dir} }

func (s *natsServers) close() (err error) {
	for _, c := range s.servers {
		if e := c.end(syscall.SIGTERM); e != nil {
			var exit *exec.ExitError
			if !errors.As(e, &exit) { // nats-server says 1 after SIGTERM
				err = errors.Join(err, e)
			}
		}
	}
	return err
}

// bareStream is a stream with one publish for each turn. Each client has a subject of its own and
// expects its tail there, as the ledger does.
type bareStream struct {
	*natsServers
	conns   []*nats.Conn
	streams []jetstream.JetStream
	tails   []uint64
}

func openJetStream(ctx context.Context, r *run, l load, dir string) (system, error) {
	return openStream(ctx, r, l, dir, 1, false)
}

func openJetStreamR3(ctx context.Context, r *run, l load, dir string) (system, error) {
	return openStream(ctx, r, l, dir, 3, false)
}

func openStream(ctx context.Context, r *run, l load, dir string, replicas int, batches bool) (*bareStream, error) {
	s, err := r.startServers(ctx, dir, replicas)
	if err != nil {
		return nil, err
	}
	b := &bareStream{natsServers: s, tails: make([]uint64, l.clients)}
	for range min(l.agents, l.clients) {
		nc, err := nats.Connect(s.url())
		if err != nil {
			return nil, errors.Join(err, b.close())
		}
		b.conns = append(b.conns, nc)
		js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(answerTime))
		if err != nil {
			return nil, errors.Join(err, b.close())
		}
		b.streams = append(b.streams, js)
	}
	_, err = b.streams[0].CreateStream(ctx, jetstream.StreamConfig{Name: "BENCH", Subjects: []string{"bench.>"}, Replicas: replicas, AllowAtomicPublish: batches, AllowDirect: true})
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// message is a turn of a client behind its tail.
func (b *bareStream) message(c int, t turn) *nats.Msg {
	return &nats.Msg{Subject: "bench." + strconv.Itoa(c), Data: t.json(), Header: nats.Header{"Nats-Expected-Last-Subject-Sequence": {strconv.FormatUint(b.tails[c], 10)}}}
}

// answerTime is how long a publish waits for its answer. On a slow disk the last of 512
// clients waits for 512 fsyncs, which takes longer than the 5 s of the client library.
const answerTime = time.Minute

// writeInFlight is the code with which a server refuses a publish, and stores nothing of it,
// while another write to its subject is in flight. A cluster answers a publish before it
// takes it from those in flight, so the next one of the same client may be refused.
const writeInFlight jetstream.ErrorCode = 10164

// retryInFlight calls publish until the server does not refuse it for a write in flight.
func retryInFlight(publish func() (*jetstream.PubAck, error)) (*jetstream.PubAck, error) {
	for {
		ack, err := publish()
		if refused := (*jetstream.APIError)(nil); !errors.As(err, &refused) || refused.ErrorCode != writeInFlight {
			return ack, err
		}
	}
}

func (b *bareStream) append(ctx context.Context, c, _ int, t turn) error {
	ack, err := retryInFlight(func() (*jetstream.PubAck, error) {
		return b.streams[c%len(b.streams)].PublishMsg(ctx, b.message(c, t))
	})
	if err != nil {
		return err
	}
	b.tails[c] = ack.Sequence
	return nil
}

func (b *bareStream) check(ctx context.Context, l load, stored []int) error {
	cons, err := b.streams[0].OrderedConsumer(ctx, "BENCH", jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	st, err := b.streams[0].Stream(ctx, "BENCH")
	if err != nil {
		return err
	}
	if n := st.CachedInfo().State.Msgs; n != uint64(total(stored)) {
		return fmt.Errorf("%d messages are stored, %d were acknowledged", n, total(stored))
	}
	ms, err := cons.Messages()
	if err != nil {
		return err
	}
	defer ms.Stop()
	seen := make([]int, len(stored))
	for range total(stored) {
		m, err := ms.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		c, err := strconv.Atoi(strings.TrimPrefix(m.Subject(), "bench."))
		if err != nil || c < 0 || c >= len(seen) {
			return fmt.Errorf("a message on %s", m.Subject())
		}
		seen[c]++
		if string(m.Data()) != string(l.turn(c, seen[c]).json()) {
			return fmt.Errorf("turn %d of client %d has other content", seen[c], c)
		}
	}
	return sameCounts(seen, stored)
}

func sameCounts(seen, stored []int) error {
	for c, n := range stored {
		if seen[c] != n {
			return fmt.Errorf("client %d has %d turns, %d were acknowledged", c, seen[c], n)
		}
	}
	return nil
}

func (b *bareStream) close() error {
	for _, nc := range b.conns {
		nc.Close()
	}
	return b.natsServers.close()
}

// batchedStream is a stream of atomic batches: each agent's connection publishes what
// its clients have ready, up to a number of turns.
type batchedStream struct {
	*bareStream
	queues []chan *waiting
	stop   context.CancelFunc
}

// waiting is a turn that waits for a batch.
type waiting struct {
	client int
	turn   turn
	done   chan error
}

func openBatches(ctx context.Context, r *run, l load, dir string) (system, error) {
	return openBatchesOf(ctx, r, l, dir, 1, r.groupOf(l.clients))
}

func openBatchesR3(ctx context.Context, r *run, l load, dir string) (system, error) {
	return openBatchesOf(ctx, r, l, dir, 3, l.clients)
}

func openBatchesOf(ctx context.Context, r *run, l load, dir string, replicas, size int) (system, error) {
	b, err := openStream(ctx, r, l, dir, replicas, true)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	s := &batchedStream{bareStream: b, stop: stop}
	for i := range b.conns {
		q := make(chan *waiting, l.clients)
		s.queues = append(s.queues, q)
		go s.publish(ctx, i, q, size)
	}
	return s, nil
}

// publish takes what waits, up to size turns, as one batch.
func (s *batchedStream) publish(ctx context.Context, conn int, q <-chan *waiting, size int) {
	for {
		var group []*waiting
		select {
		case <-ctx.Done():
			return
		case w := <-q:
			group = append(group, w)
		}
		for len(group) < size && len(q) > 0 { // this goroutine alone receives
			group = append(group, <-q)
		}
		err := s.batch(ctx, s.conns[conn], group)
		for _, w := range group {
			w.done <- err
		}
	}
}

func (s *batchedStream) batch(ctx context.Context, nc *nats.Conn, group []*waiting) error {
	id := nuid.Next()
	for i, w := range group {
		m := s.message(w.client, w.turn)
		m.Header["Nats-Batch-Id"] = []string{id}
		m.Header["Nats-Batch-Sequence"] = []string{strconv.Itoa(i + 1)}
		if i < len(group)-1 {
			if err := nc.PublishMsg(m); err != nil {
				return err
			}
			continue
		}
		m.Header["Nats-Batch-Commit"] = []string{"1"}
		reply, err := nc.RequestMsgWithContext(ctx, m)
		if err != nil {
			return err
		}
		var ack struct {
			Seq   uint64 `json:"seq"`
			Count int    `json:"count"`
			Error *struct {
				Description string `json:"description"`
			} `json:"error"`
		}
		if err := json.Unmarshal(reply.Data, &ack); err != nil {
			return fmt.Errorf("the answer to a batch: %w", err)
		}
		if ack.Error != nil || ack.Count != len(group) {
			return fmt.Errorf("a batch of %d turns was answered with %s", len(group), reply.Data)
		}
		for i, w := range group {
			s.tails[w.client] = ack.Seq - uint64(len(group)-1-i)
		}
	}
	return nil
}

func (s *batchedStream) append(ctx context.Context, c, _ int, t turn) error {
	w := &waiting{c, t, make(chan error, 1)}
	select {
	case s.queues[c%len(s.queues)] <- w:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *batchedStream) close() error {
	s.stop()
	return s.bareStream.close()
}

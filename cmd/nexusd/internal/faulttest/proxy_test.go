package faulttest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// lossyProxy stands between clients and a NATS server. It hands on every request, and loses
// some replies: it leaves them out, or cuts the connection in their place.
type lossyProxy struct {
	listener net.Listener
	leaveOut float64 // probability that a reply is left out
	cut      float64 // probability that the connection is cut in place of a reply

	mu     sync.Mutex
	target string // host:port
	open   map[net.Conn]bool
	done   sync.WaitGroup

	leftOut, cuts atomic.Int64
}

func newLossyProxy(t *testing.T, leaveOut, cut float64) *lossyProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &lossyProxy{listener: l, leaveOut: leaveOut, cut: cut, open: make(map[net.Conn]bool)}
	p.done.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.closeAll()
		p.done.Wait()
	})
	return p
}

func (p *lossyProxy) url() string { return "nats://" + p.listener.Addr().String() }

// lead directs new connections to target, and cuts those that are open.
func (p *lossyProxy) lead(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.closeAll()
}

func (p *lossyProxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
	clear(p.open)
}

func (p *lossyProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		server, err := net.Dial("tcp", target)
		if err != nil { // the server is down: the client tries again
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.open[client], p.open[server] = true, true
		p.mu.Unlock()
		end := sync.OnceFunc(func() {
			_, _ = client.Close(), server.Close()
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.open, client)
			delete(p.open, server)
		})
		p.done.Go(func() { defer end(); _, _ = io.Copy(server, client) })
		p.done.Go(func() { defer end(); _ = p.forward(client, server) })
	}
}

// forward hands on what the server sends, message by message, and loses replies.
func (p *lossyProxy) forward(client io.Writer, server io.Reader) error {
	r, w := bufio.NewReaderSize(server, 64<<10), bufio.NewWriterSize(client, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return err
		}
		message := line
		if fields := bytes.Fields(line); len(fields) > 3 && (string(fields[0]) == "MSG" || string(fields[0]) == "HMSG") {
			size, err := strconv.Atoi(string(fields[len(fields)-1]))
			if err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
			message = append(line, make([]byte, size+2)...)
			if _, err := io.ReadFull(r, message[len(line):]); err != nil {
				return err
			}
			if bytes.HasPrefix(fields[1], []byte("_INBOX.")) {
				switch x := rand.Float64(); {
				case x < p.cut:
					p.cuts.Add(1)
					return w.Flush()
				case x < p.cut+p.leaveOut:
					p.leftOut.Add(1)
					message = nil
				}
			}
		}
		if _, err := w.Write(message); err != nil {
			return err
		}
		if r.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
}

package embed

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// heldProbe is a service that sees what was sent when the test says so.
type heldProbe struct {
	mu   sync.Mutex
	seen []func()
}

func (p *heldProbe) probe(seen func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, seen)
}

// answer answers the probe that waits.
func (p *heldProbe) answer(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if len(p.seen) == 0 {
		t.Fatal("nobody asks whether the service has seen it")
	}
	p.mu.Lock()
	seen := p.seen[0]
	p.seen = p.seen[1:]
	p.mu.Unlock()
	seen()
	synctest.Wait()
}

// What clients have sent and the service has not seen stays below the window, and a
// quiet connection is served before all that have sent much, though they waited first.
func TestAQuietConnectionPassesAFloodingOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p := newFlow(), new(heldProbe)
		f.bound(p.probe)
		var mu sync.Mutex // of order and passed
		var order []string
		passed := 0
		pass := func(s *sender, n int, name string) {
			f.take(s, n, false)
			mu.Lock()
			defer mu.Unlock()
			passed, order = passed+n, append(order, name)
		}
		for i := range 10 {
			s := &sender{scan: scanner{agent: fmt.Sprint("default.flooder-", i)}}
			f.mu.Lock()
			f.short.share(s.scan.share()).tag = 1 << 20 // what it has got
			f.mu.Unlock()
			go func() {
				for range 10 {
					pass(s, chunk, "flooder")
				}
			}()
		}
		synctest.Wait()
		if passed != shortWindow {
			t.Fatalf("%d bytes are on their way, the window is %d", passed, shortWindow)
		}
		go pass(new(sender), 100, "quiet")
		synctest.Wait()
		order = nil
		f.mu.Lock()
		f.short.max = 100 // one passes at a time
		f.mu.Unlock()
		for len(order) == 0 { // until nothing is unseen
			p.answer(t)
		}
		if !slices.Equal(order, []string{"quiet"}) {
			t.Errorf("the order is %v", order)
		}
		f.stop()
		synctest.Wait()
		if len(order) != 101-shortWindow/chunk {
			t.Errorf("%d have passed at the end", len(order))
		}
	})
}

// Of an agent that floods over many connections no more is on its way than its share, so
// that is all that a neighbour's message waits behind, and the neighbour needs no probe.
func TestConnectionsOfOneAgentShareItsWindow(t *testing.T) {
	const connections = 32
	message := "PUB nexus.v1.default.flooder.session.get.X _INBOX.1 2\r\n{}\r\n"
	mine := "PUB nexus.v1.default.neighbour.session.get.Y _INBOX.2 2\r\n{}\r\n"
	for name, prefix := range map[string]string{
		"one agent":                        "",
		"many agents over each connection": "PUB nexus.v1.default.other.session.get.X 0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, p := newFlow(), new(heldProbe)
				f.bound(p.probe)
				clients, got := served(f, connections+1)
				sum := func() (n int64) {
					for i := range connections {
						n += got[i].Load()
					}
					return n
				}
				for _, c := range clients[:connections] {
					go func() { _, _ = io.WriteString(c, prefix+strings.Repeat(message, 100*chunk/len(message))) }()
				}
				synctest.Wait()
				first := int64(len(prefix)) * connections // counted for the name that it had
				if n := sum(); n > shareWindow+first+connections*chunk*int64(min(len(prefix), 1)) {
					t.Errorf("%d bytes of one agent are on their way, its share is %d", n, shareWindow)
				}
				for range 3 { // the neighbour's requests, one after the other
					p.answer(t)
					before := sum()
					go func() { _, _ = io.WriteString(clients[connections], mine) }()
					synctest.Wait()
					if n := sum() - before; n != 0 {
						t.Errorf("%d bytes of the flooding agent passed while the neighbour's message waited", n)
					}
				}
				if n := got[connections].Load(); n != 3*int64(len(mine)) {
					t.Errorf("%d bytes of the neighbour have come, want %d", n, 3*len(mine))
				}
				for _, c := range clients {
					_ = c.Close()
				}
				f.stop()
				synctest.Wait()
			})
		})
	}
}

// The messages of an agent that the service refused wait for a while; its neighbour's and
// long messages do not.
func TestARefusedAgentWaitsAtTheDoor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow()
		f.bound(func(seen func()) { seen() })
		flooder := &sender{scan: scanner{user: "UA", agent: "default.flooder"}}
		neighbour := &sender{scan: scanner{user: "UA", agent: "default.neighbour"}}
		other := &sender{scan: scanner{user: "UB", agent: "default.flooder"}}
		took := func(s *sender, long bool) time.Duration {
			began := time.Now()
			f.take(s, 100, long)
			return time.Since(began) // of the test's clock
		}
		for range 3 {
			if d := took(flooder, false); d != 0 {
				t.Errorf("before it was refused it waited %v", d)
			}
			f.slow("UA", "default.flooder")
			f.slow("UA", "default.flooder")
			if took(neighbour, false) != 0 || took(other, false) != 0 || took(flooder, true) != 0 {
				t.Error("a message waited that no refused agent sent")
			}
			if d := took(flooder, false); d != refusedPause {
				t.Errorf("after it was refused it waited %v, want %v", d, refusedPause)
			}
		}
		f.slow("UA", "default.flooder")
		f.stop()
		if d := took(flooder, false); d != 0 {
			t.Errorf("after the end it waited %v", d)
		}
	})
}

// Nobody spends the share of another user's agent by naming it.
func TestAShareIsOfOneUser(t *testing.T) {
	var mine, theirs scanner
	mine.next([]byte("CONNECT {\"nkey\":\"UA\",\"verbose\":false}\r\nPUB nexus.v1.default.a.session.get.X 0\r\n\r\n"))
	theirs.next([]byte("CONNECT {\"nkey\":\"UB\"}\r\nPUB nexus.v1.default.a.session.get.X 0\r\n\r\n"))
	if mine.share() != "UA default.a" || theirs.share() != "UB default.a" {
		t.Errorf("the shares are %q and %q", mine.share(), theirs.share())
	}
	for _, connect := range []string{`{"NKEY":"UA"}`, `{"nkey":"UB","NKey":"UA"}`} { // as the server reads them
		var s scanner
		if s.next([]byte("CONNECT " + connect + "\r\n")); s.user != "UA" {
			t.Errorf("%s is of %q", connect, s.user)
		}
	}
	mine.next([]byte("PUB nexus.v1.default.b.turn.append.X 0\r\n\r\n"))
	if mine.share() != "UA *" {
		t.Errorf("with two agents the share is %q", mine.share())
	}
}

// A service that hangs delays clients; it does not keep them waiting for ever.
func TestAServiceThatHangsDoesNotStopClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p := newFlow(), new(heldProbe)
		f.bound(p.probe)
		s := new(sender)
		for range 100 { // each window takes no longer than the patience
			f.take(s, chunk, false)
		}
		f.stop()
	})
}

// Without a service, and after the end, nobody waits.
func TestNobodyWaitsWithoutAService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow()
		s := new(sender)
		for range 100 {
			f.take(s, chunk, false)
		}
		f.bound(new(heldProbe).probe)
		var done atomic.Int32
		for range 3 {
			go func() {
				s := new(sender)
				for range 100 {
					f.take(s, chunk, false)
				}
				done.Add(1)
			}()
		}
		synctest.Wait()
		f.bound(nil)
		synctest.Wait()
		if done.Load() != 3 {
			t.Errorf("%d of 3 have passed", done.Load())
		}
	})
}

// Only as many connections as have a turn are in the middle of a long message; the
// end of the message, or a pause, ends the turn.
func TestLongMessagesComeFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow()
		f.bound(func(seen func()) { seen() })
		const clients, size = 7, 1 << 20
		var outer []net.Conn
		got := make([]int, clients)
		for i := range clients {
			client, conn := net.Pipe()
			inner, server := net.Pipe()
			outer = append(outer, client)
			go f.serve(conn, inner)
			go func() {
				buf := make([]byte, 4096)
				for {
					n, err := server.Read(buf)
					if got[i] += n; err != nil {
						return
					}
				}
			}()
		}
		line := fmt.Sprintf("PUB large %d\r\n", size)
		write := func(i, n int) { go func() { _, _ = outer[i].Write(bytes.Repeat([]byte{'x'}, n)) }() }
		for i := range clients {
			go func() { _, _ = io.WriteString(outer[i], line) }()
		}
		synctest.Wait()
		for i := range clients {
			write(i, 100)
		}
		synctest.Wait()
		begun := func() (n int) {
			for _, n2 := range got {
				if n2 > len(line) {
					n++
				}
			}
			return n
		}
		if n := begun(); n != longTurns {
			t.Fatalf("%d connections are in the middle of a message", n)
		}
		first := slices.IndexFunc(got, func(n int) bool { return n > len(line) })
		write(first, size+2-100)
		synctest.Wait()
		if got[first] != len(line)+size+2 {
			t.Fatalf("%d bytes of the message have come", got[first])
		}
		if n := begun(); n != longTurns+1 {
			t.Errorf("after the end of a message %d have begun", n)
		}
		for _, c := range outer {
			_ = c.Close()
		}
		f.stop()
		synctest.Wait()
	})
}

// served lets n clients send through a flow. It returns their ends, and how many bytes of each
// have come.
func served(f *flow, n int) (clients []net.Conn, got []atomic.Int64) {
	got = make([]atomic.Int64, n)
	for i := range n {
		client, conn := net.Pipe()
		inner, server := net.Pipe()
		clients = append(clients, client)
		go f.serve(conn, inner)
		go func() {
			buf := make([]byte, 64<<10)
			for {
				n, err := server.Read(buf)
				if got[i].Add(int64(n)); err != nil {
					return
				}
			}
		}()
	}
	return clients, got
}

// Clients that send their long messages a byte at a time do not stop the others' messages.
func TestASlowClientGivesUpItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow()
		f.bound(func(seen func()) { seen() })
		const size = 300 << 10
		clients, got := served(f, longTurns+1)
		line := fmt.Sprintf("PUB large %d\r\n", size)
		end := make(chan struct{})
		for i := range longTurns {
			go func() {
				_, _ = io.WriteString(clients[i], line)
				for {
					if _, err := clients[i].Write([]byte{'x'}); err != nil {
						return
					}
					select {
					case <-time.After(turnIdle / 4):
					case <-end:
						return
					}
				}
			}()
		}
		time.Sleep(time.Second) // of the test's clock
		go func() {
			_, _ = io.WriteString(clients[longTurns], line+strings.Repeat("x", size)+"\r\n")
		}()
		time.Sleep(2 * time.Second)
		if n := got[longTurns].Load(); n != int64(len(line)+size+2) {
			t.Errorf("%d bytes of the message have come in 2 s", n)
		}
		close(end)
		for _, c := range clients {
			_ = c.Close()
		}
		f.stop()
		synctest.Wait()
	})
}

// Clients that stop in the middle of long messages are disconnected when the server keeps
// too much of them; the one that is at work is not.
func TestHalfMessagesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow()
		f.bound(func(seen func()) { seen() })
		const size = 8 << 20
		const n = maxPartial/size + 4
		clients, got := served(f, n)
		line := fmt.Sprintf("PUB large %d\r\n", size)
		most := 0
		for i := range n {
			_, _ = io.WriteString(clients[i], line)
			_, _ = clients[i].Write(make([]byte, size-1))
			time.Sleep(time.Second) // of the test's clock
			f.mu.Lock()
			most = max(most, f.partial)
			f.mu.Unlock()
		}
		if most > maxPartial {
			t.Errorf("%d bytes of half messages", most)
		}
		if last := got[n-1].Load(); last != int64(len(line)+size-1) {
			t.Errorf("the last client was disconnected: %d bytes", last)
		}
		if _, err := clients[0].Write([]byte("x")); err == nil {
			t.Error("the client that stopped first is still connected")
		}
		for _, c := range clients {
			_ = c.Close()
		}
		f.stop()
		synctest.Wait()
	})
}

// What goes through is what was sent, however it is cut, and each message is found.
func TestScannerFindsMessages(t *testing.T) {
	long := strings.Repeat("PUB a 5\r\n", longMessage/9+1)
	stream := "CONNECT {\"x\":\"PUB a 99\"}\r\nPING\r\nSUB a 1\r\n" +
		"PUB a 5\r\nhello\r\n" + "pub a reply 0\r\n\r\n" +
		fmt.Sprintf("HPUB a reply 12 %d\r\n%s\r\n", len(long), long) +
		"PUB a 9\r\nPUB a 9\r\n\r\nPUB a -1\r\nPUB a 99999999\r\nPING\r\n" +
		fmt.Sprintf("PUB b %d\r\n%s\r\n", len(long), long) + "PING\r\n"
	for _, size := range []int{1, 2, 7, 100, 4096, len(stream)} {
		var s scanner
		var out []byte
		longBytes := 0
		for rest := []byte(stream); len(rest) > 0; {
			b := rest[:min(size, len(rest))]
			rest = rest[len(b):]
			for len(b) > 0 {
				n, ofLong := s.next(b)
				if n <= 0 || n > len(b) {
					t.Fatalf("cut at %d: %d of %d bytes", size, n, len(b))
				}
				if ofLong {
					longBytes += n
				}
				out, b = append(out, b[:n]...), b[n:]
			}
		}
		if string(out) != stream {
			t.Errorf("cut at %d: it is not what was sent", size)
		}
		if want := 2 * (len(long) + 2); longBytes != want {
			t.Errorf("cut at %d: %d bytes of long messages, want %d", size, longBytes, want)
		}
	}
}

// A line of headers that ends with LF alone is found, wherever it is cut; a body may have it.
func TestScannerFindsHeadersThatForge(t *testing.T) {
	for headers, want := range map[string]bool{
		"NATS/1.0\r\nX: y\r\n\r\n":                      false,
		"NATS/1.0 503\r\n\r\n":                          false,
		"NATS/1.0\nX: y\r\n\r\n":                        true,
		"NATS/1.0\r\nNats-Request-Info: {}\nX: \r\n":    true,
		"NATS/1.0\r\nNats-Request-Info: {}\n\n\r\n":     true,
		"NATS/1.0\r\nX: y\n\nNats-Request-Info: {}\r\n": true,
	} {
		for _, body := range []string{"{}\n", strings.Repeat("{}\n", longMessage)} {
			stream := "PUB a 2\r\n\n\n\r\n" + fmt.Sprintf("HPUB a %d %d\r\n%s%s\r\nPING\n", len(headers), len(headers)+len(body), headers, body)
			for _, size := range []int{1, 7, len(stream)} {
				var s scanner
				for rest := []byte(stream); len(rest) > 0; {
					n, _ := s.next(rest[:min(size, len(rest))])
					rest = rest[n:]
				}
				if s.bad != want {
					t.Errorf("%q, cut at %d: forged %v, want %v", headers, size, s.bad, want)
				}
			}
		}
	}
}

func FuzzScanner(f *testing.F) {
	f.Add([]byte("PUB a 5\r\nhello\r\nPING\r\n"), 3)
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		if size <= 0 {
			size = 1
		}
		var s scanner
		for len(stream) > 0 {
			b := stream[:min(size, len(stream))]
			stream = stream[len(b):]
			for len(b) > 0 {
				n, _ := s.next(b)
				if n <= 0 || n > len(b) || len(s.line) > maxLine {
					t.Fatalf("%d of %d bytes, a line of %d", n, len(b), len(s.line))
				}
				b = b[n:]
			}
		}
	})
}

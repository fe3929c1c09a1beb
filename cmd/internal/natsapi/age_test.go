package natsapi

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/paths"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/request"
	"nexus/ledger"
	"nexus/ledger/api/client"
)

func TestARequestIsDecidedOnlyWhileItIsYoung(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		sent time.Time
		old  bool
	}{
		"as old as it may be":           {sent: now.Add(-timeout)},
		"older":                         {sent: now.Add(-timeout - 1), old: true},
		"older by the time of day only": {sent: now.Round(0).Add(-timeout - 1), old: true},
		"a clock that was set back":     {sent: now.Round(0).Add(time.Hour)},
	} {
		if err := mayDecide(c.sent, now, timeout); errors.Is(err, ledger.ErrUnavailable) != c.old || (err != nil) != c.old {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// headed is a request with headers.
type headed struct {
	arrived
	headers micro.Headers
}

func (h headed) Headers() micro.Headers { return h.headers }

// A change is decided within the time that the limit and its own header
// leave; a read is answered at any age.
func TestOldChangesAreUnavailable(t *testing.T) {
	for name, c := range map[string]struct {
		within string
		age    time.Duration
		read   bool
		want   error
	}{
		"young":                         {},
		"waited too long":               {age: timeout + time.Second, want: ledger.ErrUnavailable},
		"a read that waited":            {age: timeout + time.Second, read: true},
		"longer than its sender waits":  {within: "1000", age: 2 * time.Second, want: ledger.ErrUnavailable},
		"shorter than its sender waits": {within: "20000", age: 2 * time.Second},
		"no time is longer than ours":   {within: "4000000000", age: timeout + time.Second, want: ledger.ErrUnavailable},
		"no number":                     {within: "1s", want: ledger.ErrMalformed},
		"no time":                       {within: "0", want: ledger.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Service{engine: &engine.Engine{Reader: new(reader.Reader), Loader: &paths.Loader{Memory: request.NewMemory()}}, base: t.Context()}
			r := headed{arrived{subject: "nexus.v1.default.main.session.create"}, micro.Headers{}}
			if c.within != "" {
				r.headers[client.WithinHeader] = []string{c.within}
			}
			v := verb{name: "session.create", changes: !c.read, serve: func(ctx context.Context, _ *call) (any, error) { return nil, request.MayDecide(ctx) }}
			now := time.Now()
			if _, err := s.serve(inbound{Request: r}, v, User{}, arrival{read: now, sent: now.Add(-c.age)}, func() {}); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// A probe that began while messages waited in the queue of a subscription says nothing of
// those: they may be older.
func TestAProbeWaitsForTheQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, NoSystemAccount: true})
		if err != nil {
			t.Fatal(err)
		}
		srv.Start()
		nc, err := nats.Connect("", nats.InProcessServer(srv), nats.PingInterval(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		a := newAge()
		began := a.bound()
		release, bounds := make(chan struct{}), make(chan time.Time, 8)
		if _, err := nc.Subscribe("requests", func(*nats.Msg) { <-release; bounds <- a.bound() }); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := nc.Publish("requests", nil); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second) // of the bubble: the messages wait
		probed := make(chan error, 1)
		go func() { probed <- a.probe(t.Context(), nc) }()
		synctest.Wait()
		if got := a.bound(); !got.Equal(began) {
			t.Errorf("the bound is %v while messages wait, want %v", got, began)
		}
		close(release)
		if err := <-probed; err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got := <-bounds; !got.Equal(began) {
				t.Errorf("a message that waited is taken for sent after %v, the connection began at %v", got, began)
			}
		}
		if err := nc.Publish("requests", nil); err != nil {
			t.Fatal(err)
		}
		if got := <-bounds; !got.Equal(began.Add(time.Second)) {
			t.Errorf("after the probe the bound is %v, want the time when it began", got)
		}
		nc.Close()
		srv.Shutdown()
		srv.WaitForShutdown()
	})
}

// A request that looks old has the next probe begin at once; while nobody asks it comes
// every two seconds. Without a server the bound stays where it is.
func TestProbesFollowTheRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, NoSystemAccount: true})
		if err != nil {
			t.Fatal(err)
		}
		srv.Start()
		nc, err := nats.Connect("", nats.InProcessServer(srv), nats.PingInterval(time.Hour), nats.NoReconnect())
		if err != nil {
			t.Fatal(err)
		}
		a, began := newAge(), time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { a.follow(ctx, nc); close(done) }()
		at := func(want time.Duration) {
			t.Helper()
			synctest.Wait()
			if got := a.sent.Load().Sub(began); got != want {
				t.Errorf("after %v the bound is %v, want %v", time.Since(began), got, want)
			}
		}
		at(0)
		time.Sleep(idleProbe - time.Millisecond)
		at(0)
		a.bound() // asks
		at(idleProbe - time.Millisecond)
		a.bound() // is young
		time.Sleep(leastProbe)
		at(idleProbe - time.Millisecond)
		nc.Close()
		time.Sleep(time.Minute)
		at(idleProbe - time.Millisecond)
		cancel()
		<-done
		srv.Shutdown()
		srv.WaitForShutdown()
	})
}

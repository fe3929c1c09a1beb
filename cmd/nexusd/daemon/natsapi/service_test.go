package natsapi

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// serviceOn starts the service on a NATS server of its own, as a user who may
// subscribe to what is not denied.
func serviceOn(t *testing.T, denied ...string) (*Service, *nats.Conn) {
	t.Helper()
	srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, Users: []*server.User{
		{Username: "daemon", Password: "x", Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Deny: denied}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	nc, err := nats.Connect("", nats.InProcessServer(srv), nats.UserInfo("daemon", "x"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s, err := Start(nc, nil, "1.0.0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return s, nc
}

// The daemon ends with a service that has stopped: it does not stay, deaf.
func TestServiceEndsWithoutItsSubscriptions(t *testing.T) {
	t.Run("denied by the server", func(t *testing.T) {
		s, _ := serviceOn(t, "nexus.v1.*.*.turn.>")
		ended(t, s)
		if err := s.Err(); !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), "turn.append") {
			t.Errorf("it ended with %v", err)
		}
	})
	t.Run("connection closed", func(t *testing.T) {
		s, nc := serviceOn(t)
		if err := s.Err(); err != nil {
			t.Errorf("an error before the end: %v", err)
		}
		nc.Close()
		ended(t, s)
		if s.Err() == nil {
			t.Error("it ended without an error")
		}
	})
}

func ended(t *testing.T, s *Service) {
	t.Helper()
	select {
	case <-s.Stopped():
	case <-time.After(20 * time.Second):
		t.Fatal("the service goes on")
	}
}

// A stop waits for requests as long as its context, cancels them then, and is not
// held up by one that does not heed that.
func TestStopWaitsNoLongerThanItsGrace(t *testing.T) {
	const drain = 20 * time.Second
	for name, c := range map[string]struct {
		ends   time.Duration // of the request, by itself
		heeds  bool          // it ends when it is cancelled
		want   time.Duration
		failed bool
	}{
		"a request that ends":          {ends: time.Second, want: time.Second},
		"one that ends when cancelled": {ends: time.Hour, heeds: true, want: drain},
		"one that ends a little late":  {ends: drain + time.Second, want: drain + time.Second},
		"one that does not end":        {ends: time.Hour, want: drain + grace, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := new(Service)
				s.base, s.cancel = context.WithCancel(context.Background())
				s.running.Go(func() {
					var cancelled <-chan struct{}
					if c.heeds {
						cancelled = s.base.Done()
					}
					select {
					case <-time.After(c.ends):
					case <-cancelled:
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), drain)
				defer cancel()
				began := time.Now()
				err := s.drain(ctx)
				if got := time.Since(began); got != c.want || (err != nil) != c.failed {
					t.Errorf("it took %v, want %v; %v", got, c.want, err)
				}
				if s.base.Err() == nil {
					t.Error("what is still worked on is not cancelled")
				}
				s.running.Wait()
			})
		})
	}
}

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
	"github.com/nats-io/nats.go/micro"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/paths"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/request"
	"nexus/ledger/api"
	"nexus/turns"
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
	s, err := Start(nc, nil, nil, "1.0.0", slog.New(slog.DiscardHandler))
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

// arrived is a request that came on a subject.
type arrived struct {
	micro.Request
	subject, reply string
}

func (r arrived) Subject() string { return r.subject }
func (r arrived) Reply() string   { return r.reply }
func (r arrived) Data() []byte    { return nil }

// An internal error tells the caller nothing but an id; the log has the reason under
// it.
func TestInternalErrorHasTheIDOfItsLogLine(t *testing.T) {
	_, nc := serviceOn(t)
	const secret = "what a caller must not see"
	for name, c := range map[string]struct {
		serve func(context.Context, *call) (any, error)
		logs  string
	}{
		"an error of no kind": {func(context.Context, *call) (any, error) { return nil, errors.New(secret) }, secret},
		"a panic":             {func(context.Context, *call) (any, error) { panic(errors.New(secret)) }, "panic=*errors.errorString"},
		"one with an id": {func(context.Context, *call) (any, error) {
			return nil, api.InternalError(api.NewID(), "nothing is stored")
		}, "nothing is stored"},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			s := &Service{nc: nc, engine: &engine.Engine{Reader: new(reader.Reader), Loader: &paths.Loader{Memory: request.NewMemory()}}, logger: slog.New(slog.NewTextHandler(&log, nil)), base: t.Context()}
			inbox, err := nc.SubscribeSync(nc.NewInbox())
			if err != nil {
				t.Fatal(err)
			}
			r := arrived{subject: "nexus.v1.default.main.policy.list", reply: inbox.Subject}
			v := verb{name: "policy.list", serve: c.serve}
			_, err = s.serve(inbound{Request: r}, v, User{}, arrival{read: time.Now()}, func() {})
			s.reply(inbound{Request: r}, v, nil, err)
			m, err := inbox.NextMsg(20 * time.Second)
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Error api.Error `json:"error"`
			}
			if err := turns.DecodeJSON(m.Data, &got); err != nil {
				t.Fatal(err)
			}
			id, _ := got.Error.Details["id"].(string)
			if _, err := turns.ParseID(id); err != nil || got.Error.Code != api.Internal || !strings.Contains(got.Error.Message, id) || !strings.Contains(log.String(), "id="+id) || !strings.Contains(log.String(), c.logs) {
				t.Errorf("the caller got %+v, the log has\n%s", got.Error, log.String())
			}
			if strings.Contains(string(m.Data), secret) {
				t.Errorf("the reason went to the caller: %s", m.Data)
			}
		})
	}
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
				s.running.begin()
				go func() {
					defer s.running.end()
					var cancelled <-chan struct{}
					if c.heeds {
						cancelled = s.base.Done()
					}
					select {
					case <-time.After(c.ends):
					case <-cancelled:
					}
				}()
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
				<-s.running.close()
			})
		})
	}
}

package client_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/tlog"
	"nexus/turns"
)

// request is what a scripted daemon was sent.
type request struct {
	verb string
	body string
}

// reply is what it answers.
type reply func(m *nats.Msg)

func answers(format string, args ...any) reply {
	return func(m *nats.Msg) { _ = m.Respond(fmt.Appendf(nil, format, args...)) }
}

func fails(code api.Code, details string) reply {
	return func(m *nats.Msg) {
		r := nats.NewMsg(m.Reply)
		r.Header.Set("Nats-Service-Error", "scripted")
		r.Header.Set("Nats-Service-Error-Code", string(code))
		r.Data = fmt.Appendf(nil, `{"error":{"code":%q,"message":"scripted","details":{%s}}}`, code, details)
		_ = m.RespondMsg(r)
	}
}

func silence(*nats.Msg) {}

// world is a NATS server in a bubble of fake time, and a scripted daemon on it.
type world struct {
	t      *testing.T
	server *server.Server
	conn   *nats.Conn // the client's
	got    []request
}

// inWorld runs f with fake time. The daemon answers the nth request as script
// says, the last reply again and again; without a script nobody serves.
func inWorld(t *testing.T, script []reply, f func(w *world, c *client.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, NoSystemAccount: true, Users: []*server.User{
			{Username: "daemon", Password: "x"},
			{Username: "agent", Password: "x"},
			{Username: "mute", Password: "x", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"nexus.>"}}}},
			{Username: "deaf", Password: "x", Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{"_INBOX.>"}}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		w := &world{t: t, server: s}
		daemon := w.connect("daemon")
		if script != nil {
			_, err := daemon.Subscribe("nexus.v1.>", func(m *nats.Msg) {
				n := len(w.got)
				w.got = append(w.got, request{strings.TrimPrefix(m.Subject, "nexus.v1.default.main."), string(m.Data)})
				script[min(n, len(script)-1)](m)
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := daemon.FlushWithContext(within(t, time.Minute)); err != nil { // Flush takes its timer from a pool that outlives the bubble
				t.Fatal(err)
			}
		}
		w.conn = w.connect("agent")
		f(w, client.New(w.conn, "default", "main"))
		w.conn.Close()
		daemon.Close()
		s.Shutdown()
		s.WaitForShutdown()
	})
}

func (w *world) connect(user string) *nats.Conn {
	w.t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(w.server), nats.UserInfo(user, "x"), nats.PingInterval(time.Hour),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		w.t.Fatal(err)
	}
	return nc
}

var session = turns.MustParseID("01ARZ3NDEKTSV4RRFFQ69G5FAV")

// within ends after d of the bubble's time.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// wants checks an error's code by its sentinel, and that errors.As finds it.
func wants(t *testing.T, err, sentinel error) {
	t.Helper()
	var e *api.Error
	if !errors.Is(err, sentinel) || !errors.As(err, &e) {
		t.Errorf("%v, want %v", err, sentinel)
	}
}

func message() []turns.Message { return []turns.Message{turns.TextMessage(turns.User, "hello")} }

func TestAppendWithoutAnswerIsSentAgainWithItsID(t *testing.T) {
	inWorld(t, []reply{silence, answers(`{"depth":7}`)}, func(w *world, c *client.Client) {
		got, err := c.Append(within(w.t, 30*time.Second), session, api.AppendTurn{Messages: message()})
		if err != nil || got.Depth != 7 {
			w.t.Fatalf("%+v, %v", got, err)
		}
		if len(w.got) != 2 || w.got[0] != w.got[1] || !strings.Contains(w.got[0].body, `"id":"0`) {
			w.t.Errorf("sent %q", w.got)
		}
	})
}

func TestReadWithoutAnswerIsSentAgain(t *testing.T) {
	inWorld(t, []reply{silence, answers(`{"label":"x"}`)}, func(w *world, c *client.Client) {
		if got, err := c.Session(within(w.t, 30*time.Second), session); err != nil || got.Label != "x" {
			w.t.Errorf("%+v, %v", got, err)
		}
	})
}

// More than the half minute after which a call gave up once.
func TestBusyIsRetriedUntilContextEnds(t *testing.T) {
	for _, code := range []api.Code{api.Busy, api.Unavailable, api.Indeterminate} {
		t.Run(string(code), func(t *testing.T) {
			began := make(chan time.Time, 1)
			inWorld(t, []reply{func(m *nats.Msg) {
				select {
				case began <- time.Now():
				default:
				}
				first := <-began
				began <- first
				if time.Since(first) < 3*time.Minute {
					fails(code, "")(m)
					return
				}
				answers(`{"depth":7}`)(m)
			}}, func(w *world, c *client.Client) {
				if got, err := c.Append(within(w.t, 5*time.Minute), session, api.AppendTurn{Messages: message()}); err != nil || got.Depth != 7 {
					w.t.Errorf("%+v, %v", got, err)
				}
			})
		})
	}
}

func TestRetryWaitsAsLongAsTheDaemonSays(t *testing.T) {
	inWorld(t, []reply{fails(api.Busy, `"retry_after_ms":7000`), answers(`{"depth":7}`)}, func(w *world, c *client.Client) {
		began := time.Now()
		if _, err := c.Append(within(w.t, time.Minute), session, api.AppendTurn{Messages: message()}); err != nil {
			w.t.Fatal(err)
		}
		if got := time.Since(began); got != 7*time.Second {
			w.t.Errorf("it waited %v, want 7s", got)
		}
	})
}

// The daemon answers the first try while the client waits for the second.
func TestLateAnswerOfAnEarlierTryCounts(t *testing.T) {
	var first *nats.Msg
	inWorld(t, []reply{func(m *nats.Msg) { first = m }, func(*nats.Msg) { answers(`{"depth":7}`)(first) }, silence}, func(w *world, c *client.Client) {
		if got, err := c.Append(within(w.t, 30*time.Second), session, api.AppendTurn{Messages: message()}); err != nil || got.Depth != 7 {
			w.t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestCancelAfterDeliveryIsIndeterminate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	inWorld(t, []reply{func(*nats.Msg) { cancel() }}, func(w *world, c *client.Client) {
		_, err := c.Append(ctx, session, api.AppendTurn{Messages: message()})
		wants(w.t, err, ledger.ErrIndeterminate)
		if errors.Is(err, ledger.ErrUnavailable) {
			w.t.Errorf("%v says that nothing was written", err)
		}
	})
}

func TestCloseAfterDeliveryIsIndeterminate(t *testing.T) {
	var conn *nats.Conn
	inWorld(t, []reply{func(*nats.Msg) { conn.Close() }}, func(w *world, c *client.Client) {
		conn = w.conn
		_, err := c.Append(within(w.t, time.Minute), session, api.AppendTurn{Messages: message()})
		wants(w.t, err, ledger.ErrIndeterminate)
	})
}

// A try that was refused says nothing about one before it that was not answered.
func TestRefusalAfterATryWithoutAnswerIsIndeterminate(t *testing.T) {
	for _, code := range []api.Code{api.Busy, api.Unavailable} {
		inWorld(t, []reply{silence, fails(code, "")}, func(w *world, c *client.Client) {
			_, err := c.Append(within(w.t, 30*time.Second), session, api.AppendTurn{Messages: message()})
			wants(w.t, err, ledger.ErrIndeterminate)
			if !errors.Is(err, context.DeadlineExceeded) {
				w.t.Errorf("%v hides that time was over", err)
			}
		})
	}
}

func TestRequestThatNeverLeftIsUnavailable(t *testing.T) {
	t.Run("context done before", func(t *testing.T) {
		inWorld(t, []reply{silence}, func(w *world, c *client.Client) {
			ctx, cancel := context.WithCancel(w.t.Context())
			cancel()
			_, err := c.Append(ctx, session, api.AppendTurn{Messages: message()})
			wants(w.t, err, ledger.ErrUnavailable)
			if !errors.Is(err, context.Canceled) || len(w.got) != 0 {
				w.t.Errorf("%v after %q", err, w.got)
			}
		})
	})
	t.Run("deadline over before", func(t *testing.T) {
		inWorld(t, []reply{silence}, func(w *world, c *client.Client) {
			_, err := c.Append(within(w.t, 0), session, api.AppendTurn{Messages: message()})
			wants(w.t, err, ledger.ErrUnavailable)
		})
	})
	t.Run("connection closed before", func(t *testing.T) {
		inWorld(t, []reply{silence}, func(w *world, c *client.Client) {
			w.conn.Close()
			began := time.Now()
			_, err := c.Append(within(w.t, time.Minute), session, api.AppendTurn{Messages: message()})
			wants(w.t, err, ledger.ErrUnavailable)
			if time.Since(began) != 0 {
				w.t.Errorf("a closed connection was tried for %v", time.Since(began))
			}
		})
	})
	t.Run("nobody serves", func(t *testing.T) {
		inWorld(t, nil, func(w *world, c *client.Client) {
			_, err := c.Append(within(w.t, 30*time.Second), session, api.AppendTurn{Messages: message()})
			wants(w.t, err, ledger.ErrUnavailable)
		})
	})
}

func TestPermissionThatTheServerRefusesIsDeniedAtOnce(t *testing.T) {
	for user, says := range map[string]string{"mute": "nexus.v1.default.main.turn.append." + session.String(), "deaf": "_INBOX."} {
		t.Run(user, func(t *testing.T) {
			inWorld(t, []reply{answers(`{}`)}, func(w *world, _ *client.Client) {
				nc := w.connect(user)
				defer nc.Close()
				began := time.Now()
				c := client.New(nc, "default", "main")
				for range 2 { // the server reports the inbox once only
					_, err := c.Append(within(w.t, time.Minute), session, api.AppendTurn{Messages: message()})
					wants(w.t, err, ledger.ErrDenied)
					if err != nil && !strings.Contains(err.Error(), says) {
						w.t.Errorf("%v does not name %s", err, says)
					}
					if api.Exit(err) != 8 {
						w.t.Errorf("exit code %d, want 8", api.Exit(err))
					}
				}
				if took := time.Since(began); took != 0 {
					w.t.Errorf("it took %v", took)
				}
				if len(w.got) != 0 {
					w.t.Errorf("denied, and yet sent: %q", w.got)
				}
			})
		})
	}
}

// A client that is denied one subject goes on with the others, and so does the
// handler that its connection had.
func TestErrorHandlerOfTheConnectionStillHears(t *testing.T) {
	inWorld(t, []reply{answers(`{}`)}, func(w *world, _ *client.Client) {
		nc := w.connect("mute")
		defer nc.Close()
		heard := make(chan error, 1)
		nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { heard <- err })
		_, err := client.New(nc, "default", "main").Session(within(w.t, time.Minute), session)
		wants(w.t, err, ledger.ErrDenied)
		if err := <-heard; !errors.Is(err, nats.ErrPermissionViolation) {
			w.t.Errorf("heard %v", err)
		}
	})
}

func TestErrorsOfTheDaemonAreNotRetried(t *testing.T) {
	for _, code := range []api.Code{api.Conflict, api.NotFound, api.IDReused, api.Corrupt, api.Internal, "of_a_later_version"} {
		inWorld(t, []reply{fails(code, `"head":"x"`)}, func(w *world, c *client.Client) {
			_, err := c.Append(within(w.t, time.Minute), session, api.AppendTurn{Messages: message()})
			var e *api.Error
			if !errors.As(err, &e) || e.Code != code || e.Details["head"] != "x" || len(w.got) != 1 {
				w.t.Errorf("%s: %v after %d requests", code, err, len(w.got))
			}
		})
	}
}

func TestRequestLargerThanAMessageIsTooLarge(t *testing.T) {
	inWorld(t, []reply{answers(`{}`)}, func(w *world, c *client.Client) {
		_, err := c.PutBlob(within(w.t, time.Minute), api.PutBlob{Session: session, Data: make([]byte, 1<<20)})
		wants(w.t, err, ledger.ErrTooLarge)
	})
}

func TestListAsksForEachPage(t *testing.T) {
	script := []reply{answers(`{"turns":[{"depth":1},{"depth":2}],"next":"a"}`), answers(`{"turns":[],"next":"b"}`), answers(`{"turns":[{"depth":3}]}`)}
	inWorld(t, append(script, script...), func(w *world, c *client.Client) {
		list := c.Turns(within(w.t, time.Minute), session, api.ListTurns{Page: api.Page{Limit: 2}})
		for range 2 { // the sequence begins anew
			var depths []uint64
			for x, err := range list {
				if err != nil {
					w.t.Fatal(err)
				}
				depths = append(depths, x.Depth)
			}
			if d := cmp.Diff([]uint64{1, 2, 3}, depths); d != "" {
				w.t.Error(d)
			}
		}
		var bodies []string
		for _, r := range w.got {
			bodies = append(bodies, r.body)
		}
		one := []string{`{"limit":2}`, `{"after":"a","limit":2}`, `{"after":"b","limit":2}`}
		if d := cmp.Diff(append(one, one...), bodies); d != "" {
			w.t.Error(d)
		}
	})
}

func TestListEndsWithItsError(t *testing.T) {
	inWorld(t, []reply{answers(`{"sessions":[{"label":"x"}],"next":"a"}`), fails(api.Corrupt, "")}, func(w *world, c *client.Client) {
		var labels []string
		var last error
		for s, err := range c.Sessions(within(w.t, time.Minute)) {
			labels, last = append(labels, s.Label), err
		}
		wants(w.t, last, ledger.ErrCorrupt)
		if d := cmp.Diff([]string{"x", ""}, labels); d != "" {
			w.t.Error(d)
		}
	})
}

func TestListThatIsLeftAsksNoMore(t *testing.T) {
	inWorld(t, []reply{answers(`{"turns":[{"depth":1},{"depth":2}],"next":"a"}`)}, func(w *world, c *client.Client) {
		for range c.Path(within(w.t, time.Minute), session, api.GetPath{}) {
			break
		}
		if len(w.got) != 1 {
			w.t.Errorf("%d requests", len(w.got))
		}
	})
}

func TestPagesOfAContextArePutTogether(t *testing.T) {
	inWorld(t, []reply{
		answers(`{"fingerprint":"a","messages":[1],"sources":[{"half":"x"}],"next":"1"}`),
		answers(`{"fingerprint":"b","messages":[1],"sources":[],"next":"2"}`), // the settings changed: begin again
		answers(`{"fingerprint":"b","system":"s","messages":[1],"sources":[{"half":"x"}],"next":"1"}`),
		answers(`{"fingerprint":"b","messages":[],"sources":[],"partial":"{\"a\"","next":"2"}`),
		answers(`{"fingerprint":"b","messages":[],"sources":[{"half":"y"}],"partial":":2}","partial_end":true}`),
	}, func(w *world, c *client.Client) {
		got, err := c.Context(within(w.t, time.Minute), session, api.GetContext{Budget: 9})
		if err != nil {
			w.t.Fatal(err)
		}
		want := &api.Context{Fingerprint: "b", System: turns.Raw(`"s"`), Messages: []turns.Raw{turns.Raw("1"), turns.Raw(`{"a":2}`)},
			Sources: []api.Source{{Half: "x"}, {Half: "y"}}}
		if d := cmp.Diff(want, got); d != "" {
			w.t.Error(d)
		}
		if last := w.got[4].body; last != `{"budget":9,"after":"2"}` {
			w.t.Errorf("the last page was asked for with %s", last)
		}
	})
}

// A verification that the daemon does not have any more is asked for as a whole, once.
func TestVerificationInPagesThatEndedIsMadeAsAWhole(t *testing.T) {
	for name, tc := range map[string]struct {
		script []reply
		events []uint64
		bodies []string
	}{
		"in pages": {[]reply{answers(`{"events":2,"next":"a~1"}`), answers(`{"events":3,"ok":true}`)}, []uint64{2, 3},
			[]string{`{"sessions":[%q],"limit":2}`, `{"sessions":[%q],"after":"a~1","limit":2}`}},
		"ended": {[]reply{answers(`{"events":2,"next":"a~1"}`), fails(api.Conflict, `"field":"/after"`), answers(`{"events":3,"ok":true}`)}, []uint64{2, 3},
			[]string{`{"sessions":[%q],"limit":2}`, `{"sessions":[%q],"after":"a~1","limit":2}`, `{"sessions":[%q]}`}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, tc.script, func(w *world, c *client.Client) {
				var events []uint64
				id := api.NewID()
				for v, err := range c.VerifyPages(within(w.t, time.Minute), 2, id) {
					if err != nil {
						t.Fatal(err)
					}
					events = append(events, v.Events)
				}
				var bodies []string
				for _, b := range tc.bodies {
					bodies = append(bodies, fmt.Sprintf(b, id))
				}
				var got []string
				for _, r := range w.got {
					got = append(got, r.body)
				}
				if !slices.Equal(events, tc.events) || !slices.Equal(got, bodies) {
					t.Errorf("events %d of requests %q; want %d of %q", events, got, tc.events, bodies)
				}
			})
		})
	}
}

func TestContextThatKeepsChangingIsConflict(t *testing.T) {
	var n int
	inWorld(t, []reply{func(m *nats.Msg) {
		n++
		answers(`{"fingerprint":"%d","messages":[],"sources":[],"next":"x"}`, n)(m)
	}}, func(w *world, c *client.Client) {
		_, err := c.Context(within(w.t, time.Minute), session, api.GetContext{})
		wants(w.t, err, ledger.ErrConflict)
	})
}

// A context whose settings change between two pages is read from its first page again: where the daemon finds out, and
// where the pages differ in the system part alone.
func TestContextThatChangedBetweenPagesIsReadAgain(t *testing.T) {
	first := answers(`{"fingerprint":"a","preamble_digest":"old","messages":[1],"sources":[],"next":"x"}`)
	for name, second := range map[string]reply{
		"a conflict":       fails(api.Conflict, `"field":"/after"`),
		"another preamble": answers(`{"fingerprint":"a","preamble_digest":"new","messages":[2],"sources":[]}`),
	} {
		t.Run(name, func(t *testing.T) {
			whole := answers(`{"fingerprint":"a","preamble_digest":"new","messages":[1,2],"sources":[]}`)
			inWorld(t, []reply{first, second, whole}, func(w *world, c *client.Client) {
				got, err := c.Context(within(w.t, time.Minute), session, api.GetContext{})
				if err != nil || len(got.Messages) != 2 || got.PreambleDigest != "new" || len(w.got) != 3 {
					w.t.Errorf("%+v, %v, after %d requests", got, err, len(w.got))
				}
			})
		})
	}
}

func TestPagesOfContentAreJoined(t *testing.T) {
	inWorld(t, []reply{answers(`{"plan":"p","prompt":"q","content":"a","max_tokens":5,"next":"1"}`), answers(`{"plan":"p","content":"b"}`)}, func(w *world, c *client.Client) {
		got, err := c.Take(within(w.t, time.Minute), session, api.TakeCompaction{})
		if d := cmp.Diff(&api.TakenCompaction{Plan: "p", Prompt: "q", Content: "ab", MaxTokens: 5}, got); d != "" || err != nil {
			w.t.Error(d, err)
		}
	})
	inWorld(t, []reply{answers(`{"data":"YWI=","next":2}`), answers(`{"data":"Yw=="}`)}, func(w *world, c *client.Client) {
		if got, err := c.Content(within(w.t, time.Minute), session, &turns.BlobRef{Size: 3}); string(got) != "abc" || err != nil {
			w.t.Errorf("%q, %v", got, err)
		}
	})
	inWorld(t, []reply{answers(`{"root":%q,"sessions":[{"label":"a"}],"next":"1"}`, session), answers(`{"root":%q,"sessions":[{"label":"b"}]}`, session)}, func(w *world, c *client.Client) {
		got, err := c.Tree(within(w.t, time.Minute), session)
		if err != nil || got.Root != session || len(got.Sessions) != 2 || got.Sessions[1].Label != "b" {
			w.t.Errorf("%+v, %v", got, err)
		}
	})
}

// Every mutating call is given an id; a dry run and what is known by its content are not.
func TestEveryMutatingCallHasAnID(t *testing.T) {
	inWorld(t, []reply{answers(`{}`)}, func(w *world, c *client.Client) {
		ctx := within(w.t, time.Minute)
		discard := func(_ any, err error) {
			if err != nil {
				w.t.Error(err)
			}
		}
		discard(c.Create(ctx, api.CreateSession{}))
		discard(c.Set(ctx, session, api.SetSession{}))
		discard(c.Close(ctx, session, api.CloseSession{}))
		discard(c.Reset(ctx, session, api.ResetSession{}))
		discard(c.Move(ctx, session, api.MoveSession{}))
		discard(c.Append(ctx, session, api.AppendTurn{}))
		discard(c.Overflow(ctx, session, api.Overflow{}))
		discard(c.Compact(ctx, session, api.RunCompaction{}))
		discard(c.Submit(ctx, session, api.SubmitCompaction{}))
		discard(c.Record(ctx, session, api.RecordCompaction{}))
		discard(c.BeginFlush(ctx, session, api.BeginFlush{}))
		discard(c.DoneFlush(ctx, session, api.DoneFlush{}))
		discard(c.Fork(ctx, session, api.CreateFork{}))
		for _, r := range w.got {
			if !strings.HasPrefix(r.body, `{"id":"0`) {
				w.t.Errorf("%s was sent without an id: %s", r.verb, r.body)
			}
		}
		w.got = nil
		discard(c.Compact(ctx, session, api.RunCompaction{DryRun: true}))
		if w.got[0].body != `{"dry_run":true}` {
			w.t.Errorf("a dry run was sent as %s", w.got[0].body)
		}
	})
}

// An answer that may lack what was acknowledged is reported, and others are not, also
// where content holds the word.
func TestAStaleAnswerIsReported(t *testing.T) {
	script := []reply{answers(`{"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","stale":true}`), answers(`{"meta":{"stale":true}}`), answers(`{"stale":false}`)}
	inWorld(t, script, func(w *world, c *client.Client) {
		said := 0
		c = c.OnStale(func() { said++ })
		for n := range script {
			if _, err := c.Session(within(w.t, 30*time.Second), session); err != nil {
				w.t.Fatal(err)
			}
			if said != 1 {
				w.t.Errorf("after answer %d: reported %d times, want once", n, said)
			}
		}
	})
}

// A try without an answer may be carried out after a later one was refused. The client asks
// again when that is over, and then the answer is final.
func TestRefusalBesideAnOpenTryIsAskedAgain(t *testing.T) {
	inWorld(t, []reply{silence, fails(api.Conflict, ""), fails(api.Conflict, "")}, func(w *world, c *client.Client) {
		began := time.Now()
		_, err := c.Append(within(w.t, 30*time.Second), session, api.AppendTurn{Messages: message()})
		wants(w.t, err, ledger.ErrConflict)
		if took := time.Since(began); took != 15*time.Second || len(w.got) != 3 {
			w.t.Errorf("after %v and %d tries, want 15 s (a try of 10 s, and 5 s on the way) and 3", took, len(w.got))
		}
	})
	// By the time that a try without a deadline is given up, it is over.
	inWorld(t, []reply{silence, fails(api.Conflict, "")}, func(w *world, c *client.Client) {
		_, err := c.Append(w.t.Context(), session, api.AppendTurn{Messages: message()})
		wants(w.t, err, ledger.ErrConflict)
		if len(w.got) != 2 {
			w.t.Errorf("%d tries, want 2", len(w.got))
		}
	})
	// What the daemon answers that nothing was written settles a try.
	inWorld(t, []reply{fails(api.Unavailable, ""), fails(api.Busy, ""), fails(api.Conflict, "")}, func(w *world, c *client.Client) {
		_, err := c.Append(within(w.t, 30*time.Second), session, api.AppendTurn{Messages: message()})
		wants(w.t, err, ledger.ErrConflict)
		if len(w.got) != 3 {
			w.t.Errorf("%d tries, want 3", len(w.got))
		}
	})
	// It may be carried out: then the request is stored.
	inWorld(t, []reply{silence, fails(api.Conflict, ""), answers(`{"depth":7}`)}, func(w *world, c *client.Client) {
		got, err := c.Append(within(w.t, 30*time.Second), session, api.AppendTurn{Messages: message()})
		if err != nil || got.Depth != 7 {
			w.t.Errorf("%+v, %v", got, err)
		}
	})
	// A read changes nothing.
	inWorld(t, []reply{silence, fails(api.NotFound, "")}, func(w *world, c *client.Client) {
		_, err := c.Session(within(w.t, 30*time.Second), session)
		wants(w.t, err, ledger.ErrNotFound)
		if len(w.got) != 2 {
			w.t.Errorf("%d tries, want 2", len(w.got))
		}
	})
}

// The call ends before the open try is over. The next call with the id knows of it.
func TestRefusalBesideAnOpenTryIsIndeterminate(t *testing.T) {
	inWorld(t, []reply{silence, fails(api.Conflict, "")}, func(w *world, c *client.Client) {
		r := api.AppendTurn{ID: api.NewID(), Messages: message()}
		began := time.Now()
		for range 3 {
			_, err := c.Append(within(w.t, 3*time.Second), session, r)
			wants(w.t, err, ledger.ErrIndeterminate)
		}
		_, err := c.Append(within(w.t, -time.Second), session, r)
		wants(w.t, err, ledger.ErrIndeterminate) // not sent, but those before were
		_, err = c.Append(within(w.t, 3*time.Second), session, r)
		wants(w.t, err, ledger.ErrConflict)
		if took := time.Since(began); took != 10*time.Second {
			w.t.Errorf("the conflict is final after %v, want 10 s: 5 s for the try, and 5 s on the way", took)
		}
		other := api.AppendTurn{Messages: message()}
		_, err = c.Append(within(w.t, 3*time.Second), session, other)
		wants(w.t, err, ledger.ErrConflict)
	})
}

// A late answer to the first try does not settle the second one.
func TestLateRefusalLeavesTheNewerTryOpen(t *testing.T) {
	first := make(chan *nats.Msg, 1)
	inWorld(t, []reply{func(m *nats.Msg) { first <- m }, func(*nats.Msg) { fails(api.Conflict, "")(<-first) }, fails(api.Conflict, "")}, func(w *world, c *client.Client) {
		began := time.Now()
		_, err := c.Append(within(w.t, 30*time.Second), session, api.AppendTurn{Messages: message()})
		wants(w.t, err, ledger.ErrConflict)
		if took := time.Since(began); took < 16*time.Second || len(w.got) != 3 { // the second try is sent after 10 s and a pause
			w.t.Errorf("after %v and %d tries, want over 16 s and 3", took, len(w.got))
		}
	})
}

// A try that waits less than the daemon's own limit says so.
func TestShortTriesSayHowLongTheyWait(t *testing.T) {
	for limit, want := range map[time.Duration]string{time.Second: "5000", 30 * time.Second: "10000", 2 * time.Minute: ""} {
		var got string
		inWorld(t, []reply{func(m *nats.Msg) {
			got = m.Header.Get("Nexus-Within")
			answers(`{"depth":1}`)(m)
		}}, func(w *world, c *client.Client) {
			if _, err := c.Append(within(w.t, limit), session, api.AppendTurn{Messages: message()}); err != nil {
				w.t.Fatal(err)
			}
		})
		if got != want {
			t.Errorf("with %v the request says %q, want %q", limit, got, want)
		}
	}
}

// An error says whether a daemon answered: only where none did is it worth to ask whether one
// runs.
func TestAnsweredIsWhatADaemonSaid(t *testing.T) {
	inWorld(t, []reply{fails(api.NotFound, `"x":1`)}, func(w *world, c *client.Client) {
		_, err := c.Session(w.t.Context(), session)
		if e := (*api.Error)(nil); !errors.As(err, &e) || !e.Answered() {
			t.Errorf("%v", err)
		}
	})
	if api.Errorf(api.Unavailable, nil, "not sent").Answered() {
		t.Error("an error of the client is no answer")
	}
}

func TestAContextReaderAsksForWhatChanged(t *testing.T) {
	const a, b = `"fingerprint":"a","preamble_digest":"p"`, `"fingerprint":"b","preamble_digest":"p"`
	inWorld(t, []reply{
		answers(`{"messages":[1,2],"system":"s","tools":[7],"sources":[{"half":"x"}],%s}`, a),
		answers(`{"messages":[4],"keep":1,"keep_preamble":true,"system":null,"sources":[],%s,"next":"1"}`, b),
		answers(`{"messages":[5],"system":null,"sources":[],%s}`, b),
		answers(`{"messages":[6],"system":"t","sources":[],%s}`, a), // in another format
		answers(`{"messages":[],"keep":2,"sources":[],%s}`, a),      // more than there is
	}, func(w *world, c *client.Client) {
		x := client.NewContextReader(c, session)
		want := []api.Context{
			{Fingerprint: "a", PreambleDigest: "p", System: turns.Raw(`"s"`), Tools: []turns.Raw{turns.Raw("7")}, Messages: []turns.Raw{turns.Raw("1"), turns.Raw("2")}, Sources: []api.Source{{Half: "x"}}},
			{Fingerprint: "b", PreambleDigest: "p", Keep: 1, KeepPreamble: true, System: turns.Raw(`"s"`), Tools: []turns.Raw{turns.Raw("7")}, Messages: []turns.Raw{turns.Raw("1"), turns.Raw("4"), turns.Raw("5")}, Sources: []api.Source{}},
			{Fingerprint: "a", PreambleDigest: "p", System: turns.Raw(`"t"`), Messages: []turns.Raw{turns.Raw("6")}, Sources: []api.Source{}},
		}
		for i, format := range []string{"openai", "openai", "anthropic"} {
			got, err := x.Context(within(w.t, time.Minute), api.GetContext{Format: format})
			if err != nil {
				w.t.Fatal(err)
			}
			if d := cmp.Diff(&want[i], got); d != "" {
				w.t.Error(d)
			}
		}
		if _, err := x.Context(within(w.t, time.Minute), api.GetContext{Format: "anthropic"}); api.FromError(err).Code != api.Internal {
			w.t.Errorf("a reply that keeps what nobody has: %v", err)
		}
		have := `"have":{"fingerprint":"a","preamble_digest":"p"}`
		for i, want := range []string{`{"format":"openai"}`, `{"format":"openai",` + have + `}`, `{"format":"openai",` + have + `,"after":"1"}`, `{"format":"anthropic"}`, `{"format":"anthropic",` + have + `}`} {
			if w.got[i].body != want {
				w.t.Errorf("request %d: %s, want %s", i, w.got[i].body, want)
			}
		}
	})
}

// A ledger of which a checkpoint is kept can't say that it signs none; one of which none is kept can.
func TestALedgerThatSignedCantSayThatItDoesNot(t *testing.T) {
	const ledgerID = "0f8fad5b-d9cb-469f-a165-70867728950e"
	origin := "nexus/" + ledgerID + "/c"
	k, err := tlog.NewKey(rand.Reader, origin)
	if err != nil {
		t.Fatal(err)
	}
	note, err := k.Sign(tlog.Checkpoint{Origin: origin, Size: 7})
	if err != nil {
		t.Fatal(err)
	}
	file, err := turns.EncodeJSON(map[string]string{"key": k.Public(), "note": string(note)})
	if err != nil {
		t.Fatal(err)
	}
	state := answers(`{"ledger":%q,"created":"2026-11-27T00:00:00Z","sealed":true,"log":{"seq":"5","first":"1","hash":%q},"blobs":{"seq":"0"},"keys":[]}`, ledgerID, turns.Hash{}.String())
	for _, kept := range []bool{true, false} {
		dir := t.TempDir()
		if kept {
			if err := os.WriteFile(filepath.Join(dir, ledgerID), file, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		inWorld(t, []reply{fails(api.Unsupported, ""), state}, func(w *world, c *client.Client) {
			_, _, err := c.CheckKnown(w.t.Context(), dir)
			rolledBack, refused := (*client.RolledBackError)(nil), (*api.Error)(nil)
			if got := errors.As(err, &rolledBack); got != kept || kept && rolledBack.Known.Size != 7 {
				t.Errorf("kept %v: %v", kept, err)
			}
			if got := errors.As(err, &refused) && refused.Code == api.Unsupported; got == kept {
				t.Errorf("kept %v: %v", kept, err)
			}
			if len(w.got) != 2 {
				t.Errorf("%v", w.got)
			}
		})
	}
}

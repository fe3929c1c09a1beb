package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/ledgerctl/internal/eventview"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// A follower prints each event once, in order, through a restart of the daemon and for a
// channel that is not there yet.
func TestFollowedEventsComeOnceThroughARestart(t *testing.T) {
	dir, listen := t.TempDir(), "127.0.0.1:0"
	open := func() *daemon.Daemon {
		d, err := daemon.Open(t.Context(), config.Config{Data: dir, Listen: listen, HTTP: "off", MaxStore: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := open()
	u, err := url.Parse(d.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	listen = u.Host
	stop := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	defer func() { stop() }()
	nc, err := client.Dial(d.ClientURL(), d.Credentials().Agent)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := client.New(nc, "default", "main")
	put := func(n int) {
		t.Helper()
		if _, err := c.AppendEvent(t.Context(), api.AppendEvent{Channel: "mail", Kind: "n", Body: turns.Raw(fmt.Sprint(n))}); err != nil {
			t.Fatal(err)
		}
	}
	out, into := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"events", "tail", "mail", "-f", "-n", "100", "--json", "--quiet", "--server", d.ClientURL(), "--creds", d.Credentials().Operator}, strings.NewReader(""), into, io.Discard)
		into.Close()
	}()
	lines := bufio.NewScanner(out)
	next := 0
	read := func(upTo int) {
		t.Helper()
		for ; next < upTo; next++ {
			if !lines.Scan() {
				t.Fatalf("the follower ended after %d events", next)
			}
			var ev api.Event
			if err := turns.DecodeJSON(lines.Bytes(), &ev); err != nil {
				t.Fatal(err)
			}
			if string(ev.Body) != fmt.Sprint(next) || ev.Index != uint64(next) {
				t.Fatalf("event %d is printed as %s", next, lines.Text())
			}
		}
	}
	for n := range 5 {
		put(n)
	}
	read(5)
	stop()
	d = open()
	for n := range 5 {
		put(5 + n)
	}
	read(10)
	cancel()
	out.Close()
	<-ended
}

// A follower whose first read fails for the moment begins where it should, and not at the
// channel's first event.
func TestFollowerRepeatsItsFirstReadUntilItIsAnswered(t *testing.T) {
	unavailable, notFound, corrupt := api.Errorf(api.Unavailable, nil, "later"), api.Errorf(api.NotFound, nil, "no channel"), api.Errorf(api.Corrupt, nil, "damaged")
	for name, c := range map[string]struct {
		answers []error
		want    string // f: first, n: next
		err     error
	}{
		"at once":               {[]error{nil, nil, nil}, "fnn", nil},
		"after two failures":    {[]error{unavailable, api.Errorf(api.Busy, nil, "full"), nil, nil}, "fffn", nil},
		"a failure later":       {[]error{nil, unavailable, nil}, "fnn", nil},
		"no channel yet":        {[]error{notFound, notFound, nil}, "fnn", nil},
		"a failure for good":    {[]error{unavailable, corrupt, nil}, "ff", corrupt},
		"a failure for good, 2": {[]error{nil, corrupt, nil}, "fn", corrupt},
	} {
		got, at := "", 0
		read := func(who string) func() error {
			return func() error {
				got += who
				at++
				return c.answers[at-1]
			}
		}
		err := eventview.Follow(read("f"), read("n"), func() bool { return at < len(c.answers) })
		if got != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: reads %s (%v), want %s (%v)", name, got, err, c.want, c.err)
		}
	}
}

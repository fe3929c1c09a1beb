package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/localserver"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/jetstream/embed"
)

// Options says what is served.
type Options struct {
	Data    string        // the folder
	Idle    time.Duration // without a client, after which it ends; 0: when the last one has gone
	Version string
	Out     io.Writer // gets one line of JSON, a [localserver.Ready]
	Log     io.Writer
	// Vanished is for the page of that name; nil: there is none.
	Vanished func() ([]config.VanishedFile, error)
}

const (
	// firstClient is how long a process with Idle 0 waits for the first client.
	firstClient = 10 * time.Second
	// betweenCalls is how long one command may be without a connection: it looks whether somebody answers before it connects.
	betweenCalls = 200 * time.Millisecond
	// cacheBytes is for the caches: less than a daemon's, which serves many agents.
	cacheBytes = 64 << 20
	// workBytes is the memory for all else from which on the collector makes an effort. A verification beside the index
	// of words has some 200 MB in use; with half of this it took twice as long, and the collector half of both processors.
	workBytes = 256 << 20
	// drain is how long requests in work may take at the end.
	drain = 20 * time.Second
)

// Run serves until no client has been connected for o.Idle, or ctx ends. What it returned was said on o.Out too, if it could
// not serve.
func Run(ctx context.Context, o Options) error {
	data, err := filepath.Abs(o.Data)
	if err != nil {
		return err
	}
	if localserver.Claimed(data) { // nexusd waits for the folder: whoever started this process finds it there
		err := fmt.Errorf("%w: another process waits for %s", embed.ErrLocked, data)
		return errors.Join(err, say(o.Out, localserver.Ready{Error: err.Error(), InUse: true}))
	}
	signal.Ignore(syscall.SIGPIPE) // the command that started it may be gone before it can serve; the next one finds it
	defer daemon.PaceCollector(cacheBytes + workBytes)()
	d, err := daemon.Open(ctx, config.Config{Data: data, Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", PagesOnly: true, Vanished: o.Vanished, Scrub: "off", CollectAfter: "off", CacheBytes: cacheBytes,
		Version: o.Version, Logger: slog.New(slog.NewTextHandler(o.Log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		return errors.Join(err, say(o.Out, localserver.Ready{Error: err.Error(), InUse: errors.Is(err, embed.ErrLocked)}))
	}
	err = serve(ctx, d, data, o)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	return errors.Join(err, localserver.Remove(data), d.Close(ending)) // the file first: what reads it meets nobody, and waits for the lock
}

func serve(ctx context.Context, d *daemon.Daemon, data string, o Options) error {
	n, err := sessions(ctx, d)
	if err != nil {
		return errors.Join(err, say(o.Out, localserver.Ready{Error: err.Error()}))
	}
	s := localserver.Serving{URL: d.ClientURL(), PID: os.Getpid(), Version: o.Version, Operator: d.Credentials().Operator, Child: true, Began: time.Now()}
	if err := localserver.Save(data, s); err != nil {
		return errors.Join(err, say(o.Out, localserver.Ready{Error: err.Error()}))
	}
	_ = say(o.Out, localserver.Ready{Ready: true, Sessions: n})
	return untilIdle(ctx, d, o.Idle)
}

// untilIdle returns when no client is connected, none was for a while, and none is let in any more.
func untilIdle(ctx context.Context, d *daemon.Daemon, idle time.Duration) error {
	_, first := d.Clients() // no page was asked for yet
	busy, before, wait := time.Now(), first, max(idle, firstClient)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-d.Failed():
			return err
		case <-tick.C:
		}
		open, ever := d.Clients()
		looked, pages := d.PagesInUse()
		if ever += pages; ever > first {
			wait = max(idle, betweenCalls)
		}
		if open > 0 || looked || ever > before {
			busy, before = time.Now(), ever
		} else if time.Since(busy) >= wait && d.Quiesce() {
			return nil
		}
	}
}

func say(w io.Writer, r localserver.Ready) error {
	b, err := json.Marshal(r)
	if err == nil {
		_, err = fmt.Fprintf(w, "%s\n", b)
	}
	return err
}

// sessions counts the sessions of the tenant "default", up to one over [localserver.MostSessions].
func sessions(ctx context.Context, d *daemon.Daemon) (n int, err error) {
	nc, err := d.Connect()
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	for _, err := range client.New(nc, "default", api.Operator).Sessions(ctx) {
		if err != nil {
			return n, err
		}
		if n++; n > localserver.MostSessions {
			break
		}
	}
	return n, nil
}

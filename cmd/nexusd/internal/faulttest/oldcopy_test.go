package faulttest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/cmd/internal/daemon/folder"
	"nexus/cmd/internal/engine/page"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/jetstream"
	"nexus/turns"
)

var oldCopies = flag.Int("old-copies", 0, "how often TestAServerComesBackWithAnOldCopy runs")

// A server of three comes back with an older copy of its disk while the one that has the newest
// turns is down, so the log comes back shorter. Two daemons run all the time. No turn is
// acknowledged on top of the loss, no position is given out twice, each turn that was acknowledged and
// is not on the log is named, and neither daemon says that the ledger is sound.
//
// It can't see what would be lost with both daemons: nothing knows it.
func TestAServerComesBackWithAnOldCopy(t *testing.T) {
	if *oldCopies == 0 {
		t.Skip("set -old-copies; docs/TESTING.md has the command and the last figures")
	}
	for i := range *oldCopies {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) { oldCopy(t, i) })
	}
}

// acked is a turn that was acknowledged.
type acked struct {
	turn, session turns.ID
	seq           uint64
	at            time.Time
}

// ackLog is what the writers were told.
type ackLog struct {
	sync.Mutex
	all []acked
}

func (l *ackLog) len() int {
	l.Lock()
	defer l.Unlock()
	return len(l.all)
}

// write appends turns to a session of its own until ctx ends, each under its id until it has an
// answer that says what happened.
func (l *ackLog) write(ctx context.Context, url string) {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return
	}
	defer nc.Close()
	c := client.New(nc, "default", "main")
	var session turns.ID
	for ctx.Err() == nil {
		if session.IsZero() {
			try, cancel := context.WithTimeout(ctx, 5*time.Second)
			if s, err := c.Create(try, api.CreateSession{}); err == nil {
				session = s.ID
			} else {
				time.Sleep(100 * time.Millisecond)
			}
			cancel()
			continue
		}
		id := api.NewID()
		for ctx.Err() == nil {
			try, cancel := context.WithTimeout(ctx, 40*time.Second)
			a, err := c.Append(try, session, api.AppendTurn{ID: id, Messages: text(id, 200)})
			cancel()
			if err == nil {
				seq, err := page.ParsePosition(a.Position)
				if err != nil {
					panic(err)
				}
				l.Lock()
				l.all = append(l.all, acked{id, session, seq, time.Now()})
				l.Unlock()
				break
			}
			if code := api.FromError(err).Code; code != api.Indeterminate && code != api.Unavailable {
				session = turns.ID{} // it lost its tail
				time.Sleep(20 * time.Millisecond)
				break
			}
		}
	}
}

func oldCopy(t *testing.T, run int) {
	c := newCluster(t, 3)
	log := newLog(t)
	type running struct {
		*Nexusd
		data string
	}
	var daemons []running
	for range 2 {
		data := t.TempDir()
		var d *Nexusd
		ctx := t.Context()
		eventually(t, "nexusd starts", func(context.Context) (err error) {
			d, err = StartNexusd(ctx, log, nexusdBinary(t), "--nats", c.url(), "--replicas", "3", "--create", "--plaintext", "--data", data, "--http", "127.0.0.1:0", "--log-level", "info")
			return err
		})
		t.Cleanup(d.Kill)
		daemons = append(daemons, running{d, data})
	}
	acks := new(ackLog)
	writing, stop := context.WithCancel(t.Context())
	defer stop()
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() { acks.write(writing, c.url()) })
	}
	more := func(n int) {
		want := acks.len() + n
		eventually(t, fmt.Sprintf("%d more turns are acknowledged", n), func(context.Context) error {
			if have := acks.len(); have < want {
				return fmt.Errorf("%d of %d", have, want)
			}
			return nil
		})
	}
	more(200)
	// The servers take the parts in turn, so that the leader is each of them.
	a, b, late := run%3, (run+1)%3, (run+2)%3
	dirB := filepath.Join(filepath.Dir(c.configs[b]), fmt.Sprintf("s%d", b))
	old := filepath.Join(t.TempDir(), "old")
	if err := errors.Join(c.servers[b].Pause(), os.CopyFS(old, os.DirFS(dirB)), c.servers[b].Resume()); err != nil {
		t.Fatal(err)
	}
	more(20)
	c.servers[late].Kill()
	more(6 + run%15)
	before := acks.len()
	c.servers[a].Kill()
	c.servers[b].Kill()
	if err := errors.Join(os.RemoveAll(dirB), os.Rename(old, dirB)); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	c.start(t, b)
	c.start(t, late)

	nc, err := nats.Connect(c.urls[b], nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	j, err := js.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	var stream js.Stream
	eventually(t, "the log has a leader", func(ctx context.Context) (err error) {
		if stream, err = j.Stream(ctx, jetstream.StreamName); err == nil {
			var info *js.StreamInfo
			if info, err = stream.Info(ctx); err == nil && (info.Cluster == nil || info.Cluster.LeaderSince == nil) {
				err = errors.New("no leader")
			}
		}
		return err
	})
	time.Sleep(45 * time.Second) // longer than a log may be too short without proof
	c.start(t, a)
	time.Sleep(15 * time.Second)
	stop()
	writers.Wait()

	until := time.Now().Add(startTime)
	onLog := func(x acked) bool {
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			m, err := stream.GetMsg(ctx, x.seq)
			cancel()
			switch {
			case errors.Is(err, js.ErrMsgNotFound):
				return false
			case err == nil:
				ev, err := turns.Decode(m.Data)
				return err == nil && ev.ID == x.turn
			case time.Now().After(until):
				info, ierr := stream.Info(t.Context())
				t.Fatalf("the log can't be read at %d: %v; %+v, %v", x.seq, err, info, ierr)
			}
		}
	}
	all := acks.all
	var lost []acked
	positions := make(map[uint64]int)
	onTop := 0
	for _, x := range all {
		positions[x.seq]++
		if !onLog(x) {
			lost = append(lost, x)
		}
		if x.at.After(killed) {
			onTop++
		}
	}
	twice := 0
	for _, n := range positions {
		if n > 1 {
			twice++
		}
	}
	named := make(map[turns.ID]bool)
	halted := 0
	for _, d := range daemons {
		status, body := readyz(t, d.HTTP)
		if status == http.StatusServiceUnavailable && strings.Contains(body, "came back without records") {
			halted++
		}
		var loss folder.Loss
		if b, err := os.ReadFile(filepath.Join(d.data, "lost.json")); err == nil {
			if err := turns.DecodeJSON(b, &loss); err != nil {
				t.Error(err)
			}
		}
		for _, r := range loss.Records {
			named[r.Event] = true
		}
	}
	sound := 0
	for range 6 {
		if v, err := client.New(nc, "default", api.Operator).Verify(t.Context()); err != nil {
			t.Errorf("verify: %v", err)
		} else if v.OK {
			sound++
		}
	}
	t.Logf("acknowledged %d (%d before the kill, %d after), lost %d, positions twice %d, daemons halted %d, verify sound %d of 6", len(all), before, onTop, len(lost), twice, halted, sound)
	if twice > 0 {
		t.Errorf("%d positions were given out twice", twice)
	}
	if len(lost) == 0 {
		if halted > 0 || sound < 6 {
			t.Errorf("nothing is lost: %d daemons are halted, verify is sound %d of 6 times", halted, sound)
		}
		return
	}
	for _, x := range lost {
		if !named[x.turn] {
			t.Errorf("turn %s at %d is lost, and not named", x.turn, x.seq)
		}
		if x.at.After(killed) {
			t.Errorf("turn %s at %d was acknowledged after the log came back, and is lost", x.turn, x.seq)
		}
	}
	if onTop > 0 || halted < 2 || sound > 0 {
		t.Errorf("%d turns are lost: %d acknowledged on top, %d of 2 daemons halted, verify is sound %d of 6 times", len(lost), onTop, halted, sound)
	}
}

func readyz(t *testing.T, url string) (status int, body string) {
	t.Helper()
	r, err := http.Get(url + "/readyz")
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	return r.StatusCode, string(b)
}

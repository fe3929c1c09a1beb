//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"nexus/cmd/nexusd/internal/faulttest"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

var badFS = flag.Bool("badfs", false, "run TestBadFS; it needs root, loop devices, mkfs.ext4, fsfreeze and strace")

// TestBadFS runs nexusd on a disk that fails in each way while writers append and readers
// read, and makes the disk sound again. The process stays, no read fails, every append is
// answered in type, and every acknowledged turn is there, once, after the outage and after
// a restart.
//
// It can't see a disk that lies about fsync, or one that returns an error and wrong bytes.
func TestBadFS(t *testing.T) {
	if !*badFS {
		t.Skip("set -badfs, as root; docs/TESTING.md has the command and the last figures")
	}
	bin := faulttest.Build(t, ".")
	ext4 := func(size string) func(t *testing.T) *cuttable {
		return func(t *testing.T) *cuttable { return newExt4(t, size) }
	}
	command := func(name string, args ...string) func(*badDisk, *testing.T) {
		return func(b *badDisk, t *testing.T) {
			t.Helper()
			all := slices.Clone(args)
			for i, a := range all {
				all[i] = strings.ReplaceAll(a, "MOUNT", b.mount)
			}
			finish(t, exec.Command(name, all...))
		}
	}
	for _, c := range []struct {
		name       string
		disk       func(*testing.T) *cuttable
		fail, heal func(*badDisk, *testing.T)
		rounds     int
		restart    bool // no way to make it sound under the process
		blocked    bool // reads of the disk may not work, either
	}{
		{"tmpfs full, a file removed", newTmpfs, (*badDisk).fill, (*badDisk).empty, 3, false, false},
		{"ext4 full, a file removed", ext4("300M"), (*badDisk).fill, (*badDisk).empty, 3, false, false},
		{"tmpfs full, grown", newTmpfs, (*badDisk).fill, command("mount", "-o", "remount,size=900m", "MOUNT"), 1, false, false},
		{"ext4 read-only after an error", ext4("1G"), command("mount", "-o", "remount,abort", "MOUNT"), nil, 1, true, false},
		{"ext4 shut down", ext4("1G"), func(b *badDisk, t *testing.T) { (&cuttable{mount: b.mount}).cut(t) }, nil, 1, true, true},
		{"ext4 frozen", ext4("1G"), command("fsfreeze", "-f", "MOUNT"), command("fsfreeze", "-u", "MOUNT"), 2, false, false},
		{"fsync of the process fails", ext4("1G"), func(b *badDisk, t *testing.T) { b.inject(t, "fsync:error=EIO:when=5+") }, (*badDisk).detach, 3, false, false},
		{"pwrite of the process fails", ext4("1G"), func(b *badDisk, t *testing.T) { b.inject(t, "pwrite64:error=EIO:when=5+") }, (*badDisk).detach, 2, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := c.disk(t)
			b := &badDisk{mount: d.mount, data: filepath.Join(d.mount, "data"), bin: bin, a: newAcked()}
			b.run(t, c.rounds, c.fail, c.heal, c.restart, c.blocked)
			if c.restart {
				d.unplug(t)
				d.plug(t)
			}
			checkAcked(t, bin, b.data, b.a)
			t.Logf("%d turns acknowledged, %d in outages; slowest answer to an append in an outage %v; %d reads, %d in outages, slowest %v; outages ended after at most %v",
				b.acks.Load(), b.late.Load(), time.Duration(b.slowest.Load()).Round(time.Millisecond), b.reads.Load(), b.staleReads.Load(),
				time.Duration(b.slowestRead.Load()).Round(time.Millisecond), b.recovery.Round(time.Millisecond))
		})
	}
}

// newExt4 mounts an ext4 of a size.
func newExt4(t *testing.T, size string) *cuttable {
	t.Helper()
	d := &cuttable{filepath.Join(t.TempDir(), "image"), filepath.Join(t.TempDir(), "mount")}
	if err := os.Mkdir(d.mount, 0o700); err != nil {
		t.Fatal(err)
	}
	finish(t, exec.Command("truncate", "-s", size, d.image))
	finish(t, exec.Command("mkfs.ext4", "-q", "-E", "lazy_itable_init=1,lazy_journal_init=1", d.image))
	d.plug(t)
	t.Cleanup(func() { _ = exec.Command("umount", d.mount).Run() })
	return d
}

// newTmpfs mounts a tmpfs of 300 MB.
func newTmpfs(t *testing.T) *cuttable {
	t.Helper()
	d := &cuttable{mount: t.TempDir()}
	finish(t, exec.Command("mount", "-t", "tmpfs", "-o", "size=300m", "tmpfs", d.mount))
	t.Cleanup(func() { _ = exec.Command("umount", d.mount).Run() })
	return d
}

// badDisk is nexusd on a disk that fails, with its writers and readers.
type badDisk struct {
	mount, data, bin string
	a                *acked
	pid              int
	strace           *exec.Cmd

	outage                   atomic.Int64 // number of the outage, 0 between them
	acks, late               atomic.Int64 // acknowledged turns; of those, in outages
	reads, staleReads        atomic.Int64
	slowest, slowestRead     atomic.Int64 // answer in an outage, nanoseconds
	recovery                 time.Duration
	refusals, acknowledgedBy [badWriters]atomic.Int64 // of each writer
}

const badWriters, badReaders = 4, 2

// fill takes all space of the disk.
func (b *badDisk) fill(t *testing.T) {
	f, err := os.Create(filepath.Join(b.mount, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{1 << 20, 4096, 1} {
		for block := make([]byte, size); err == nil; {
			_, err = f.Write(block)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		err = nil
	}
}

func (b *badDisk) empty(t *testing.T) {
	if err := os.Remove(filepath.Join(b.mount, "filler")); err != nil {
		t.Fatal(err)
	}
}

// inject makes system calls of the process fail until detach.
func (b *badDisk) inject(t *testing.T, what string) {
	call, _, _ := strings.Cut(what, ":")
	b.strace = exec.Command("strace", "-f", "-qq", "-o", "/dev/null", "-p", fmt.Sprint(b.pid), "-e", "trace="+call, "-e", "inject="+what)
	b.strace.Stderr = os.Stderr
	if err := b.strace.Start(); err != nil {
		t.Fatal(err)
	}
}

func (b *badDisk) detach(t *testing.T) {
	if err := b.strace.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = b.strace.Wait()
}

func (b *badDisk) run(t *testing.T, rounds int, fail, heal func(*badDisk, *testing.T), restart, blocked bool) {
	cmd, url := launch(t, b.bin, b.data)
	b.pid = cmd.Process.Pid
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	ended := false
	end := func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if b.outage.Load() != 0 && heal != nil {
			heal(b, t)
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-exited:
			if err != nil && !restart {
				t.Errorf("nexusd ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("nexusd does not end after SIGTERM")
			_ = cmd.Process.Kill()
		}
		wg.Wait()
	}
	defer end()
	connect := func() *nats.Conn {
		nc, err := client.Dial(url, filepath.Join(b.data, "users", "agent.nk"), nats.MaxReconnects(0), nats.ClosedHandler(func(*nats.Conn) {
			if ctx.Err() == nil {
				t.Error("a client lost its connection")
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		return nc
	}
	conns := make([]*nats.Conn, badWriters+badReaders)
	sessions := make([]turns.ID, badWriters)
	for i := range conns {
		conns[i] = connect()
		if i < badWriters {
			s, err := client.New(conns[i], "default", "main").Create(ctx, api.CreateSession{})
			if err != nil {
				t.Fatal(err)
			}
			sessions[i] = s.ID
		}
	}
	for i := range badWriters {
		wg.Go(func() { b.write(ctx, t, i, conns[i], sessions[i]) })
	}
	for i := range badReaders {
		wg.Go(func() { b.read(ctx, t, conns[badWriters+i], sessions, blocked) })
	}
	defer func() {
		end()
		for _, nc := range conns {
			nc.Close()
		}
	}()
	all := func(counts *[badWriters]atomic.Int64, before [badWriters]int64, more int64) func() bool {
		return func() bool {
			select {
			case err := <-exited:
				t.Fatalf("nexusd has ended: %v", err)
			default:
			}
			for i := range counts {
				if counts[i].Load() < before[i]+more {
					return false
				}
			}
			return true
		}
	}
	values := func(counts *[badWriters]atomic.Int64) (v [badWriters]int64) {
		for i := range counts {
			v[i] = counts[i].Load()
		}
		return v
	}
	for round := range rounds {
		until(t, "acknowledged turns", all(&b.acknowledgedBy, values(&b.acknowledgedBy), 25))
		refused, stale := values(&b.refusals), b.staleReads.Load()
		b.outage.Store(int64(round + 1))
		fail(b, t)
		until(t, "appends that are refused", all(&b.refusals, refused, 5))
		until(t, "reads in the outage", func() bool { return b.staleReads.Load() >= stale+20 })
		if restart {
			return
		}
		heal(b, t)
		healed := time.Now()
		until(t, "acknowledged turns after the outage", all(&b.acknowledgedBy, values(&b.acknowledgedBy), 2))
		b.recovery = max(b.recovery, time.Since(healed))
		b.outage.Store(0)
	}
}

// reply is what a writer or a reader needs of a reply.
type reply struct {
	ID    turns.ID   `json:"id"`
	Hash  turns.Hash `json:"hash"`
	Stale bool       `json:"stale"`
	Error *api.Error `json:"error"`
}

func request(nc *nats.Conn, verb string, session turns.ID, body any) (r reply, took time.Duration, err error) {
	data, err := turns.EncodeJSON(body)
	if err != nil {
		return r, 0, err
	}
	began := time.Now()
	m, err := nc.Request("nexus.v1.default.main."+verb+"."+session.String(), data, patience)
	if err != nil {
		return r, time.Since(began), err
	}
	return r, time.Since(began), json.Unmarshal(m.Data, &r)
}

// longer raises a maximum.
func longer(a *atomic.Int64, d time.Duration) {
	for old := a.Load(); int64(d) > old && !a.CompareAndSwap(old, int64(d)); old = a.Load() {
	}
}

func (b *badDisk) write(ctx context.Context, t *testing.T, i int, nc *nats.Conn, session turns.ID) {
	text := strings.Repeat("a question of some length ", 400)
	for ctx.Err() == nil {
		req := api.AppendTurn{ID: api.NewID(), Messages: []turns.Message{turns.TextMessage(turns.User, text)}}
		for ctx.Err() == nil {
			outage := b.outage.Load()
			r, took, err := request(nc, "turn.append", session, req)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				t.Errorf("append: %v", err)
				return
			case r.Error == nil:
				b.a.mu.Lock()
				b.a.turns[session] = append(b.a.turns[session], r.ID)
				b.a.hash[r.ID] = r.Hash
				b.a.mu.Unlock()
				b.acks.Add(1)
				b.acknowledgedBy[i].Add(1)
			case r.Error.Code == api.Unavailable || r.Error.Code == api.Indeterminate:
				if outage != 0 {
					longer(&b.slowest, took)
				}
				b.refusals[i].Add(1)
				<-time.After(20 * time.Millisecond)
				continue
			default:
				t.Errorf("append: %v", r.Error)
				return
			}
			if outage != 0 {
				b.late.Add(1)
			}
			break
		}
	}
}

func (b *badDisk) read(ctx context.Context, t *testing.T, nc *nats.Conn, sessions []turns.ID, blocked bool) {
	for n := 0; ctx.Err() == nil; n++ {
		verb := []string{"session.get", "context.get", "turn.list"}[n%3]
		r, took, err := request(nc, verb, sessions[n%len(sessions)], struct{}{})
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			t.Errorf("%s: %v", verb, err)
			return
		case r.Error != nil && !(blocked && r.Error.Code == api.Unavailable):
			t.Errorf("%s: %v", verb, r.Error)
		}
		b.reads.Add(1)
		if b.outage.Load() != 0 {
			longer(&b.slowestRead, took)
		}
		if r.Stale || r.Error != nil {
			b.staleReads.Add(1)
		}
		<-time.After(5 * time.Millisecond)
	}
}

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/localserver"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/jetstream/embed"
	"nexus/turns"
)

var localTurns = flag.Int("local-turns", 10_000, "turns of the ledger of BenchmarkLocalStart, 100 a session; docs/TESTING.md has 100,000")

// BenchmarkLocalStart measures what a command takes (ledgerctl sessions -n 1) that serves its ledger itself, from the start
// of its process to its end: where nobody serves, after a clean end and after a kill -9 behind an append; then where a child
// serves already. Medians in milliseconds, and as ratios to the same command beside a nexusd on the same folder.
// The files are in the page cache: it can't see what a cold disk adds.
//
//	go test ./cmd/nexusd -run '^$' -bench LocalStart -benchtime 20x -local-turns 100000 -timeout 30m
func BenchmarkLocalStart(b *testing.B) {
	data, bin := filepath.Join(b.TempDir(), "ledger"), filepath.Join(b.TempDir(), "ledgerctl")
	if out, err := exec.Command("go", "build", "-o", bin, "../ledgerctl").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	fill(b, data, *localTurns)
	ledgerctl := func(args ...string) {
		b.Helper()
		cmd := exec.Command(bin, args...)
		cmd.Env = append(os.Environ(), "HOME="+b.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	took := make(map[string][]time.Duration)
	measure := func(name string, args ...string) {
		b.Helper()
		began := time.Now()
		ledgerctl(append([]string{"sessions", "-n", "1", "--data", data}, args...)...)
		took[name] = append(took[name], time.Since(began))
	}
	for b.Loop() {
		awaitFree(b, data)
		measure("clean", "--idle=0")
		awaitFree(b, data)

		ledgerctl("append", "new", "--user", "before a kill", "--data", data, "--idle=60s")
		for range 3 {
			measure("warm", "--idle=60s")
		}
		s, err := localserver.Find(data)
		if err == nil {
			err = syscall.Kill(s.PID, syscall.SIGKILL)
		}
		if err != nil {
			b.Fatal(err)
		}
		awaitFree(b, data)
		measure("killed", "--idle=0")
		awaitFree(b, data)
	}
	d, err := daemon.Open(b.Context(), config.Config{Data: data, Listen: "127.0.0.1:0", HTTP: "off"})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := d.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}()
	if err := localserver.Save(data, localserver.Serving{URL: d.ClientURL(), PID: os.Getpid(), Operator: d.Credentials().Operator, Began: time.Now()}); err != nil {
		b.Fatal(err)
	}
	for range max(10, len(took["clean"])) {
		measure("nexusd")
	}
	b.ReportMetric(0, "ns/op")
	for name, all := range took {
		m := median(all)
		b.ReportMetric(float64(m.Microseconds())/1000, name+"-ms")
		if name != "nexusd" {
			b.ReportMetric(float64(m)/float64(median(took["nexusd"])), name+"/nexusd")
		}
	}
}

// fill makes a ledger of sessions of 100 turns.
func fill(b *testing.B, data string, n int) {
	b.Helper()
	d, err := daemon.Open(b.Context(), config.Config{Data: data, Listen: "127.0.0.1:0", HTTP: "off"})
	if err != nil {
		b.Fatal(err)
	}
	nc, err := d.Connect()
	if err != nil {
		b.Fatal(err)
	}
	const each = 100
	var all sync.WaitGroup
	one := make(chan struct{}, 64)
	for i := range n / each {
		all.Add(1)
		one <- struct{}{}
		go func() {
			defer func() { <-one; all.Done() }()
			c := client.New(nc, "default", "main")
			s, err := c.Create(b.Context(), api.CreateSession{})
			if err != nil {
				b.Error(err)
				return
			}
			for n := range each {
				_, err := c.Append(b.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, fmt.Sprintf("turn %d of session %d, of some sixty bytes of text", n, i))}})
				if err != nil {
					b.Error(err)
					return
				}
			}
		}()
	}
	all.Wait()
	nc.Close()
	if err := d.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
	if b.Failed() {
		b.FailNow()
	}
}

// awaitFree returns when no process has the folder.
func awaitFree(b *testing.B, data string) {
	b.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		lock, err := embed.Lock(data)
		if err == nil {
			_ = lock.Close()
			return
		}
		if time.Now().After(deadline) {
			b.Fatal(err)
		}
	}
}

func median(all []time.Duration) time.Duration { return slices.Sorted(slices.Values(all))[len(all)/2] }

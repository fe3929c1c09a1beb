package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"nexus/cmd/internal/build"
	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/localserver"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/jetstream/disk"
	"nexus/ledger/jetstream/embed"
	"nexus/turns"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), endSignals()...)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// endSignals returns the signals that end the program cleanly. A terminal that is closed sends
// SIGHUP; a program that nohup started ignores it, and stays.
func endSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// drain is how long the daemon waits for requests to end after one of [endSignals].
const drain = 20 * time.Second

// run is main without globals; it returns the exit status.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "help" {
		args = []string{"--help"}
	}
	if len(args) > 0 && args[0] == "repair" {
		return repair(ctx, args[1:], environ, stdout, stderr)
	}
	if len(args) > 0 && args[0] == "restore" {
		return restore(ctx, args[1:], stdout, stderr)
	}
	if len(args) > 0 && args[0] == "keys" {
		return addKeys(args[1:], stdout, stderr)
	}
	if len(args) > 0 && args[0] == "token" {
		return newToken(args[1:], stdout, stderr)
	}
	if len(args) > 0 && args[0] == "user" {
		return newUser(args[1:], stdout, stderr)
	}
	cfg, err := parse(args, environ)
	switch {
	case errors.Is(err, errHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case errors.Is(err, errVersion):
		fmt.Fprintln(stdout, "nexusd", build.Version())
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "nexusd: error: %v\nhint: nexusd --help lists the flags\n", err)
		return 2
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.LogLevel)); err != nil && cfg.LogLevel != "" {
		fmt.Fprintf(stderr, "nexusd: error: log level: %v\n", err)
		return 2
	}
	cfg.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	cfg.Version = build.Version()
	cfg.Data = localserver.Folder(cfg.Data)
	if other := localserver.OtherLedger(cfg.Data); other != "" {
		cfg.Logger.Warn("there is another ledger in the folder where nexusd was started; --data serves that one", "other", other, "serving", cfg.Data)
	}
	cfg.Vanished = vanished(cfg)
	cfg.Unfollow = unfollow(cfg)
	if cfg.Follow, err = follow(cfg); err != nil {
		fmt.Fprintf(stderr, "nexusd: error: %v\n", err)
		return 2
	}
	if err := withProviders(&cfg, environ); err != nil {
		fmt.Fprintf(stderr, "nexusd: error: %v\n", err)
		return 2
	}
	limit := memoryLimit(cfg.CacheBytes)
	if has(environ, "GOMEMLIMIT") {
		limit = 0
	}
	switch {
	case !has(environ, "GOGC"):
		defer daemon.PaceCollector(limit)()
	case limit > 0:
		debug.SetMemoryLimit(limit)
	}
	d, err := open(ctx, cfg)
	if err != nil {
		fmt.Fprintf(stderr, "nexusd: error: %v\n", err)
		if damaged := (*disk.DamagedError)(nil); errors.As(err, &damaged) {
			fmt.Fprintln(stderr, "hint: nothing was changed. nexusd repair, with the same --data, says what it can restore, and restores it")
		}
		return max(1, api.Exit(err))
	}
	if err := saveServing(d, cfg); err != nil {
		cfg.Logger.Warn("the folder does not say how it is served; ledgerctl finds the daemon by its address", "err", err)
	}
	if err := saveContext(d, cfg); err != nil {
		cfg.Logger.Warn("the context for ledgerctl is not written; name the credentials with --creds or NEXUS_CREDS", "err", err)
	}
	if err := announce(stdout, d, cfg); err != nil {
		fmt.Fprintf(stderr, "nexusd: error: %v\n", err)
	}
	code := 0
	select {
	case <-ctx.Done():
	case err := <-d.Failed():
		fmt.Fprintf(stderr, "nexusd: error: %v\n", err)
		code = max(1, api.Exit(err))
	}
	ending, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	if cfg.NATS == "" {
		if err := localserver.Remove(cfg.Data); err != nil {
			cfg.Logger.Warn("remove serving.json", "err", err)
		}
	}
	if err := d.Close(ending); err != nil {
		fmt.Fprintf(stderr, "nexusd: error: %v\n", err)
		return max(1, code)
	}
	return code
}

// open opens the daemon. It takes the folder over from a process that a ledgerctl started.
func open(ctx context.Context, cfg config.Config) (*daemon.Daemon, error) {
	d, err := daemon.Open(ctx, cfg)
	if !errors.Is(err, embed.ErrLocked) {
		return d, err
	}
	claim, err := localserver.Claim(cfg.Data)
	if err != nil {
		return nil, err
	}
	defer claim.Close()
	for {
		d, err := daemon.Open(ctx, cfg)
		if !errors.Is(err, embed.ErrLocked) {
			return d, err
		}
		cfg.Logger.Info("another process has the folder; nexusd takes it over, or waits for its end", "err", err)
		if gave, tookErr := localserver.TakeOver(ctx, cfg.Data); !gave || tookErr != nil {
			return nil, errors.Join(err, tookErr)
		}
		cfg.Logger.Info("took the folder over from a ledgerctl that served it", "data", cfg.Data)
	}
}

// saveServing says in the folder how it is served, where this daemon has its lock.
func saveServing(d *daemon.Daemon, cfg config.Config) error {
	if cfg.NATS != "" {
		return nil
	}
	s := localserver.Serving{URL: d.ClientURL(), PID: os.Getpid(), Version: cfg.Version, Began: time.Now()}
	for to, file := range map[*string]string{&s.Operator: d.Credentials().Operator, &s.CA: cfg.TLSCert} {
		if file == "" {
			continue
		}
		var err error
		if *to, err = filepath.Abs(file); err != nil {
			return err
		}
	}
	return localserver.Save(cfg.Data, s)
}

// workMemory is the memory for everything but the caches, in bytes: what the daemon
// has idle, the requests that it has accepted, and the copies of those in work.
const workMemory = 168 << 20

// has reports whether an environment sets a variable.
func has(environ []string, name string) bool {
	return slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, name+"=") })
}

// memoryLimit returns from how much memory on, in bytes, the garbage collector makes
// an effort. Without it, garbage of large requests may take as much again as
// everything in use. It is no bound: what is in use may be more, and the limit grows with it.
func memoryLimit(cacheBytes int64) int64 {
	return workMemory + cmp.Or(cacheBytes, config.DefaultCacheBytes)
}

// saveContext writes the file by which ledgerctl and the Go client of this user find
// the credentials. A port that was picked has none: the next daemon on it is another.
// With auth off it removes the file of an earlier daemon on the port: clients would
// send credentials that this one does not know.
func saveContext(d *daemon.Daemon, cfg config.Config) error {
	c := d.Credentials()
	switch {
	case cfg.NATS != "" || strings.HasSuffix(cfg.Listen, ":0"):
		return nil
	case c == (config.Credentials{}):
		return client.RemoveServerContext(d.ClientURL())
	}
	row := client.ServerContext{URL: d.ClientURL(), HTTP: d.HTTPURL(), Operator: c.Operator, Agent: c.Agent}
	if cfg.TLSCert != "" {
		var err error
		if row.CA, err = filepath.Abs(cfg.TLSCert); err != nil {
			return err
		}
	}
	return client.SaveServerContext(row)
}

// announce prints the one line that says the daemon can serve.
func announce(w io.Writer, d *daemon.Daemon, cfg config.Config) error {
	var files *config.Credentials
	if c := d.Credentials(); c != (config.Credentials{}) {
		files = &c
	}
	b, err := turns.EncodeJSON(struct {
		Ready       bool                `json:"ready"`
		NATS        string              `json:"nats_url"`
		HTTP        string              `json:"http_url"`
		Data        string              `json:"data"`
		Version     string              `json:"version"`
		Key         string              `json:"checkpoint_key,omitempty"`
		Credentials *config.Credentials `json:"credentials,omitempty"`
	}{true, d.ClientURL(), d.HTTPURL(), cfg.Data, cfg.Version, d.CheckpointKey(), files})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

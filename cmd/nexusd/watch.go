package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"nexus/cmd/internal/agents"
	"nexus/cmd/internal/daemon/config"

	"nexus/cmd/internal/watch"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// follow returns what follows the folders of transcripts that the configuration names, as
// ledgerctl watch does; nil if it names none. It is made here and not by the daemon, so
// that a program with a daemon inside does not carry the formats of agents.
func follow(cfg config.Config) (func(context.Context, *client.Client) error, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // of a service without one; its folders are absolute
	}
	sources, err := watched(cfg.Watch, home)
	if err != nil || len(sources) == 0 {
		return nil, err
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := watch.Config{Sources: sources, State: filepath.Join(cfg.Data, "watch"),
		Ledger: fmt.Sprintf("nexusd %s/%s", cmp.Or(cfg.Watch.Tenant, "default"), cmp.Or(cfg.Watch.Agent, "main")),
		Log:    func(format string, args ...any) { log.Info("watch", "what", fmt.Sprintf(format, args...)) }}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	return func(ctx context.Context, client *client.Client) error {
		c.Connect = watch.Dialed(client)
		w, err := watch.New(c)
		if err != nil {
			return err
		}
		return w.Run(ctx)
	}, nil
}

// unfollow returns what has the state of the folders that the configuration names forget a session that was
// erased; nil if it names none.
func unfollow(cfg config.Config) func(turns.ID) (bool, error) {
	if !slices.ContainsFunc(slices.Collect(maps.Values(cfg.Watch.Folders())), func(dirs []string) bool { return len(dirs) > 0 }) {
		return nil
	}
	var asked sync.Map // by session: its row may be in memory alone
	return func(session turns.ID) (done bool, err error) {
		state := filepath.Join(cfg.Data, "watch")
		known, _ := watch.EntriesOf(state, session) // one that is not whole is made anew
		_, before := asked.LoadOrStore(session, true)
		if !before || len(known.Files) > 0 {
			return false, watch.Ask(state, session)
		}
		return watch.IsForgotten(state, session), nil
	}
}

// vanished returns what lists the transcripts that are gone from the folders that the configuration
// names; nil if it names none.
func vanished(cfg config.Config) func() ([]config.VanishedFile, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	sources, err := watched(cfg.Watch, home)
	if err != nil || len(sources) == 0 {
		return nil
	}
	return func() (out []config.VanishedFile, err error) {
		list, err := watch.Vanished(filepath.Join(cfg.Data, "watch"), sources)
		for _, x := range list {
			out = append(out, config.VanishedFile{File: x.File, Agent: x.Agent, Session: x.Session, Kept: x.Bytes, Lost: x.Lost, Gone: x.Gone})
		}
		return out, err
	}
}

// watched returns the folders of a configuration; ~ is the home. A relative one would
// depend on where the daemon was started.
func watched(c config.WatchTable, home string) (out []watch.Source, err error) {
	folders := c.Folders()
	for _, agent := range agents.Names() {
		for _, dir := range folders[agent] {
			if rest, ok := strings.CutPrefix(dir, "~/"); ok && home != "" {
				dir = filepath.Join(home, rest)
			}
			if !filepath.IsAbs(dir) {
				return nil, fmt.Errorf("watch: the folder %q of %s is no absolute path", dir, agent)
			}
			out = append(out, watch.Source{Agent: agent, Root: filepath.Clean(dir)})
		}
	}
	return out, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// adkStore is the database session service of google/adk-go in a process of its own.
type adkStore struct {
	*peerProcess
	dir string
}

// openADK adds the index by which a session's newest events are found.
func openADK(ctx context.Context, r *run, l load, dir string) (system, error) {
	return r.openADK(ctx, l, dir, "index")
}

// openADKDefault keeps the tables as the service makes them.
func openADKDefault(ctx context.Context, r *run, l load, dir string) (system, error) {
	return r.openADK(ctx, l, dir)
}

func (r *run) openADK(ctx context.Context, l load, dir string, more ...string) (system, error) {
	if sqliteDriver != "sqlite3" {
		return nil, skipped("google/adk-go's driver of SQLite needs a C compiler")
	}
	bin, err := r.bin.buildADK(ctx, r.install)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var ready sqliteLevel
	p, err := startPeer(exec.Command(bin, append([]string{filepath.Join(dir, "sessions.db"), strconv.Itoa(l.clients)}, more...)...), &ready)
	if err != nil {
		return nil, err
	}
	s := &adkStore{p, dir}
	if err := ready.is(2); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *adkStore) append(ctx context.Context, c, _ int, t turn) error {
	return s.ask(ctx, map[string]any{"command": "append", "client": c, "question": t.question, "answer": t.answer}, nil)
}

func (s *adkStore) recall(ctx context.Context, c, last int) (int, error) {
	var got struct {
		Read int `json:"read"`
	}
	err := s.ask(ctx, map[string]any{"command": "recall", "client": c, "last": last}, &got)
	return got.Read, err
}

func (s *adkStore) check(ctx context.Context, l load, stored []int) error {
	for c, want := range stored {
		var got struct {
			Turns [][2]string `json:"turns"`
		}
		if err := s.ask(ctx, map[string]any{"command": "turns", "client": c}, &got); err != nil {
			return err
		}
		if len(got.Turns) != want {
			return fmt.Errorf("client %d has %d turns, %d were acknowledged", c, len(got.Turns), want)
		}
		for i, texts := range got.Turns {
			if t := l.turn(c, i+1); texts != [2]string{t.question, t.answer} {
				return fmt.Errorf("turn %d of client %d has other content", i+1, c)
			}
		}
	}
	return nil
}

func (s *adkStore) pids() []int    { return []int{s.pid()} }
func (s *adkStore) dirs() []string { return []string{s.dir} }

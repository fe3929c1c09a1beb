package main

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

//go:embed langgraph
var langgraphFiles embed.FS

// langgraphStore is a checkpointer of LangGraph in a node process, which runs the load of appends itself.
type langgraphStore struct {
	*peerProcess
	server *postgresStore // nil: SQLite in the node process
	dir    string
}

// openLangGraph asks for synchronous=FULL, so that an answer means a fsync as with every peer.
func openLangGraph(ctx context.Context, r *run, l load, dir string) (system, error) {
	return openCheckpointer(ctx, r, l, dir, "FULL", 2)
}

// openLangGraphDefault keeps what its driver sets: synchronous=NORMAL.
func openLangGraphDefault(ctx context.Context, r *run, l load, dir string) (system, error) {
	return openCheckpointer(ctx, r, l, dir, "NORMAL", 1)
}

// openLangGraphPostgres has the checkpointer of PostgreSQL, and a server of its own.
func openLangGraphPostgres(ctx context.Context, r *run, l load, dir string) (system, error) {
	peer, err := r.installLangGraph(ctx)
	if err != nil {
		return nil, err
	}
	server, err := startPostgres(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := server.connect(ctx, load{clients: 1}, "SELECT 1"); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s", err, &server.server.log), server.close())
	}
	server.pool.Close() // node connects by itself
	p, err := startCheckpointer(peer, server.socket, l, "postgres", &struct{}{})
	if err != nil {
		return nil, errors.Join(err, server.close())
	}
	return &langgraphStore{p, server, server.dir}, nil
}

// installLangGraph installs the packages once, in the user's cache folder.
func (r *run) installLangGraph(ctx context.Context) (peer string, err error) {
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			return "", skipped("LangGraph needs " + name + ", which is not installed")
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	list, err := langgraphFiles.ReadFile("langgraph/package.json")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "nexus-benchmarks", fmt.Sprintf("langgraph-%x", sha256.Sum256(list))[:26])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for _, name := range []string{"package.json", "peer.mjs"} {
		b, err := langgraphFiles.ReadFile("langgraph/" + name)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return "", err
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "installed")); err != nil {
		if !r.install { // it takes minutes
			return "", skipped("LangGraph is not in " + dir + ", where a run of the program installs it")
		}
		r.say("npm install of LangGraph into %s", dir)
		cmd := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund")
		cmd.Dir = dir
		if prefix := nodeHeaders(); prefix != "" {
			cmd.Env = append(os.Environ(), "npm_config_nodedir="+prefix)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", skipped(fmt.Sprintf("npm can't install LangGraph: %v: %s", err, out))
		}
		if err := os.WriteFile(filepath.Join(dir, "installed"), nil, 0o644); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "peer.mjs"), nil
}

// nodeHeaders is the prefix of node's headers, with which npm builds the driver of SQLite where it can't
// fetch one; "": they are not here (Debian: apt-get install libnode-dev).
func nodeHeaders() string {
	node, err := exec.LookPath("node")
	if err != nil {
		return ""
	}
	if node, err = filepath.EvalSymlinks(node); err != nil {
		return ""
	}
	prefix := filepath.Dir(filepath.Dir(node))
	if _, err := os.Stat(filepath.Join(prefix, "include", "node", "node.h")); err != nil {
		return ""
	}
	return prefix
}

func openCheckpointer(ctx context.Context, r *run, l load, dir, synchronous string, level int) (system, error) {
	peer, err := r.installLangGraph(ctx)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var ready sqliteLevel
	p, err := startCheckpointer(peer, filepath.Join(dir, "checkpoints.db"), l, synchronous, &ready)
	if err != nil {
		return nil, err
	}
	s := &langgraphStore{peerProcess: p, dir: dir}
	if err := ready.is(level); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func startCheckpointer(peer, place string, l load, synchronous string, ready any) (*peerProcess, error) {
	return startPeer(exec.Command("node", peer, place, strconv.Itoa(l.clients), strconv.Itoa(l.bytes), synchronous), ready)
}

// sqliteLevel is what a peer's process says of its SQLite.
type sqliteLevel struct {
	Mode  string `json:"mode"`
	Level int    `json:"level"` // of synchronous: 1 NORMAL, 2 FULL
}

func (l sqliteLevel) is(level int) error {
	if l.Mode != "wal" || l.Level != level {
		return fmt.Errorf("SQLite has journal_mode %s, synchronous %d: not what was asked for", l.Mode, l.Level)
	}
	return nil
}

func (s *langgraphStore) run(ctx context.Context, _ load, each time.Duration, stored []int) ([]time.Duration, error) {
	var reply struct {
		Took   []float64 `json:"took"` // ms
		Stored []int     `json:"stored"`
	}
	if err := s.ask(ctx, map[string]any{"command": "run", "ms": each.Milliseconds(), "stored": stored}, &reply); err != nil {
		return nil, err
	}
	copy(stored, reply.Stored)
	var took []time.Duration
	for _, x := range reply.Took {
		took = append(took, time.Duration(x*1e6))
	}
	return took, nil
}

func (s *langgraphStore) append(ctx context.Context, c, i int, t turn) error {
	_, _, _, err := s.turn(ctx, c, i, t)
	return err
}

// turn is one call of the graph: it reads the whole state, and saves one checkpoint of it.
func (s *langgraphStore) turn(ctx context.Context, c, _ int, t turn) (recall, append time.Duration, read int, err error) {
	began := time.Now()
	var reply struct {
		Rest float64 `json:"rest"` // ms after the graph's node had the state
		Read int     `json:"read"`
	}
	if err := s.ask(ctx, map[string]any{"command": "turn", "client": c, "question": t.question, "answer": t.answer}, &reply); err != nil {
		return 0, 0, 0, err
	}
	append = time.Duration(reply.Rest * 1e6)
	return time.Since(began) - append, append, reply.Read, nil
}

// fill stores turns at once, with one checkpoint.
func (s *langgraphStore) fill(ctx context.Context, c int, ts []turn) error {
	texts := make([][2]string, len(ts))
	for i, t := range ts {
		texts[i] = [2]string{t.question, t.answer}
	}
	return s.ask(ctx, map[string]any{"command": "fill", "client": c, "turns": texts}, nil)
}

// recall returns the bytes of the whole state: there is no way to read a part of it.
func (s *langgraphStore) recall(ctx context.Context, c, _ int) (int, error) {
	var reply struct {
		Read int `json:"read"`
	}
	err := s.ask(ctx, map[string]any{"command": "recall", "client": c}, &reply)
	return reply.Read, err
}

func (s *langgraphStore) check(ctx context.Context, _ load, stored []int) error {
	return s.ask(ctx, map[string]any{"command": "check", "stored": stored}, nil)
}

func (s *langgraphStore) pids() []int {
	if s.server != nil {
		return append(s.server.pids(), s.pid())
	}
	return []int{s.pid()}
}

func (s *langgraphStore) dirs() []string { return []string{s.dir} }

func (s *langgraphStore) close() error {
	err := s.peerProcess.close()
	if s.server != nil {
		err = errors.Join(err, s.server.close())
	}
	return err
}

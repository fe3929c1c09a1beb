package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

//go:embed langgraph
var langgraphFiles embed.FS

// langgraphStore is LangGraph's SQLite checkpointer in a node process, which runs the load itself.
type langgraphStore struct {
	process *child
	in      io.WriteCloser
	out     *bufio.Reader
	dir     string
}

// openLangGraph asks for synchronous=FULL, so that an answer means a fsync as with every peer.
func openLangGraph(ctx context.Context, r *run, l load, dir string) (system, error) {
	return openCheckpointer(ctx, r, l, dir, "FULL", 2)
}

// openLangGraphDefault keeps what its driver sets: synchronous=NORMAL.
func openLangGraphDefault(ctx context.Context, r *run, l load, dir string) (system, error) {
	return openCheckpointer(ctx, r, l, dir, "NORMAL", 1)
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
		if !r.npm { // it takes minutes
			return "", skipped("LangGraph is not in " + dir + ", where a run of the program installs it")
		}
		r.say("npm install of LangGraph into %s", dir)
		cmd := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", skipped(fmt.Sprintf("npm can't install LangGraph: %v: %s", err, out))
		}
		if err := os.WriteFile(filepath.Join(dir, "installed"), nil, 0o644); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "peer.mjs"), nil
}

func openCheckpointer(ctx context.Context, r *run, l load, dir, synchronous string, level int) (_ system, err error) {
	peer, err := r.installLangGraph(ctx)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	cmd := exec.Command("node", peer, filepath.Join(dir, "checkpoints.db"), strconv.Itoa(l.clients), strconv.Itoa(l.bytes), synchronous)
	s := &langgraphStore{dir: dir}
	if s.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	if s.process, err = start(cmd); err != nil {
		return nil, err
	}
	var ready struct {
		Mode  string `json:"mode"`
		Level int    `json:"level"`
	}
	if err := readyLine(s.process, s.out, &ready); err != nil {
		return nil, err
	}
	if ready.Mode != "wal" || ready.Level != level {
		return nil, errors.Join(fmt.Errorf("the checkpointer has journal_mode %s, synchronous %d", ready.Mode, ready.Level), s.close())
	}
	return s, nil
}

type langgraphReply struct {
	Took   []float64 `json:"took"`
	Stored []int     `json:"stored"`
	Error  string    `json:"error"`
}

// ask sends a command. The process dies with ctx, which ends the wait.
func (s *langgraphStore) ask(ctx context.Context, command map[string]any) (reply langgraphReply, err error) {
	stop := context.AfterFunc(ctx, func() { _ = s.process.cmd.Process.Kill() })
	defer stop()
	b, err := json.Marshal(command)
	if err != nil {
		return reply, err
	}
	if _, err := s.in.Write(append(b, '\n')); err != nil {
		return reply, fmt.Errorf("%w: %s", err, &s.process.log)
	}
	text, err := s.out.ReadBytes('\n')
	if err != nil {
		return reply, fmt.Errorf("node ended: %w: %s", err, &s.process.log)
	}
	if err := json.Unmarshal(text, &reply); err != nil {
		return reply, err
	}
	if reply.Error != "" {
		return reply, errors.New(reply.Error)
	}
	return reply, nil
}

func (s *langgraphStore) run(ctx context.Context, _ load, each time.Duration, stored []int) ([]time.Duration, error) {
	reply, err := s.ask(ctx, map[string]any{"command": "run", "ms": each.Milliseconds(), "stored": stored})
	if err != nil {
		return nil, err
	}
	copy(stored, reply.Stored)
	var took []time.Duration
	for _, x := range reply.Took {
		took = append(took, time.Duration(x*1e6))
	}
	return took, nil
}

func (s *langgraphStore) append(context.Context, int, int, turn) error {
	return errors.New("the node process appends by itself")
}

func (s *langgraphStore) check(ctx context.Context, _ load, stored []int) error {
	_, err := s.ask(ctx, map[string]any{"command": "check", "stored": stored})
	return err
}

func (s *langgraphStore) pids() []int    { return []int{s.process.pid()} }
func (s *langgraphStore) dirs() []string { return []string{s.dir} }

func (s *langgraphStore) close() error {
	if err := s.in.Close(); err != nil { // the end of its input ends it
		return err
	}
	return s.process.end(noSignal)
}

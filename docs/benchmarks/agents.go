package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// recaller is a system that gives an agent what its next model call is sent.
type recaller interface {
	system
	// recall returns the bytes of the newest turns of a client, decoded: last of them, or for a
	// ledger that compacts its context. One goroutine calls it for each client.
	recall(ctx context.Context, client, last int) (n int, err error)
}

// wholeTurn is a recaller that reads a context and appends to it in one call.
type wholeTurn interface {
	turn(ctx context.Context, client, i int, t turn) (recall, append time.Duration, read int, err error)
}

// filler is a recaller that stores the turns of a client's past at once, since one by one would take hours.
type filler interface {
	fill(ctx context.Context, client int, ts []turn) error
}

const (
	agentSystem = 40_000 // bytes of the system part
	agentTools  = 20
	// agentWindow is how many turns the peers read: about what a context of Nexus shows, between
	// two compactions at a window of 200,000 tokens.
	agentWindow = 35
	agentEach   = 20 // turns that each agent is measured for in a round
)

// agentLoad is sessions of agents before they are measured, and which of them an agent goes on with.
type agentLoad struct {
	name     string // by which --agent-loads takes it
	depth    int    // turns of each session
	sessions int    // of each agent
	// zipf: 0: an agent has one session. Else each turn of an agent goes on with a session that is drawn
	// from all, those of all agents: the k-th with a chance by k to this power.
	zipf float64
}

var agentLoads = []agentLoad{{name: "100", depth: 100, sessions: 1}, {name: "1000", depth: 1000, sessions: 1}, {name: "zipf", depth: 100, sessions: 8, zipf: 1.1}}

func (a agentLoad) String() string {
	if a.zipf > 0 {
		return fmt.Sprintf("Zipf %.1f of %d sessions an agent", a.zipf, a.sessions)
	}
	return "its own"
}

// draws returns the session of each turn that agent w of agents is measured for.
func (a agentLoad) draws(w, agents int) []int {
	out := make([]int, agentEach)
	if a.zipf == 0 {
		for i := range out {
			out[i] = w
		}
		return out
	}
	z := rand.NewZipf(rand.New(rand.NewPCG(uint64(w), 1)), a.zipf, 1, uint64(a.sessions*agents-1))
	for i := range out {
		out[i] = int(z.Uint64())
	}
	return out
}

// agentResults are the sizes of results of tools, in bytes.
var agentResults = []int{1000, 1000, 1500, 2000, 2000, 3000, 4000, 6000, 8000, 12_000, 20_000, 30_000}

// agentTurn is turn i of an agent: the result of a tool, and the model's answer.
func agentTurn(client, i int) turn {
	x := uint64(client)<<32 + uint64(i)*2
	size := agentResults[(x*0x9e3779b97f4a7c15>>33)%uint64(len(agentResults))]
	return turn{words(x, size), words(x+1, 400)}
}

// agentRow is turns of agents on one system: medians of the rounds, and P99 of all.
type agentRow struct {
	System             string
	Load               agentLoad
	Recall50, Append50 float64 // ms
	Turn50, Turn99     float64
	Relative           float64 // the row's p50 by that of Nexus, median of the rounds; 0: Nexus was not measured
	Lowest, Highest    float64 // Relative of a round
	CPU, Disk, Read    float64 // µs, bytes, bytes: each turn
	Fsyncs             float64 // below 0: not counted
	Turns              int
}

// agentPeers are the peers that can give back what they store.
var agentPeers = []string{"nexus", "sqlite", "postgres", "postgres-jsonb", "jsonl", "langgraph", "langgraph-postgres", "adk", "adk-default"}

// agentRound is one round of one system.
type agentRound struct {
	recall, append, turn []time.Duration
	cpu, disk, read      float64
	fsyncs               float64
}

// agentTurns measures turns of agents: each reads its context, and appends.
func (r *run) agentTurns(ctx context.Context, res *results) error {
	var asked []string
	for _, name := range agentPeers {
		if r.wants(name) {
			asked = append(asked, name)
		}
	}
	gone := make(map[string]bool)
	for _, al := range agentLoads {
		if len(r.agentLoads) > 0 && !slices.Contains(r.agentLoads, al.name) {
			continue
		}
		rounds := make(map[string][]agentRound)
		for n := range r.rounds {
			for i := range asked {
				name := asked[(i+n)%len(asked)]
				if gone[name] {
					continue
				}
				r.say("round %d of %d, agents at depth %d, session: %s: %s", n+1, r.rounds, al.depth, al, name)
				m, err := r.agentRound(ctx, name, al)
				if ctx.Err() != nil {
					return errors.Join(err, ctx.Err())
				}
				if err != nil {
					r.gone("agents: "+name, err)
					gone[name] = true
					continue
				}
				rounds[name] = append(rounds[name], m)
			}
		}
		for _, name := range asked {
			if ms := rounds[name]; len(ms) > 0 && !gone[name] {
				row := agentMedians(name, al, ms, rounds["nexus"])
				r.say("%s", row) // the rest may take long
				res.Agents = append(res.Agents, row)
			}
		}
	}
	return nil
}

// agentRound measures one system on a fresh folder.
func (r *run) agentRound(ctx context.Context, name string, al agentLoad) (m agentRound, err error) {
	p := peers[slices.IndexFunc(peers, func(p peer) bool { return p.name == name })]
	dir, err := os.MkdirTemp(r.dir, "agents-"+name+"-")
	if err != nil {
		return m, err
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	l := r.load(r.agents * al.sessions)
	opened, err := p.open(ctx, r, l, filepath.Join(dir, "data"))
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, opened.close()) }()
	s, ok := opened.(recaller)
	if !ok {
		return m, skipped("it gives no context")
	}
	if n, ok := opened.(*nexusLedger); ok {
		if err := n.prepareAgents(ctx); err != nil {
			return m, err
		}
	}
	if err := atOnce(r.agents, func(w int) error {
		for c := w; c < l.clients; c += r.agents {
			if err := fillSession(ctx, s, c, al.depth); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return m, err
	}
	if err := settle(ctx, s.pids()); err != nil {
		return m, err
	}
	counter, err := countFsyncs(s.pids())
	if err != nil {
		return m, err
	}
	defer counter.close()
	cpu, err := cpuTime(s.pids())
	if err != nil {
		return m, err
	}
	disk, err := diskOf(s.dirs()...)
	if err != nil {
		return m, err
	}
	var mu sync.Mutex
	sessions := make([]struct {
		sync.Mutex // two agents that go on with one session do so one after the other
		depth      int
	}, l.clients)
	for c := range sessions {
		sessions[c].depth = al.depth
	}
	if err := atOnce(r.agents, func(w int) error {
		for _, c := range al.draws(w, r.agents) {
			sessions[c].Lock()
			sessions[c].depth++
			recall, add, read, err := turnOf(ctx, s, c, sessions[c].depth)
			sessions[c].Unlock()
			if err != nil {
				return err
			}
			mu.Lock()
			m.recall, m.append, m.turn = append(m.recall, recall), append(m.append, add), append(m.turn, recall+add)
			m.read += float64(read)
			mu.Unlock()
		}
		return nil
	}); err != nil {
		return m, err
	}
	used, err := cpuTime(s.pids())
	if err != nil {
		return m, err
	}
	grown, err := diskOf(s.dirs()...)
	if err != nil {
		return m, err
	}
	fsyncs, err := counter.read()
	if err != nil {
		return m, err
	}
	n := float64(len(m.turn))
	m.cpu, m.disk, m.read, m.fsyncs = float64(used-cpu)/1e3/n, float64(grown-disk)/n, m.read/n, fsyncs/n
	for _, ds := range [][]time.Duration{m.recall, m.append, m.turn} {
		slices.Sort(ds)
	}
	return m, nil
}

// fillSession gives a session its past.
func fillSession(ctx context.Context, s recaller, c, depth int) error {
	if f, ok := s.(filler); ok {
		ts := make([]turn, depth)
		for i := range ts {
			ts[i] = agentTurn(c, i+1)
		}
		return f.fill(ctx, c, ts)
	}
	for i := range depth {
		if err := s.append(ctx, c, i+1, agentTurn(c, i+1)); err != nil {
			return err
		}
		if i%10 == 9 { // a ledger compacts when it is asked for a context
			if _, err := s.recall(ctx, c, agentWindow); err != nil {
				return err
			}
		}
	}
	return nil
}

// turnOf does turn i of a session: it reads the context, and appends.
func turnOf(ctx context.Context, s recaller, c, i int) (recall, add time.Duration, read int, err error) {
	t := agentTurn(c, i)
	if w, ok := s.(wholeTurn); ok {
		return w.turn(ctx, c, i, t)
	}
	began := time.Now()
	if read, err = s.recall(ctx, c, agentWindow); err != nil {
		return 0, 0, 0, err
	}
	recalled := time.Now()
	if err := s.append(ctx, c, i, t); err != nil {
		return 0, 0, 0, err
	}
	return recalled.Sub(began), time.Since(recalled), read, nil
}

// settle waits until processes do next to nothing: an index may be behind what was stored. It
// gives up after a minute.
func settle(ctx context.Context, pids []int) error {
	const pause = 200 * time.Millisecond
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		before, err := cpuTime(pids)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		after, err := cpuTime(pids)
		if err != nil || time.Duration(after-before) < pause/20 {
			return err
		}
	}
	return nil
}

// atOnce runs do for clients at once.
func atOnce(clients int, do func(c int) error) error {
	errs := make([]error, clients)
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() { errs[c] = do(c) })
	}
	wg.Wait()
	return errors.Join(distinct(errs)...)
}

func agentMedians(name string, al agentLoad, rounds, base []agentRound) agentRow {
	of := func(get func(agentRound) float64) float64 {
		var xs []float64
		for _, m := range rounds {
			xs = append(xs, get(m))
		}
		return median(xs)
	}
	p50 := func(ds []time.Duration) float64 { return ms(at(ds, 0.5)) }
	row := agentRow{System: name, Load: al,
		Recall50: of(func(m agentRound) float64 { return p50(m.recall) }), Append50: of(func(m agentRound) float64 { return p50(m.append) }), Turn50: of(func(m agentRound) float64 { return p50(m.turn) }),
		CPU: of(func(m agentRound) float64 { return m.cpu }), Disk: of(func(m agentRound) float64 { return m.disk }), Read: of(func(m agentRound) float64 { return m.read }), Fsyncs: of(func(m agentRound) float64 { return m.fsyncs })}
	var all []time.Duration
	var ratios []float64
	for i, m := range rounds {
		all = append(all, m.turn...)
		if i < len(base) {
			ratios = append(ratios, p50(m.turn)/p50(base[i].turn))
		}
	}
	slices.Sort(all)
	row.Turn99, row.Turns = ms(at(all, 0.99)), len(all)
	if len(ratios) > 0 {
		row.Relative, row.Lowest, row.Highest = median(ratios), slices.Min(ratios), slices.Max(ratios)
	}
	return row
}

// agentTable writes the table of the agents' turns.
func (res *results) agentTable(p func(format string, args ...any)) {
	if len(res.Agents) == 0 {
		return
	}
	p("## Turns of agents\n")
	p("%d agents at once; each reads its context and appends a turn with the result of a tool of 1 to 30 kB. Nexus sends what changed of a context with a system part of %s bytes and %d tools; LangGraph reads its whole state; the others read and decode the newest %d turns. "+
		"An agent goes on with a session of its own, or with one that is drawn from those of all. “Turn ×” is the row's p50 by that of Nexus, the median of the rounds, with the lowest and the highest.\n",
		res.load.agents, grouped(agentSystem), agentTools, agentWindow)
	p("| depth | session | | context p50 ms | append p50 ms | turn p50 ms | p99 ms | turn × | CPU µs | fsyncs | disk bytes | bytes read | turns |")
	p("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, a := range res.Agents {
		p("%s", a)
	}
	p("")
}

// String is the row of the table.
func (a agentRow) String() string {
	ratio, fsyncs := "—", "—"
	if a.Relative > 0 {
		ratio = fmt.Sprintf("%.2f (%.2f to %.2f)", a.Relative, a.Lowest, a.Highest)
	}
	if a.Fsyncs >= 0 {
		fsyncs = fmt.Sprintf("%.2f", a.Fsyncs)
	}
	return fmt.Sprintf("| %s | %s | %s | %.2f | %.2f | %.2f | %.2f | %s | %s | %s | %s | %s | %s |", grouped(int64(a.Load.depth)), a.Load, a.System, a.Recall50, a.Append50, a.Turn50, a.Turn99, ratio, grouped(int64(a.CPU)), fsyncs, grouped(int64(a.Disk)), grouped(int64(a.Read)), grouped(int64(a.Turns)))
}

// prepareAgents gives the sessions a system part, tools and a window.
func (n *nexusLedger) prepareAgents(ctx context.Context) error {
	tools := make([]turns.Raw, agentTools)
	for i := range tools {
		tools[i] = turns.Raw(fmt.Sprintf(`{"name":"tool_%d","description":%q}`, i, words(uint64(i), 1000)))
	}
	system := api.System{{Name: "instructions", Content: words(1<<40, agentSystem)}}
	limits := &turns.Limits{ContextWindow: 200_000}
	n.readers = make([]*client.ContextReader, len(n.sessions))
	for c, s := range n.sessions {
		if _, err := n.client(c).Set(ctx, s, api.SetSession{SessionSettings: api.SessionSettings{System: &system, Tools: &tools, Limits: limits}}); err != nil {
			return err
		}
		n.readers[c] = client.NewContextReader(n.client(c), s)
	}
	return nil
}

func (n *nexusLedger) recall(ctx context.Context, c, _ int) (int, error) {
	got, err := n.readers[c].Context(ctx, api.GetContext{Format: "anthropic"})
	if err != nil {
		return 0, err
	}
	read := 0
	for _, m := range got.Messages[got.Keep:] {
		read += len(m)
	}
	return read, nil
}

// decodedTurns is the size of turns that were stored, after it decoded them.
func decodedTurns(payloads [][]byte) (n int, err error) {
	for _, b := range payloads {
		var t turnJSON
		if err := json.Unmarshal(b, &t); err != nil {
			return 0, err
		}
		n += len(b)
	}
	return n, nil
}

func (s *sqliteStore) recall(ctx context.Context, c, last int) (int, error) {
	got, err := s.db.QueryContext(ctx, "SELECT payload FROM agent_turns WHERE session_id = ? ORDER BY depth DESC LIMIT ?", sessionName(c), last)
	if err != nil {
		return 0, err
	}
	var payloads [][]byte
	for got.Next() {
		var b []byte
		if err := got.Scan(&b); err != nil {
			return 0, errors.Join(err, got.Close())
		}
		payloads = append(payloads, b)
	}
	if err := errors.Join(got.Err(), got.Close()); err != nil {
		return 0, err
	}
	return decodedTurns(payloads)
}

func (s *postgresStore) recall(ctx context.Context, c, last int) (int, error) {
	return s.recallBy(ctx, "SELECT payload FROM agent_turns WHERE session_id = $1 ORDER BY depth DESC LIMIT $2", c, last)
}

// recallBy decodes the payloads that a query of a session and a number of turns returns.
func (s *postgresStore) recallBy(ctx context.Context, query string, c, last int) (int, error) {
	got, err := s.pool.Query(ctx, query, sessionName(c), last)
	if err != nil {
		return 0, err
	}
	payloads, err := pgx.CollectRows(got, pgx.RowTo[[]byte])
	if err != nil {
		return 0, err
	}
	return decodedTurns(payloads)
}

// recall reads a session's file from its end, until it has enough lines.
func (s *sessionFiles) recall(_ context.Context, c, last int) (_ int, err error) {
	f, err := os.Open(s.name(c))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	var tail []byte
	for at := end; at > 0 && bytes.Count(tail, []byte("\n")) <= last; {
		piece := make([]byte, min(at, 256<<10))
		at -= int64(len(piece))
		if _, err := f.ReadAt(piece, at); err != nil {
			return 0, err
		}
		tail = append(piece, tail...)
	}
	lines := strings.Split(strings.TrimRight(string(tail), "\n"), "\n")
	n := 0
	for _, text := range lines[max(0, len(lines)-last):] {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			return 0, err
		}
		got, err := decodedTurns([][]byte{l.Turn})
		if err != nil {
			return 0, err
		}
		n += got
	}
	return n, nil
}

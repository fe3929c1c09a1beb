package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Agents is a workload: coding agents as their transcripts record them. Each has a system part
// and tools. A turn is context.get, then an append with the results of the calls that the turn
// before made, and a response with calls in parallel. Sessions compact as their policy says, and
// are forked every [forkEach] turns; the agent goes on in the fork.
type Agents struct {
	Agents   int           `json:"agents"`   // that work at once
	Depths   []int         `json:"depths"`   // of the sessions that are measured
	Sessions int           `json:"sessions"` // beside those of the depths; 0: this part is left out
	Awake    int           `json:"awake"`    // of Sessions at any time
	Preamble bool          `json:"preamble"` // measure the verbs with system parts of several sizes
	Turns    int           `json:"turns"`    // of each agent, at each depth and in each round
	Rounds   int           `json:"rounds"`
	Each     time.Duration `json:"-"` // how long the many sessions are measured in each order
	Seconds  float64       `json:"seconds"`
}

const (
	systemBytes = 40_000
	tools       = 20
	toolBytes   = 1_000
	forkEach    = 200
	askEach     = 20 // turns between two questions of the user
)

// resultBytes are the sizes of results of tools: those of files, listings and test runs.
var resultBytes = []int{1000, 1000, 1500, 2000, 2000, 3000, 4000, 6000, 8000, 12_000, 20_000, 30_000}

// callCounts are how many calls responses make: most make one.
var callCounts = []int{1, 1, 1, 2, 1, 3, 1, 2}

// Worked is what turns of agents took: medians of the rounds, but for P99, which is of all.
type Worked struct {
	What       string  `json:"what"`
	ContextP50 float64 `json:"context_p50_ms,omitzero"`
	ContextP99 float64 `json:"context_p99_ms,omitzero"`
	AppendP50  float64 `json:"append_p50_ms"`
	AppendP99  float64 `json:"append_p99_ms"`
	TurnP50    float64 `json:"turn_p50_ms"`
	TurnP99    float64 `json:"turn_p99_ms"`
	CPU        float64 `json:"cpu_us_per_turn"`  // of nexusd
	Disk       float64 `json:"disk_per_turn"`    // bytes
	Sent       float64 `json:"sent_per_turn"`    // bytes of replies
	Wrote      float64 `json:"written_per_turn"` // bytes of requests
	Fsyncs     float64 `json:"fsyncs_per_turn"`
	Compacted  int     `json:"compactions"`
	ForkP50    float64 `json:"fork_p50_ms,omitzero"`
	Turns      int     `json:"turns"`
}

// Opened is what sessions took to open, by clients at once, beside appends by as many.
type Opened struct {
	What   string  `json:"what"`
	Rate   float64 `json:"per_second"`
	P50    float64 `json:"p50_ms"`
	P99    float64 `json:"p99_ms"`
	CPU    float64 `json:"cpu_us"`
	Append float64 `json:"p50_relative_to_append"` // the median of the rounds
}

// Verb is what a verb took on sessions with a system part of a size, with tools.
type Verb struct {
	Verb     string  `json:"verb"`
	Preamble int     `json:"preamble_bytes"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	CPU      float64 `json:"cpu_us"`
	Relative float64 `json:"cpu_relative_to_none"` // the median of the rounds
	RelP50   float64 `json:"p50_relative_to_none"`
	Sent     float64 `json:"sent"` // bytes of a reply
}

// AgentsResult is all that was measured.
type AgentsResult struct {
	Agents
	Depth  []Worked `json:"by_depth"`
	Orders []Worked `json:"many_sessions,omitzero"`
	Opens  []Opened `json:"opened,omitzero"`
	Verbs  []Verb   `json:"preamble_verbs,omitzero"`
}

// fleet is agents at work on a nexusd of their own.
type fleet struct {
	Agents
	server *child
	conns  []*nats.Conn
}

// agent is one session with what its agent knows of it. One goroutine uses it at a time.
type agent struct {
	client  *client.Client
	reader  *client.ContextReader // nil: it keeps no context, as one that was just woken
	session turns.ID
	rng     *rand.Rand
	depth   int
	head    turns.ID
	calls   []string // open
	mu      sync.Mutex
}

// lap is what one turn took.
type lap struct {
	context, append, fork time.Duration
	compacted             bool
}

// RunAgents measures the workload.
func RunAgents(ctx context.Context, term *terminal.Terminal, a Agents, dir string) (err error) {
	tmp, err := os.MkdirTemp(dir, "nexus-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	data := filepath.Join(tmp, "nexus")
	s, at, err := startServer(ctx, "nexus", data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	f := &fleet{Agents: a, server: s}
	for range min(64, max(a.Agents, a.Awake, openers)) {
		o, err := nats.NkeyOptionFromSeed(filepath.Join(data, "users", "agent.nk"))
		if err != nil {
			return err
		}
		nc, err := nats.Connect(at.URL, o)
		if err != nil {
			return err
		}
		s.conn, f.conns = append(s.conn, nc), append(f.conns, nc)
	}
	out := AgentsResult{Agents: a}
	for _, part := range []struct {
		wanted bool
		do     func(context.Context, *terminal.Terminal, *AgentsResult) error
	}{{len(a.Depths) > 0, f.depths}, {a.Sessions > 0, f.many}, {a.Preamble, f.preambles}} {
		if part.wanted {
			if err := part.do(ctx, term, &out); err != nil {
				return err
			}
		}
	}
	if term.JSON {
		return term.Print(out)
	}
	agentTables(term, &out)
	return nil
}

// client returns the client of agent i.
func (f *fleet) client(i int) *client.Client {
	return client.New(f.conns[i%len(f.conns)], "default", fmt.Sprint("agent", i%len(f.conns)))
}

// preamble returns a system part of n bytes with tools; nothing for 0.
func preamble(n int) (api.System, []turns.Raw) {
	if n == 0 {
		return nil, nil
	}
	ts := make([]turns.Raw, tools)
	for i := range ts {
		ts[i] = turns.Raw(fmt.Sprintf(`{"name":"tool_%d","description":%q,"input_schema":{"type":"object"}}`, i, Load{TurnBytes: toolBytes}.text(1<<20, i)))
	}
	return api.System{{Name: "instructions", Content: Load{TurnBytes: n}.text(1<<20, n)}}, ts
}

// open opens the session of agent i, whose system part has n bytes.
func (f *fleet) open(ctx context.Context, i, n int) (*agent, error) {
	a := &agent{client: f.client(i), rng: rand.New(rand.NewPCG(uint64(i), 7))}
	r := api.CreateSession{}
	r.Limits = &turns.Limits{ContextWindow: 200_000}
	if system, tools := preamble(n); n > 0 {
		r.System, r.Tools = &system, &tools
	}
	s, err := a.client.Create(ctx, r)
	if err != nil {
		return nil, err
	}
	a.session, a.reader = s.ID, client.NewContextReader(a.client, s.ID)
	return a, nil
}

// next is the next turn of an agent: the results of its open calls, or a question, and the
// model's answer.
func (a *agent) next() api.AppendTurn {
	var r api.AppendTurn
	text := func(n int) string { return Load{TurnBytes: n}.text(int(a.rng.Uint32()), a.depth) }
	pick := func(from []int) int { return from[a.rng.IntN(len(from))] }
	for _, id := range a.calls {
		part := turns.Part{Type: turns.ToolCallResponse, ID: id, Response: turns.RawText(text(pick(resultBytes)))}
		r.Messages = append(r.Messages, turns.Message{Role: turns.Tool, Parts: []turns.Part{part}})
	}
	if len(a.calls) == 0 {
		r.Messages = []turns.Message{turns.TextMessage(turns.User, text(300))}
	}
	answer := turns.TextMessage(turns.Assistant, text(400))
	a.calls = nil
	if a.depth%askEach != askEach-1 {
		for i := range pick(callCounts) {
			id := fmt.Sprintf("call_%d_%d", a.depth, i)
			a.calls = append(a.calls, id)
			answer.Parts = append(answer.Parts, turns.Part{Type: turns.ToolCall, ID: id, Name: fmt.Sprint("tool_", i), Arguments: turns.Raw(fmt.Sprintf(`{"path":%q}`, text(60)))})
		}
	}
	r.Response, r.Model = &answer, "claude-sonnet-4-5"
	return r
}

// turn does a turn, and a fork where one is due. Without call it does not ask for the context.
func (a *agent) turn(ctx context.Context, call bool) (l lap, err error) {
	began := time.Now()
	if call {
		r := api.GetContext{Format: "anthropic"}
		var c *api.Context
		if a.reader != nil {
			c, err = a.reader.Context(ctx, r)
		} else {
			c, err = a.client.Context(ctx, a.session, r)
		}
		if err != nil {
			return l, err
		}
		l.context, l.compacted = time.Since(began), c.Compacted != nil
	}
	r := a.next()
	began = time.Now()
	t, err := a.client.Append(ctx, a.session, r)
	if err != nil {
		return l, err
	}
	l.append = time.Since(began)
	a.head = t.ID
	if a.depth++; a.depth%forkEach == 0 {
		l.fork, err = a.fork(ctx)
	}
	return l, err
}

// fork forks the session at its head, and goes on in the fork.
func (a *agent) fork(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	s, err := a.client.Fork(ctx, a.session, api.CreateFork{Turn: a.head})
	if err != nil {
		return 0, err
	}
	took := time.Since(began)
	if a.session = s.ID; a.reader != nil {
		a.reader = a.reader.Fork(s.ID)
	}
	return took, nil
}

// depths measures turns of sessions that are so deep already, in rounds.
func (f *fleet) depths(ctx context.Context, term *terminal.Terminal, out *AgentsResult) error {
	at := make([][]*agent, len(f.Depths))
	for d, depth := range f.Depths {
		term.Say("%s of depth %s", prose.Plural(uint64(f.Agents.Agents), "session"), prose.Grouped(uint64(depth)))
		at[d] = make([]*agent, f.Agents.Agents)
		_, err := atOnce(ctx, f.Agents.Agents, func(w int) (_ []lap, err error) {
			a, err := f.open(ctx, d*f.Agents.Agents+w, systemBytes)
			for err == nil && a.depth < depth && ctx.Err() == nil {
				_, err = a.turn(ctx, a.depth%10 == 9 || a.depth == depth-1) // so that it compacts when that is due
			}
			at[d][w] = a
			return nil, err
		})
		if err != nil {
			return err
		}
	}
	rounds := make([][]round, len(f.Depths))
	for n := range f.Rounds {
		for i := range f.Depths {
			d := (i + n) % len(f.Depths)
			term.Say("round %d of %d: depth %s", n+1, f.Rounds, prose.Grouped(uint64(f.Depths[d])))
			if err := f.settle(ctx); err != nil {
				return err
			}
			r, err := f.measure(ctx, f.Agents.Agents, func(w int) (laps []lap, err error) {
				for range f.Turns {
					l, err := at[d][w].turn(ctx, true)
					if err != nil {
						return laps, err
					}
					laps = append(laps, l)
				}
				return laps, nil
			})
			if err != nil {
				return err
			}
			rounds[d] = append(rounds[d], r)
		}
	}
	for d, depth := range f.Depths {
		out.Depth = append(out.Depth, worked(fmt.Sprint("depth ", depth), rounds[d]))
	}
	return nil
}

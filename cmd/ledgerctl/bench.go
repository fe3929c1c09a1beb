package main

import (
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/bench"
	"nexus/cmd/ledgerctl/internal/fault"
)

func benchCmd(e *env) *cobra.Command {
	var l bench.Load
	var dir string
	c := verb("bench", "measure appends against a bare NATS stream and bare Pebble", 0, 0, func(cmd *cobra.Command, _ []string) error {
		if l.Writers < 1 || l.Agents < 1 || l.TurnBytes < 1 || l.Rounds < 1 || l.Seconds <= 0 {
			return fault.Usage(errors.New("--writers, --agents, --turn-bytes, --rounds and --seconds are at least 1"))
		}
		l.Agents = min(l.Agents, l.Writers)
		l.Each = time.Duration(l.Seconds * float64(time.Second))
		return bench.Run(cmd.Context(), e.Terminal, l, dir)
	})
	f := c.Flags()
	f.IntVar(&l.Writers, "writers", 64, "writers, each with a session of its own")
	f.IntVar(&l.Agents, "agents", 4, "agents, each with a connection of its own")
	f.IntVar(&l.TurnBytes, "turn-bytes", 2048, "bytes of text in a turn")
	f.Float64Var(&l.Seconds, "seconds", 5, "how long each is measured in a round")
	f.IntVar(&l.Rounds, "rounds", 3, "rounds")
	f.StringVar(&dir, "dir", "", "a folder on the disk to measure (default: a temporary one)")
	serve := verb("serve nexus|jetstream DIR", "", 2, 2, func(cmd *cobra.Command, args []string) error {
		return bench.Serve(cmd.Context(), e.Terminal, args[0], args[1])
	})
	serve.Hidden = true
	c.AddCommand(serve, benchAgentsCmd(e))
	return c
}

func benchAgentsCmd(e *env) *cobra.Command {
	var a bench.Agents
	var dir string
	c := verb("agents", "measure turns of coding agents", 0, 0, func(cmd *cobra.Command, _ []string) error {
		if slices.Equal(a.Depths, []int{0}) {
			a.Depths = nil
		}
		if a.Agents < 1 || a.Turns < 1 || a.Rounds < 1 || a.Seconds <= 0 || a.Awake < 1 || slices.ContainsFunc(a.Depths, func(d int) bool { return d < 1 }) {
			return fault.Usage(errors.New("--agents, --depth, --awake, --turns, --rounds and --seconds are at least 1"))
		}
		a.Each = time.Duration(a.Seconds * float64(time.Second))
		return bench.RunAgents(cmd.Context(), e.Terminal, a, dir)
	})
	f := c.Flags()
	f.IntVar(&a.Agents, "agents", 16, "agents that work at once")
	f.IntSliceVar(&a.Depths, "depth", []int{10, 100, 1000}, "turns that a session has before it is measured; several with commas; 0: this part is left out")
	f.IntVar(&a.Sessions, "sessions", 2000, "sessions of which few are awake; 0: this part is left out")
	f.IntVar(&a.Awake, "awake", 64, "sessions at work at any time")
	f.BoolVar(&a.Preamble, "preamble", false, "measure verbs with system parts of three sizes too")
	f.IntVar(&a.Turns, "turns", 10, "turns of each agent at each depth in a round")
	f.Float64Var(&a.Seconds, "seconds", 5, "how long each order of the sessions is measured in a round")
	f.IntVar(&a.Rounds, "rounds", 3, "rounds")
	f.StringVar(&dir, "dir", "", "a folder on the disk to measure (default: a temporary one)")
	return c
}

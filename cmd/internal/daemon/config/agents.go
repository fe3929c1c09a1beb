package config

import (
	"cmp"

	"nexus/turns"
)

// AgentRow is an agent in a configuration file. An agent needs no row to be used; a row
// grants what no request can take.
type AgentRow struct {
	Name   string `toml:"name"`
	Tenant string `toml:"tenant"` // default: "default"
	Main   bool   `toml:"main"`   // may open sessions of kind main
}

// checkAgents lists the faults of c's agents.
func (c Config) checkAgents(bad func(format string, args ...any)) {
	seen := make(map[[2]string]bool)
	for _, r := range c.Agent {
		at := [2]string{cmp.Or(r.Tenant, "default"), r.Name}
		if !turns.ValidName(r.Name) || !turns.ValidName(at[0]) || seen[at] {
			bad("agent: %.80q of tenant %.80q is not an agent, or has two rows", r.Name, at[0])
		}
		seen[at] = true
	}
}

// MayOpenMain reports whether an agent may open sessions of kind main.
func (c Config) MayOpenMain(tenant, agent string) bool {
	for _, r := range c.Agent {
		if r.Main && r.Name == agent && cmp.Or(r.Tenant, "default") == tenant {
			return true
		}
	}
	return false
}

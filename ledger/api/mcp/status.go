package mcp

import (
	"context"

	"nexus/ledger/api"
)

const statusSessions = 5

type statusInput struct {
	Session string `json:"session,omitempty" jsonschema:"a session: its id or label; default: the newest ones"`
}

type statusResult struct {
	Notice   string          `json:"notice"`
	Version  string          `json:"version" jsonschema:"of this server"`
	Tenant   string          `json:"tenant"`
	Agent    string          `json:"agent" jsonschema:"whose sessions and memories the tools see"`
	Total    int             `json:"total,omitempty" jsonschema:"sessions of the agent"`
	More     bool            `json:"more,omitempty" jsonschema:"there are more than were counted"`
	Sessions []statusSession `json:"sessions" jsonschema:"newest first"`
}

type statusSession struct {
	Session     string  `json:"session"`
	Label       string  `json:"label,omitempty"`
	Task        string  `json:"task,omitempty"`
	Kind        string  `json:"kind"`
	State       string  `json:"state" jsonschema:"open, paused, reset, closed or erased"`
	Time        string  `json:"time" jsonschema:"of its newest turn"`
	Head        string  `json:"head,omitempty"`
	Number      uint64  `json:"number" jsonschema:"turns on the path of its head"`
	Tokens      uint64  `json:"tokens" jsonschema:"of its context, with system part and tools"`
	Budget      uint64  `json:"budget"`
	Pressure    float64 `json:"pressure" jsonschema:"tokens / budget"`
	Compactions uint64  `json:"compactions"`
	Policy      string  `json:"policy"`
	Model       string  `json:"model,omitempty"`
	ForkedAt    string  `json:"forked_at,omitempty"`
	Successor   string  `json:"successor,omitempty" jsonschema:"the session after a reset"`
}

func defineStatus() (definition, error) {
	return define(about{name: "status", title: "Status of the ledger",
		description: "Whose ledger this is, and how full the context of a session is: tokens, budget, compactions, head. Without a session: the newest ones."},
		nil, status)
}

func status(ctx context.Context, c *call, in statusInput) (*statusResult, error) {
	out := &statusResult{Notice: notice, Version: c.version, Tenant: c.caller.Tenant, Agent: c.caller.Agent, Sessions: []statusSession{}}
	var sessions []api.Session
	if in.Session != "" {
		s, err := c.session(ctx, "/session", in.Session)
		if err != nil {
			return nil, err
		}
		sessions = []api.Session{*s}
	} else {
		found, err := c.newest(ctx, statusSessions, nil)
		if err != nil {
			return nil, err
		}
		sessions, out.Total, out.More = found.sessions, found.counted, found.more
	}
	for i := range sessions {
		s := &sessions[i]
		x := statusSession{Session: s.ID.String(), Label: s.Label, Task: shortened(s.Title, titleBytes), Kind: string(s.Kind), State: s.State, Time: timeText(s.HeadTime),
			Number: s.Depth, Tokens: s.Tokens + s.Overhead, Budget: s.Budget, Pressure: s.Pressure, Compactions: s.Compactions, Policy: s.Policy.Name, Model: s.Model, Successor: idText(s.Successor)}
		if s.Head != nil {
			x.Head = handle(s.ID, *s.Head)
		}
		if f := s.ForkedFrom; f != nil {
			x.ForkedAt = handle(f.Session, f.Turn)
		}
		out.Sessions = append(out.Sessions, x)
	}
	return out, nil
}

func (r *statusResult) text(f *frame) {
	f.line("nexus %s, tenant %s, agent %s", r.Version, r.Tenant, r.Agent)
	if r.Total > 0 {
		f.line("%s; the newest:", plural(uint64(r.Total), "session"))
	}
	for _, s := range r.Sessions {
		f.line("Session %s: %s, %s, %s, %s, %d of %d tokens (%.0f %%), newest %s",
			s.Session, s.Kind, s.State, plural(s.Number, "turn"), plural(s.Compactions, "compaction"), s.Tokens, s.Budget, 100*s.Pressure, s.Time)
		if s.Head != "" {
			f.line("head: %s", s.Head)
		}
		if s.Label != "" {
			f.data("label: " + shortened(s.Label, labelBytes))
		}
		if s.Task != "" {
			f.data("task: " + s.Task)
		}
	}
}

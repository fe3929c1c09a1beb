package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"nexus/cmd/internal/build"
	"nexus/cmd/ledgerctl/internal/connect"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/api/mcp"
)

// mcpCmd is the command mcp.
func mcpCmd(e *env) *cobra.Command {
	var readOnly bool
	c := verb("mcp", "tools for agents: a server of the Model Context Protocol on stdio", 0, 0, func(cmd *cobra.Command, _ []string) error {
		tools, err := mcp.New(mcp.Config{Version: build.Version(), Timeout: connect.Patience, Logger: slog.New(slog.NewTextHandler(e.Err, nil))})
		if err != nil {
			return err
		}
		agent := e.Agent
		if agent == "" {
			agent = "main"
		}
		// A program that starts with the agent may come before nexusd: the connection is
		// made with the first call that succeeds, and is kept for ever.
		var connecting sync.Mutex
		caller := mcp.Caller{Tenant: e.Tenant, Agent: agent, ReadOnly: readOnly, Client: func(context.Context) (*client.Client, error) {
			connecting.Lock()
			defer connecting.Unlock()
			c, err := e.Client(agent)
			if typed := (*api.Error)(nil); err != nil && !errors.As(err, &typed) {
				err = api.Errorf(api.Unavailable, nil, "%s", fault.Plainly(nil, err))
			}
			return c, err
		}}
		e.Options = append(e.Options, nats.MaxReconnects(-1))
		return tools.ServeStdio(cmd.Context(), caller, e.In, e.Raw)
	})
	c.Flags().BoolVar(&readOnly, "read-only", false, "without remember and fork")
	return c
}

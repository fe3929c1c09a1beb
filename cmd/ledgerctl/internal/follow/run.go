package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/watch"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/codetree"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api/client"
)

// Run runs a watch.
func Run(ctx context.Context, e *cli.Env, cfg watch.Config, code bool) error {
	cfg.Log = func(format string, args ...any) { e.Say("%s", prose.Printable(fmt.Sprintf(format, args...))) }
	e.Options = append(e.Options, nats.MaxReconnects(-1))
	cfg.Connect = func(context.Context) (*client.Client, error) {
		nc, err := e.Dial()
		if err != nil {
			return nil, errors.New(fault.Plainly(nil, err))
		}
		e.NC = nc
		return client.New(nc, e.Tenant, cmp.Or(e.Agent, "main")), nil
	}
	if code {
		RecordCode(&cfg, codetree.Limits{})
	}
	w, err := watch.New(cfg)
	if err != nil {
		return fault.Usage(err)
	}
	err = w.Run(ctx)
	if errors.Is(err, watch.ErrRunning) {
		return fault.WithHint(err, "ledgerctl watch status shows it; --state names another folder")
	}
	if err != nil || !cfg.Once {
		return err
	}
	s, err := watch.ReadStatus(cfg.State, cfg.Sources)
	if err != nil {
		return err
	}
	if e.JSON {
		err = e.Print(s)
	} else {
		printFiles(e, s)
	}
	if err == nil && len(s.Failed) > 0 {
		return fault.Exit(1)
	}
	return err
}

// Plan lists the files that a watch would read.
func Plan(e *cli.Env, cfg watch.Config) error {
	if err := cfg.Validate(); err != nil {
		return fault.Usage(err)
	}
	list, unread := watch.Plan(cfg)
	sum := int64(0)
	var rows [][]string
	for _, p := range list {
		if e.JSON {
			if err := e.Print(p); err != nil {
				return err
			}
		}
		sum += p.Bytes
		rows = append(rows, []string{p.Agent, prose.Grouped(uint64(p.Bytes)), prose.Printable(p.File)})
	}
	if e.JSON {
		return unread
	}
	if len(rows) > 0 {
		fmt.Fprint(e.Out, e.Table([]terminal.Column{{Head: "agent"}, {Head: "bytes", Right: true}, {Head: "file", Wraps: true, Least: 20}}, rows))
	}
	if none := watch.Missing(cfg.Sources); len(list) == 0 && len(none) == len(cfg.Sources) {
		e.Tell("nothing would be read: none of these folders exists: %s", prose.Printable(strings.Join(none, ", ")))
		return unread
	}
	if len(list) == 0 {
		e.Tell("nothing would be read: the folders have no transcript that is not in the ledger")
		return unread
	}
	e.Tell("%s would be read: %s bytes", prose.Plural(uint64(len(list)), "file"), prose.Grouped(uint64(sum)))
	return unread
}

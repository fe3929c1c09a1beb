package follow

import (
	"context"
	"errors"
	"sync"

	"nexus/cmd/internal/watch"
	"nexus/cmd/ledgerctl/internal/codetree"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// RecordCode makes a watch record the files of the folder that an agent works in, after
// each turn. A folder that can't be recorded is logged once for each reason.
func RecordCode(cfg *watch.Config, limits codetree.Limits) {
	connect, log := cfg.Connect, cfg.Log
	var r *codetree.Recorder
	cfg.Connect = func(ctx context.Context) (*client.Client, error) {
		c, err := connect(ctx)
		if err == nil {
			r = codetree.NewRecorder(c, limits)
		}
		return c, err
	}
	var said sync.Map
	failed := func(ctx context.Context, folder string, err error) {
		if ctx.Err() != nil || errors.Is(err, codetree.ErrMoved) || log == nil {
			return
		}
		text := fault.Plainly(nil, err)
		if before, _ := said.Swap(folder, text); before != text {
			log("the files of %s are not recorded: %s", folder, text)
		}
	}
	cfg.Closed = func(ctx context.Context, x watch.Closed) watch.Keep {
		files, err := r.Capture(ctx, x.Folder, x.Same)
		if err != nil {
			failed(ctx, x.Folder, err)
			return nil
		}
		return func(ctx context.Context, at turns.Ref) {
			if _, err := files.Record(ctx, at); err != nil {
				failed(ctx, x.Folder, err)
			}
		}
	}
}

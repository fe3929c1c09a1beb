package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"nexus/cmd/internal/checkpoint"
	"nexus/cmd/internal/daemon/folder"
	"nexus/cmd/internal/explorer"
	"nexus/cmd/internal/explorer/login"
	"nexus/cmd/internal/natsapi"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

// newExplorer makes the pages for browsers. own asks for them: what a page shows takes the way
// of every request.
func (d *Daemon) newExplorer(own *client.Client) *explorer.Explorer {
	var gone func() ([]explorer.Gone, error)
	if list := d.cfg.Vanished; list != nil {
		gone = func() (out []explorer.Gone, err error) {
			files, err := list()
			for _, f := range files {
				out = append(out, explorer.Gone(f))
			}
			return out, err
		}
	}
	return explorer.New(explorer.Config{Vanished: gone, Client: own, Version: d.cfg.Version, Logger: d.logger, Now: time.Now, Models: d.cfg.ModelTable(), Health: d.health, Checkpoints: d.checkpoints})
}

// openPages answers ui.open. The browser may do what the user may who asks; where the NATS
// server has users of its own, what the subject shows of that.
func (d *Daemon) openPages(u natsapi.User, tenant, agent string, r api.OpenPages) (*api.OpenedPages, error) {
	who := login.Who{By: u.Name, Tenant: tenant, Agent: agent, Agents: u.Agents, ReadOnly: r.ReadOnly}
	if u.Unknown {
		who.Agents = []string{agent}
	}
	return d.pages.Open(d.HTTPURL(), who, r)
}

// health is what the page of that name says of the daemon.
func (d *Daemon) health() (out []explorer.Fact) {
	add := func(name, text string, ok bool) { out = append(out, explorer.Fact{Name: name, Text: text, OK: ok}) }
	if err := d.ready(); err != nil {
		add("ready", err.Error(), false)
	} else {
		add("ready", "the projections have applied the whole log", true)
	}
	for _, note := range d.notes() {
		add("note", note, true)
	}
	add("log", fmt.Sprintf("ledger %s, applied up to position %d", d.storage.Log.Ledger(), d.storage.Projections.Applied().Seq), true)
	add("fsync", d.sync, true)
	if d.engine.Search != nil {
		if n := d.engine.Search.Behind(); n > 0 {
			add("search", fmt.Sprintf("the index has %d events to read", n), true)
		} else {
			add("search", "the index has read everything", true)
		}
	}
	return out
}

// checkpoints is what the page of that name says. An external server has none.
func (d *Daemon) checkpoints(ctx context.Context) (*explorer.Checkpoints, error) {
	if d.signer == nil {
		return nil, nil
	}
	st, err := d.storage.Log.State(ctx)
	if err != nil {
		return nil, err
	}
	note, newest := d.signer.Newest()
	out := &explorer.Checkpoints{Note: string(note), Origin: newest.Origin, Size: newest.Size, Key: d.signer.Public(), When: d.signer.When(), Last: st.Last, Every: d.cfg.CheckpointInterval()}
	if why := (*checkpoint.InconsistentError)(nil); errors.As(d.signer.Inconsistent(), &why) {
		out.Stopped = why.Error()
	}
	for _, f := range d.signer.Folders() {
		row := explorer.CheckpointFolder{Dir: f.Dir, Size: f.Size}
		if f.Failed != nil {
			row.Failed = f.Failed.Error()
		}
		out.Folders = append(out.Folders, row)
	}
	list, err := folder.ReadErasures(filepath.Join(d.cfg.Data, folder.ErasuresFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	out.ErasuresSigned = list.Key != "" && list.Key == out.Key
	for _, r := range list.Rows {
		out.Erasures = append(out.Erasures, explorer.Erasure{Session: r.Session, Event: r.Event, Tenant: r.Tenant, Time: r.Time, Ground: r.Ground})
	}
	return out, nil
}

// PagesInUse reports whether a browser shows a page that follows the ledger, or may be about to: a code waits to be redeemed.
// ever counts the requests of browsers.
func (d *Daemon) PagesInUse() (open bool, ever uint64) {
	if d.pages == nil {
		return false, 0
	}
	return d.pages.InUse()
}

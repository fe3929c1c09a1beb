package search

import (
	"github.com/go-json-experiment/json"

	"nexus/ledger"
	"nexus/projections/search"
	"nexus/turns"
)

// work says where an agent worked: what the importers write into the meta of sessions, and
// of turns where it changed. Meta belongs to the client and may be anything.
type work struct{ source, cwd, branch string }

// read takes over what a meta says.
func (w *work) read(meta turns.Raw) {
	var all map[string]turns.Raw
	if len(meta) == 0 || json.Unmarshal(meta, &all) != nil {
		return
	}
	take := func(to *string, v turns.Raw) {
		if s, ok := v.Text(); ok && s != "" {
			*to = s
		}
	}
	take(&w.source, all["source"])
	take(&w.cwd, all["cwd"])
	take(&w.branch, all["git_branch"])
	var git map[string]turns.Raw
	if len(all["git"]) > 0 && json.Unmarshal(all["git"], &git) == nil {
		take(&w.branch, git["branch"])
	}
}

// work adds to a document where the agent worked.
func (se *Search) work(d *search.Document, s *ledger.Session, ev *turns.Event) error {
	meta, err := se.reader.MetaAt(s, ev.Index)
	if err != nil {
		return err
	}
	var w work
	w.read(meta)
	if ev.Kind != turns.KindCompaction {
		var body turns.TurnBody
		if err := se.content.Open(ev, &body); err != nil {
			return err
		}
		w.read(body.Meta)
	}
	d.Source, d.Cwd, d.Branch = w.source, w.cwd, w.branch
	return nil
}

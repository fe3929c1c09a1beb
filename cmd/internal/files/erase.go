package files

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"nexus/turns"
)

// erase removes what the files have of a session that was erased, or, if it stays, of which events were redacted, and of those that inherited from it: each file is
// a function of the ledger, so it is removed as a whole and written again, without what can't be read any more.
//
// Crash states: which sessions are to be written again is saved before the first file is removed. The position of
// the exporter is still before the event that erased the session, so the next pass begins here again.
func (x *Exporter) erase(ctx context.Context, id turns.ID, stays bool) error {
	s, heirs, err := x.Source.Heirs(ctx, id)
	if err != nil {
		return err
	}
	traces := path.Join("memory", "agents", s.Agent)
	tasks := path.Join("brain", "motor", "tasks")
	if s.Tenant != "default" {
		traces, tasks = path.Join("tenants", s.Tenant, traces), path.Join("tenants", s.Tenant, tasks)
	}
	again := slices.Clone(heirs)
	if stays && !slices.Contains(x.state.Again, id) {
		x.state.Again = append(x.state.Again, id)
	}
	unit := path.Join(traces, ".nexus-state.json")
	if ok, err := x.root.exists(unit); err != nil {
		return err
	} else if ok {
		u, err := x.unit(unit)
		if err != nil {
			return err
		}
		for other := range u.state.Sessions {
			again = append(again, other)
		}
	}
	for _, other := range again {
		if other != id && !slices.Contains(x.state.Again, other) {
			x.state.Again = append(x.state.Again, other)
		}
	}
	if err := x.save(); err != nil {
		return err
	}
	delete(x.units, unit)
	for _, name := range []string{"raw_traces.jsonl", "raw_traces_archive.jsonl", "episodic.jsonl", "semantic.jsonl", ".nexus-state.json"} { // the state last: it says that the others are there
		if err := x.removeFile(traces, name); err != nil {
			return err
		}
	}
	archives := path.Join(agentFolder(s.Tenant, s.Agent), "sessions")
	for _, of := range append(slices.Clone(heirs), id) {
		if err := x.removeBeginning(archives, of.String()+"."); err != nil {
			return err
		}
	}
	delete(x.units, path.Join(tasks, ".TASK-"+id.String()+".json"))
	if err := x.removeBeginning(tasks, "TASK-"+id.String()); err != nil {
		return err
	}
	return x.eraseNotes(s.Tenant, s.Agent)
}

// removeFile removes a file of a folder, and what is left of a write of it.
func (x *Exporter) removeFile(dir, name string) error {
	for _, name := range []string{path.Join(dir, "."+strings.TrimPrefix(name, ".")+".tmp"), tmpName(path.Join(dir, name)), path.Join(dir, "."+name+".tmp"), path.Join(dir, name)} {
		if err := x.root.may(); err != nil {
			return err
		}
		if err := ignoreMissing(x.root.Remove(name)); err != nil {
			return err
		}
	}
	return ignoreMissing(x.root.syncDir(dir))
}

// removeBeginning removes the files of a folder whose names begin with a text, and what is left of writes of them.
func (x *Exporter) removeBeginning(dir, begins string) error {
	d, err := x.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(strings.TrimPrefix(name, "."), begins) {
			if err := x.root.may(); err != nil {
				return err
			}
			if err := ignoreMissing(x.root.Remove(path.Join(dir, name))); err != nil {
				return err
			}
		}
	}
	return x.root.syncDir(dir)
}

// eraseNotes has the files of an agent's memory written again: what a memory says may not be readable any more.
func (x *Exporter) eraseNotes(tenant, agent string) error {
	i := slices.IndexFunc(x.state.Notes, func(n *note) bool { return n.Tenant == tenant && n.Agent == agent })
	if i < 0 {
		return nil
	}
	n := x.state.Notes[i]
	if err := x.readNotes(n); err != nil {
		return err
	}
	n.Position = 0
	err := x.saveNotes(n)
	n.Written = nil
	return err
}

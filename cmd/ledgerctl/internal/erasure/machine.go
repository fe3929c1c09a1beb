package erasure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/watch"
	"nexus/cmd/internal/wholefile"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/codetree"
	"nexus/cmd/ledgerctl/internal/connect"
	"nexus/cmd/ledgerctl/internal/follow"
	"nexus/cmd/ledgerctl/internal/services"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// machine is what the machine of the user has of sessions beside the ledger: the state of the watch, and refs of git.
//
// Which repositories have a ref stands in the session, and can't be read behind its erasure. So it is written down before: a file of the
// session's name in a folder of the state. Crash states:
//
//	before the erasure   the file is there, and nothing else was changed. The command again reads the session anew
//	behind it            the command again removes the refs that the file names, then the file
//	file removed         the refs are gone; the state of the watch has a file of its own for what it is asked
type machine struct {
	e      *cli.Env
	client *client.Client
	plans  string // the folder of the files; "": there is none
	opened map[string]opened
}

// opened is what opening the repository of a folder gave.
type opened struct {
	*codetree.Repository
	err error
}

func newMachine(e *cli.Env, c *client.Client) *machine {
	m := &machine{e: e, client: c, opened: make(map[string]opened)}
	if dir, err := follow.StateFolder("erase"); err == nil {
		m.plans = dir
	}
	return m
}

// place is what the machine has of one session.
type place struct {
	session turns.ID
	agent   string
	repos   []*codetree.Repository // with a ref of it
	absent  []string               // folders in which files were recorded, and that are not here
	files   bool                   // files were recorded
	planned bool                   // there is a file
	known   watch.Entries
	watch   watch.Config
	unread  error // why the state of the watch can't be read
}

// find returns what there is of a session, before it is erased or behind.
func (m *machine) find(ctx context.Context, id turns.ID) (*place, error) {
	s, err := m.client.Session(ctx, id)
	if err != nil {
		return nil, err
	}
	p := &place{session: id, agent: s.Agent}
	folders, recorded, err := m.folders(ctx, s)
	if err != nil {
		return nil, err
	}
	p.files = len(recorded) > 0
	planned, err := m.planned(id)
	if err != nil {
		return nil, err
	}
	p.planned = planned != nil
	if here, err := os.Getwd(); err == nil { // whoever stands in a repository means it, too
		folders = append(folders, here)
	}
	m.state(p)
	for _, dir := range slices.Concat(folders, recorded, planned) {
		if !filepath.IsAbs(dir) {
			continue
		}
		r := m.open(ctx, dir)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case r.err != nil: // it has no ref, or is not here
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && slices.Contains(recorded, dir) {
				p.absent = append(p.absent, dir)
			}
			continue
		case slices.ContainsFunc(p.repos, r.Same):
			continue
		}
		if has, err := r.HasRef(ctx, id); err != nil {
			return nil, err
		} else if has {
			p.repos = append(p.repos, r.Repository)
		}
	}
	return p, nil
}

// open opens the repository of a folder, once.
func (m *machine) open(ctx context.Context, dir string) opened {
	r, ok := m.opened[dir]
	if !ok {
		r.Repository, r.err = codetree.Open(ctx, dir)
		m.opened[dir] = r
	}
	return r
}

// folders returns the folders that a session names, and those in which files of it were recorded; none of one that is erased.
func (m *machine) folders(ctx context.Context, s *api.Session) (out, recorded []string, err error) {
	if s.State == turns.Erased.String() {
		return nil, nil, nil
	}
	project := turns.ProjectOf(s.Meta)
	out = append([]string{turns.WorkContextOf(s.Meta).Cwd, project.Root}, project.Dirs...)
	recorded, err = codetree.Folders(ctx, m.client.As(s.Agent), s.ID)
	if api.HasCode(err, api.Erased) || api.HasCode(err, api.Corrupt) { // its records can't be read; the meta says where it worked
		err = nil
	}
	return out, recorded, err
}

// state finds what the state of the watch has.
func (m *machine) state(p *place) {
	if p.unread = follow.Prepare(m.e, &p.watch, nil, services.Watch()); p.unread != nil {
		return
	}
	p.watch.Ledger = fmt.Sprintf("%s %s/%s", connect.PlainURL(m.e.Server), m.e.Tenant, p.agent)
	p.watch.Connect = watch.Dialed(m.client)
	p.known, p.unread = watch.EntriesOf(p.watch.State, p.session)
}

func (m *machine) plan(id turns.ID) string { return filepath.Join(m.plans, id.String()) }

// planned returns the folders that an earlier command wrote down; nil if there is no such file.
func (m *machine) planned(id turns.ID) ([]string, error) {
	if m.plans == "" {
		return nil, nil
	}
	b, err := os.ReadFile(m.plan(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	out := []string{}
	if err == nil && json.Unmarshal(b, &out) != nil { // of another build: no erasure may fail for it
		out = []string{}
	}
	return out, err
}

// write writes down which repositories have a ref.
func (m *machine) write(p *place) error {
	if len(p.repos) == 0 || m.plans == "" {
		return nil
	}
	var list []string
	for _, r := range p.repos {
		list = append(list, r.Top)
	}
	b, err := json.Marshal(list)
	if err == nil {
		err = os.MkdirAll(m.plans, 0o700)
	}
	if err == nil {
		err = wholefile.Write(m.plan(p.session), 0o600, wholefile.Bytes(b))
	}
	p.planned = p.planned || err == nil
	return err
}

// clean removes what there is of a session that is erased, and returns what became of it in each store. With dry it changes
// nothing.
func (m *machine) clean(ctx context.Context, p *place, dry bool, wait time.Duration) (stores []api.ErasedStore) {
	stores = append(m.cleanRefs(ctx, p, dry), m.cleanWatch(ctx, p, dry, wait)...)
	if n := len(p.known.Files); n > 0 {
		stores = append(stores, api.ErasedStore{Store: "transcripts", State: api.StoreOutside, Count: uint64(n), Note: "of agents, which have it still, and are theirs: " + prose.Printable(strings.Join(p.known.Files, ", "))})
	}
	return stores
}

// cleanRefs removes the refs.
func (m *machine) cleanRefs(ctx context.Context, p *place, dry bool) (stores []api.ErasedStore) {
	var done []string
	ref := codetree.Ref(p.session)
	failed := false
	add := func(state api.StoreState, count int, format string, args ...any) {
		stores = append(stores, api.ErasedStore{Store: "git refs", State: state, Count: uint64(count), Note: prose.Printable(fmt.Sprintf(format, args...))})
	}
	for _, repo := range p.repos {
		if dry {
			add(api.StorePending, 1, "%s in %s", ref, repo.Top)
			continue
		}
		if _, err := repo.RemoveRef(ctx, p.session); err != nil {
			failed = true
			add(api.StorePending, 1, "%s in %s: %v", ref, repo.Top, err)
			continue
		}
		done = append(done, repo.Top)
	}
	if len(done) > 0 {
		add(api.StoreDone, len(done), "%s in %s; git gc --prune=now there removes the files that it kept", ref, strings.Join(done, ", "))
	}
	if len(p.repos) == 0 && p.files {
		absent := ""
		if len(p.absent) > 0 {
			absent = "; not here: " + strings.Join(p.absent, ", ")
		}
		add(api.StoreOutside, 0, "none in the folders of its recorded files%s. Where they are: git update-ref -d %s, then git gc --prune=now", absent, ref)
	}
	if p.planned && !failed && !dry {
		if err := os.Remove(m.plan(p.session)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			add(api.StorePending, 0, "%v", err)
		}
	}
	return stores
}

// cleanWatch takes the session out of the state of the watch.
func (m *machine) cleanWatch(ctx context.Context, p *place, dry bool, wait time.Duration) []api.ErasedStore {
	s := api.ErasedStore{Store: "watch", State: api.StoreDone, Count: uint64(len(p.known.Files)), Note: "files in the state of ledgerctl watch, which does not read or name them any more"}
	switch {
	case p.unread != nil:
		s.State, s.Note = api.StoreOutside, prose.Printable(p.unread.Error())
	case p.known.Ledger != "" && p.known.Ledger != p.watch.Ledger:
		s.State, s.Note = api.StoreOutside, "the state of ledgerctl watch is of "+prose.Printable(p.known.Ledger)
	case dry && s.Count == 0:
		return nil
	case dry:
		s.State = api.StorePending
	default:
		done, err := m.forget(ctx, p, wait)
		if err != nil {
			s.State, s.Note = api.StorePending, prose.Printable(err.Error())
		} else if !done {
			s.State, s.Note = api.StorePending, "a watch is running, and has not done it yet"
		} else if s.Count == 0 {
			return nil
		}
	}
	return []api.ErasedStore{s}
}

// forget asks the watch, and waits until it has done so, for a while.
func (m *machine) forget(ctx context.Context, p *place, wait time.Duration) (bool, error) {
	first := true
	return pollUntilDone(ctx, wait, func() (done, _ bool, err error) {
		if done = !first && watch.IsForgotten(p.watch.State, p.session); !done {
			done, err = watch.Forget(ctx, p.watch, p.session) // itself, if the watch has ended
		}
		first = false
		return done, done || err != nil, err
	})
}

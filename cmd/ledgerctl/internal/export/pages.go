package export

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"nexus/cmd/internal/page"
	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// AllPages writes each session of a tenant as a page into a folder, and an index of them. Hidden
// sessions are left out. What fails is in the result, and stops nothing else. Each page is written
// anew: what stands on it also follows from forks and notes that came later.
func AllPages(ctx context.Context, c *client.Client, dir string, shown bool) (*allExported, error) {
	x := &allExport{c: c, dir: dir, out: allExported{Folder: dir, Failed: []failedChain{}, Erased: []failedChain{}}}
	var all []api.Session
	files := make(map[turns.ID]string)
	for s, err := range c.ListSessions(ctx, api.ListSessions{About: api.About{About: true}}) {
		if err != nil {
			return nil, err
		}
		all = append(all, s)
		files[s.ID] = path.Join("sessions", s.Agent, s.ID.String()+".html")
	}
	slices.SortStableFunc(all, func(a, b api.Session) int { return lastTurn(&b).Compare(lastTurn(&a)) })
	index := &page.Index{Title: "Sessions", Note: fmt.Sprintf("%s, the newest first", prose.Plural(uint64(len(all)), "session"))}
	for i := range all {
		s := &all[i]
		opt := page.Options{ShowSecrets: shown, Link: func(id turns.ID) string {
			if f := files[id]; f != "" {
				return "../../" + f
			}
			return ""
		}}
		name := filepath.Join(dir, filepath.FromSlash(files[s.ID]))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return nil, fault.Usage(err)
		}
		err := WriteFile(name, func(w io.Writer) error { return pageOf(ctx, c.As(s.Agent), s, "html", opt, w) })
		if err != nil && x.ends(ctx, err) {
			return nil, err
		}
		if err != nil {
			x.fail("session "+s.ID.String(), err)
			continue
		}
		x.out.Sessions++
		w := turns.WorkContextOf(s.Meta)
		when := "unknown"
		if at := lastTurn(s); turns.IsTimeKnown(at) {
			when = prose.Bound(s.HeadTimeBound) + at.Local().Format("2006-01-02 15:04")
		}
		about := s.Agent
		for _, more := range []string{w.Source, w.Cwd} {
			if more != "" {
				about += " · " + more
			}
		}
		index.Rows = append(index.Rows, page.IndexRow{File: files[s.ID], Title: cmp.Or(page.Title(s, 160), prose.Short(s.ID)), About: about, When: when, Turns: s.Depth, Compactions: s.Compactions})
	}
	if err := x.file("index.html", index.HTML); err != nil {
		return nil, err
	}
	return &x.out, nil
}

// lastTurn is when the newest turn of a session was said, as far as it is known.
func lastTurn(s *api.Session) time.Time {
	if s.HeadTime != nil {
		return time.Time(*s.HeadTime)
	}
	return time.Time(s.Updated)
}

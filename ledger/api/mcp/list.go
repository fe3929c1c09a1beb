package mcp

import (
	"cmp"
	"context"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"nexus/ledger/api"
	"nexus/turns"
)

const (
	// maxListed bounds the sessions that are looked at: those that changed last.
	maxListed = 5_000
	// considered is how many sessions are asked for the time of their newest turn: those
	// that changed last, and those that began last.
	considered = 12
)

// newest is the newest sessions of an agent, and how many there are.
type newest struct {
	sessions []api.Session // with titles; newest first
	counted  int
	more     bool // there are more than were counted
}

// newest finds the n newest sessions by the times of their newest turns. An import stores
// old conversations now: so of the sessions that changed last, and of those that began last
// of the [maxListed] that changed last, some are asked. Sessions that serve another are left
// out. keep says which of the others count; nil: all.
func (c *call) newest(ctx context.Context, n int, keep func(*api.Session) bool) (*newest, error) {
	return newestOf(ctx, n, keep, c.ListSessions, func(ctx context.Context, id turns.ID) (*api.Session, error) {
		return c.GetSession(ctx, id, api.GetSession{About: api.About{About: true}})
	})
}

// newestOf is [call.newest] with what it asks.
func newestOf(ctx context.Context, n int, keep func(*api.Session) bool, list func(context.Context, api.ListSessions) iter.Seq2[api.Session, error], get func(context.Context, turns.ID) (*api.Session, error)) (*newest, error) {
	out := new(newest)
	var all []api.Session
	for s, err := range list(ctx, api.ListSessions{Order: "updated", Page: api.Page{Limit: 1000}}) {
		if err != nil {
			return nil, err
		}
		if out.counted == maxListed {
			out.more = true
			break
		}
		out.counted++
		if s.Error == "" && s.SpawnedBy == nil && s.Depth > 0 && (keep == nil || keep(&s)) {
			all = append(all, s)
		}
	}
	var found []api.Session
	ask := func(first []api.Session) error {
		for _, s := range first[:min(len(first), considered)] {
			if slices.ContainsFunc(found, func(f api.Session) bool { return f.ID == s.ID }) {
				continue
			}
			got, err := get(ctx, s.ID)
			if err != nil {
				return err
			}
			found = append(found, *got)
		}
		return nil
	}
	if err := ask(all); err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b api.Session) int { return b.ID.Compare(a.ID) })
	if err := ask(all); err != nil {
		return nil, err
	}
	slices.SortStableFunc(found, func(a, b api.Session) int {
		return cmp.Or(headTime(&b).Compare(headTime(&a)), b.ID.Compare(a.ID))
	})
	out.sessions = found[:min(len(found), n)]
	return out, nil
}

func headTime(s *api.Session) time.Time {
	if s.HeadTime == nil {
		return s.ID.Time() // not Updated: an import stores old sessions now
	}
	return time.Time(*s.HeadTime)
}

// workDir returns the folder in which a session works, as importers and agents note it.
func workDir(s *api.Session) string { return turns.WorkContextOf(s.Meta).Cwd }

// isIn reports whether a folder is dir or below it.
func isIn(folder, dir string) bool {
	folder, dir = path.Clean(folder), path.Clean(dir)
	return folder == dir || strings.HasPrefix(folder, strings.TrimSuffix(dir, "/")+"/")
}

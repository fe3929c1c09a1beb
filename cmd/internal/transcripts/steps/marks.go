package steps

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/transcripts/sessionmeta"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/ledger/api"
	"nexus/turns"
)

// setMeta sets a member of a session's meta. What the event is for is named by why and its
// value, so that it is stored once.
func (w *Writer) setMeta(ctx context.Context, s *api.Session, why, name string, v turns.Raw) error {
	if s.State != "open" {
		return nil
	}
	r := api.SetSession{ID: turns.DeriveID(s.ID.Time(), "import", why, s.ID.String(), name, string(v))}
	r.Meta = sessionmeta.With(s.Meta, name, v)
	_, err := w.Client.Set(ctx, s.ID, r)
	if api.HasCode(err, api.IDReused) { // it was set, and meta is another since
		return nil
	}
	return err
}

// linkSpawner sets what a session serves, if the ledger has that now and did not know it
// when the session was opened.
func (w *Writer) linkSpawner(ctx context.Context, s *api.Session, by turns.Ref, rep *tally.Report) error {
	if by.IsZero() || s.SpawnedBy != nil || s.State != "open" {
		return nil
	}
	if up, err := w.SessionIfAny(ctx, by.Session); up == nil || err != nil {
		return err
	}
	r := api.SetSession{ID: turns.DeriveID(s.ID.Time(), "import", "spawned", s.ID.String(), by.Session.String()), SpawnedBy: &api.SpawnedBy{Session: by.Session, Turn: by.Turn}}
	_, err := w.Client.Set(ctx, s.ID, r)
	switch {
	case api.HasCode(err, api.IDReused), api.HasCode(err, api.Malformed): // it was set, or to another by hand
		return nil
	case err == nil:
		rep.Stored++
	}
	return err
}

// NoteUncounted puts into the meta of the first session of a file how many calls of it have
// usage that no turn could take, so that cost can say that a sum is too low. Several files may
// be of one session: the meta has the sum, and the number of each file, by the digest of its
// name without the folder. A file that is imported again replaces its number.
func (w *Writer) NoteUncounted(ctx context.Context, rep *tally.Report) error {
	n := 0
	for _, l := range rep.Losses {
		if l.Usage != nil {
			n += max(l.Count, 1)
		}
	}
	if n == 0 || len(rep.Sessions) == 0 {
		return nil
	}
	s, err := w.Client.Session(ctx, rep.Sessions[0])
	if err != nil {
		return err
	}
	var m struct {
		Uncounted uncounted `json:"uncounted"`
	}
	_ = json.Unmarshal(s.Meta, &m) // a client's meta may be anything
	u := m.Uncounted
	digest := sha256.Sum256([]byte(filepath.Base(rep.File)))
	key := hex.EncodeToString(digest[:6])
	if _, had := u.Files[key]; !had && len(u.Files) >= maxUncountedFiles {
		key = "others"
		n = max(n, int(min(u.Files[key], turns.MaxCount))) // not the sum: a file may come again
	}
	if u.Files == nil {
		u.Files = make(map[string]uint64)
	}
	if u.Files[key] == uint64(n) {
		return nil
	}
	u.Files[key] = uint64(n)
	u.Calls = 0
	for _, n := range u.Files {
		u.Calls += min(n, turns.MaxCount)
	}
	b, err := turns.EncodeJSON(u)
	if err != nil {
		return err
	}
	return w.setMeta(ctx, s, "uncounted", "uncounted", b)
}

// uncounted is the member "uncounted" of a session's meta.
type uncounted struct {
	Calls uint64            `json:"calls"`
	Files map[string]uint64 `json:"files,omitempty"`
}

// maxUncountedFiles bounds the files in the meta of one session. Of those after them it has the
// largest number, so the sum is too low then.
const maxUncountedFiles = 64

// Titles stores the titles of sessions in their meta, at the end: a transcript states
// them late and changes them. Each title is stored once, so that one which was set by
// hand later stays.
func (w *Writer) Titles(ctx context.Context, titles map[turns.ID]string, rep *tally.Report) error {
	titles = maps.Clone(titles)
	for source, l := range w.lines {
		if t, ok := titles[source]; ok {
			titles[l.ID] = t
		}
	}
	for _, id := range slices.Compact(slices.SortedFunc(slices.Values(rep.Sessions), turns.ID.Compare)) {
		title := titles[id]
		if title == "" {
			continue
		}
		s, err := w.Client.Session(ctx, id)
		if err != nil {
			return err
		}
		meta := make(map[string]turns.Raw)
		if err := json.Unmarshal(s.Meta, &meta); len(s.Meta) > 0 && err != nil {
			return err
		}
		if was, _ := meta["title"].Text(); was == title || s.State != "open" {
			continue
		}
		meta["title"] = turns.RawText(title)
		r := api.SetSession{ID: turns.DeriveID(id.Time(), "import", "title", id.String(), title)}
		if r.Meta, err = turns.EncodeJSON(meta); err != nil {
			return err
		}
		now, err := w.Client.Set(ctx, id, r)
		switch {
		case api.HasCode(err, api.IDReused): // this title was there, and meta is another since
		case err != nil:
			return err
		case now.Hash != s.Hash:
			rep.Stored++
		}
	}
	return nil
}

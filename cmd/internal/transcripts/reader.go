package transcripts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"github.com/go-json-experiment/json"

	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript/formats"
)

// versionOf returns the version of the reader of a format, 0 for none.
func versionOf(format string) int {
	f, _ := formats.Find(format)
	return f.Version
}

// readerMark is the member "reader" of the meta of the sessions that a format's reader read.
func readerMark(format string) turns.Raw {
	return turns.Raw(fmt.Sprintf(`{"format":%q,"version":%d}`, format, versionOf(format)))
}

// withReader returns the meta of a session with its reader.
func withReader(meta turns.Raw, format string) turns.Raw {
	return withMember(meta, "reader", readerMark(format))
}

// isOlder reports whether an older reader than the present one read a session, or one that
// left no version. Of an erased one nobody knows.
func isOlder(s *api.Session, format string) bool {
	l := linksOf(s.Meta)
	return s.State != turns.Erased.String() && l.Reader.Version < versionOf(format)
}

// setMeta sets members of a session's meta. What the event is for is named by why and its
// values, so that it is stored once.
func (im *Importer) setMeta(ctx context.Context, s *api.Session, why string, members map[string]turns.Raw) error {
	meta := s.Meta
	parts := []string{"import", why, s.ID.String()}
	for _, name := range []string{"reader", "superseded_by", "continued_by", "supersedes", "continues", "uncounted", "late_usage"} {
		if v, ok := members[name]; ok {
			meta = withMember(meta, name, v)
			parts = append(parts, name, string(v))
		}
	}
	if len(meta) == 0 || s.State != "open" {
		return nil
	}
	r := api.SetSession{ID: turns.DeriveID(s.ID.Time(), parts...)}
	r.Meta = meta
	_, err := im.Client.Set(ctx, s.ID, r)
	if coded(err, api.IDReused) { // it was set, and meta is another since
		return nil
	}
	return err
}

// linkSpawner sets what a session serves, if the ledger has that now and did not know it
// when the session was opened.
func (im *Importer) linkSpawner(ctx context.Context, s *api.Session, by turns.Ref, rep *Report) error {
	if by.IsZero() || s.SpawnedBy != nil || s.State != "open" {
		return nil
	}
	if up, err := im.sessionIfAny(ctx, by.Session); up == nil || err != nil {
		return err
	}
	r := api.SetSession{ID: turns.DeriveID(s.ID.Time(), "import", "spawned", s.ID.String(), by.Session.String()), SpawnedBy: &api.SpawnedBy{Session: by.Session, Turn: by.Turn}}
	_, err := im.Client.Set(ctx, s.ID, r)
	switch {
	case coded(err, api.IDReused), coded(err, api.Malformed): // it was set, or to another by hand
		return nil
	case err == nil:
		rep.Stored++
	}
	return err
}

// noteUncounted puts into the meta of the first session of a file how many calls of it have
// usage that no turn could take, so that cost can say that a sum is too low. Several files may
// be of one session: the meta has the sum, and the number of each file, by the digest of its
// name without the folder. A file that is imported again replaces its number.
func (im *Importer) noteUncounted(ctx context.Context, rep *Report) error {
	n := 0
	for _, l := range rep.Losses {
		if l.Usage != nil {
			n += max(l.Count, 1)
		}
	}
	if n == 0 || len(rep.Sessions) == 0 {
		return nil
	}
	s, err := im.Client.Session(ctx, rep.Sessions[0])
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
	return im.setMeta(ctx, s, "uncounted", map[string]turns.Raw{"uncounted": b})
}

// uncounted is the member "uncounted" of a session's meta.
type uncounted struct {
	Calls uint64            `json:"calls"`
	Files map[string]uint64 `json:"files,omitempty"`
}

// maxUncountedFiles bounds the files in the meta of one session. Of those after them it has the
// largest number, so the sum is too low then.
const maxUncountedFiles = 64

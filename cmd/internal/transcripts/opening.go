package transcripts

import (
	"context"

	"github.com/go-json-experiment/json"

	"nexus/ledger/api"
	"nexus/turns"
)

// ImportedBy returns the import that opened a session; zero: none, or one that stated no id. A
// meta is copied to the successor of a reset, which no import opened: so the member names the
// session too.
func ImportedBy(s *api.Session) turns.ID {
	var m struct {
		Import struct {
			Unit, Session turns.ID
		} `json:"import"`
	}
	if len(s.Meta) == 0 || json.Unmarshal(s.Meta, &m, json.MatchCaseInsensitiveNames(true)) != nil || m.Import.Session != s.ID {
		return turns.ID{}
	}
	return m.Import.Unit
}

// opening returns the meta of a session that is opened: that of the transcript, with what read
// it, the repository of its folder, and the import.
func (im *Importer) opening(ctx context.Context, id turns.ID, meta turns.Raw, format string) turns.Raw {
	meta = withReader(meta, format)
	if p := im.projectOf(ctx, meta); p.Remote+p.Root != "" {
		if v, err := turns.EncodeJSON(p); err == nil {
			meta = withMember(meta, "project", v)
		}
	}
	if !im.Unit.IsZero() {
		if v, err := turns.EncodeJSON(map[string]string{"unit": im.Unit.String(), "session": id.String()}); err == nil {
			meta = withMember(meta, "import", v)
		}
	}
	return meta
}

// countOpened counts a session that was opened, unless err says that it was not.
func (r *Report) countOpened(s *api.Session, err error) {
	if err == nil && s != nil {
		r.Opened++
	}
}

// projectOf returns the repository that a session worked in: that of its folder as it is now, else
// what the transcript states. A folder may be another repository by now; then what the
// transcript states counts.
func (im *Importer) projectOf(ctx context.Context, meta turns.Raw) turns.Project {
	var m struct {
		Git struct {
			URL string `json:"repository_url"`
		} `json:"git"`
	}
	_ = json.Unmarshal(meta, &m) // it may state another kind of value: nothing then
	stated, cwd := turns.Remote(m.Git.URL), turns.WorkContextOf(meta).Cwd
	p, ok := im.Projects.Of(ctx, cwd)
	if !ok || stated != "" && p.Remote != stated {
		p = turns.Project{Remote: stated}
	}
	if p.Remote+p.Root != "" && cwd != "" {
		p.Dirs = []string{cwd}
	}
	return p
}

// unlessOpened takes the refusal of an opening back where another import opened the session
// meanwhile from the same transcript: its meta differs in what it says of that import alone.
func (im *Importer) unlessOpened(ctx context.Context, id turns.ID, meta turns.Raw, s *api.Session, err error) (*api.Session, error) {
	if !coded(err, api.IDReused) {
		return s, err
	}
	had, lookup := im.sessionIfAny(ctx, id)
	if lookup != nil || had == nil || sameOpening(had.Meta) != sameOpening(meta) {
		return s, err
	}
	return had, nil
}

// sameOpening is a meta without what two imports of one transcript do not have in common.
func sameOpening(meta turns.Raw) string {
	m := membersOf(meta)
	if m == nil {
		return string(meta)
	}
	for _, name := range []string{"import", "project", "title"} {
		delete(m, name)
	}
	b, err := turns.EncodeJSON(m)
	if err != nil {
		return string(meta)
	}
	return string(b)
}

// membersOf returns the members of a meta, nil if it has none.
func membersOf(meta turns.Raw) (m map[string]turns.Raw) {
	if len(meta) == 0 || json.Unmarshal(meta, &m) != nil {
		return nil
	}
	return m
}

package sessionmeta

import (
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

// WithImport returns the meta of a session that an import opens, with what [ImportedBy] reads;
// meta itself for the zero unit.
func WithImport(meta turns.Raw, unit, session turns.ID) turns.Raw {
	if unit.IsZero() {
		return meta
	}
	v, err := turns.EncodeJSON(map[string]string{"unit": unit.String(), "session": session.String()})
	if err != nil {
		return meta
	}
	return With(meta, "import", v)
}

// OpensAlike reports whether two metas are those of one transcript: they differ at most in what
// two imports of it do not have in common.
func OpensAlike(a, b turns.Raw) bool { return opening(a) == opening(b) }

func opening(meta turns.Raw) string {
	m := Members(meta)
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

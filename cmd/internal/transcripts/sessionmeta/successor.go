package sessionmeta

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript/formats"
)

// links are the members of a session's meta that lead to its successor, and to its reader.
type links struct {
	SupersededBy turns.Raw `json:"superseded_by"` // it holds all that this one holds
	ContinuedBy  turns.Raw `json:"continued_by"`  // the file has lost what this one holds
	Reader       struct {
		Version int `json:"version"`
	} `json:"reader"`
}

func linksOf(meta turns.Raw) (l links) {
	_ = json.Unmarshal(meta, &l) // the client's meta may be anything
	return l
}

// Successor returns the successor of the session with a meta; zero: there is none.
func Successor(meta turns.Raw) turns.ID {
	l := linksOf(meta)
	for _, raw := range []turns.Raw{l.SupersededBy, l.ContinuedBy} {
		s, _ := raw.Text()
		if id, err := turns.ParseID(s); err == nil {
			return id
		}
	}
	return turns.ID{}
}

// IsOlder reports whether an older reader than the present one read a session, or one that
// left no version. Of an erased one nobody knows.
func IsOlder(s *api.Session, format string) bool {
	l := linksOf(s.Meta)
	return s.State != turns.Erased.String() && l.Reader.Version < ReaderVersion(format)
}

// WithReader returns the meta of a session with its reader.
func WithReader(meta turns.Raw, format string) turns.Raw {
	return With(meta, "reader", ReaderMark(format))
}

// ReaderMark is the member "reader" of the meta of the sessions that a format's reader read.
func ReaderMark(format string) turns.Raw {
	return turns.Raw(fmt.Sprintf(`{"format":%q,"version":%d}`, format, ReaderVersion(format)))
}

// ReaderVersion returns the version of the reader of a format, 0 for none.
func ReaderVersion(format string) int {
	f, _ := formats.Find(format)
	return f.Version
}

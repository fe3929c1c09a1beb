package transcript

import (
	"strings"

	"nexus/turns"
	"nexus/turns/internal/values"
)

// Titles are the titles of sessions. A title that a person gave has precedence over one
// that a model made; otherwise the last one counts.
type Titles map[turns.ID]sessionTitle

type sessionTitle struct {
	text     string
	byPerson bool // by a person
}

// MaxTitle is the longest title, in bytes.
const MaxTitle = 512

func (t *Titles) Set(session turns.ID, text turns.Raw, byPerson bool) {
	s, _ := text.Text()
	s = strings.Join(strings.Fields(strings.ToValidUTF8(values.Clipped(s, MaxTitle), "")), " ")
	if s == "" || session.IsZero() || !byPerson && (*t)[session].byPerson {
		return
	}
	if *t == nil {
		*t = make(Titles)
	}
	(*t)[session] = sessionTitle{s, byPerson}
}

// texts returns the titles by session, nil if there are none.
func (t Titles) texts() map[turns.ID]string {
	if len(t) == 0 {
		return nil
	}
	out := make(map[turns.ID]string, len(t))
	for id, x := range t {
		out[id] = x.text
	}
	return out
}

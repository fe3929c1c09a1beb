package interchange

import (
	"strings"

	"nexus/turns"
)

// titles are the titles of sessions. A title that a person gave has precedence over one
// that a model made; otherwise the last one counts.
type titles map[turns.ID]sessionTitle

type sessionTitle struct {
	text     string
	byPerson bool // by a person
}

// maxTitle is the longest title, in bytes.
const maxTitle = 512

func (t *titles) set(session turns.ID, text turns.Raw, byPerson bool) {
	s, _ := text.Text()
	s = strings.Join(strings.Fields(strings.ToValidUTF8(clipped(s, maxTitle), "")), " ")
	if s == "" || session.IsZero() || !byPerson && (*t)[session].byPerson {
		return
	}
	if *t == nil {
		*t = make(titles)
	}
	(*t)[session] = sessionTitle{s, byPerson}
}

// texts returns the titles by session, nil if there are none.
func (t titles) texts() map[turns.ID]string {
	if len(t) == 0 {
		return nil
	}
	out := make(map[turns.ID]string, len(t))
	for id, x := range t {
		out[id] = x.text
	}
	return out
}

// titles returns the titles of sessions that were read so far: those that a person or
// Claude Code gave, else the summary of a session that is in the file.
func (k *claudeTree) titles() (out titles) {
	for _, s := range k.summaries {
		if a := k.index[s.leaf]; a != nil && a.b != nil {
			out.set(a.b.id, s.text, false)
		}
	}
	for session, named := range k.named {
		if b := k.mains[session]; b != nil {
			out.set(b.id, named.ai, false)
			out.set(b.id, named.person, true)
		}
	}
	return out
}

// claudeTitles are a session's titles from a model and from a person.
type claudeTitles struct{ ai, person turns.Raw }

// claudeSummary is a summary of a session up to the line leaf.
type claudeSummary struct {
	leaf indexKey
	text turns.Raw
}

// maxTitles is how many lines with titles are kept.
const maxTitles = 10_000

// addTitle reads a line with a title. It reports whether the line holds nothing else.
func (k *claudeTree) addTitle(rec *claudeRecord) bool {
	_, known := k.named[rec.session]
	if rec.name.Kind() != '"' || len(rec.name) > 8*maxTitle || !known && len(k.named)+len(k.summaries) >= maxTitles {
		return false
	}
	switch rec.typ {
	case "summary":
		k.summaries = append(k.summaries, claudeSummary{keyOf(rec.leaf), rec.name})
		return false // most are of sessions in other files
	case "ai-title", "custom-title":
		t := k.named[rec.session]
		if rec.typ == "ai-title" {
			t.ai = rec.name
		} else {
			t.person = rec.name
		}
		k.named[rec.session] = t
		return true
	}
	return false
}

package interchange

import (
	"strings"

	"nexus/turns"
)

// titles are what a transcript calls its sessions. A name that a person gave beats
// one that a model made; of equals the last counts.
type titles map[turns.ID]sessionTitle

type sessionTitle struct {
	text  string
	given bool // by a person
}

// maxTitle is the longest title, in bytes.
const maxTitle = 512

func (t *titles) set(session turns.ID, text turns.Raw, given bool) {
	s, _ := text.Text()
	s = strings.Join(strings.Fields(strings.ToValidUTF8(clipped(s, maxTitle), "")), " ")
	if s == "" || session.IsZero() || !given && (*t)[session].given {
		return
	}
	if *t == nil {
		*t = make(titles)
	}
	(*t)[session] = sessionTitle{s, given}
}

// texts is the titles by session; nil for none.
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

// titles are the titles of sessions, as of what was read so far: those that a
// person or Claude Code gave, or the summary of a session that is in the file.
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

// claudeTitles are a session's names: of a model, of a person.
type claudeTitles struct{ ai, person turns.Raw }

// claudeSummary is a summary of a session, and the line that it is as of.
type claudeSummary struct {
	leaf indexKey
	text turns.Raw
}

// maxTitles is how many lines that name sessions are held on to.
const maxTitles = 10_000

// title takes a line that names a session; true: that is all that it says.
func (k *claudeTree) title(rec *claudeRecord) bool {
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

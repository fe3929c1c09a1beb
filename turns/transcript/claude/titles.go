package claude

import (
	"nexus/turns"
	"nexus/turns/transcript"
)

// titles returns the titles of sessions that were read so far: those that a person or
// Claude Code gave, else the summary of a session that is in the file.
func (k *claudeTree) titles() (out transcript.Titles) {
	for _, s := range k.summaries {
		if a := k.index[s.leaf]; a != nil && a.b != nil {
			out.Set(a.b.id, s.text, false)
		}
	}
	for session, named := range k.named {
		if b := k.mains[session]; b != nil {
			out.Set(b.id, named.ai, false)
			out.Set(b.id, named.person, true)
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
	if rec.name.Kind() != '"' || len(rec.name) > 8*transcript.MaxTitle || !known && len(k.named)+len(k.summaries) >= maxTitles {
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

package claude

import (
	"nexus/turns/transcript"
	"nexus/turns/transcript/claude/record"
)

// titles returns the titles of sessions that were read so far: those that a person or
// Claude Code gave, else the summary of a session that is in the file.
func (k *tree) titles() (out transcript.Titles) {
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

// maxTitles is how many lines with titles are kept.
const maxTitles = 10_000

// addTitle reads a line with a title. It reports whether the line holds nothing else.
func (k *tree) addTitle(rec *record.Line) bool {
	_, known := k.named[rec.Session]
	if rec.Name.Kind() != '"' || len(rec.Name) > 8*transcript.MaxTitle || !known && len(k.named)+len(k.summaries) >= maxTitles {
		return false
	}
	switch rec.Type {
	case "summary":
		k.summaries = append(k.summaries, summaryTitle{keyOf(rec.Leaf), rec.Name})
		return false // most are of sessions in other files
	case "ai-title", "custom-title":
		t := k.named[rec.Session]
		if rec.Type == "ai-title" {
			t.ai = rec.Name
		} else {
			t.person = rec.Name
		}
		k.named[rec.Session] = t
		return true
	}
	return false
}

package compactor

import (
	"strings"
	"unicode"

	"nexus/turns"
)

// maxFacts bounds the facts that a survival report looks at.
const maxFacts = 20_000

// survived counts the facts of one kind in the covered turns, and how many of
// them are still in the context.
type survived struct {
	Total int `json:"total"`
	Kept  int `json:"kept"`
}

// survival is the report of what a compaction keeps in sight: of the distinct
// file paths, numbers and identifiers in what it newly covers, how many stand in
// the replacement or the kept turns. No model judges it; the scan knows nothing
// of any summarizer.
func survival(pl *Plan, replacement []turns.Message) turns.Raw {
	seen := make(map[string]string)
	for i := range pl.Kept {
		scanMessages(pl.Kept[i].Messages, func(kind, fact string) { seen[fact] = kind })
	}
	scanMessages(replacement, func(kind, fact string) { seen[fact] = kind })
	report := map[string]*survived{"paths": {}, "numbers": {}, "identifiers": {}}
	counted := make(map[string]bool)
	for i := range pl.Covered {
		scanMessages(pl.Covered[i].Messages, func(kind, fact string) {
			if counted[fact] || len(counted) >= maxFacts {
				return
			}
			counted[fact] = true
			report[kind].Total++
			if _, ok := seen[fact]; ok {
				report[kind].Kept++
			}
		})
	}
	b, err := turns.EncodeJSON(report)
	if err != nil {
		return nil
	}
	return b
}

func scanMessages(ms []turns.Message, found func(kind, fact string)) {
	for i := range ms {
		for j := range ms[i].Parts {
			p := &ms[i].Parts[j]
			scan(p.Content, found)
			scan(string(p.Arguments), found)
			if s, ok := p.Response.Text(); ok {
				scan(s, found)
			} else {
				scan(string(p.Response), found)
			}
		}
	}
}

// scan finds facts in a text, in one pass.
func scan(s string, found func(kind, fact string)) {
	for _, w := range strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("\"'`,;()[]{}<>=|*&!?\\", r)
	}) {
		w = strings.Trim(w, ".:-")
		if len(w) < 3 || len(w) > 200 {
			continue
		}
		if kind := kindOf(w); kind != "" {
			found(kind, w)
		}
	}
}

func kindOf(w string) string {
	digits, letters, slash, joint, upper := 0, 0, 0, 0, 0
	for i, r := range w {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case r == '/':
			slash++
		case r == '_' || r == '.' || r == '-' || r == ':':
			joint++
		case unicode.IsUpper(r):
			letters++
			if i > 0 {
				upper++
			}
		case unicode.IsLetter(r):
			letters++
		}
	}
	switch {
	case slash > 0 && letters > 1:
		return "paths"
	case letters == 0 && digits >= 3:
		return "numbers"
	case letters > 2 && (digits > 0 || joint > 0 || (upper > 0 && upper < letters-1)):
		return "identifiers"
	}
	return ""
}

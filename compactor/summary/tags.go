package summary

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Data returns s as a replacement holds it: escaped, so that nothing in it reads as
// one of our tags.
func Data(s string) string {
	return escapeTags(s, append(markers[:], "pinned", "quoted", "user_rules"))
}

// RecalledData returns s as a message with pieces of older turns holds it.
func RecalledData(s string) string {
	return escapeTags(s, append(markers[:], "pinned", "quoted", "user_rules", "recalled"))
}

// markers are the names of the tags that this package writes, and of the memories'
// tag, which contexts hold too.
var markers = [...]string{"summary", "first_request", "late_result", "memories", "task"}

// Escape writes "&lt;" for the "<" of everything in s that reads as one of our tags:
// opening or closing, in any case and spacing.
func Escape(s string) string { return escapeTags(s, markers[:]) }

func escapeTags(s string, names []string) string {
	if !strings.Contains(s, "<") {
		return s
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '<')
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		s = s[i+1:]
		if name, _ := tagOf(s, names); name != "" {
			b.WriteString("&lt;")
		} else {
			b.WriteByte('<')
		}
	}
}

// tagOf returns which of names the tag at the start of s has, and whether it closes;
// "" for none. s does not hold the "<". The whole name must match: SummaryDto is not
// summary.
func tagOf(s string, names []string) (name string, closes bool) {
	rest := strings.TrimLeftFunc(s, func(r rune) bool { return r == '/' || blank(r) })
	closes = strings.Contains(s[:len(s)-len(rest)], "/")
	for _, m := range names {
		if len(rest) < len(m) || !strings.EqualFold(rest[:len(m)], m) {
			continue
		}
		if r, _ := utf8.DecodeRuneInString(rest[len(m):]); len(rest) == len(m) || r == '>' || r == '/' || blank(r) {
			return m, closes
		}
	}
	return "", false
}

// blank reports whether r is white space of any kind, or invisible.
func blank(r rune) bool { return unicode.In(r, unicode.Z, unicode.Cf, unicode.Cc) }

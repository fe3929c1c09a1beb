package prose

import (
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"

	"nexus/ledger/api"
	"nexus/turns"
)

// ShellWord is a word as a shell reads it.
func ShellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,+@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Unreadable says in place of the content of a turn, or of a session, that it can't be read.
func Unreadable(what string, code api.Code, missing turns.ID) string {
	why := string(code)
	if !missing.IsZero() {
		why = "no key"
	}
	if what == "compaction" {
		return "◆ compaction: content can't be read: " + why
	}
	return "content can't be read: " + why
}

// Clip is the first n characters of s on one line, with nothing in it that a
// terminal would act on.
func Clip(s string, n int) string {
	if len(s) > 16*n { // the end of a long text costs nothing
		s = strings.ToValidUTF8(s[:16*n], "")
	}
	r := []rune(strings.Join(strings.Fields(Printable(s)), " "))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:max(0, n-1)]) + "…"
}

// Printable returns s with U+FFFD in place of each hidden character ([turns.IsHidden]),
// line feeds and tabs excepted: a transcript must not steer the terminal that shows
// it, nor look like another text.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if turns.IsHidden(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// Short is the end of an id, which tells apart what one millisecond made.
func Short(id turns.ID) string { return id.String()[18:] }

// FileName is what a person calls a file that a command reads: - is stdin.
func FileName(name string) string {
	if name == "-" {
		return "stdin"
	}
	return name
}

// Source is where an imported session is from, for a line of a table.
func Source(meta turns.Raw) string { return Clip(turns.WorkContextOf(meta).Source, 20) }

// Grouped is n with its thousands apart.
func Grouped(n uint64) string { return humanize.Comma(int64(min(n, math.MaxInt64))) }

// Plural is a number of things of a kind: "1 turn", "2,000 turns".
func Plural(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Grouped(n) + " " + what + "s"
}

// Bound is the mark before a time that its source does not state: ≤ before one that the true
// time is not after, ≥ before one that it is not before, "" before any other.
func Bound(b turns.TimeBound) string {
	switch b {
	case turns.TimeNotAfter:
		return "≤"
	case turns.TimeNotBefore:
		return "≥"
	}
	return ""
}

// Stamp is the layout of a time that stands alone: with its zone.
const Stamp = "2006-01-02 15:04:05 MST"

// At is a time as a view shows it, in the local zone, behind the mark of its bound; "unknown" where the
// source says nothing of it.
func At(t time.Time, b turns.TimeBound, layout string) string {
	if !turns.IsTimeKnown(t) {
		return "unknown"
	}
	return Bound(b) + t.Local().Format(layout)
}

// TurnTime returns when a turn was said, with the bound that it is: as its source states it,
// else when it was stored.
func TurnTime(t *api.Turn) (time.Time, turns.TimeBound) {
	if t.Time != nil {
		return time.Time(*t.Time), turns.TimeBoundOf(t.Meta)
	}
	return time.Time(t.Recorded), ""
}

// EventKind is a kind of an event in the words of who reads what was redacted.
func EventKind(kind string) string {
	if s, ok := map[string]string{"opened": "settings", "changed": "settings", "described": "title and tags", "noted": "note", "compaction": "summary"}[kind]; ok {
		return s
	}
	return kind
}

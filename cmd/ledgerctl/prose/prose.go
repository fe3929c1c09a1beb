package prose

import (
	"math"
	"strings"
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

package facts

import (
	"slices"
	"strings"

	"nexus/turns"
)

// knownFiles are what the calls of some halves name with a slash: whole, and each two pieces that
// stand side by side there, as internal/plan of /w/internal/plan/plan.go.
type knownFiles map[string]bool

// addCall adds what a call names: arguments of one word, and the words of its commands outside of
// quotes, which may be prose.
func (k knownFiles) addCall(p *turns.Part, c call) {
	eachScalar(p.Arguments, func(text string, isName bool) {
		if !isName && len(text) <= maxFactBytes && !strings.ContainsAny(text, " \t\n") {
			k.add(text)
		}
	})
	for _, command := range c.commands {
		for _, w := range strings.Fields(unquoted(command)) {
			k.add(trimWord(strings.Trim(w, ";|&()<>,`")))
		}
	}
}

// add adds a path and its pieces up to the first pattern.
func (k knownFiles) add(path string) {
	if !strings.Contains(path, "/") || !isPath(path) {
		return
	}
	path = strings.TrimRight(path, "/")
	k[path] = true
	before := ""
	for piece := range strings.SplitSeq(path, "/") {
		if strings.ContainsAny(piece, "*?[]{}$") {
			return
		}
		if before != "" && piece != "" {
			k[before+"/"+piece] = true
		}
		before = piece
	}
}

// unquoted returns a command of a shell without what stands in quotes.
func unquoted(command string) string {
	var b strings.Builder
	var quote byte
	for i := 0; i < len(command); i++ {
		switch c := command[i]; {
		case c == '\\' && quote != '\'':
			i++
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
			b.WriteByte(' ')
		case c == quote:
			quote = 0
		case quote == 0:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// has reports whether the calls name a relative path, or folders with each two of its pieces side
// by side.
func (k knownFiles) has(path string) bool {
	if k[path] {
		return true
	}
	before, known := "", false
	for piece := range strings.SplitSeq(path, "/") {
		if before != "" {
			if known = k[before+"/"+piece]; !known {
				return false
			}
		}
		before = piece
	}
	return known
}

// kindOfPath returns the kind of a word that [isPath] takes: of what names a file, a folder or an
// address by its shape, or is known, pathKind; of other names with a slash, such as those of
// branches and models, identifierKind. It is "" for words that prose puts beside a slash.
func (k knownFiles) kindOfPath(w string) string {
	if strings.Contains(w, "://") || isRooted(w) {
		return pathKind
	}
	folder := strings.HasSuffix(w, "/")
	w = strings.TrimRight(w, "/")
	pieces := strings.Split(w, "/")
	if folder && len(pieces) > 1 || hasExtension(pieces[len(pieces)-1]) || isHost(pieces[0]) || slices.ContainsFunc(pieces, isHidden) || k.has(w) {
		return pathKind
	}
	if len(pieces) > 1 && (refs[pieces[0]] || strings.HasPrefix(w, "@")) || slices.ContainsFunc(pieces, isJoined) {
		return identifierKind
	}
	return ""
}

// refs begin names of branches and tags.
var refs = map[string]bool{"refs": true, "origin": true, "upstream": true, "remotes": true}

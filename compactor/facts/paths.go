package facts

import (
	"strings"
	"unicode"
)

// filesWithoutExtension are names of files that projects have.
var filesWithoutExtension = map[string]bool{"Makefile": true, "Dockerfile": true, "LICENSE": true, "README": true, "CHANGELOG": true, "Gemfile": true, "Rakefile": true, "Procfile": true, "Jenkinsfile": true, "Vagrantfile": true}

// hasExtension reports whether the last piece of a path names a file: a name and an extension, with
// the place in the file behind it or not.
func hasExtension(piece string) bool {
	if i := strings.IndexAny(piece, ":#@"); i > 0 {
		piece = piece[:i]
	}
	if filesWithoutExtension[piece] {
		return true
	}
	dot := strings.LastIndexByte(piece, '.')
	if dot < 1 || len(piece)-dot > 9 {
		return false
	}
	letter := false
	for _, r := range piece[dot+1:] {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
			letter = true
		case r < '0' || r > '9':
			return false
		}
	}
	return letter
}

// isHidden reports whether a piece of a path is a file or folder that listings hide.
func isHidden(piece string) bool {
	return len(piece) > 2 && piece[0] == '.' && unicode.IsLetter(rune(piece[1]))
}

// isHiddenPath reports whether a word is a path that begins with such a folder, as .github/workflows.
func isHiddenPath(w string) bool {
	folder, _, slash := strings.Cut(w, "/")
	return slash && isHidden(folder)
}

// domains end names of hosts that addresses without a scheme begin with.
var domains = map[string]bool{"com": true, "org": true, "net": true, "io": true, "dev": true, "ai": true, "in": true, "app": true, "sh": true, "edu": true, "gov": true, "co": true, "land": true}

// isHost reports whether the first piece of a path is the name of a host.
func isHost(piece string) bool {
	name, domain := piece, ""
	if i := strings.LastIndexByte(piece, '.'); i > 0 {
		name, domain = piece[:i], piece[i+1:]
	}
	return domains[domain] && name != ""
}

// isJoined reports whether a piece is a name that nobody writes in prose.
func isJoined(piece string) bool {
	letters, digits := 0, 0
	for _, r := range piece {
		switch {
		case unicode.IsLetter(r):
			letters++
		case unicode.IsDigit(r):
			digits++
		case r == '_':
			return letters > 0
		}
	}
	return letters > 2 && digits > 0
}

// alternatives are words that prose puts beside a slash.
var alternatives = map[string]bool{
	"and": true, "or": true, "yes": true, "no": true, "true": true, "false": true, "on": true, "off": true, "he": true, "she": true, "his": true, "her": true, "him": true,
	"they": true, "either": true, "both": true, "input": true, "output": true, "read": true, "write": true, "client": true, "server": true, "request": true, "response": true,
	"before": true, "after": true, "start": true, "stop": true, "end": true, "open": true, "close": true, "min": true, "max": true, "key": true, "value": true, "pass": true,
	"fail": true, "success": true, "failure": true, "left": true, "right": true, "up": true, "down": true, "old": true, "new": true, "if": true, "else": true, "with": true,
	"without": true, "enable": true, "disable": true, "enabled": true, "disabled": true, "add": true, "remove": true, "create": true, "update": true, "delete": true,
	"day": true, "month": true, "year": true, "week": true, "hour": true,
}

// isPath reports whether a word with a slash and letters may name a file, a folder or an
// address. N/A, TCP/IP, and/or, %d/%d and //nolint do not; lint/tests may: see
// [knownFiles.kindOfPath].
func isPath(w string) bool {
	if strings.Contains(w, "://") {
		return true
	}
	if strings.HasPrefix(w, "//") || strings.Contains(w, "%") {
		return false
	}
	long, upper, prose := false, true, true
	for piece := range strings.SplitSeq(w, "/") {
		if piece == "" {
			continue
		}
		letters := 0
		for _, r := range piece {
			if unicode.IsLetter(r) {
				letters++
			}
			upper = upper && unicode.IsUpper(r)
		}
		long = long || letters > 1
		upper = upper && len(piece) <= 5
		prose = prose && alternatives[strings.ToLower(piece)]
	}
	return long && (isRooted(w) || !upper && !prose)
}

// isRooted reports whether a path says where it begins.
func isRooted(w string) bool {
	return strings.HasPrefix(w, "/") || strings.HasPrefix(w, "~/") || strings.HasPrefix(w, "./") || strings.HasPrefix(w, "../")
}

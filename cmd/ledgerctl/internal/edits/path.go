package edits

import (
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxPath = 4096

var driveLetter = regexp.MustCompile(`^[A-Za-z]:[\\/]`)

// slashed returns a path with slashes. Backslashes are separators on Windows only.
func slashed(p string, windows bool) string {
	if windows {
		p = strings.ReplaceAll(p, `\`, "/")
		if driveLetter.MatchString(p) {
			p = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return p
}

func isAbsolute(p string) bool { return strings.HasPrefix(p, "/") || driveLetter.MatchString(p) }

// inside returns a path of a transcript as one below the folder, with slashes. why is set
// if the path is refused.
func inside(folder, cwd, p string) (rel string, why Reason) {
	if p == "" || len(p) > maxPath || !utf8.ValidString(p) || strings.ContainsFunc(p, unicode.IsControl) || strings.ContainsRune(p, utf8.RuneError) {
		return "", ReasonBadPath
	}
	windows := driveLetter.MatchString(folder)
	folder, cwd, p = slashed(folder, windows), slashed(cwd, windows), slashed(p, windows)
	if !isAbsolute(folder) {
		return "", ReasonOutside
	}
	if !isAbsolute(p) {
		if !isAbsolute(cwd) {
			cwd = folder
		}
		p = cwd + "/" + p
	}
	p, folder = path.Clean(p), path.Clean(folder)
	rel, ok := strings.CutPrefix(p, strings.TrimSuffix(folder, "/")+"/")
	if !ok || rel == "" {
		return "", ReasonOutside
	}
	for part := range strings.SplitSeq(rel, "/") {
		switch {
		case IsGitName(part):
			return "", ReasonGitFolder
		case len(part) > 255 || windows && strings.ContainsAny(part, `:*?"<>|`):
			return "", ReasonBadPath
		}
	}
	return rel, ""
}

// IsGitName reports whether a file system may take the name of a file for .git.
func IsGitName(s string) bool {
	s = strings.TrimRight(strings.ToLower(s), ". ")
	s = strings.Map(func(r rune) rune { // characters that HFS+ ignores
		if r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff {
			return -1
		}
		return r
	}, s)
	return s == ".git" || s == "git~1" || strings.HasPrefix(s, ".git:")
}

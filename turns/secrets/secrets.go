// Package secrets finds credentials of known shapes in texts, and masks them.
//
// It knows the shapes that issuers gave their tokens so that scanners find them, and no
// others: a password in a sentence has none. ledgerctl, the tools for agents and the room
// search of the engine use it. It imports nothing of this project.
package secrets

import (
	"regexp"
	"slices"
	"strings"
)

// Secret is a credential in a text. It does not hold it.
type Secret struct {
	Kind     string
	From, To int // bytes of the text, [From, To)
}

// shape is a kind of credential. A text without one of its signs has none of it: signs are
// rare in ordinary text, and to look for one takes a hundredth of the time of the expression.
type shape struct {
	kind  string
	signs []string
	is    *regexp.Regexp // its first group, if it has one, is the secret
}

// shapes are in the order in which they are tried: of two at one place the first counts. The one
// whose sign is common has it first in its expression, so that the library skips to it.
var shapes = []shape{
	{"private key", []string{keySign}, regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=:,\\\s-]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`)},
	{"AWS access key", []string{"AKIA", "ASIA"}, regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z2-7]{16}\b`)},
	{"GitHub token", []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}, regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{36,255}\b`)},
	{"GitHub token", []string{"github_pat_"}, regexp.MustCompile(`\bgithub_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}\b`)},
	{"GitLab token", []string{"glpat-"}, regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{20,}`)},
	{"Slack token", []string{"xox"}, regexp.MustCompile(`\bxox[abeoprs]-[A-Za-z0-9-]{10,}`)},
	{"Stripe key", []string{"_live_"}, regexp.MustCompile(`\b[sr]k_live_[A-Za-z0-9]{20,}\b`)},
	{"Anthropic key", []string{"sk-ant-"}, regexp.MustCompile(`\bsk-ant-[A-Za-z0-9_-]{20,}`)},
	{"OpenAI key", []string{"sk-"}, regexp.MustCompile(`\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{32,}`)},
	{"Google API key", []string{"AIza"}, regexp.MustCompile(`\bAIza[A-Za-z0-9_-]{35}`)},
	{"npm token", []string{"npm_"}, regexp.MustCompile(`\bnpm_[A-Za-z0-9]{36}\b`)},
	{"PyPI token", []string{"pypi-"}, regexp.MustCompile(`\bpypi-AgE[A-Za-z0-9_-]{40,}`)},
	{"SendGrid key", []string{"SG."}, regexp.MustCompile(`\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}`)},
	{"Hugging Face token", []string{"hf_"}, regexp.MustCompile(`\bhf_[A-Za-z0-9]{34}\b`)},
	{"JSON web token", []string{"eyJ"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`)},
	{"password in a URL", []string{"://"}, regexp.MustCompile(`://[^\s/:@"'\\<>]*:([^\s/:@"'\\<>$*{]{3,})@[A-Za-z0-9\[]`)},
}

// Find returns the credentials in a text, in its order, none in another.
func Find(text string) []Secret {
	out, _ := find(text)
	return out
}

// find is Find. steps is how many credentials were compared or moved, for a test: it grows
// with their number, not with its square.
func find(text string) (out []Secret, steps int) {
	text = inWords(text)
	for _, s := range shapes {
		if !slices.ContainsFunc(s.signs, func(sign string) bool { return strings.Contains(text, sign) }) {
			continue
		}
		var more []Secret // of this shape, in the order of the text; the library returns none in another
		next := 0         // the first of out that ends behind what was found before
		for _, at := range s.is.FindAllStringSubmatchIndex(text, -1) {
			n := len(at) - 2
			found := Secret{s.kind, at[n], at[n+1]}
			for next < len(out) && out[next].To <= found.From {
				next++
				steps++
			}
			if next == len(out) || found.To <= out[next].From {
				more = append(more, found)
			}
			steps++
		}
		if len(more) > 0 {
			out = append(out, more...)
			slices.SortFunc(out, func(a, b Secret) int { return a.From - b.From })
			steps += len(out)
		}
	}
	return out, steps
}

// inWords returns a text of the same length that has spaces in place of letters that stand
// before a word and are of none: the n of a line feed in JSON (\n), and the m that ends a
// colour of a terminal.
func inWords(text string) string {
	if !strings.ContainsAny(text, "\\\x1b") {
		return text
	}
	b := []byte(text)
	for i := 0; i+1 < len(b); i++ {
		from, rest := i, text[i:]
		switch {
		case strings.HasPrefix(rest, "\x1b["):
			i += len("\x1b[")
		case strings.HasPrefix(rest, `\u001b[`), strings.HasPrefix(rest, `\u001B[`):
			i += len(`\u001b[`)
		case rest[0] == '\\' && strings.IndexByte("bfnrt", rest[1]) >= 0:
			b[i], b[i+1] = ' ', ' '
			continue
		default:
			continue
		}
		for i < len(b) && (b[i] >= '0' && b[i] <= '9' || b[i] == ';') {
			i++
		}
		if i < len(b) && (b[i] == 'm' || b[i] == 'K') {
			for j := from; j <= i; j++ {
				b[j] = ' '
			}
		} else {
			i--
		}
	}
	return string(b)
}

// longest is how far behind the end of what is shown a credential may end that begins before
// it, in bytes.
const longest = 4 << 10

// MaskHead is [Mask] of at least the first n bytes of a text. What it returns may be longer,
// so that a credential which the end cuts is masked, too.
func MaskHead(text string, n int) string { return Mask(text[:min(len(text), n+longest)]) }

// MaskPart is [Mask] of text[from:to], in which that masks what it does in the whole text. It looks at a
// longer part only as far as the next blanks: none is in a credential, but for a private key.
func MaskPart(text string, from, to int) string {
	if strings.Contains(text, keySign) {
		return Mask(text)[from:to]
	}
	lo, hi := strings.LastIndexAny(text[:from], blanks)+1, len(text)
	if i := strings.IndexAny(text[to:], blanks); i >= 0 {
		hi = to + i
	}
	return Mask(text[lo:hi])[from-lo : to-lo]
}

const (
	keySign = "PRIVATE KEY-----"
	blanks  = " \t\n\r"
)

// Mask returns a text with an asterisk in place of each byte of a credential, so that
// offsets stay.
func Mask(text string) string {
	found := Find(text)
	if len(found) == 0 {
		return text
	}
	b := []byte(text)
	for _, s := range found {
		for i := s.From; i < s.To; i++ {
			b[i] = '*'
		}
	}
	return string(b)
}

package facts

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
)

// maxNested is how many times JSON is read that stands in strings of JSON.
const maxNested = 4

// decoded returns a text with the names, strings and numbers of the JSON in it in place of that, if it is JSON
// as a whole or some of its lines are. Tools print objects, a line each, and take some as strings.
func decoded(text string) string {
	for range maxNested {
		next := decodedOnce(text)
		if next == text {
			break
		}
		text = next
	}
	return text
}

func decodedOnce(text string) string {
	if isJSON(text) {
		return ValuesText(turns.Raw(text))
	}
	var b strings.Builder
	from := 0 // of what is not in b yet
	for at := 0; at < len(text); {
		end := at + strings.IndexByte(text[at:], '\n')
		if end < at {
			end = len(text)
		}
		if line := text[at:end]; isJSON(line) {
			b.WriteString(text[from:at])
			b.WriteString(ValuesText(turns.Raw(line)))
			from = end
		}
		at = end + 1
	}
	if from == 0 {
		return text
	}
	b.WriteString(text[from:])
	return b.String()
}

// isJSON reports whether a text is a JSON object, list or string with an escape in it.
func isJSON(text string) bool {
	text = strings.TrimSpace(text)
	if text == "" || !strings.Contains(`{["`, text[:1]) || !strings.Contains(text, `\`) {
		return false
	}
	return jsontext.Value(text).IsValid(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// withoutEscapes returns a text of the same length with blanks in place of the line ends and tabs that strings
// in code have as \n, \r and \t. A folder or file of Windows whose name begins so stays.
func withoutEscapes(text string) string {
	var b []byte
	for i := 0; i+2 < len(text); i++ {
		if text[i] != '\\' || text[i+1] != 'n' && text[i+1] != 'r' && text[i+1] != 't' {
			continue
		}
		if c := text[i+2]; c >= 'a' && c <= 'z' && (b == nil || b[i-1] != ' ') && mayBeInPath(text, i) {
			continue
		}
		if b == nil {
			b = []byte(text)
		}
		b[i], b[i+1] = ' ', ' '
		i++
	}
	if b == nil {
		return text
	}
	return string(b)
}

// mayBeInPath reports whether the backslash at a place may part two pieces of a path, of which the second begins with n,
// r or t and a small letter. Names of tests begin with a t in many projects; an n is a line end unless the rest is a path.
func mayBeInPath(text string, i int) bool {
	switch {
	case i == 0:
		return false
	case text[i-1] == ':':
		return isDrive(text, i-2)
	case strings.IndexByte(`\.-~$%`, text[i-1]) >= 0:
		return true
	case !isWordAt(text, i-1):
		return false
	case text[i+1] != 'n':
		return true
	}
	inRun := func(i int) bool { return isWordAt(text, i) || strings.IndexByte(`\.-:`, text[i]) >= 0 }
	from, to := i, i
	for from > max(0, i-maxFactBytes) && inRun(from-1) {
		from--
	}
	for to < min(len(text), i+maxFactBytes) && inRun(to) {
		to++
	}
	for j := from; j+1 < to; j++ {
		if text[j] == '\\' && text[j+1] != '\\' && strings.IndexByte("nrt", text[j+1]) < 0 {
			return true
		}
	}
	return isDrive(text, from)
}

// isDrive reports whether a drive of Windows is named at a place.
func isDrive(text string, i int) bool {
	return i >= 0 && i+1 < len(text) && text[i] >= 'A' && text[i] <= 'Z' && text[i+1] == ':' && !isWordAt(text, i-1)
}

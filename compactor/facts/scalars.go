package facts

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
)

// ValuesText returns the names, strings and numbers of a JSON value, a line each; what is no
// JSON is its own text.
func ValuesText(v turns.Raw) string { return scalarsText(v, true) }

// argumentText returns the strings and numbers of a JSON value, a line each. The names of
// members belong to the tool.
func argumentText(v turns.Raw) string { return scalarsText(v, false) }

func scalarsText(v turns.Raw, withNames bool) string {
	var b strings.Builder
	some := false
	eachScalar(v, func(text string, isName bool) {
		if some = true; isName && !withNames {
			return
		}
		b.WriteString(text)
		b.WriteByte('\n')
	})
	if !some {
		return string(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// eachScalar calls found for the names, strings and numbers of a JSON value, as far as it
// is one. isName is set for the name of a member.
func eachScalar(v turns.Raw, found func(text string, isName bool)) {
	d := jsontext.NewDecoder(strings.NewReader(string(v)), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	for {
		t, err := d.ReadToken()
		if err != nil {
			return
		}
		if k := t.Kind(); k == '"' || k == '0' {
			in, n := d.StackIndex(d.StackDepth())
			found(t.String(), in == '{' && n%2 == 1)
		}
	}
}

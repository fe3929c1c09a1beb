package quote

import (
	"fmt"
	"strings"

	"nexus/turns"
)

// tag returns the tag before a quote, as <quoted path="a/b.go" lines="3-9" turn="12">.
func (q *Quote) tag() string {
	name := strings.Map(func(r rune) rune {
		if r == '"' || r == '<' || r == '>' || turns.IsHidden(r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(q.Path, "_"))
	lines := ""
	if q.From > 0 {
		lines = fmt.Sprintf(" lines=\"%d-%d\"", q.From, q.From+strings.Count(q.Text, "\n"))
	}
	return fmt.Sprintf("<quoted path=\"%s\"%s turn=\"%d\">", name, lines, q.Turn)
}

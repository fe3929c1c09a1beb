package rows

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// Each prefix of a key has its family, and a comparison says what a row of it is of.
func TestEveryPrefixHasAFamily(t *testing.T) {
	prefixes := map[string]bool{}
	for _, file := range []string{"keys.go", "memory.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 {
				return true
			}
			letter, ok := v.Values[0].(*ast.BasicLit)
			if !ok || letter.Kind != token.CHAR {
				return true
			}
			p, err := strconv.Unquote(letter.Value)
			if err != nil {
				t.Fatal(err)
			}
			if file == "memory.go" {
				p = "y" + p
			}
			prefixes[p] = true
			return true
		})
	}
	delete(prefixes, "y") // has families of its own
	for _, f := range families {
		if !prefixes[f.prefix] {
			t.Errorf("there is no prefix %s, or two families", f.prefix)
		}
		delete(prefixes, f.prefix)
		if strings.Count(f.of, "%") != len(f.parts) {
			t.Errorf("%+v", f)
		}
	}
	for p := range prefixes {
		t.Errorf("the prefix %s has no family", p)
	}
}

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// design is a row of docs/designs.md.
type design struct {
	id, here, heldBy string
}

// designRows are the rows of a page whose first cell is an id such as "GSV-1".
func designRows(page string) (out []design) {
	id := regexp.MustCompile(`^[A-Z][A-Z0-9]*-\d+$`)
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) == 4 && id.MatchString(strings.TrimSpace(cells[0])) {
			out = append(out, design{strings.TrimSpace(cells[0]), strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])})
		}
	}
	return out
}

// heldBy reads "`engine`: TestA, TestB/sub; `llm`: TestC" as pairs of package and test.
func heldBy(cell string) (out [][2]string, err error) {
	group := regexp.MustCompile("^`([a-z0-9/]+)`: (.+)$")
	test := regexp.MustCompile(`^Test\w+(/\S+)?$`)
	for g := range strings.SplitSeq(cell, "; ") {
		m := group.FindStringSubmatch(g)
		if m == nil {
			return nil, fmt.Errorf("%q is not `package`: tests", g)
		}
		for name := range strings.SplitSeq(m[2], ", ") {
			if !test.MatchString(name) {
				return nil, fmt.Errorf("%q is not the name of a test", name)
			}
			out = append(out, [2]string{m[1], name})
		}
	}
	return out, nil
}

// missingTest says what of "TestA/sub" is not in the package, "" if all is.
func missingTest(tests map[string]map[string]string, pkg, name string) string {
	name, sub, _ := strings.Cut(name, "/")
	found := false
	for dir, of := range tests {
		if dir != pkg && !strings.HasSuffix(dir, "/"+pkg) {
			continue
		}
		if body, ok := of[name]; ok {
			found = true
			if sub == "" || strings.Contains(body, strconv.Quote(sub)) {
				return ""
			}
		}
	}
	if !found {
		return "no test of " + pkg + " is called " + name
	}
	return name + " has no subtest " + sub
}

// namedIDs are the ids of rows that the name or a comment of a test file names:
// "GSV-1" and "S8-18" in a comment, TestGSV1 and TestS8_18WOL8 in a name.
func namedIDs(name, comments string) map[string]bool {
	out := map[string]bool{}
	inName := regexp.MustCompile(`(GSV|NEX|AUT|WOL|NXS|TXT|PAIR)(\d+)|(S8)_(\d+)`)
	inComment := regexp.MustCompile(`\b(GSV|NEX|AUT|WOL|NXS|TXT|PAIR|S8)-(\d+)\b`)
	for _, m := range inName.FindAllStringSubmatch(name, -1) {
		out[m[1]+m[3]+"-"+m[2]+m[4]] = true
	}
	for _, m := range inComment.FindAllStringSubmatch(comments, -1) {
		out[m[1]+"-"+m[2]] = true
	}
	return out
}

// docs/designs.md holds against the tests: each one that it names exists, each row
// that a test names is on the page, and each row is held by a test or says what is
// not built yet.
func TestDesignsPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "designs.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]map[string]string{} // folder → test → its source
	named := map[string]string{}            // id → where
	walk(t, func(path string, production bool) {
		if production {
			return
		}
		src, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, src, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if tests[dir] == nil {
			tests[dir] = map[string]string{}
		}
		if filepath.Base(path) == "designs_test.go" {
			return // its ids are examples
		}
		for _, c := range f.Comments {
			for id := range namedIDs("", c.Text()) {
				named[id] = path
			}
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				tests[dir][fn.Name.Name] = string(src[files.Position(fn.Pos()).Offset:files.Position(fn.End()).Offset])
				for id := range namedIDs(fn.Name.Name, "") {
					named[id] = path
				}
			}
		}
	})
	rows := map[string]bool{}
	last := map[string]int{} // prefix → highest number so far
	for _, r := range designRows(string(page)) {
		if rows[r.id] {
			t.Errorf("%s stands twice", r.id)
		}
		rows[r.id] = true
		prefix, number, _ := strings.Cut(r.id, "-")
		if n, err := strconv.Atoi(number); err != nil || n != last[prefix]+1 {
			t.Errorf("%s follows %s-%d", r.id, prefix, last[prefix])
		}
		last[prefix]++
		if r.heldBy == "none" {
			if !strings.Contains(r.here, "Not built yet: ") {
				t.Errorf("%s is held by no test and does not say what is not built yet", r.id)
			}
			continue
		}
		holders, err := heldBy(r.heldBy)
		if err != nil {
			t.Errorf("%s: %v", r.id, err)
		}
		for _, h := range holders {
			if missing := missingTest(tests, h[0], h[1]); missing != "" {
				t.Errorf("%s: %s", r.id, missing)
			}
		}
	}
	if want := map[string]int{"GSV": 15, "S8": 28, "NEX": 8, "AUT": 5, "WOL": 19, "TXT": 1, "PAIR": 1, "NXS": 18}; !maps.Equal(last, want) {
		t.Errorf("rows: %v, want %v", last, want)
	}
	for _, id := range slices.Sorted(maps.Keys(named)) {
		if !rows[id] {
			t.Errorf("%s names %s, which is not on the page", named[id], id)
		}
	}
}

func TestDesignsPageFindsWhatIsWrong(t *testing.T) {
	tests := map[string]map[string]string{"a/engine": {"TestA": `t.Run("one", …)`}}
	for _, tc := range []struct{ cell, want string }{
		{"`engine`: TestA", ""},
		{"`engine`: TestA/one", ""},
		{"`engine`: TestA/two", "TestA has no subtest two"},
		{"`engine`: TestA, TestB", "no test of engine is called TestB"},
		{"`gine`: TestA", "no test of gine is called TestA"},
		{"TestA", "\"TestA\" is not `package`: tests"},
		{"`engine`: A", `"A" is not the name of a test`},
	} {
		got := ""
		holders, err := heldBy(tc.cell)
		if err != nil {
			got = err.Error()
		}
		for _, h := range holders {
			if m := missingTest(tests, h[0], h[1]); m != "" {
				got = m
			}
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.cell, got, tc.want)
		}
	}
	if got := slices.Sorted(maps.Keys(namedIDs("TestS8_18WOL8Models", "GSV-1, of the row S8-2; UTF-8"))); !slices.Equal(got, []string{"GSV-1", "S8-18", "S8-2", "WOL-8"}) {
		t.Errorf("ids: %v", got)
	}
}

// Every test, fuzz target and benchmark that a page names exists. A name that ends
// with "…" names several.
func TestPagesNameTestsThatExist(t *testing.T) {
	have := map[string]bool{}
	walk(t, func(path string, production bool) {
		if production {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				have[fn.Name.Name] = true
			}
		}
	})
	begins := func(name string) bool {
		for f := range have {
			if strings.HasPrefix(f, name) {
				return true
			}
		}
		return false
	}
	word := regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*…?`)
	named := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		page, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n := 0
		for line := range strings.Lines(string(page)) {
			n++
			pattern := strings.Contains(line, "-run ") || strings.Contains(line, "-bench ")
			for _, name := range word.FindAllString(line, -1) {
				named++
				name, several := strings.CutSuffix(name, "…")
				if !have[name] && !((several || pattern) && begins(name)) {
					t.Errorf("%s:%d: no test is called %s", path, n, name)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if named < 100 {
		t.Errorf("the pages name %d tests only", named)
	}
}

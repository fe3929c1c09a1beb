package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fencedBlock   = regexp.MustCompile("(?ms)^```.*?^```")
	heading       = regexp.MustCompile(`(?m)^#+ (.*)$`)
	linkedText    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	linkTarget    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	notInAnAnchor = regexp.MustCompile(`[^\p{L}\p{N}\-_ ]`)
)

// Every link of README.md, CONTRIBUTING.md, CHANGELOG.md and docs/**/*.md to a file of the project
// leads to one that is there, and to a heading that is there.
func TestLinksOfTheDocumentation(t *testing.T) {
	root := filepath.Join("..", "..")
	pages := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Ext(name) == ".md" {
			name, err = filepath.Rel(root, name)
			pages = append(pages, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, anchors := make(map[string]string), make(map[string]map[string]bool)
	for _, page := range pages {
		b, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		text[page] = fencedBlock.ReplaceAllString(string(b), "")
		anchors[page] = headingAnchors(text[page])
	}
	links := 0
	for _, page := range pages {
		for _, m := range linkTarget.FindAllStringSubmatch(text[page], -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), filepath.FromSlash(file))
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: %s: there is no such file", page, m[1])
			} else if known, ok := anchors[target]; anchor != "" && ok && !known[anchor] {
				t.Errorf("%s: %s: the page has no such heading", page, m[1])
			}
		}
	}
	if links == 0 {
		t.Error("no page has a link")
	}
}

// headingAnchors returns the names that links have for the headings of a page.
func headingAnchors(page string) map[string]bool {
	out := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		name := linkedText.ReplaceAllString(m[1], "$1")
		name = notInAnAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(name)), "")
		out[strings.ReplaceAll(name, " ", "-")] = true
	}
	return out
}

var (
	quotedPath = regexp.MustCompile("`((?:cmd|ledger|turns|lineage|compactor|fork|projections|docs|\\.ci)/[A-Za-z0-9_./…-]+)`")
	// stands for what a reader puts in, as FORMAT in turns/transcript/FORMAT.
	placeholder = regexp.MustCompile(`(^|[/_-])[A-Z]+(_|[./-]|$)`)
	ofPackage   = regexp.MustCompile(`\.[A-Z]\w*$`)
)

// Every path of the project that a page has in backticks is there.
func TestPathsOfTheDocumentation(t *testing.T) {
	root, paths := filepath.Join("..", ".."), 0
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".md" {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range quotedPath.FindAllStringSubmatch(string(b), -1) {
			p := ofPackage.ReplaceAllString(strings.TrimSuffix(strings.TrimSuffix(m[1], "..."), "/"), "")
			if placeholder.MatchString(p) || strings.Contains(p, "…") {
				continue
			}
			paths++
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(p))); err != nil {
				t.Errorf("%s: there is no %s", name, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if paths < 100 {
		t.Errorf("only %d paths were looked for", paths)
	}
}

// The index of the decisions has each of them.
func TestIndexOfTheDecisions(t *testing.T) {
	dir := filepath.Join("..", "..", "docs", "decisions")
	index, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "[0-9]*.md"))
	if err != nil || len(files) < 50 {
		t.Fatalf("%d decisions, %v", len(files), err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		number, title, _ := strings.Cut(strings.TrimPrefix(strings.SplitN(string(b), "\n", 2)[0], "# "), ". ")
		if row := "| [" + number + "](" + filepath.Base(f) + ") | " + title + " | "; !strings.Contains(string(index), row) {
			t.Errorf("the index has no row %q", row)
		}
	}
}

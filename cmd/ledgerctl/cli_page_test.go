package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// cliPages are the help pages as docs/CLI.md has them: the first one, and those of
// the verbs in the order in which it lists them.
func cliPages() string {
	at := func(verb string) int {
		if i := strings.Index(manual[""], "\n  "+verb+" "); i >= 0 {
			return i
		}
		return strings.LastIndex(manual[""], verb)
	}
	var b strings.Builder
	b.WriteString("```text\n" + manual[""] + "```\n")
	for _, verb := range slices.SortedFunc(maps.Keys(manual), func(a, b string) int { return at(a) - at(b) }) {
		if verb != "" {
			b.WriteString("\n## " + verb + "\n\n```text\n" + manual[verb] + "```\n")
		}
	}
	return b.String()
}

// docs/CLI.md has every help page word for word, so every verb and every flag:
// TestManual holds those against the commands. With -update it is written anew.
func TestCLIPageHasEveryHelpPage(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "CLI.md")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- help begin -->\n\n", "\n<!-- help end -->\n"
	head, rest, ok := strings.Cut(string(page), begin)
	got, tail, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s has no place for the help pages", file)
	}
	for verb, text := range manual {
		if !strings.HasSuffix(text, "\n") {
			t.Errorf("the page of %s (cmd/ledgerctl/internal/help) does not end with a line break", verb)
		}
	}
	want := cliPages()
	if *update {
		if err := os.WriteFile(file, []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != want {
		t.Errorf("%s differs from the help pages: go test ./cmd/ledgerctl -run TestCLIPage -update", file)
	}
}

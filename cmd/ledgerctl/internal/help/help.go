// Package help is the manual of ledgerctl: a text file for each verb, what it is for, what
// it takes, and examples that can be typed. docs/CLI.md repeats them.
//
// Package main prints the pages and adds those that stand beside their commands. Tests hold
// every flag and every example against the text.
package help

import (
	"embed"
	"path"
	"strings"
)

//go:embed *.txt
var files embed.FS

// first is the file of the first page, which lists the verbs.
const first = "ledgerctl"

// Pages returns the page of each verb; that of "" is the first one.
func Pages() map[string]string {
	pages := make(map[string]string)
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // the folder is part of the binary
	}
	for _, f := range entries {
		text, err := files.ReadFile(f.Name())
		if err != nil {
			panic(err)
		}
		verb := strings.TrimSuffix(path.Base(f.Name()), ".txt")
		if verb == first {
			verb = ""
		}
		pages[verb] = string(text)
	}
	return pages
}

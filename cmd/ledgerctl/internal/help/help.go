// Package help is the manual of ledgerctl: a text file for each verb, what it is for, what
// it takes, and examples that can be typed. docs/CLI.md repeats them.
//
// Package main prints the pages. Tests hold every flag and every example against the text.
package help

import (
	"embed"
	"path"
	"strings"
	"sync"

	"github.com/spf13/cobra"
)

//go:embed *.txt
var files embed.FS

// first is the file of the first page, which lists the verbs.
const first = "ledgerctl"

// Pages returns the page of each verb; that of "" is the first one.
var Pages = sync.OnceValue(func() map[string]string {
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
})

// Of is the page of a verb: its own, or that of the verb it is part of.
func Of(cmd *cobra.Command) string {
	top := cmd
	for top.HasParent() && top.Parent().HasParent() { // events append is not append
		top = top.Parent()
	}
	if top.Name() == "turn" && cmd != top {
		return Pages()[strings.Replace(cmd.Name(), "list", "log", 1)] // the verb of its own
	}
	if text, ok := Pages()[top.Name()]; ok && top.HasParent() {
		return text
	}
	return Pages()[""]
}

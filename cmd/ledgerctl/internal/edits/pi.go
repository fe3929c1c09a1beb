package edits

import (
	"regexp"
	"strings"
)

// pi reads the tools of the pi coding agent.
type pi struct{}

// inOrder: some versions run calls at the same time.
func (pi) inOrder() bool { return false }

var piMore = regexp.MustCompile(`\n\n?\[(Showing (lines|first) [^\n]*|[0-9]+ more lines in file[^\n]*|[^\n]*[Uu]se (offset|bash)[^\n]*)\]$`)

func (pi) effects(c *call) []effect {
	var a struct {
		Path    string `json:"path"`
		Content string `json:"content"`
		Old     string `json:"oldText"`
		New     string `json:"newText"`
		Edits   []struct {
			Old string `json:"oldText"`
			New string `json:"newText"`
		} `json:"edits"`
		Command string   `json:"command"`
		Offset  *float64 `json:"offset"`
		Limit   *float64 `json:"limit"`
	}
	if !decode(c, &a) {
		return unread(c)
	}
	switch c.name {
	case "read":
		switch {
		case !c.answered || c.text == "" && !c.failed:
			return nil
		case c.failed && strings.Contains(c.text, "ENOENT"):
			return []effect{{kind: misses, path: a.Path}}
		case c.failed || piMore.MatchString(c.text) || hasPrefix(c.text, "[Line "):
			return nil
		case a.Limit != nil || a.Offset != nil && *a.Offset > 1:
			if a.Offset != nil && *a.Offset >= 1 && *a.Offset < 1e8 && a.Limit == nil {
				return []effect{{kind: shows, path: a.Path, line: int(*a.Offset), content: c.text}}
			}
			return nil
		}
		return []effect{{kind: reads, path: a.Path, content: c.text}}
	case "write":
		return wrote(c, hasPrefix(c.text, "Successfully wrote "), effect{kind: writes, path: a.Path, content: a.Content})
	case "edit":
		if c.failed && hasPrefix(c.text, "Could not find", "Found ", "File not found", "No changes made", "Validation failed") {
			return nil
		}
		e := effect{kind: edits, path: a.Path}
		if a.Edits == nil {
			e.edits = []replacement{{old: a.Old, new: a.New}}
		}
		for _, x := range a.Edits {
			e.edits = append(e.edits, replacement{old: x.Old, new: x.New})
		}
		if len(e.edits) > 1 { // each is looked for in the text before all of them
			e.unsure = ReasonAltered
		}
		return wrote(c, hasPrefix(c.text, "Successfully replaced "), e)
	case "bash":
		if onlyReads(a.Command) {
			return nil
		}
		if startsMore(a.Command) {
			return []effect{{kind: starts, path: c.id, why: ReasonRunning}}
		}
		return []effect{{kind: runs, why: ReasonCommand}}
	case "ls", "grep", "find":
		return nil
	}
	return []effect{{kind: runs, why: ReasonTool}}
}

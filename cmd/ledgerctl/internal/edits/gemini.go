package edits

import (
	"regexp"
	"strings"
)

// gemini reads the tools of Gemini CLI.
type gemini struct{}

// inOrder: some versions run calls at the same time.
func (gemini) inOrder() bool { return false }

// geminiEscapes finds what Gemini CLI takes for a text that the model escaped once too
// often, and may change.
var geminiEscapes = regexp.MustCompile("\\\\+[ntr'\"`\\\\\n]")

func (gemini) effects(c *call) []effect {
	var a struct {
		Path     string   `json:"file_path"`
		Absolute string   `json:"absolute_path"`
		Content  string   `json:"content"`
		Old      string   `json:"old_string"`
		New      string   `json:"new_string"`
		Expected *float64 `json:"expected_replacements"`
		All      bool     `json:"allow_multiple"`
		Command  string   `json:"command"`
		Offset   *float64 `json:"offset"`
		Limit    *float64 `json:"limit"`
		Start    *float64 `json:"start_line"`
		End      *float64 `json:"end_line"`
	}
	if !decode(c, &a) {
		return unread(c)
	}
	if a.Path == "" {
		a.Path = a.Absolute
	}
	if c.failed && strings.Contains(c.text, "[Operation Cancelled]") && c.name != "run_shell_command" {
		return nil
	}
	var unsure Reason
	if geminiEscapes.MatchString(a.Content) || geminiEscapes.MatchString(a.Old) || geminiEscapes.MatchString(a.New) || strings.Contains(a.New, "$") {
		unsure = ReasonAltered
	}
	if strings.Contains(c.text, "User modified") {
		return []effect{{kind: loses, path: a.Path, why: ReasonUnread}}
	}
	switch c.name {
	case "read_file":
		switch {
		case !c.answered:
			return nil
		case c.failed || a.Offset != nil || a.Limit != nil || a.Start != nil || a.End != nil || strings.Contains(c.text, "truncated"):
			if c.failed && strings.Contains(c.text, "File not found") {
				return []effect{{kind: misses, path: a.Path}}
			}
			return nil
		case c.text == "":
			return nil // or a binary file
		}
		return []effect{{kind: reads, path: a.Path, content: c.text}}
	case "write_file":
		return wrote(c, hasPrefix(c.text, "Successfully created and wrote to new file", "Successfully overwrote file"), effect{kind: writes, path: a.Path, content: a.Content, unsure: unsure})
	case "replace", "edit":
		if c.failed && hasPrefix(c.text, "Failed to edit", "No changes to apply", "File not found") {
			return nil
		}
		e := effect{kind: edits, path: a.Path, unsure: unsure, edits: []replacement{{old: a.Old, new: a.New, all: a.All || a.Expected != nil && *a.Expected > 1}}}
		if a.Old == "" {
			e.kind, e.content, e.edits = writes, a.New, nil
		}
		return wrote(c, hasPrefix(c.text, "Successfully modified file", "Created new file"), e)
	case "run_shell_command":
		if onlyReads(a.Command) {
			return nil
		}
		if startsMore(a.Command) || strings.Contains(c.text, "Background PIDs:") && !strings.Contains(c.text, "Background PIDs: (none)") {
			return []effect{{kind: starts, path: c.id, why: ReasonRunning}}
		}
		return []effect{{kind: runs, why: ReasonCommand}}
	case "list_directory", "glob", "search_file_content", "grep_search", "google_web_search", "web_fetch", "read_many_files", "write_todos", "ask_user":
		return nil
	}
	return []effect{{kind: runs, why: ReasonTool}}
}

package edits

import (
	"path"
	"regexp"
	"strconv"
	"strings"
)

// claude reads the tools of Claude Code.
type claude struct{}

// inOrder: Claude Code runs calls that write one after the other, in their order.
func (claude) inOrder() bool { return true }

func (claude) effects(c *call) []effect {
	if c.failed && hasPrefix(c.text, "The user doesn't want to", "Permission to use ", "<tool_use_error>", "InputValidationError", "String to replace not found", "File has not been read yet", "No changes to make", "File does not exist") && !strings.Contains(c.text, "modified since") {
		if c.name == "Read" || c.name == "Edit" {
			return claudeMissing(c)
		}
		return nil // it did not run
	}
	switch c.name {
	case "Read":
		return claudeRead(c)
	case "Write":
		var a struct {
			Path    string `json:"file_path"`
			Content string `json:"content"`
		}
		if !decode(c, &a) {
			return unread(c)
		}
		if c.failed && strings.Contains(c.text, "modified since") {
			return []effect{{kind: loses, path: a.Path, why: ReasonDiffers}}
		}
		e := effect{kind: writes, path: a.Path, content: a.Content}
		if claudeAltered(c) {
			return []effect{{kind: loses, path: a.Path, why: ReasonUnread}}
		}
		return wrote(c, hasPrefix(c.text, "File created successfully at", "The file "), e)
	case "Edit", "MultiEdit":
		return claudeEdit(c)
	case "NotebookEdit":
		var a struct {
			Path string `json:"notebook_path"`
		}
		if !decode(c, &a) {
			return unread(c)
		}
		return []effect{{kind: loses, path: a.Path, why: ReasonUnread}}
	case "Bash":
		var a struct {
			Command    string `json:"command"`
			Background bool   `json:"run_in_background"`
		}
		if decode(c, &a) && !a.Background && onlyReads(a.Command) {
			return nil
		}
		if a.Background || startsMore(a.Command) || strings.Contains(c.text, "running in background") || strings.Contains(c.text, "running in the background") {
			return []effect{{kind: starts, path: c.id, why: ReasonRunning}}
		}
		return []effect{{kind: runs, why: ReasonCommand}}
	case "Task", "Agent":
		var a struct {
			Background bool `json:"run_in_background"`
		}
		if !decode(c, &a) || a.Background || strings.Contains(c.text, "Async agent launched") || strings.Contains(c.text, "in the background") {
			return []effect{{kind: starts, path: c.id, why: ReasonAgent}}
		}
		return []effect{{kind: runs, why: ReasonAgent}}
	case "Glob", "Grep", "LS", "NotebookRead", "TodoWrite", "TodoRead", "WebFetch", "WebSearch", "ToolSearch", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "BashOutput", "TaskOutput", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet":
		return nil
	}
	return []effect{{kind: runs, why: ReasonTool}}
}

// claudeMissing returns the effect of a call that found no file.
func claudeMissing(c *call) []effect {
	var a struct {
		Path string `json:"file_path"`
	}
	if hasPrefix(strings.TrimPrefix(c.text, "<tool_use_error>"), "File does not exist") && decode(c, &a) {
		return []effect{{kind: misses, path: a.Path}}
	}
	return nil
}

// claudeAltered reports whether the user changed what the model wrote before it was
// written.
func claudeAltered(c *call) bool { return strings.Contains(c.text, "user modified your proposed") }

func claudeEdit(c *call) []effect {
	type one struct {
		Old string `json:"old_string"`
		New string `json:"new_string"`
		All bool   `json:"replace_all"`
	}
	var a struct {
		Path  string `json:"file_path"`
		Old   string `json:"old_string"`
		New   string `json:"new_string"`
		All   bool   `json:"replace_all"`
		Edits []one  `json:"edits"`
	}
	if !decode(c, &a) {
		return unread(c)
	}
	if c.name == "Edit" {
		a.Edits = []one{{a.Old, a.New, a.All}}
	}
	if c.failed && strings.Contains(c.text, "modified since") {
		return []effect{{kind: loses, path: a.Path, why: ReasonDiffers}}
	}
	if claudeAltered(c) || len(a.Edits) == 0 {
		return []effect{{kind: loses, path: a.Path, why: ReasonUnread}}
	}
	e := effect{kind: edits, path: a.Path}
	if a.Edits[0].Old == "" { // a new file
		if len(a.Edits) > 1 {
			return wrote(c, false, e)
		}
		e.kind, e.content = writes, a.Edits[0].New
	}
	for _, x := range a.Edits {
		if e.kind == edits {
			e.edits = append(e.edits, replacement{old: x.Old, new: x.New, all: x.All, line: true})
		}
		if ext := strings.ToLower(path.Ext(a.Path)); ext != ".md" && ext != ".mdx" && trailingSpace.MatchString(x.New) {
			e.unsure = ReasonAltered // versions differ in whether they take it away
		}
	}
	return wrote(c, hasPrefix(c.text, "The file ", "Applied ", "File created successfully at"), e)
}

var trailingSpace = regexp.MustCompile(`(?m)[ \t\r]+$`)

// The limits of a read of Claude Code.
const claudeLines, claudeLineLength = 2000, 2000

// claudeRead reads lines with their numbers, before which stand blanks and after which
// stands an arrow or a tab. The last line of a file that ends with a line break is empty.
func claudeRead(c *call) []effect {
	var a struct {
		Path   string   `json:"file_path"`
		Offset *float64 `json:"offset"`
		Limit  *float64 `json:"limit"`
		Pages  any      `json:"pages"`
	}
	if !c.answered || !decode(c, &a) || a.Pages != nil || strings.EqualFold(path.Ext(a.Path), ".ipynb") {
		return nil
	}
	if c.failed {
		return claudeMissing(c)
	}
	if hasPrefix(c.text, "<system-reminder>Warning: the file exists but the contents are empty") && a.Offset == nil {
		return []effect{{kind: reads, path: a.Path}}
	}
	var lines []string
	first, whole := 0, true
	rest := c.text
	for rest != "" {
		line, after, more := strings.Cut(rest, "\n")
		n, text, ok := numbered(line)
		if !ok || first > 0 && n != first+len(lines) {
			break
		}
		if first == 0 {
			first = n
		}
		if len(text) >= claudeLineLength {
			whole = false
			if strings.HasSuffix(text, "... [truncated]") {
				return nil
			}
		}
		lines = append(lines, text)
		rest = after
		if !more {
			break
		}
	}
	if rest = strings.TrimLeft(rest, "\n"); len(lines) == 0 || rest != "" && !strings.HasPrefix(rest, "<system-reminder>") {
		return nil
	}
	text := strings.Join(lines, "\n")
	switch {
	case first != 1 || a.Offset != nil && *a.Offset > 1 || len(lines) >= claudeLines || a.Limit != nil && *a.Limit <= float64(len(lines)):
		whole = false
	case strings.Contains(rest, "truncated") || strings.Contains(rest, "PARTIAL"):
		whole = false
	}
	if !whole {
		return []effect{{kind: shows, path: a.Path, line: first, content: text}}
	}
	return []effect{{kind: reads, path: a.Path, content: text}}
}

// numbered splits a line of a read into its number and its text.
func numbered(line string) (n int, text string, ok bool) {
	s := strings.TrimLeft(line, " ")
	i := 0
	for i < len(s) && i < 9 && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	if i == 0 {
		return 0, "", false
	}
	n, _ = strconv.Atoi(s[:i])
	if text, ok = strings.CutPrefix(s[i:], "→"); !ok {
		text, ok = strings.CutPrefix(s[i:], "\t")
	}
	return n, text, ok
}

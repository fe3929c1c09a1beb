package edits

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// codex reads the tools of Codex CLI.
type codex struct{}

// inOrder: Codex runs commands at the same time.
func (codex) inOrder() bool { return false }

// codexCommand is the arguments of a command, of whichever version.
type codexCommand struct {
	Cmd     string `json:"cmd"`
	Workdir string `json:"workdir"`
	Command any    `json:"command"` // a text, or words
	Session any    `json:"session_id"`
	Chars   string `json:"chars"`
	Input   string `json:"input"` // of apply_patch as a function
	Action  string `json:"type"`
}

// line returns the command as a line of a shell, "" if it is none.
func (a *codexCommand) line() string {
	switch v := a.Command.(type) {
	case string:
		return v
	case []any:
		if len(v) == 3 {
			shell, _ := v[0].(string)
			flag, _ := v[1].(string)
			line, _ := v[2].(string)
			if name := shell[strings.LastIndex(shell, "/")+1:]; (name == "bash" || name == "zsh" || name == "sh") && (flag == "-lc" || flag == "-c") {
				return line
			}
		}
		return ""
	}
	return a.Cmd
}

var (
	codexStillRuns = regexp.MustCompile(`(?m)^Process running with session ID ([0-9]+)$`)
	codexExited    = regexp.MustCompile(`(?m)^Process exited with code (-?[0-9]+)$`)
)

func (codex) effects(c *call) []effect {
	switch c.name {
	case "apply_patch":
		var text string
		if json.Unmarshal(c.arguments, &text) != nil {
			var a codexCommand
			if !decode(c, &a) {
				return []effect{{kind: runs, why: ReasonTool}}
			}
			text = a.Input
		}
		return codexPatch(c, text)
	case "exec_command", "shell", "shell_command", "local_shell", "container.exec", "unified_exec":
		var a codexCommand
		if !decode(c, &a) {
			return []effect{{kind: runs, why: ReasonCommand}}
		}
		return codexRan(c, &a)
	case "write_stdin":
		var a codexCommand
		if !decode(c, &a) || codexStillRuns.MatchString(codexHead(c.text)) || !c.answered {
			return []effect{{kind: runs, why: ReasonCommand}}
		}
		if id, ok := sessionID(a.Session); ok && codexExited.MatchString(codexHead(c.text)) {
			return []effect{{kind: ends, path: "session " + id}, {kind: runs, why: ReasonCommand}}
		}
		return []effect{{kind: runs, why: ReasonCommand}}
	case "spawn_agent", "send_input", "resume_agent", "spawn_agents_on_csv":
		return []effect{{kind: starts, path: c.id, why: ReasonAgent}}
	case "update_plan", "view_image", "web_search", "list_dir", "read_file", "grep_files", "wait_agent", "wait", "close_agent", "list_mcp_resources", "read_mcp_resource", "request_user_input":
		return nil
	}
	return []effect{{kind: runs, why: ReasonTool}}
}

func sessionID(v any) (string, bool) {
	switch x := v.(type) {
	case string:
		return x, true
	case float64:
		return strconv.FormatInt(int64(x), 10), true
	}
	return "", false
}

// codexHead returns what stands before the output of a command.
func codexHead(text string) string {
	head, _, _ := strings.Cut(text, "\nOutput:\n")
	return head
}

// codexRan returns the effects of a command. Codex reads files with commands: what one that
// prints a file whole printed is the file, if nothing else printed something.
func codexRan(c *call, a *codexCommand) []effect {
	line := a.line()
	if strings.Contains(line, "apply_patch") { // Codex may apply it itself
		out := []effect{{kind: runs, why: ReasonCommand}}
		for l := range strings.Lines(line) {
			for _, prefix := range []string{"*** Add File: ", "*** Delete File: ", "*** Update File: ", "*** Move to: "} {
				if name, ok := strings.CutPrefix(strings.TrimSpace(l), prefix); ok && len(out) <= maxPatchFiles {
					out = append(out, effect{kind: loses, path: joined(a.Workdir, name), why: ReasonUnread})
				}
			}
		}
		return out
	}
	if onlyReads(line) {
		name, most, ok := printed(line)
		if !ok || !c.answered || c.failed || !strings.Contains("\n"+codexHead(c.text)+"\n", "\nProcess exited with code 0\n") {
			return nil
		}
		_, text, ok := strings.Cut(c.text, "\nOutput:\n")
		if !ok || strings.Contains(text, "truncated…") || strings.Contains(text, "Total output lines:") || !strings.HasSuffix(text, "\n") || most > 0 && strings.Count(text, "\n") >= most {
			return nil
		}
		return []effect{{kind: reads, path: joined(a.Workdir, name), content: text, unsure: ReasonShell}}
	}
	if m := codexStillRuns.FindStringSubmatch(codexHead(c.text)); m != nil {
		return []effect{{kind: starts, path: "session " + m[1], why: ReasonRunning}}
	}
	if startsMore(line) {
		return []effect{{kind: starts, path: c.id, why: ReasonRunning}}
	}
	return []effect{{kind: runs, why: ReasonCommand}}
}

// joined returns a path of a call that names its folder.
func joined(dir, name string) string {
	if dir == "" || isAbsolute(name) {
		return name
	}
	return dir + "/" + name
}

// codexPatch returns the effects of apply_patch.
func codexPatch(c *call, text string) []effect {
	files, ok := parsePatch(text)
	result := c.text
	var o struct {
		Output   string `json:"output"`
		Metadata struct {
			Exit *int `json:"exit_code"`
		} `json:"metadata"`
	}
	failed := c.failed
	if json.Unmarshal([]byte(result), &o) == nil && o.Output != "" {
		result = o.Output
		failed = failed || o.Metadata.Exit != nil && *o.Metadata.Exit != 0
	} else if strings.Contains(result, "Exit code: ") && !strings.Contains(result, "Exit code: 0\n") {
		failed = true
	}
	if c.answered && strings.Contains(result, "verification failed") || strings.Contains(result, "rejected by user") {
		return nil // nothing was written
	}
	var out []effect
	if !ok {
		out = append(out, effect{kind: runs, why: ReasonTool})
	}
	seen := make(map[string]bool)
	for _, f := range files {
		e := effect{kind: f.kind, path: f.path, to: f.to, hunks: f.hunks}
		switch {
		case !ok:
			e = effect{kind: loses, path: f.path, why: ReasonUnread}
		case !c.answered:
			e = effect{kind: loses, path: f.path, why: ReasonUnanswered}
		case failed || !strings.Contains(result, "Success. Updated the following files:"):
			e = effect{kind: loses, path: f.path, why: ReasonFailed}
		case f.kind == writes && len(f.lines) > 0:
			e.content = strings.Join(f.lines, "\n") + "\n"
		case f.kind == patches && len(f.hunks) == 0 || seen[f.path]:
			e = effect{kind: loses, path: f.path, why: ReasonUnread}
		}
		seen[f.path] = true
		out = append(out, e)
		if e.kind == loses && f.to != "" {
			e.path = f.to
			out = append(out, e)
		}
	}
	return out
}

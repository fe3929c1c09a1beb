package summary

import "strings"

// Request returns what a person wrote in a text of a user's message: the text without
// what the agent's program wrote in the user's name before and after it. That is blocks
// between tags that such programs are known to write, as <environment_context> and
// <system-reminder>, instructions of a repository, and notices of a local command or an
// interruption; and texts of skills, hooks and compactions of Claude Code. Other tags are the person's, who may put a whole request between them.
// "" if the person wrote nothing. A command with arguments is the
// person's: <command-name>/review</command-name> <command-args>94</command-args>
// returns "/review 94".
//
// A block inside a sentence, or one without its end, is the person's text.
func Request(text string) string {
	command, arguments := "", ""
	for {
		text = strings.TrimSpace(text)
		if rest, ok := withoutNotice(text); ok {
			text = rest
			continue
		}
		name, body, rest, ok := leadingBlock(text)
		if !ok {
			break
		}
		switch name {
		case "command-name":
			command = strings.TrimSpace(body)
		case "command-args":
			arguments = strings.TrimSpace(body)
		}
		text = rest
	}
	for {
		rest, ok := withoutTrailingBlock(text)
		if !ok {
			break
		}
		text = strings.TrimSpace(rest)
	}
	if text == "" && arguments != "" {
		return strings.TrimSpace(command + " " + arguments)
	}
	return text
}

// Report returns what an agent reported to another one in the user's name, as in
// <subagent_notification> and <task-notification>; "" for another text.
func Report(text string) string {
	name, body, _, ok := leadingBlock(strings.TrimSpace(text))
	if !ok || !strings.HasSuffix(name, "notification") {
		return ""
	}
	if strings.HasPrefix(strings.TrimSpace(body), "{") {
		body = unescaped.Replace(body)
	}
	return body
}

var unescaped = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\"`, `"`)

// wholeNotices are the beginnings of texts that are a program's to their end.
var wholeNotices = []string{
	"Base directory for this skill: /", "Stop hook feedback:\n", "A session-scoped Stop hook is now active with condition:",
	"This session is being continued from a previous conversation that ran out of context.",
}

// withoutNotice drops the notice that text begins with.
func withoutNotice(text string) (rest string, ok bool) {
	for _, begin := range wholeNotices {
		if strings.HasPrefix(text, begin) {
			return "", true
		}
	}
	switch {
	case strings.HasPrefix(text, "Caveat: The messages below"):
		_, rest, _ = strings.Cut(text, "\n")
		return rest, true
	case strings.HasPrefix(text, "[Request interrupted by user"):
		_, rest, ok = strings.Cut(text, "]")
		return rest, ok
	case strings.HasPrefix(text, "# AGENTS.md instructions"):
		head, rest, ok := strings.Cut(text, "<INSTRUCTIONS>")
		if !ok || strings.Count(head, "\n") > 3 {
			return text, false
		}
		_, rest, ok = strings.Cut(rest, "</INSTRUCTIONS>")
		return rest, ok
	}
	return text, false
}

// leadingBlock returns the block that text begins with.
func leadingBlock(text string) (name, body, rest string, ok bool) {
	if !strings.HasPrefix(text, "<") {
		return "", "", "", false
	}
	end := strings.IndexByte(text, '>')
	if end < 0 {
		return "", "", "", false
	}
	name, _, _ = strings.Cut(text[1:end], " ")
	if !isProgramTag(name) && !isProgramTag(text[1:end]) {
		return "", "", "", false
	}
	inner := text[end+1:]
	for from := 0; ; {
		body, rest, ok = strings.Cut(inner[from:], "</"+name)
		if !ok {
			return "", "", "", false
		}
		if strings.HasPrefix(rest, ">") || strings.HasPrefix(rest, " ") {
			body = inner[:from+len(body)]
			_, rest, ok = strings.Cut(rest, ">")
			return name, body, rest, ok
		}
		from = len(inner) - len(rest)
	}
}

// withoutTrailingBlock drops the block that text ends with, if it begins a line.
func withoutTrailingBlock(text string) (rest string, ok bool) {
	if !strings.HasSuffix(text, ">") {
		return text, false
	}
	from := strings.LastIndex(text, "</")
	if from < 0 || !isProgramTag(text[from+2:len(text)-1]) {
		return text, false
	}
	begin := strings.LastIndex(text[:from], "\n<"+text[from+2:len(text)-1]+">")
	if begin < 0 {
		return text, false
	}
	return text[:begin], true
}

// programTags are the names of the tags, with "-" for each joint, between which programs
// of agents write in the user's name: those of Claude Code, Codex, Cursor, Cline and
// OpenHands.
var programTags = map[string]bool{
	"system-reminder": true, "system-warning": true, "environment-context": true, "environment-details": true, "user-info": true, "app-context": true, "git-context": true,
	"permissions-instructions": true, "user-instructions": true, "skills-instructions": true, "apps-instructions": true, "plugins-instructions": true,
	"collaboration-mode": true, "turn-aborted": true, "user-shell-command": true, "model-switch": true, "personality-spec": true, "hook-prompt": true, "hook-context": true,
	"command-name": true, "command-message": true, "command-args": true, "command-contents": true,
	"local-command-stdout": true, "local-command-stderr": true, "local-command-caveat": true, "bash-input": true, "bash-stdout": true, "bash-stderr": true,
	"user-prompt-submit-hook": true, "session-start-hook": true, "new-diagnostics": true, "ide-opened-file": true, "ide-selection": true, "ide-diagnostics": true,
	"additional-data": true, "open-and-recently-viewed-files": true, "attached-files": true, "persisted-output": true, "tool-use-error": true,
}

var joints = strings.NewReplacer("_", "-", " ", "-")

// isProgramTag reports whether programs of agents write between tags of this name.
func isProgramTag(name string) bool {
	name = joints.Replace(name)
	return programTags[name] || strings.HasSuffix(name, "-notification")
}

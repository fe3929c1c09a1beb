package summary

import "strings"

// Request returns what a person wrote in a text of a user's message: the text without
// what the agent's program wrote in the user's name before and after it. That is blocks
// between tags with a joint in their names, as <environment_context> and
// <system-reminder>, instructions of a repository, and notices of a local command or an
// interruption. "" if the person wrote nothing. A command with arguments is the
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

// withoutNotice drops the notice that text begins with.
func withoutNotice(text string) (rest string, ok bool) {
	switch {
	case strings.HasPrefix(text, "Caveat: The messages below"), strings.HasPrefix(text, "[Request interrupted by user"):
		_, rest, _ = strings.Cut(text, "\n")
		return rest, true
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
	body, rest, ok = strings.Cut(text[end+1:], "</"+name)
	if !ok {
		return "", "", "", false
	}
	_, rest, ok = strings.Cut(rest, ">")
	return name, body, rest, ok
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

// isProgramTag reports whether a tag has a name of several words, of small letters.
// HTML has none of these.
func isProgramTag(name string) bool {
	joints := 0
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9' && i > 0:
		case (c == '_' || c == '-' || c == ' ') && i > 0 && i+1 < len(name):
			joints++
		default:
			return false
		}
	}
	return joints > 0
}

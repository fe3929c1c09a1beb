package facts

import (
	"path"
	"slices"
	"strings"

	"nexus/turns"
)

// call is what a tool call runs.
type call struct {
	tool     string
	commands []string // first lines of what it gives to a shell, or the files of a patch
	shell    bool     // a shell runs it
	runs     bool     // it runs something whose output is no text of files alone
}

// callOf returns what a call runs. Tools name it differently: command, cmd or script, a
// text or the list of its words; a patch in input or patch.
func callOf(p *turns.Part) (c call) {
	c.tool = p.Name
	args := p.Arguments
	if s, ok := args.Text(); ok { // the text of a tool without a schema
		c.patch(s)
		return c
	}
	for name, v := range members(args) {
		switch name {
		case "command", "cmd", "script":
			c.command(v)
		case "action": // of a shell of the provider's own
			for name, v := range members(v) {
				if name == "command" || name == "commands" {
					c.command(v)
				}
			}
		case "input", "patch":
			if s, ok := v.Text(); ok {
				c.patch(s)
			}
		}
	}
	return c
}

// members yields the members of a JSON object in their order, none of another value.
func members(v turns.Raw) func(yield func(string, turns.Raw) bool) {
	return func(yield func(string, turns.Raw) bool) {
		if v.Kind() != '{' {
			return
		}
		var m map[string]turns.Raw
		if turns.DecodeJSON(v, &m) != nil {
			return
		}
		names := make([]string, 0, len(m))
		for name := range m {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			if !yield(name, m[name]) {
				return
			}
		}
	}
}

// command adds a command: its text, or the list of its words.
func (c *call) command(v turns.Raw) {
	text, ok := v.Text()
	var words []string
	if !ok && (v.Kind() != '[' || turns.DecodeJSON(v, &words) != nil || len(words) == 0) {
		return
	}
	if !ok {
		text = commandOf(words)
	}
	if c.patch(text) {
		return
	}
	c.shell, c.runs = true, c.runs || !onlyReads(text)
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if first != "" {
		c.commands = append(c.commands, first)
	}
}

// commandOf returns the command of a list of words: what a shell is told to run, else
// the words.
func commandOf(words []string) string {
	if len(words) >= 3 && strings.HasSuffix(path.Base(words[0]), "sh") && strings.HasPrefix(words[1], "-") && strings.HasSuffix(words[1], "c") {
		return words[2]
	}
	return strings.Join(words, " ")
}

// patch adds the files of a patch as Codex writes it, and reports whether text is one.
func (c *call) patch(text string) bool {
	if !strings.Contains(text, "*** Begin Patch") {
		return false
	}
	for line := range strings.SplitSeq(text, "\n") {
		for _, head := range [...]string{"*** Add File: ", "*** Update File: ", "*** Delete File: "} {
			if file, ok := strings.CutPrefix(line, head); ok {
				c.commands = append(c.commands, "apply_patch "+file)
			}
		}
	}
	return true
}

// readers are the programs whose output is the text of files, or a list of them.
var readers = map[string]bool{
	"cat": true, "sed": true, "head": true, "tail": true, "nl": true, "less": true, "more": true, "bat": true, "rg": true, "grep": true, "egrep": true, "fgrep": true, "ag": true,
	"ack": true, "find": true, "fd": true, "ls": true, "tree": true, "wc": true, "awk": true, "jq": true, "yq": true, "echo": true, "printf": true, "sort": true, "uniq": true,
	"cut": true, "tr": true, "xxd": true, "od": true, "strings": true, "pwd": true, "which": true, "date": true, "cd": true, "true": true, "diff": true, "cmp": true, "test": true,
	"[": true, "column": true, "man": true, "stat": true, "file": true, "basename": true, "dirname": true, "realpath": true, "type": true, "env": true, "xargs": true, "tac": true,
	"curl": true, "export": true, "set": true, "sleep": true, "read": true, "while": true, "do": true, "done": true, "for": true, "if": true, "then": true, "fi": true,
}

// readingVerbs are the verbs of programs with several whose output is such.
var readingVerbs = map[string][]string{
	"git": {"show", "diff", "log", "grep", "blame", "cat-file", "ls-files", "status", "branch", "rev-parse", "remote", "config", "tag", "stash"},
	"gh":  {"pr", "issue", "api", "search", "repo", "release"},
	"go":  {"doc", "env", "list", "version"},
}

// onlyReads reports whether each program of a command reads files and prints them.
func onlyReads(command string) bool {
	for _, part := range pipeline(command) {
		words := strings.Fields(part)
		for len(words) > 0 && (strings.Contains(words[0], "=") || slices.Contains([]string{"sudo", "time", "command", "nice", "!", "(", "{"}, words[0])) {
			words = words[1:]
		}
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		program := path.Base(strings.Trim(words[0], "\"'({"))
		if verbs, ok := readingVerbs[program]; ok {
			verb := ""
			for i := 1; i < len(words) && verb == ""; i++ {
				switch {
				case words[i] == "-C" || words[i] == "-c" || words[i] == "-R":
					i++
				case !strings.HasPrefix(words[i], "-"):
					verb = words[i]
				}
			}
			if !slices.Contains(verbs, verb) {
				return false
			}
		} else if !readers[program] {
			return false
		}
	}
	return true
}

// pipeline returns the commands of a line of a shell, parted at ; | & and line ends that
// are in no quotes.
func pipeline(s string) (out []string) {
	var quote byte
	from := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == '\\' && quote == '"' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '\\':
			i++
		case c == '\'' || c == '"':
			quote = c
		case c == '&' && i > 0 && (s[i-1] == '>' || s[i-1] == '<'), c == '&' && i+1 < len(s) && s[i+1] == '>': // 2>&1
		case c == ';' || c == '|' || c == '&' || c == '\n':
			out = append(out, s[from:i])
			from = i + 1
		}
	}
	return append(out, s[min(from, len(s)):])
}

package edits

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// onlyReads reports whether a line of a shell runs only programs that read, from a short
// list, with arguments that keep them from writing. It takes the plainest lines: no
// variables, substitutions, redirections to files, functions, or background.
func onlyReads(line string) bool {
	commands, ok := simpleCommands(line)
	if !ok || len(commands) == 0 {
		return false
	}
	for _, words := range commands {
		if !commandReads(words) {
			return false
		}
	}
	return true
}

// startsMore reports whether a line may leave something that runs on after it.
func startsMore(line string) bool {
	s := strings.NewReplacer("&&", "", ">&", "", "&>", "").Replace(line)
	return strings.Contains(s, "&") || slices.ContainsFunc([]string{"nohup", "setsid", "disown", "daemon", "tmux", "screen", "systemctl", "docker", "launchctl", "at now"}, func(w string) bool {
		return strings.Contains(line, w)
	})
}

const maxCommandLine = 8192

// simpleCommands splits a line into its commands and their words. ok is false if it has
// something else than words, quotes, pipes and lists.
func simpleCommands(line string) (commands [][]string, ok bool) {
	if len(line) > maxCommandLine {
		return nil, false
	}
	for _, harmless := range []string{" 2>&1", " 2>/dev/null", " 2> /dev/null"} {
		for _, end := range []string{" ", "|", ";", "\n", "&&"} {
			line = strings.ReplaceAll(line, harmless+end, " "+end)
		}
		line = strings.TrimSuffix(line, harmless)
	}
	var words []string
	var word strings.Builder
	inWord := false
	endWord := func() {
		if inWord {
			words = append(words, word.String())
			word.Reset()
			inWord = false
		}
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			commands = append(commands, words)
			words = nil
		}
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ', '\t':
			endWord()
		case '\n', ';':
			endCommand()
		case '|':
			endCommand()
			if i+1 < len(line) && line[i+1] == '|' {
				i++
			} else if i+1 < len(line) && line[i+1] == '&' {
				return nil, false
			}
		case '&':
			if i+1 >= len(line) || line[i+1] != '&' {
				return nil, false
			}
			i++
			endCommand()
		case '\'':
			end := strings.IndexByte(line[i+1:], '\'')
			if end < 0 {
				return nil, false
			}
			word.WriteString(line[i+1 : i+1+end])
			i, inWord = i+1+end, true
		case '"':
			end := strings.IndexByte(line[i+1:], '"')
			if end < 0 || strings.ContainsAny(line[i+1:i+1+end], "$`\\!") {
				return nil, false
			}
			word.WriteString(line[i+1 : i+1+end])
			i, inWord = i+1+end, true
		case '$', '`', '(', ')', '{', '}', '<', '>', '#', '!', '~', '\\', '\r', 0, '=':
			if c == '=' && inWord && strings.HasPrefix(word.String(), "-") {
				word.WriteByte(c)
				continue
			}
			return nil, false
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	endCommand()
	return commands, true
}

// readers are programs that only read, with options that make them write; "" for none.
var readers = map[string]*regexp.Regexp{
	"cat": nil, "head": nil, "tail": nil, "wc": nil, "ls": nil, "pwd": nil, "echo": nil, "grep": nil, "egrep": nil, "fgrep": nil, "nl": nil, "cut": nil, "tr": nil, "cmp": nil, "stat": nil, "which": nil, "du": nil, "df": nil, "true": nil, "cd": nil, "test": nil, "basename": nil, "dirname": nil, "realpath": nil,
	"rg":   regexp.MustCompile(`^--(pre|hostname-bin)`),
	"sort": regexp.MustCompile(`^(-[a-zA-Z]*[oTS]|--(o|c|t))`),
	"diff": regexp.MustCompile(`^--o`),
	"find": regexp.MustCompile(`^-(delete|exec|ok|fprint|fls)`),
}

var (
	sedPrints  = regexp.MustCompile(`^[0-9]+(,([0-9]+|\$))?p$`)
	gitReaders = []string{"status", "log", "show", "diff", "rev-parse", "ls-files", "ls-tree", "blame", "merge-base", "rev-list"}
	gitWrites  = regexp.MustCompile(`^(-o|-O|--o|--ex|--te|--par)`) // abbreviations too
)

func commandReads(words []string) bool {
	name, args := words[0], words[1:]
	switch name {
	case "sed":
		return len(args) >= 2 && args[0] == "-n" && sedPrints.MatchString(args[1]) && !slices.ContainsFunc(args[2:], isOption)
	case "git":
		if len(args) >= 2 && args[0] == "-C" {
			args = args[2:]
		}
		return len(args) > 0 && slices.Contains(gitReaders, args[0]) && !slices.ContainsFunc(args, func(s string) bool { return s != "--oneline" && gitWrites.MatchString(s) })
	case "uniq":
		return !slices.ContainsFunc(args, func(s string) bool { return !isOption(s) })
	}
	writes, ok := readers[name]
	return ok && (writes == nil || !slices.ContainsFunc(args, writes.MatchString))
}

func isOption(s string) bool { return strings.HasPrefix(s, "-") }

// printed returns the one file that a line prints, and how many lines at most; 0: all.
func printed(line string) (name string, most int, ok bool) {
	commands, ok := simpleCommands(line)
	if !ok || len(commands) != 1 || strings.ContainsAny(line, "*?[") {
		return "", 0, false
	}
	w := commands[0]
	if len(w) == 2 && w[0] == "cat" && !isOption(w[1]) {
		return w[1], 0, true
	}
	if len(w) == 4 && w[0] == "sed" && strings.HasPrefix(w[2], "1,") && strings.HasSuffix(w[2], "p") {
		to := strings.TrimSuffix(strings.TrimPrefix(w[2], "1,"), "p")
		if to == "$" {
			return w[3], 0, true
		}
		n, err := strconv.Atoi(to)
		return w[3], n, err == nil && n > 0
	}
	return "", 0, false
}

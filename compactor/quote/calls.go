package quote

import (
	"regexp"
	"strconv"
	"strings"

	"nexus/turns"
)

// fileOp is what a call does to a file.
type fileOp struct {
	path         string
	write        *string // the whole content
	edits        []edit
	isRead       bool
	from         int  // of a read: the number of the first line
	isPartial    bool // of a read: not the whole file
	numberedOnly bool // of a read: only a listing with numbers counts
}

type edit struct {
	old, new string
	all      bool
}

// fileOps reads the arguments of a tool call.
func fileOps(p *turns.Part) []fileOp {
	if s, ok := p.Arguments.Text(); ok {
		return patchOps(s)
	}
	var args map[string]turns.Raw
	if p.Arguments.Kind() != '{' || turns.DecodeJSON(p.Arguments, &args) != nil {
		return nil
	}
	text := func(keys ...string) (string, bool) {
		for _, k := range keys {
			if v, ok := args[k]; ok {
				if s, ok := v.Text(); ok {
					return s, true
				}
			}
		}
		return "", false
	}
	if s, ok := text("patch", "input"); ok && strings.Contains(s, patchBegin) {
		return patchOps(s)
	}
	name := strings.ToLower(p.Name)
	path, hasPath := text("file_path", "absolute_path", "notebook_path", "path", "filename", "file", "target_file")
	if !hasPath {
		cmd, ok := text("command", "cmd", "script")
		if !ok {
			for _, k := range [...]string{"command", "cmd"} {
				var list []string
				if v, found := args[k]; found && v.Kind() == '[' && turns.DecodeJSON(v, &list) == nil && len(list) > 0 {
					cmd, ok = list[len(list)-1], true
				}
			}
		}
		if !ok {
			return nil
		}
		return commandOps(cmd)
	}
	if path == "" || strings.ContainsAny(path, "\n\x00") {
		return nil
	}
	op := fileOp{path: path}
	op.edits = editsOf(args)
	if len(op.edits) > 0 {
		return []fileOp{op}
	}
	if content, ok := text("content", "contents", "file_text"); ok {
		op.write = &content
		return []fileOp{op}
	}
	for _, verb := range [...]string{"grep", "glob", "search", "list", "ls", "find"} {
		if strings.Contains(name, verb) {
			return nil
		}
	}
	op.isRead, op.from = true, 1
	for _, k := range [...]string{"offset", "start_line", "line"} {
		if n, err := strconv.Atoi(strings.Trim(string(args[k]), `"`)); err == nil {
			op.from, op.isPartial = max(1, n), true
		}
	}
	if _, ok := args["limit"]; ok {
		op.isPartial = true
	}
	var span []int
	if v := args["view_range"]; v.Kind() == '[' && turns.DecodeJSON(v, &span) == nil && len(span) > 0 {
		op.from, op.isPartial = max(1, span[0]), true
	}
	return []fileOp{op}
}

var editKeys = [...][2]string{{"old_string", "new_string"}, {"oldText", "newText"}, {"old_str", "new_str"}, {"old_text", "new_text"}}

func editsOf(args map[string]turns.Raw) (out []edit) {
	if v := args["edits"]; v.Kind() == '[' {
		var list []map[string]turns.Raw
		if turns.DecodeJSON(v, &list) == nil {
			for _, e := range list {
				out = append(out, editsOf(e)...)
			}
		}
		return out
	}
	for _, k := range editKeys {
		to, ok := args[k[1]].Text()
		if !ok {
			continue
		}
		from, _ := args[k[0]].Text()
		return []edit{{from, to, string(args["replace_all"]) == "true"}}
	}
	return nil
}

const patchBegin = "*** Begin Patch"

// patchOps reads a patch as Codex writes it.
func patchOps(s string) (out []fileOp) {
	_, s, ok := strings.Cut(s, patchBegin)
	if !ok {
		return nil
	}
	var oldLines, newLines, added []string // of the hunk, or of the file that is added
	var op *fileOp
	isAdded := false
	flush := func() {
		switch {
		case op == nil:
		case isAdded:
			content := strings.Join(append(added, ""), "\n")
			op.write = &content
		case len(oldLines)+len(newLines) > 0:
			op.edits = append(op.edits, edit{old: strings.Join(oldLines, "\n"), new: strings.Join(newLines, "\n")})
		}
		oldLines, newLines, added = nil, nil, nil
	}
	begin := func(path string, add bool) {
		flush()
		out = append(out, fileOp{path: strings.TrimSpace(path)})
		op, isAdded = &out[len(out)-1], add
	}
	for l := range strings.SplitSeq(s, "\n") {
		if path, ok := strings.CutPrefix(l, "*** Update File: "); ok {
			begin(path, false)
			continue
		}
		if path, ok := strings.CutPrefix(l, "*** Add File: "); ok {
			begin(path, true)
			continue
		}
		if strings.HasPrefix(l, "*** End Patch") {
			break
		}
		switch {
		case op == nil:
		case l == "":
			if !isAdded {
				oldLines, newLines = append(oldLines, ""), append(newLines, "")
			}
		case strings.HasPrefix(l, "***"):
			flush()
			op = nil
		case strings.HasPrefix(l, "@@"):
			if !isAdded {
				flush()
			}
		case isAdded:
			added = append(added, strings.TrimPrefix(l, "+"))
		case l[0] == '+':
			newLines = append(newLines, l[1:])
		case l[0] == '-':
			oldLines = append(oldLines, l[1:])
		default:
			oldLines, newLines = append(oldLines, l[1:]), append(newLines, l[1:])
		}
	}
	flush()
	return out
}

var (
	heredoc  = regexp.MustCompile(`(?s)cat\s*>\s*(\S+)\s*<<-?\s*['"]?(\w+)['"]?\n(.*)`)
	sedRange = regexp.MustCompile(`^['"]?(\d+),(\d+|\$)p['"]?$`)
)

// commandOps reads a shell command that does nothing but show a file, or write one.
func commandOps(cmd string) []fileOp {
	if strings.Contains(cmd, patchBegin) {
		return patchOps(cmd)
	}
	if m := heredoc.FindStringSubmatch(cmd); m != nil {
		content, _, _ := strings.Cut(m[3], "\n"+m[2])
		content += "\n"
		return []fileOp{{path: strings.Trim(m[1], `'"`), write: &content}}
	}
	if len(cmd) > 2000 {
		return nil
	}
	op := fileOp{isRead: true, from: 1}
	for _, piece := range strings.FieldsFunc(strings.ReplaceAll(cmd, "&&", ";"), func(r rune) bool { return r == ';' || r == '|' || r == '\n' }) {
		words := strings.Fields(piece)
		if len(words) == 0 || words[0] == "cd" {
			continue
		}
		var names []string
		for _, w := range words[1:] {
			if m := sedRange.FindStringSubmatch(w); m != nil && words[0] == "sed" {
				op.from, _ = strconv.Atoi(m[1])
				op.isPartial = true
				continue
			}
			if !strings.HasPrefix(w, "-") {
				names = append(names, strings.Trim(w, `'"`))
			}
		}
		switch words[0] {
		case "cat", "sed", "nl", "bat":
		case "head":
			op.isPartial = true
			names = withoutNumbers(names)
		default:
			return nil
		}
		op.numberedOnly = op.numberedOnly || words[0] == "nl"
		switch {
		case len(names) == 0: // it reads the piece before it
		case len(names) == 1 && op.path == "" && !strings.ContainsAny(names[0], "*<>$`"):
			op.path = names[0]
		default:
			return nil
		}
	}
	if op.path == "" {
		return nil
	}
	return []fileOp{op}
}

func withoutNumbers(names []string) (out []string) {
	for _, n := range names {
		if _, err := strconv.Atoi(n); err != nil {
			out = append(out, n)
		}
	}
	return out
}

// listing reads numbered lines as cat -n and the reading tools print them. ok is false
// if the text is not such a listing.
func listing(text string, o origin) (out []line, ok bool) {
	others := 0
	for _, s := range splitLines(text) {
		n, rest, ok := numbered(s)
		switch {
		case !ok:
			if strings.TrimSpace(s) != "" {
				others++
			}
		case len(out) > 0 && n <= out[len(out)-1].number:
			return nil, false // two listings
		default:
			out = append(out, o.line(rest, n))
		}
	}
	return out, len(out) > 0 && len(out) > others
}

// numbered separates a line from its number.
func numbered(s string) (n int, rest string, ok bool) {
	t := strings.TrimLeft(s, " ")
	i := 0
	for i < len(t) && i < 8 && t[i] >= '0' && t[i] <= '9' {
		i++
	}
	if i == 0 {
		return 0, "", false
	}
	for _, sep := range [...]string{"→", "\t", "|"} {
		if rest, ok := strings.CutPrefix(t[i:], sep); ok {
			n, err := strconv.Atoi(t[:i])
			return n, rest, err == nil && n > 0
		}
	}
	return 0, "", false
}

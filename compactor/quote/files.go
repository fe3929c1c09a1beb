package quote

import (
	"path"
	"regexp"
	"strings"

	"nexus/compactor/summary"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Quote is a run of lines of a file, in its newest known state.
type Quote struct {
	Path string `json:"path"`
	From int    `json:"from,omitzero"` // the number of the first line; 0: unknown
	Turn uint64 `json:"turn"`          // depth of the turn that read or wrote one of the lines last
	Text string `json:"text"`          // whole lines, without the last line break
}

// Input is what [Files] chooses from.
type Input struct {
	Previous  []Quote            // of the compaction in force
	Halves    []summary.HalfTurn // that leave the context
	Kept      []summary.HalfTurn // that stay: what they show is not quoted
	MaxTokens uint64
	Counter   tokens.Counter // nil: approx-1
}

// Bounds on what is read: a longer text is not read as a file.
const (
	maxText  = 400 << 10
	maxFiles = 400
	maxLine  = 2_000 // bytes of a line that is quoted
	maxEdits = 200   // of one file in one call
	// maxVisited bounds the work of all edits and partial reads together, in the unit of
	// [file]: 5,000 edits of files of 2,000 lines.
	maxVisited = 1 << 30
)

// Files returns what to quote of the files that the agent read and wrote: of each the
// newest version, in the order of the files' last use. Together the quotes have at most
// in.MaxTokens tokens, tags included. Its time grows with the text of in.
func Files(in Input) []Quote {
	if in.MaxTokens == 0 {
		return nil
	}
	if in.Counter == nil {
		in.Counter = tokens.Approx{}
	}
	s := newState()
	s.recall(in.Previous)
	for i := range in.Halves {
		s.half(&in.Halves[i], false)
	}
	for i := range in.Kept {
		s.half(&in.Kept[i], true)
	}
	return s.choose(in.MaxTokens, in.Counter)
}

// state is what is known of all files after some halves.
type state struct {
	files   map[string]*file
	byEnd   map[string]*file    // by the last two elements of the path
	pending map[string][]fileOp // by call id
	now     int                 // ordinal of the half at hand
	visited int                 // of the files' edits, as in [file]
	asked   map[string]bool     // names in the newest request
	failed  map[string]bool     // names in the newest result that reports a failure
}

func newState() *state {
	return &state{files: make(map[string]*file), byEnd: make(map[string]*file), pending: make(map[string][]fileOp)}
}

// recall takes the quotes of an earlier compaction as the oldest knowledge.
func (s *state) recall(qs []Quote) {
	for i, q := range qs {
		f := s.file(q.Path)
		o := origin{order: i - len(qs), depth: q.Turn}
		f.touched = max(f.touched, o.order)
		ls := splitLines(q.Text)
		for k, text := range ls {
			n := 0
			if q.From > 0 {
				n = q.From + k
			}
			l := o.line(text, n)
			l.gap = k == 0
			f.lines = append(f.lines, l)
		}
	}
}

// file returns the file of a path. Paths that end in the same two elements, one of them
// relative, are one file.
func (s *state) file(name string) *file {
	name = path.Clean(name)
	if f := s.files[name]; f != nil {
		return f
	}
	end := name
	if dir, base := path.Split(name); dir != "" {
		end = path.Join(path.Base(path.Clean(dir)), base)
	}
	if f := s.byEnd[end]; f != nil && (strings.HasSuffix(f.path, "/"+name) || strings.HasSuffix(name, "/"+f.path)) {
		if len(name) > len(f.path) {
			f.path = name
		}
		s.files[name] = f
		return f
	}
	f := &file{path: name, touched: -1 << 30}
	s.files[name] = f
	s.byEnd[end] = f
	return f
}

func (s *state) half(h *summary.HalfTurn, kept bool) {
	s.now++
	o := origin{order: s.now, depth: h.Depth, shown: kept}
	for i := range h.Messages {
		for j := range h.Messages[i].Parts {
			switch p := &h.Messages[i].Parts[j]; p.Type {
			case turns.Text:
				if h.Messages[i].Role != turns.User {
					continue
				}
				if names := namesIn(summary.Request(p.Content)); len(names) > 0 {
					s.asked = names
				}
			case turns.ToolCall:
				if len(p.Arguments) > maxText || len(s.files) > maxFiles {
					continue
				}
				if ops := fileOps(p); len(ops) > 0 {
					s.pending[p.ID] = ops
				}
			case turns.ToolCallResponse:
				ops := s.pending[p.ID]
				delete(s.pending, p.ID)
				if len(ops) == 0 {
					s.failure(summary.ResultText(p))
				}
				if len(ops) == 0 || p.IsError {
					continue
				}
				text := summary.ResultText(p)
				if failed(text) {
					continue
				}
				for _, op := range ops {
					s.apply(op, text, len(ops) == 1, o)
				}
			}
		}
	}
}

// failed reports whether a result begins as a refusal of a tool that marks no errors.
func failed(text string) bool {
	head := strings.ToLower(text[:min(len(text), 120)])
	return strings.HasPrefix(head, "error") || strings.HasPrefix(head, "<tool_use_error>") || strings.Contains(head, "verification failed")
}

// apply applies what a call did to its file. single says that it did nothing else. Edits
// beyond the bounds make the file unknown.
func (s *state) apply(op fileOp, result string, single bool, o origin) {
	f := s.file(op.path)
	f.touched = s.now
	if op.write == nil && (len(op.edits) > maxEdits || s.visited > maxVisited) {
		f.forget()
		return
	}
	before := f.visited
	defer func() { s.visited += f.visited - before }()
	switch {
	case op.write != nil:
		o.edited = true
		f.write(*op.write, o)
	case len(op.edits) > 0:
		o.edited = true
		for _, e := range op.edits {
			f.edit(e.old, e.new, e.all, o)
		}
		if l, ok := listing(result, origin{order: o.order, depth: o.depth, shown: o.shown}); single && ok {
			f.read(l)
		}
	case op.isRead && len(result) <= maxText:
		text := summary.CommandOutput(result)
		l, ok := listing(text, o)
		switch {
		case ok:
			f.read(l)
		case op.numberedOnly:
		case op.isPartial:
			for i, t := range splitLines(text) {
				l = append(l, o.line(t, op.from+i))
			}
			f.read(l)
		default:
			f.rewrite(text, o)
		}
	}
}

// rewrite is write for a text that was read: lines that the agent wrote stay its own.
func (f *file) rewrite(text string, o origin) {
	edited := make(map[string]bool)
	for i := range f.lines {
		if f.lines[i].edited {
			edited[f.lines[i].text] = true
		}
	}
	f.write(text, o)
	for i := range f.lines {
		f.lines[i].edited = edited[f.lines[i].text]
	}
}

// failure takes the names in a result that reports a failed test; one that reports none
// while tests ran ends the last failure.
func (s *state) failure(text string) {
	const window = 8 << 10
	text = text[max(0, len(text)-window):]
	switch {
	case failedRun.MatchString(text):
		s.failed = namesIn(text)
	case passedRun.MatchString(text):
		s.failed = nil
	}
}

var (
	failedRun = regexp.MustCompile(`(?m)--- FAIL: |^FAIL\b|\b[1-9]\d* failed|AssertionError|panic: `)
	passedRun = regexp.MustCompile(`(?m)^ok\s|^PASS\b|\b[1-9]\d* passed`)
	codeName  = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]{4,}`)
)

// namesIn returns the names of code in a text: words with a joint or an inner capital.
func namesIn(text string) map[string]bool {
	out := make(map[string]bool)
	for _, w := range codeName.FindAllString(text, 400) {
		if isName(w) {
			out[w] = true
		}
	}
	return out
}

func isName(w string) bool {
	if strings.Contains(strings.Trim(w, "_"), "_") {
		return true
	}
	for i := 1; i < len(w); i++ {
		if w[i] >= 'A' && w[i] <= 'Z' && w[i-1] >= 'a' && w[i-1] <= 'z' {
			return true
		}
	}
	return false
}

// isAbout reports whether a line holds a name of the newest request or of a failed test.
func (s *state) isAbout(text string) bool {
	if len(s.asked)+len(s.failed) == 0 {
		return false
	}
	for _, w := range codeName.FindAllString(text, 40) {
		if s.asked[w] || s.failed[w] {
			return true
		}
	}
	return false
}

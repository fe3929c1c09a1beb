package edits

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"nexus/turns"
)

// rebuilder is the fold over a path.
type rebuilder struct {
	o       Options
	tools   tools
	files   map[string]*File
	folded  map[string]string // by name in lower case: the path, "" for several
	odd     map[string]bool   // paths whose bytes the agent's tools may not show
	pending []call            // of the last response
	late    map[string]call   // calls that were left without a result
	running map[string]Reason // what may change files at any time
	session turns.ID
	cwd     string
	depth   uint64 // of the turn whose calls have effects now
	held    int64
	work    int64
	begun   bool
	touched map[string]int    // in this turn: calls that name a path
	changed map[string]bool   // in this turn
	undone  map[string]string // paths that a call without a result may still change: its id

	others      Reason
	othersSince uint64
	refused     []Refused
	refusedAll  int
}

// call is a tool call, and what came back.
type call struct {
	id, name  string
	arguments turns.Raw
	folder    string
	cwd       string
	answered  bool
	text      string // of the result
	failed    bool
}

// tools reads the calls of an agent.
type tools interface {
	// effects returns what a call did to files, in order.
	effects(c *call) []effect
	// inOrder reports whether calls of one response run one after the other.
	inOrder() bool
}

// kind says what an effect is.
type kind uint8

const (
	reads   kind = iota // the whole content
	shows               // lines from a place on
	misses              // it is not there
	writes              // the whole content
	edits               // replacements
	patches             // hunks
	removes             //
	moves               // to another path
	loses               // its content is not known any more, why
	runs                // anything may have changed, why
	starts              // something runs from now on, why; path is its name
	ends                // it has ended
)

// effect is what a call did.
type effect struct {
	kind    kind
	path    string
	to      string
	content string
	line    int // of shows: of the first line, from 1
	edits   []replacement
	hunks   []hunk
	unsure  Reason // a reason why the outcome is not certain
	why     Reason
}

// replacement is one change of a text.
type replacement struct {
	old, new string
	all      bool
	line     bool // an empty new text takes the line break after old along
}

func newRebuilder(o Options) *rebuilder {
	o.Limits = o.Limits.orDefaults()
	r := &rebuilder{o: o, tools: toolsOf(o.Agent), files: make(map[string]*File), folded: make(map[string]string), odd: make(map[string]bool), late: make(map[string]call), undone: make(map[string]string), running: make(map[string]Reason), cwd: o.Cwd}
	if r.cwd == "" {
		r.cwd = o.Folder
	}
	if o.Beside {
		r.running["beside"] = ReasonAgent
	}
	return r
}

func toolsOf(agent string) tools {
	switch agent {
	case "claude-code":
		return claude{}
	case "codex":
		return codex{}
	case "pi":
		return pi{}
	case "gemini-cli":
		return gemini{}
	}
	return foreign{}
}

// foreign is an agent whose tools are not known: each call may change anything.
type foreign struct{}

func (foreign) effects(*call) []effect { return []effect{{kind: runs, why: ReasonTool}} }
func (foreign) inOrder() bool          { return false }

func (r *rebuilder) state(t Turn) *State {
	return &State{Turn: t, Others: r.others, OthersSince: r.othersSince, Refused: slices.Clone(r.refused), RefusedAll: r.refusedAll, r: r}
}

// settle takes the results that the messages of a turn bring for the calls before it. Calls
// without one stay so.
func (r *rebuilder) settle(messages []turns.Message) {
	results := make(map[string]call)
	for i := range messages {
		for j := range messages[i].Parts {
			if p := &messages[i].Parts[j]; p.Type == turns.ToolCallResponse {
				results[p.ID] = call{answered: p.Ref == nil, text: textOf(p.Response), failed: p.IsError}
			}
		}
	}
	r.touched, r.changed = make(map[string]int), make(map[string]bool)
	opaque := Reason("")
	for i := range r.pending {
		c := &r.pending[i]
		if res, ok := results[c.id]; ok {
			c.answered, c.text, c.failed = res.answered, res.text, res.failed
			delete(results, c.id)
		}
		if r.o.observe != nil {
			r.o.observe(c, r)
		}
		if why := r.apply(c); why != "" {
			opaque = why
		}
		if !c.answered {
			r.late[c.id] = *c
		}
	}
	for id := range results { // late ones
		c, ok := r.late[id]
		if !ok {
			continue
		}
		delete(r.late, id)
		r.apply(&c) // still without an answer: what it changed is not known
		delete(r.running, "late "+id)
		maps.DeleteFunc(r.undone, func(_, of string) bool { return of == id })
		opaque = ReasonLate
	}
	if opaque != "" { // in whichever order they ran
		r.doubt(opaque)
	}
	if !r.tools.inOrder() {
		for p, n := range r.touched {
			if n > 1 && r.changed[p] {
				r.weaken(r.files[p], ReasonParallel)
			}
		}
	}
	r.pending = nil
	r.keepRunning()
}

// begin takes what a user said and what the model asked for.
func (r *rebuilder) begin(t Turn) {
	r.depth = t.Depth
	folder := r.o.Folder
	if t.Folder != "" {
		folder = t.Folder
	}
	if r.session != t.Session && r.begun {
		r.doubt(ReasonFork)
	}
	r.session = t.Session
	if t.Cwd != "" {
		r.cwd = t.Cwd
	}
	if r.begun {
		for i := range t.Messages {
			if t.Messages[i].Role == turns.User {
				r.doubt(ReasonUser)
				break
			}
		}
	}
	r.begun = true
	if t.Response == nil {
		return
	}
	for i := range t.Response.Parts {
		if p := &t.Response.Parts[i]; p.Type == turns.ToolCall {
			c := call{id: p.ID, name: p.Name, arguments: p.Arguments, folder: folder, cwd: r.cwd}
			if p.Ref != nil {
				c.arguments = nil
			}
			r.pending = append(r.pending, c)
		}
	}
}

// apply does the effects of a call. It returns why anything may have changed, if so.
func (r *rebuilder) apply(c *call) (opaque Reason) {
	for _, e := range r.tools.effects(c) {
		switch e.kind {
		case runs:
			opaque = e.why
			if !c.answered {
				r.running["late "+c.id] = ReasonLate
			}
			continue
		case starts:
			r.running[e.path], opaque = e.why, e.why
			continue
		case ends:
			if why, ok := r.running[e.path]; ok {
				delete(r.running, e.path)
				opaque = why
			}
			continue
		}
		p, why := inside(c.folder, c.cwd, e.path)
		to := ""
		if why == "" && e.kind == moves {
			if to, why = inside(c.folder, c.cwd, e.to); why != "" { // it left the folder
				r.refuse(e.to, why)
				e.kind, why = removes, ""
			}
		}
		if why != "" {
			r.refuse(e.path, why)
			continue
		}
		if e.kind == shows && r.files[p] == nil {
			continue
		}
		f := r.file(p)
		if f == nil {
			r.refuse(e.path, ReasonTooMany)
			continue
		}
		r.touched[p]++
		if e.kind != reads && e.kind != shows && e.kind != misses {
			r.changed[p] = true
			if !c.answered {
				r.undone[p] = c.id
			}
		}
		if original, ok := r.o.Originals[c.id]; ok && e.kind == edits {
			r.set(f, original, "")
		}
		r.do(f, &e, to)
		f.followed = true
	}
	return opaque
}

func (r *rebuilder) refuse(p string, why Reason) {
	r.refusedAll++
	if len(r.refused) < maxRefused {
		if len(p) > 256 {
			p = strings.ToValidUTF8(p[:256], "") + "…"
		}
		r.refused = append(r.refused, Refused{p, why})
	}
}

// file returns what is known of a path, and begins to follow it; nil if too many are.
func (r *rebuilder) file(p string) *File {
	f := r.files[p]
	if f != nil {
		return f
	}
	if len(r.files) >= r.o.Limits.Files {
		return nil
	}
	f = &File{Path: p, Status: Unknown, Why: ReasonNoBase, Since: r.depth}
	r.files[p] = f
	low := folded(p)
	if other, had := r.folded[low]; had {
		r.folded[low] = ""
		if other != "" {
			r.weaken(r.files[other], ReasonNames)
		}
	} else {
		r.folded[low] = p
	}
	if base, ok := r.base(p); ok {
		r.odd[p] = !isPlain(string(base))
	}
	return f
}

func (r *rebuilder) base(p string) ([]byte, bool) {
	if r.o.Base == nil {
		return nil, false
	}
	return r.o.Base(r.session, p)
}

// folded returns one name for the paths that a file system may take for the same.
func folded(p string) string { return strings.ToLower(norm.NFC.String(p)) }

// isPlain reports whether every tool shows the bytes of a text as they are: UTF-8 without
// a mark, and LF at the ends of lines.
func isPlain(s string) bool {
	return utf8.ValidString(s) && strings.IndexByte(s, '\r') < 0 && strings.IndexByte(s, 0) < 0 && !strings.Contains(s, "\ufffd") && !strings.HasPrefix(s, "\ufeff")
}

// do changes a file.
func (r *rebuilder) do(f *File, e *effect, to string) {
	known := f.Status != Unknown
	switch e.kind {
	case reads:
		if e.unsure != "" && known && !f.Deleted && f.Content == e.content {
			return
		}
		r.set(f, e.content, e.unsure)
	case shows:
		if known && (f.Deleted || !hasLines(f.Content, e.line, e.content)) {
			r.lose(f, ReasonDiffers)
		}
	case misses, removes:
		r.remove(f)
	case writes:
		r.set(f, e.content, e.unsure)
	case edits, patches:
		r.edit(f, e)
	case moves:
		if len(e.hunks) > 0 {
			r.edit(f, e)
		}
		g := r.file(to)
		if g == nil {
			r.refuse(e.to, ReasonTooMany)
			r.remove(f)
			return
		}
		r.touched[to]++
		r.changed[to] = true
		switch {
		case f.Status == Unknown:
			r.lose(g, f.Why)
		case f.Deleted:
			r.lose(g, ReasonNotApplied)
		default:
			r.set(g, f.Content, f.Why)
		}
		r.remove(f)
	case loses:
		r.lose(f, e.why)
	}
}

// edit applies replacements or hunks.
func (r *rebuilder) edit(f *File, e *effect) {
	if f.Status == Unknown {
		base, ok := r.base(f.Path)
		if f.followed || !ok || !utf8.Valid(base) {
			return
		}
		r.set(f, strings.ReplaceAll(string(base), "\r\n", "\n"), ReasonBase)
		if f.Status == Unknown {
			return
		}
	}
	if f.Deleted {
		r.lose(f, ReasonNotApplied)
		return
	}
	text, ok := f.Content, true
	if e.hunks != nil {
		r.work += int64(len(text)) * int64(len(e.hunks))
		if r.work > r.o.Limits.Work {
			r.lose(f, ReasonTooLarge)
			return
		}
		text, ok = applyHunks(text, e.hunks)
	}
	for _, x := range e.edits {
		r.work += int64(len(text) + len(x.new))
		if r.work > r.o.Limits.Work || int64(len(text)) > r.o.Limits.FileSize {
			r.lose(f, ReasonTooLarge)
			return
		}
		if text, ok = x.apply(text, r.o.Limits.FileSize); !ok {
			break
		}
	}
	if !ok {
		r.lose(f, ReasonNotApplied)
		return
	}
	why := f.Why
	if f.Status == Exact {
		why = e.unsure
	}
	r.set(f, text, why)
}

// apply returns the text with the change; false if it fits nowhere, or in several places
// and is not for all.
func (x replacement) apply(text string, limit int64) (string, bool) {
	if x.old == "" {
		return text, false
	}
	old := x.old
	if x.line && x.new == "" && !strings.HasSuffix(old, "\n") && strings.Contains(text, old+"\n") {
		old += "\n"
	}
	n := strings.Count(text, x.old)
	if n == 0 || n > 1 && !x.all {
		return text, false
	}
	if int64(len(text))+int64(n)*int64(len(x.new)-len(old)) > limit {
		return text, false
	}
	if !x.all {
		return strings.Replace(text, old, x.new, 1), true
	}
	return strings.ReplaceAll(text, old, x.new), true
}

// set gives a file content. why is empty if it is certain.
func (r *rebuilder) set(f *File, content string, why Reason) {
	if int64(len(content)) > r.o.Limits.FileSize || r.held-int64(len(f.Content))+int64(len(content)) > r.o.Limits.Bytes {
		r.lose(f, ReasonTooLarge)
		return
	}
	fresh := f.Deleted || f.Status == Unknown
	r.held += int64(len(content) - len(f.Content))
	before := *f
	f.Content, f.Deleted, f.Status, f.Why = content, false, Exact, ""
	if why == "" && (r.odd[f.Path] || !isPlain(content)) {
		why = ReasonEncoding
	}
	if why == "" && r.folded[folded(f.Path)] == "" {
		why = ReasonNames
	}
	if why == "" && r.undone[f.Path] != "" {
		why = ReasonLate
	}
	if why != "" {
		f.Status, f.Why = Recorded, why
	}
	if before.Status != f.Status || before.Why != f.Why {
		f.Since = r.depth
	}
	if fresh {
		r.makeRoom(f.Path)
	}
}

// makeRoom removes files that can't be beside one that is there: its folders, and what is
// below it.
func (r *rebuilder) makeRoom(p string) {
	gone := func(f *File) {
		if f != nil && !f.Deleted {
			r.remove(f)
			r.weaken(f, ReasonDiffers)
		}
	}
	for i, c := range p {
		if c == '/' {
			gone(r.files[p[:i]])
		}
	}
	for q, f := range r.files {
		if strings.HasPrefix(q, p+"/") {
			gone(f)
		}
	}
}

func (r *rebuilder) remove(f *File) {
	r.held -= int64(len(f.Content))
	if !f.Deleted || f.Status != Exact {
		f.Since = r.depth
	}
	f.Content, f.Deleted, f.Status, f.Why = "", true, Exact, ""
	if r.folded[folded(f.Path)] == "" {
		r.weaken(f, ReasonNames)
	}
	if r.undone[f.Path] != "" {
		r.weaken(f, ReasonLate)
	}
}

func (r *rebuilder) lose(f *File, why Reason) {
	r.held -= int64(len(f.Content))
	if f.Status != Unknown || f.Why != why {
		f.Since = r.depth
	}
	f.Content, f.Deleted, f.Status, f.Why = "", false, Unknown, why
}

func (r *rebuilder) weaken(f *File, why Reason) {
	if f != nil && f.Status == Exact {
		f.Status, f.Why, f.Since = Recorded, why, r.depth
	}
}

// doubt ends the certainty of all files.
func (r *rebuilder) doubt(why Reason) {
	if r.others == "" {
		r.others, r.othersSince = why, r.depth
	}
	for _, f := range r.files {
		r.weaken(f, why)
	}
}

// keepRunning ends the certainty of all files while something runs.
func (r *rebuilder) keepRunning() {
	var whys []Reason
	for _, why := range r.running {
		whys = append(whys, why)
	}
	if len(whys) > 0 {
		r.doubt(slices.Min(whys))
	}
}

// hasLines reports whether a text has lines from a line on, the first being 1. The last of
// lines has no line break.
func hasLines(text string, from int, lines string) bool {
	for i := 1; i < from; i++ {
		_, rest, ok := strings.Cut(text, "\n")
		if !ok {
			return false
		}
		text = rest
	}
	rest, ok := strings.CutPrefix(text, lines)
	return ok && (rest == "" || rest[0] == '\n')
}

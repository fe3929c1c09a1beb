package page

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/go-json-experiment/json/jsontext"

	views "nexus/cmd/internal/prose"
	"nexus/compactor/summary"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/secrets"
)

// MaxPart is how many bytes of one text are on a page. A page names what it leaves out.
const MaxPart = 128 << 10

// maxPicture is the largest picture on a page, in bytes.
const maxPicture = 4 << 20

// Options say how a session is shown. The zero value masks credentials and shows the
// beginnings of contents in blobs.
type Options struct {
	ShowSecrets bool
	// Content returns the content of a blob that a part of the session names, or its
	// beginning. Nil: the part's preview is shown.
	Content func(session turns.ID, ref *turns.BlobRef) ([]byte, error)
	// Forks are the sessions that were forked from turns of the path, by the turn.
	Forks map[turns.ID][]api.TreeSession
	// Link returns the address of another session's page, "" if there is none. Nil: there are none.
	Link func(session turns.ID) string
}

// Page is a session as it is shown.
type Page struct {
	Title    string
	Session  string // id
	Label    string
	Agent    string
	From, To string // dates
	Models   []string
	Turns    int
	Usage    turns.Usage
	Folder   string
	Branch   string
	Origin   *origin  // nil: not a fork
	Prompts  []prompt // what people asked, for the contents
	Sections []section
	Masked   int // credentials
	Left     int // parts that are not whole
}

// origin is where a session was forked.
type origin struct {
	Session, Turn string
	URL           string // of the session's page; "": none
	Depth         uint64
}

type prompt struct {
	Anchor string
	Text   string
}

// section is turns that one compaction covers, or the last ones, which none does.
type section struct {
	By       *entry // the compaction; nil: none
	From, To uint64 // depths
	Entries  []*entry
}

// entry is a turn.
type entry struct {
	Anchor     string
	Depth      uint64
	ID         string
	Time       string
	Clock      string // the time of the day
	SameDay    bool   // as the turn before
	Stamp      string // for machines
	Model      string // if it differs from the one of the turn before
	Used       string
	Asked      []*block
	Answer     []*block
	Pending    bool
	Error      string
	Compaction *compaction
	Forks      []forked
	Inherited  string // the session that the turn is of, if the next one is of another

	id      turns.ID
	through turns.ID // of a compaction
}

type compaction struct {
	What, By string
	Summary  *prose
	Covers   string
}

type forked struct{ Name, ID, URL string }

// block is a piece of a turn.
type block struct {
	Kind   kind
	Text   prose
	Name   string // of a tool
	Brief  string // of a fold
	Fields []field
	Result *block // of a call; nil: none
	Failed bool
	Image  string // a data: URI
}

type kind string

const (
	kindPerson    kind = "person"
	kindProgram   kind = "program" // in the person's name
	kindSystem    kind = "system"
	kindAnswer    kind = "answer"
	kindReasoning kind = "reasoning"
	kindCall      kind = "call"
	kindResult    kind = "result"
	kindMedia     kind = "media"
)

// field is an argument of a call.
type field struct {
	Name string
	Text prose
}

// prose is a text that is ready to be shown.
type prose struct {
	Text  string // clean, masked and cut
	Head  string // the beginning, if Text is long
	Tail  string // the rest
	Lines int
	Left  uint64 // bytes that are not in Text
}

// foldLines is how many lines of a person's text are shown before the rest is folded.
const foldLines = 30

// reader reads turns into a page.
type reader struct {
	*Page
	opt     Options
	entries []*entry
	open    map[string]*block // calls without a result, by id
	model   string
	day     string // of the turn before
}

// New reads the turns of a session, from the root to its head, into a page. It holds the
// page in memory, each text up to [MaxPart]. It returns the errors of ts and of
// [Options].Content.
func New(s *api.Session, ts iter.Seq2[api.Turn, error], opt Options) (*Page, error) {
	r := newReader(s, opt)
	r.Agent = r.line(s.Agent, 100)
	r.Label, r.Title = r.line(s.Label, 200), r.line(cmp.Or(s.Title, metaText(s.Meta, "title")), 200)
	r.Folder, r.Branch = r.line(metaText(s.Meta, "cwd"), 300), r.line(cmp.Or(metaText(s.Meta, "git_branch"), metaText(s.Meta, "git", "branch")), 200)
	if f := s.ForkedFrom; f != nil {
		r.Origin = &origin{Session: f.Session.String(), Turn: f.Turn.String(), URL: r.link(f.Session)}
	}
	for t, err := range ts {
		if err != nil {
			return nil, err
		}
		if err := r.turn(s.ID, &t); err != nil {
			return nil, err
		}
	}
	if r.Title == "" && len(r.Prompts) > 0 {
		r.Title = r.Prompts[0].Text
	}
	r.Title = cmp.Or(r.Title, r.Label, "Session "+r.Session)
	r.sections()
	return r.Page, nil
}

func newReader(s *api.Session, opt Options) *reader {
	return &reader{Page: &Page{Session: s.ID.String()}, opt: opt, open: make(map[string]*block)}
}

// link is the address of another session's page.
func (r *reader) link(session turns.ID) string {
	if r.opt.Link == nil {
		return ""
	}
	return r.opt.Link(session)
}

// turn reads one turn.
func (r *reader) turn(session turns.ID, t *api.Turn) error {
	at, bound := views.TurnTime(t)
	at = at.UTC()
	day := views.At(at, bound, "2 January 2006")
	same := r.day == day
	r.day = day
	if k := t.Compaction; k == nil || k.Provenance == turns.Imported.String() { // those of the ledger may be made long after
		r.From, r.To = cmp.Or(r.From, day), day
	}
	e := &entry{Anchor: fmt.Sprintf("t%d", t.Depth), Depth: t.Depth, ID: t.ID.String(), id: t.ID, Time: views.At(at, bound, "2006-01-02 15:04"), Stamp: at.Format(time.RFC3339),
		Clock: views.At(at, bound, "15:04"), SameDay: same,
		Pending: t.Pending, Error: string(t.Error)}
	if t.Session != session {
		e.Inherited = t.Session.String()
	}
	for _, f := range r.opt.Forks[t.ID] {
		e.Forks = append(e.Forks, forked{Name: cmp.Or(r.line(f.Label, 80), f.ID.String()), ID: f.ID.String(), URL: r.link(f.ID)})
	}
	if r.Origin != nil && r.Origin.Turn == e.ID {
		r.Origin.Depth = t.Depth
	}
	r.entries = append(r.entries, e)
	if k := t.Compaction; k != nil {
		r.compaction(e, k)
		return nil
	}
	r.Turns++
	if t.Model != "" && t.Model != r.model && t.Model != turns.Synthetic {
		e.Model, r.model = r.line(t.Model, 100), t.Model
		if !slices.Contains(r.Models, e.Model) {
			r.Models = append(r.Models, e.Model)
		}
	}
	if u := t.Usage; u != nil {
		r.Usage = r.Usage.Plus(*u)
		e.Used = fmt.Sprintf("%s in, %s out", Count(u.InputTokens), Count(u.OutputTokens))
	}
	program := turns.ProgramMessages(t.Meta)
	for i := range t.Messages {
		if err := r.message(t.Session, &t.Messages[i], slices.Contains(program, i), &e.Asked); err != nil {
			return err
		}
	}
	for _, b := range e.Asked {
		if b.Kind == kindPerson {
			r.Prompts = append(r.Prompts, prompt{e.Anchor, clip(b.Text.Text, 120)})
			break
		}
	}
	if t.Response != nil {
		return r.message(t.Session, t.Response, false, &e.Answer)
	}
	return nil
}

// message reads a message. program says that a program wrote it in the name of the user.
func (r *reader) message(session turns.ID, m *turns.Message, program bool, to *[]*block) error {
	for i := range m.Parts {
		p := &m.Parts[i]
		content := p.ContentBytes()
		left := uint64(0)
		switch {
		case p.Ref == nil:
		case r.opt.Content == nil || p.InPieces():
			content = []byte(p.Ref.Preview)
			left = p.Ref.Size - min(p.Ref.Size, uint64(len(content)))
		default:
			var err error
			if content, err = r.opt.Content(session, p.Ref); err != nil {
				return err
			}
			left = p.Ref.Size - min(p.Ref.Size, uint64(len(content)))
		}
		r.part(m.Role, p, content, left, program, to)
	}
	return nil
}

// part reads a part with its content. left is how many bytes of the content are missing.
func (r *reader) part(role turns.Role, p *turns.Part, content []byte, left uint64, program bool, to *[]*block) {
	text := string(content)
	add := func(b block) {
		b.Text.Left += left
		*to = append(*to, &b)
	}
	switch p.Type {
	case turns.Text:
		switch role {
		case turns.Assistant:
			add(block{Kind: kindAnswer, Text: r.prose(text)})
		case turns.System:
			add(block{Kind: kindSystem, Brief: "System message", Text: r.prose(text)})
		default:
			asked := ""
			if !program {
				asked = summary.Request(text)
			}
			switch {
			case strings.TrimSpace(text) == "":
			case asked == "":
				add(block{Kind: kindProgram, Brief: r.line(text, 90), Text: r.prose(text)})
			case asked == strings.TrimSpace(text):
				add(block{Kind: kindPerson, Text: r.prose(text)})
			default:
				add(block{Kind: kindPerson, Text: r.prose(asked)})
				add(block{Kind: kindProgram, Brief: "the whole message, with what a program added", Text: r.prose(text)})
			}
		}
	case turns.Reasoning:
		if strings.TrimSpace(text) != "" {
			add(block{Kind: kindReasoning, Brief: "Reasoning", Text: r.prose(text)})
		}
	case turns.ToolCall:
		b := block{Kind: kindCall, Name: r.line(p.Name, 80)}
		b.Fields, b.Brief = r.arguments(content)
		add(b)
		r.open[p.ID] = (*to)[len(*to)-1]
	case turns.ToolCallResponse:
		r.result(p, content, left, to)
	default:
		b := r.media(p.MimeType, cmp.Or(p.Modality, string(p.Type)), p.Content, p.Data, content)
		add(b)
	}
}

// result puts a result to its call, or by itself if the call is not on the page.
func (r *reader) result(p *turns.Part, content []byte, left uint64, to *[]*block) {
	b := block{Kind: kindResult, Failed: p.IsError, Name: r.line(p.Name, 80)}
	text := string(content)
	if s, ok := turns.Raw(content).Text(); ok {
		text = s
	} else if ms, ok := resultParts(content); ok {
		var said []string
		for _, q := range ms {
			if q.Type == turns.Text {
				said = append(said, q.Content)
				continue
			}
			m := r.media(q.MimeType, cmp.Or(q.Modality, string(q.Type)), q.Content, q.Data, q.ContentBytes())
			if b.Image == "" && m.Image != "" {
				b.Image, b.Brief = m.Image, m.Brief
			} else {
				said = append(said, "["+m.Brief+"]")
			}
		}
		text = strings.Join(said, "\n")
	}
	b.Text = r.prose(text)
	b.Text.Left += left
	if call := r.open[p.ID]; call != nil {
		call.Result = &b
		delete(r.open, p.ID)
		return
	}
	b.Brief = "Result of a call that is not on this page"
	*to = append(*to, &b)
}

// resultParts reads what a tool returned as a list of parts.
func resultParts(content []byte) ([]turns.Part, bool) {
	if turns.Raw(content).Kind() != '[' {
		return nil, false
	}
	var m turns.Message
	if turns.DecodeJSON(slices.Concat([]byte(`{"role":"tool","parts":`), content, []byte("}")), &m) != nil || m.Validate("") != nil {
		return nil, false
	}
	return m.Parts, len(m.Parts) > 0
}

// media is a picture, or what a page says in place of another file.
func (r *reader) media(mime, what, address string, data, content []byte) block {
	b := block{Kind: kindMedia, Brief: r.line(cmp.Or(mime, what), 80)}
	if len(data) == 0 {
		data = content
	}
	if rest, ok := strings.CutPrefix(address, "data:"); ok {
		head, body, _ := strings.Cut(rest, ";base64,")
		if raw, err := base64.StdEncoding.DecodeString(body); err == nil {
			mime, data, address = head, raw, ""
		}
	}
	switch {
	case address != "" && !strings.HasPrefix(address, "data:"):
		b.Brief += ", " + r.line(address, 200)
	case slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, mime) && len(data) > 0 && len(data) <= maxPicture:
		b.Image = "data:" + mime + ";base64," + base64.StdEncoding.EncodeToString(data)
	default:
		b.Brief += ", " + humanize.IBytes(uint64(len(data))) + ", not shown"
	}
	return b
}

// arguments returns the arguments of a call, and a few words of the one that
// tells the most.
func (r *reader) arguments(args turns.Raw) (fields []field, brief string) {
	if args.Kind() != '{' {
		text := rawText(args)
		if strings.TrimSpace(text) == "" {
			return nil, ""
		}
		return []field{{Text: r.prose(text)}}, r.line(text, 100)
	}
	best := 0
	d := jsontext.NewDecoder(bytes.NewReader(args))
	if _, err := d.ReadToken(); err != nil {
		return nil, ""
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			break
		}
		key := name.String()
		v, err := d.ReadValue()
		if err != nil {
			break
		}
		text := rawText(turns.Raw(v))
		if k := turns.Raw(v).Kind(); k == '{' || k == '[' {
			if pretty := (jsontext.Value)(bytes.Clone(v)); pretty.Indent(jsontext.WithIndent("  ")) == nil {
				text = string(pretty)
			}
		}
		fields = append(fields, field{r.line(key, 80), r.prose(text)})
		if n := telling(key, turns.Raw(v).Kind()); n > best {
			brief, best = r.line(text, 100), n
		}
	}
	return fields, brief
}

// telling is how much an argument tells of a call: a command or a file more than another
// text, and that more than a number.
func telling(name string, kind byte) int {
	switch {
	case kind == '"' && slices.Contains([]string{"command", "cmd", "file_path", "path", "pattern", "query", "url", "description"}, name):
		return 3
	case kind == '"':
		return 2
	}
	return 1
}

func (r *reader) compaction(e *entry, k *api.Compaction) {
	c := &compaction{What: fmt.Sprintf("%s of context became %s", Count(k.TokensBefore), Count(k.TokensAfter))}
	if k.TokensBefore < k.TokensAfter {
		c.What = Count(k.TokensAfter) + " of context left"
	}
	by := []string{r.line(cmp.Or(k.Tier, k.Provenance), 60), r.line(k.Model, 60), r.line(k.Policy, 60), r.line(k.Trigger.Kind, 40)}
	c.By = strings.Join(slices.DeleteFunc(by, func(s string) bool { return s == "" }), ", ")
	if n := max(k.Elided, uint64(len(k.Elisions))); n > 0 {
		c.What += fmt.Sprintf("; %d parts shortened in place", n)
	}
	text := ""
	if k.Summary != nil {
		text = *k.Summary
	}
	if text == "" {
		var said []string
		for _, m := range k.Replacement {
			for _, p := range m.Parts {
				if p.Type == turns.Text && p.Content != "" {
					said = append(said, string(m.Role)+": "+p.Content)
				}
			}
		}
		text = strings.Join(said, "\n\n")
	}
	if text != "" {
		p := r.prose(text)
		c.Summary = &p
	}
	if k.Through != nil && k.Covered > 0 {
		e.through = *k.Through
	}
	e.Compaction = c
}

// sections folds the entries that the same compaction covers first.
func (r *reader) sections() {
	index := make(map[turns.ID]int, len(r.entries))
	for i, e := range r.entries {
		index[e.id] = i
	}
	type boundary struct {
		at int
		by *entry
	}
	var cuts []boundary
	for _, e := range r.entries {
		if e.through.IsZero() {
			continue
		}
		if i, ok := index[e.through]; ok {
			e.Compaction.Covers = fmt.Sprintf("turns %d to %d", r.entries[0].Depth, r.entries[i].Depth)
			cuts = append(cuts, boundary{i + 1, e})
		}
	}
	slices.SortStableFunc(cuts, func(a, b boundary) int { return a.at - b.at })
	from := 0
	add := func(to int, by *entry) {
		if to > from {
			es := r.entries[from:to]
			r.Sections = append(r.Sections, section{by, es[0].Depth, es[len(es)-1].Depth, es})
			from = to
		}
	}
	for _, c := range cuts {
		add(c.at, c.by)
	}
	add(len(r.entries), nil)
}

// prose makes a text ready: credentials masked, hidden characters visible, cut.
func (r *reader) prose(s string) prose {
	s = r.masked(dropColours(s)) // a colour may stand in a credential
	var p prose
	if len(s) > MaxPart {
		cut := strings.ToValidUTF8(s[:MaxPart], "")
		p.Left = uint64(len(s) - len(cut))
		s = cut
		r.Left++
	}
	p.Text = clean(s)
	p.Lines = strings.Count(strings.TrimRight(p.Text, "\n"), "\n") + 1
	if p.Lines > foldLines+10 {
		at := 0
		for range foldLines {
			at += strings.IndexByte(p.Text[at:], '\n') + 1
		}
		p.Head, p.Tail = p.Text[:at], p.Text[at:]
	} else if len(p.Text) > 6000 {
		cut := strings.ToValidUTF8(p.Text[:4000], "")
		p.Head, p.Tail = cut, p.Text[len(cut):]
	}
	return p
}

// masked masks and counts the credentials of a text.
func (r *reader) masked(s string) string {
	if r.opt.ShowSecrets {
		return s
	}
	if n := len(secrets.Find(s)); n > 0 {
		r.Masked += n
		return secrets.Mask(s)
	}
	return s
}

// line is the beginning of a text in one line, with its credentials masked.
func (r *reader) line(s string, n int) string {
	if s = dropColours(s); !r.opt.ShowSecrets {
		s = secrets.Mask(s)
	}
	return clip(s, n)
}

// clip is the first n characters of s in one line.
func clip(s string, n int) string {
	if len(s) > 16*n { // what is cut anyway is not cleaned
		s = strings.ToValidUTF8(s[:16*n], "")
	}
	rs := []rune(strings.Join(strings.Fields(clean(s)), " "))
	if len(rs) > n {
		return string(rs[:n-1]) + "…"
	}
	return string(rs)
}

// clean returns a text in which each hidden character can be seen: a control character as
// its picture, another as U+FFFD. It drops the colours of a terminal, which hide nothing,
// and the carriage return of a line's end.
func clean(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return turns.IsHidden(r) && r != '\n' && r != '\t' || r == '\ufffd' }) {
		return s
	}
	s = strings.ReplaceAll(dropColours(strings.ToValidUTF8(s, "\ufffd")), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || !turns.IsHidden(r):
			return r
		case r < 0x20:
			return 0x2400 + r
		case r == 0x7f:
			return 0x2421
		}
		return '\ufffd'
	}, s)
}

// dropColours removes the sequences ESC [ … m, and the ESC [ K that grep writes with them.
func dropColours(s string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, "\x1b[")
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		end := i + 2
		for end < len(s) && (s[end] >= '0' && s[end] <= '9' || s[end] == ';') {
			end++
		}
		if end < len(s) && (s[end] == 'm' || s[end] == 'K' && end == i+2) {
			b.WriteString(s[:i])
		} else {
			b.WriteString(s[:i+2])
			end = i + 1
		}
		s = s[end+1:]
	}
}

func rawText(v turns.Raw) string {
	if s, ok := v.Text(); ok {
		return s
	}
	return string(v)
}

// metaText is a text member of a session's meta; "" for anything else.
func metaText(meta turns.Raw, path ...string) string {
	for _, name := range path {
		var m map[string]turns.Raw
		if meta.Kind() != '{' || turns.DecodeJSON(meta, &m) != nil {
			return ""
		}
		meta = m[name]
	}
	s, _ := meta.Text()
	return s
}

// Count is a number of tokens in a few characters: 850, 12.3k, 4.5M.
func Count(n uint64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 999_950:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/1e3), ".0") + "k"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/1e6), ".0") + "M"
}

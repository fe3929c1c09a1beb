package interchange

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
)

var errLineTooLong = errors.New("line too long")

// sourceLine is one line of the source without its line break.
type sourceLine struct {
	n     int // 1-based
	b     []byte
	whole bool // a line break followed
}

// lineReader cuts a stream into lines of at most max bytes.
type lineReader struct {
	r   *bufio.Reader
	max int
	n   int
	buf []byte
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), max: limit}
}

// next is the next line; its bytes hold until the next call. Of a line over
// the limit nothing is kept, and the error is errLineTooLong.
func (l *lineReader) next() (sourceLine, error) {
	const keep = 1 << 20 // a buffer grown beyond this is not held on to
	if cap(l.buf) > keep {
		l.buf = nil
	}
	l.buf = l.buf[:0]
	l.n++
	tooLong := false
	for {
		chunk, err := l.r.ReadSlice('\n')
		if !tooLong && len(l.buf)+len(chunk) > l.max+1 { // the line break is not counted
			tooLong, l.buf = true, nil
		}
		if !tooLong {
			l.buf = append(l.buf, chunk...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && len(l.buf) == 0 && !tooLong:
			return sourceLine{n: l.n}, io.EOF
		case err != nil && err != io.EOF:
			return sourceLine{n: l.n}, err
		}
		if tooLong {
			return sourceLine{n: l.n}, errLineTooLong
		}
		return sourceLine{n: l.n, b: bytes.TrimSpace(l.buf), whole: err == nil}, nil
	}
}

// readCCObject reads the JSON object that b starts with and returns its bytes
// and its length in b, 0 if there is none. What JSON forbids but
// Claude Code's own reader takes is repaired, and said.
func readCCObject(b []byte) (v []byte, n int, repaired string) {
	if len(b) == 0 || b[0] != '{' {
		return nil, 0, ""
	}
	d := jsontext.NewDecoder(bytes.NewReader(b))
	if v, err := d.ReadValue(); err == nil {
		return bytes.Clone(v), int(d.InputOffset()), ""
	}
	d = jsontext.NewDecoder(bytes.NewReader(b), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, err := relaxCC(d)
	if err != nil {
		return nil, 0, ""
	}
	return v, int(d.InputOffset()), "duplicate members (the last was kept) or invalid UTF-8 (U+FFFD stands for it)"
}

// relaxCC reads one value and writes it as valid JSON: of members with the
// same name the last, as JavaScript's JSON.parse does; U+FFFD for what is not
// UTF-8.
func relaxCC(d *jsontext.Decoder) ([]byte, error) {
	if d.StackDepth() > turns.MaxNesting+10 {
		return nil, turns.ErrTooLarge
	}
	switch d.PeekKind() {
	case '{':
		d.ReadToken()
		var names []string
		at := make(map[string]int)
		var vals [][]byte
		for d.PeekKind() == '"' {
			t, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			name := strings.ToValidUTF8(t.String(), "\uFFFD")
			v, err := relaxCC(d)
			if err != nil {
				return nil, err
			}
			if i, ok := at[name]; ok {
				vals[i] = v
				continue
			}
			at[name] = len(names)
			names, vals = append(names, name), append(vals, v)
		}
		if t, err := d.ReadToken(); err != nil || t.Kind() != '}' {
			return nil, turns.ErrMalformed
		}
		out := []byte{'{'}
		for i, name := range names {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(append(append(out, turns.RawText(name)...), ':'), vals[i]...)
		}
		return append(out, '}'), nil
	case '[':
		d.ReadToken()
		out := []byte{'['}
		for d.PeekKind() != ']' {
			v, err := relaxCC(d)
			if err != nil {
				return nil, err
			}
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, v...)
		}
		d.ReadToken()
		return append(out, ']'), nil
	case '"':
		t, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		return turns.RawText(strings.ToValidUTF8(t.String(), "\uFFFD")), nil
	default:
		v, err := d.ReadValue()
		return bytes.Clone(v), err
	}
}

// nextCCStart finds, after the start of b, an object that is whole to the end
// of the line and looks like a record; -1 if there is none.
func nextCCStart(b []byte) int {
	at := 1
	for range 16 { // each try may scan the line
		next := -1
		for _, mark := range []string{`{"parentUuid":`, `{"type":`, `{"isSidechain":`, `{"logicalParentUuid":`, `{"sessionId":`} {
			if i := bytes.Index(b[min(at, len(b)):], []byte(mark)); i >= 0 && (next < 0 || at+i < next) {
				next = at + i
			}
		}
		if next < 0 {
			return -1
		}
		if rec, err := parseCCRecord(b[next:], 0); err == nil && rec.typ != "" {
			return next
		}
		at = next + 1
	}
	return -1
}

// ccPresent notes that a member is there and reads nothing of it.
type ccPresent bool

// UnmarshalJSONFrom skips the value.
func (p *ccPresent) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*p = d.PeekKind() != 'n'
	return d.SkipValue()
}

// ccFields are the members of a line that are read. They are raw, since any of
// them may be of another type than it should.
type ccFields struct {
	Type       turns.Raw `json:"type"`
	Subtype    turns.Raw `json:"subtype"`
	UUID       turns.Raw `json:"uuid"`
	Parent     turns.Raw `json:"parentUuid"`
	Logical    turns.Raw `json:"logicalParentUuid"`
	Session    turns.Raw `json:"sessionId"`
	Agent      turns.Raw `json:"agentId"`
	Time       turns.Raw `json:"timestamp"`
	Cwd        turns.Raw `json:"cwd"`
	Branch     turns.Raw `json:"gitBranch"`
	Version    turns.Raw `json:"version"`
	Sidechain  turns.Raw `json:"isSidechain"`
	Meta       turns.Raw `json:"isMeta"`
	Summary    turns.Raw `json:"isCompactSummary"`
	Message    turns.Raw `json:"message"`
	Compact    turns.Raw `json:"compactMetadata"`
	Micro      turns.Raw `json:"microcompactMetadata"`
	ResultCopy ccPresent `json:"toolUseResult"`
	ToolSource turns.Raw `json:"sourceToolAssistantUUID"`
	Attachment turns.Raw `json:"attachment"`
	AITitle    turns.Raw `json:"aiTitle"`
	Title      turns.Raw `json:"customTitle"`
	Text       turns.Raw `json:"summary"`
	Leaf       turns.Raw `json:"leafUuid"`
}

func parseCCRecord(b []byte, line int) (*ccRecord, error) {
	var f ccFields
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", turns.ErrMalformed, err)
	}
	return f.record(b, line), nil
}

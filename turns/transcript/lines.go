package transcript

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
	"nexus/turns/internal/values"
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

// next returns the next line. Its bytes are valid until the next call. For a line over
// the limit it returns errLineTooLong and no bytes.
func (l *lineReader) next() (sourceLine, error) {
	const keep = 1 << 20 // a buffer larger than this is not reused
	if cap(l.buf) > keep {
		l.buf = nil
	}
	l.buf = l.buf[:0]
	l.skipEmpty()
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
		case errors.Is(err, errNoMore) && len(l.buf) == 0 && !tooLong:
			l.n-- // the line comes later
			return sourceLine{n: l.n}, errNoMore
		case err != nil && err != io.EOF:
			return sourceLine{n: l.n}, err
		}
		if tooLong {
			return sourceLine{n: l.n}, errLineTooLong
		}
		return sourceLine{n: l.n, b: bytes.TrimSpace(l.buf), whole: err == nil}, nil
	}
}

// skipEmpty skips the empty lines at the beginning of what is buffered. A small compressed
// file may hold a thousand million of them.
func (l *lineReader) skipEmpty() {
	b, _ := l.r.Peek(l.r.Buffered())
	n := len(b) - len(bytes.TrimLeft(b, "\n"))
	l.n += n
	_, _ = l.r.Discard(n) // they are buffered
}

// maxTorn is behind how many torn pieces of a line records are looked for: each look may scan the line.
const maxTorn = 16

// lineObjects returns the JSON objects of one line. A line has one. A crash and a resume
// of the writer leave several on a line, the first perhaps torn. A last line without a line
// break may not be whole yet; it is read only with final, or if it is one object. torn is
// the first part of the line that is no object; nil: there is none.
func (f *LineFormat) lineObjects(line sourceLine, final bool, loss *LossReport) (out [][]byte, torn []byte) {
	rest := line.b
	if v, n, repaired := readObject(rest); n == len(rest) && n > 0 && repaired == "" {
		return [][]byte{v}, nil
	}
	if len(rest) == 0 || (!line.whole && !final) {
		return nil, nil
	}
	note := func(what, format string, args ...any) { loss.Add(line.n, what, fmt.Sprintf(format, args...), "") }
	for pieces := 0; len(rest) > 0; {
		v, n, repaired := readObject(rest)
		if n == 0 {
			next := -1
			if pieces++; pieces <= maxTorn {
				next = f.nextRecord(rest)
			}
			if torn == nil {
				torn = bytes.Clone(rest[:max(next, 0)])
				if next < 0 {
					torn = bytes.Clone(rest)
				}
			}
			if next < 0 {
				note("skipped", "%s no JSON object (torn or broken)", values.CountIs(len(rest), "byte"))
				break
			}
			note("skipped", "%s torn, before another object on the line", values.CountIs(next, "byte"))
			rest = rest[next:]
			continue
		}
		if repaired != "" {
			note("repaired", "%s", repaired)
		}
		out, rest = append(out, v), bytes.TrimSpace(rest[n:])
	}
	if len(out) > 1 {
		note("repaired", "%d objects on one line were split", len(out))
	}
	return out, torn
}

// TornMember returns the text of a member of a torn object, "" if it is not there whole. It
// is the first of that name, which is the object's own if the object is not torn before it.
func TornMember(b []byte, name string) string {
	_, rest, ok := bytes.Cut(b, []byte(`"`+name+`"`))
	if rest = bytes.TrimLeft(rest, " \t"); !ok || len(rest) == 0 || rest[0] != ':' {
		return ""
	}
	v, err := jsontext.NewDecoder(bytes.NewReader(rest[1:])).ReadValue()
	if err != nil {
		return ""
	}
	s, _ := turns.Raw(v).Text()
	return s
}

package provider

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Faults of a stream.
var (
	errLine   = errors.New("an event is too long")
	errAnswer = errors.New("the answer is too long")
)

// sseEvent is one event of a stream. Its data is valid until the next one is read.
type sseEvent struct {
	name string
	data []byte
}

// sseReader reads server-sent events. Source: the HTML standard, section 9.2.6. It takes
// any of the three line ends, and joins the data lines of one event.
type sseReader struct {
	r     *bufio.Reader
	most  int // bytes of one event
	room  int // how long an event may become before more is held
	hold  func(bytes int) error
	data  []byte
	line  []byte
	first bool
	skip  bool // the line before ended with \r: a \n that follows belongs to it
}

// longEvent is how much of an event nobody counts. Of a longer one the line, the data and what
// they are decoded to are in memory at once, and the first two as long as the stream lasts.
const (
	longEvent  = 64 << 10
	copiesHeld = 4
)

// newSSE reads r. hold is called as events become longer.
func newSSE(r io.Reader, most int, hold func(bytes int) error) *sseReader {
	return &sseReader{r: bufio.NewReaderSize(r, 16<<10), most: most, room: longEvent, hold: hold, first: true}
}

// holds makes room for an event of n bytes.
func (s *sseReader) holds(n int) error {
	for n > s.room {
		if err := s.hold(copiesHeld * s.room); err != nil { // it doubles
			return err
		}
		s.room *= 2
	}
	return nil
}

// next returns the next event that has data. io.EOF: the stream ended; what stands after
// the last empty line is dropped, as the standard says.
func (s *sseReader) next() (e sseEvent, err error) {
	s.data = s.data[:0]
	has := false
	for {
		line, err := s.readLine()
		if err != nil {
			return e, err
		}
		if len(line) == 0 {
			if has {
				e.data = s.data
				return e, nil
			}
			e = sseEvent{}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(field) {
		case "event":
			e.name = string(value[:min(len(value), 100)])
		case "data":
			if has {
				s.data = append(s.data, '\n')
			}
			if has = true; len(s.data)+len(value) > s.most {
				return e, errLine
			}
			if err := s.holds(len(s.data) + len(value)); err != nil {
				return e, err
			}
			s.data = append(s.data, value...)
		}
	}
}

// readLine returns the next line without its end.
func (s *sseReader) readLine() ([]byte, error) {
	s.line = s.line[:0]
	for {
		c, err := s.r.ReadByte()
		if err != nil {
			return nil, err // a line without its end is no line
		}
		if s.skip {
			if s.skip = false; c == '\n' {
				continue
			}
		}
		if c == '\n' || c == '\r' {
			s.skip = c == '\r'
			if s.first {
				s.first = false
				return bytes.TrimPrefix(s.line, []byte("\xef\xbb\xbf")), nil
			}
			return s.line, nil
		}
		if len(s.line) >= s.most {
			return nil, errLine
		}
		if err := s.holds(len(s.line)); err != nil {
			return nil, err
		}
		s.line = append(s.line, c)
	}
}

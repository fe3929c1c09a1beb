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
	data  []byte
	line  []byte
	first bool
	skip  bool // the line before ended with \r: a \n that follows belongs to it
}

func newSSE(r io.Reader, most int) *sseReader {
	return &sseReader{r: bufio.NewReaderSize(r, 16<<10), most: most, first: true}
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
		s.line = append(s.line, c)
	}
}

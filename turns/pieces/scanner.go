package pieces

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"nexus/turns"
)

// Scanner checks content that is read in pieces as [turns.Message.Validate] checks
// content that is whole: UTF-8 for text, and one JSON value for arguments and
// responses. It holds a few bytes, whatever the content is. It does not look for two
// members with one name, since that takes memory for the names.
//
// Write the content piece by piece, then call Close.
type Scanner struct {
	json    bool
	text    bool
	partial []byte // beginning of a character that goes on in the next piece
	offset  int    // bytes of content before the current byte

	state  scanState
	stack  []byte // open objects '{' and lists '['
	rest   string // what a literal still needs
	isName bool   // the string is the name of a member
	hex    int    // digits that an escape \u still needs
	unit   rune   // value of these digits
	high   bool   // the last escape was a high surrogate
}

type scanState byte

const (
	wantValue scanState = iota
	wantValueOrEnd
	wantName
	wantNameOrEnd
	wantColon
	wantCommaOrEnd
	wantNothing // the value is complete
	inString
	inEscape
	inHex
	wantBackslash // of the low surrogate
	wantLowEscape
	inLiteral
	inMinus
	inZero
	inInteger
	inPoint
	inFraction
	inExponent
	inSign
	inPower
)

// NewScanner returns a scanner for the content of a part of type t.
func NewScanner(t turns.PartType) *Scanner {
	js := t == turns.ToolCall || t == turns.ToolCallResponse
	return &Scanner{json: js, text: js || t != turns.Blob}
}

// Write checks the next piece of the content. Errors: [turns.FieldError].
func (s *Scanner) Write(b []byte) (int, error) {
	if !s.text {
		return len(b), nil
	}
	if err := s.checkUTF8(b); err != nil {
		return 0, err
	}
	if s.json {
		for i := 0; i < len(b); i++ {
			if s.state == inString { // almost all of it
				i += turns.PlainBytes(b[i:])
				if i == len(b) {
					break
				}
			}
			if err := s.next(b[i]); err != nil {
				if fe, ok := err.(*turns.FieldError); ok && fe.Reason == "" {
					return 0, malformed("not one JSON value at byte %d", s.offset+i)
				}
				return 0, err
			}
		}
	}
	s.offset += len(b)
	return len(b), nil
}

// Close checks that the content ends here.
func (s *Scanner) Close() error {
	if len(s.partial) > 0 {
		return malformed("not UTF-8 at its end")
	}
	if !s.json {
		return nil
	}
	switch s.state {
	case wantNothing:
	case inZero, inInteger, inFraction, inPower:
		if len(s.stack) > 0 {
			return malformed("not one JSON value: it ends too early")
		}
	default:
		return malformed("not one JSON value: it ends too early")
	}
	return nil
}

// checkUTF8 checks a piece that may begin and end inside a character.
func (s *Scanner) checkUTF8(b []byte) error {
	at := 0
	for len(s.partial) > 0 && at < len(b) {
		s.partial = append(s.partial, b[at])
		at++
		if utf8.FullRune(s.partial) {
			if !utf8.Valid(s.partial) {
				return malformed("not UTF-8 at byte %d", s.offset)
			}
			s.partial = s.partial[:0]
		}
	}
	end := len(b)
	for back := 1; back < utf8.UTFMax && len(b)-back >= at; back++ {
		if c := b[len(b)-back]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-back:]) {
				end = len(b) - back
			}
			break
		}
	}
	if !utf8.Valid(b[at:end]) {
		return malformed("not UTF-8 at byte %d or after", s.offset+at)
	}
	s.partial = append(s.partial, b[end:]...)
	return nil
}

// errSyntax is replaced by an error that says where.
var errSyntax = &turns.FieldError{Kind: turns.ErrMalformed}

// next takes one byte.
func (s *Scanner) next(c byte) error {
	switch s.state {
	case inString:
		return s.inString(c)
	case inEscape, inHex, wantBackslash, wantLowEscape:
		return s.inEscape(c)
	case inLiteral:
		if c != s.rest[0] {
			return errSyntax
		}
		if s.rest = s.rest[1:]; s.rest == "" {
			s.end()
		}
		return nil
	case inMinus, inZero, inInteger, inPoint, inFraction, inExponent, inSign, inPower:
		if more, err := s.inNumber(c); more || err != nil {
			return err
		}
		s.end() // c follows the number
	}
	if c == ' ' || c == '\t' || c == '\r' || c == '\n' {
		return nil
	}
	return s.structure(c)
}

// structure takes a byte between the strings, numbers and literals.
func (s *Scanner) structure(c byte) error {
	switch {
	case (s.state == wantValue || s.state == wantValueOrEnd) && c != ']':
		return s.begin(c)
	case s.state == wantValueOrEnd, s.state == wantCommaOrEnd && c == ']' && s.open() == '[', // the end of a list
		(s.state == wantNameOrEnd || s.state == wantCommaOrEnd && s.open() == '{') && c == '}':
		s.stack = s.stack[:len(s.stack)-1]
		s.end()
	case (s.state == wantName || s.state == wantNameOrEnd) && c == '"':
		s.state, s.isName = inString, true
	case s.state == wantColon && c == ':':
		s.state = wantValue
	case s.state == wantCommaOrEnd && c == ',' && s.open() == '{':
		s.state = wantName
	case s.state == wantCommaOrEnd && c == ',':
		s.state = wantValue
	default:
		return errSyntax
	}
	return nil
}

// open returns the innermost open object or list.
func (s *Scanner) open() byte { return s.stack[len(s.stack)-1] }

// end ends a value.
func (s *Scanner) end() {
	if s.state = wantCommaOrEnd; len(s.stack) == 0 {
		s.state = wantNothing
	}
}

// begin takes the first byte of a value.
func (s *Scanner) begin(c byte) error {
	switch {
	case c == '{' || c == '[':
		if len(s.stack) == turns.MaxNesting {
			return &turns.FieldError{Reason: fmt.Sprintf("nested deeper than %d", turns.MaxNesting), Kind: turns.ErrTooLarge}
		}
		s.stack = append(s.stack, c)
		if s.state = wantValueOrEnd; c == '{' {
			s.state = wantNameOrEnd
		}
	case c == '"':
		s.state, s.isName = inString, false
	case c == 't':
		s.state, s.rest = inLiteral, "rue"
	case c == 'f':
		s.state, s.rest = inLiteral, "alse"
	case c == 'n':
		s.state, s.rest = inLiteral, "ull"
	case c == '-':
		s.state = inMinus
	case c == '0':
		s.state = inZero
	case '1' <= c && c <= '9':
		s.state = inInteger
	default:
		return errSyntax
	}
	return nil
}

func (s *Scanner) inString(c byte) error {
	switch {
	case c == '\\':
		s.state = inEscape
	case c == '"' && s.isName:
		s.state = wantColon
	case c == '"':
		s.end()
	case c < ' ':
		return errSyntax
	}
	return nil
}

// inEscape takes a byte after a backslash. A high surrogate is followed by a low one,
// and a low one follows a high one.
func (s *Scanner) inEscape(c byte) error {
	switch s.state {
	case wantBackslash:
		if c != '\\' {
			return errSyntax
		}
		s.state = wantLowEscape
	case inEscape, wantLowEscape:
		switch {
		case c == 'u':
			s.state, s.hex, s.unit = inHex, 4, 0
		case s.state == inEscape && bytes.IndexByte([]byte(`"\/bfnrt`), c) >= 0:
			s.state = inString
		default:
			return errSyntax
		}
	case inHex:
		digit := bytes.IndexByte([]byte("0123456789abcdef"), c|0x20)
		if digit < 0 || c < '0' {
			return errSyntax
		}
		s.unit = s.unit<<4 | rune(digit)
		if s.hex--; s.hex > 0 {
			return nil
		}
		isHigh, isLow := 0xd800 <= s.unit && s.unit < 0xdc00, 0xdc00 <= s.unit && s.unit < 0xe000
		if isLow != s.high {
			return errSyntax
		}
		if s.high, s.state = isHigh, inString; isHigh {
			s.state = wantBackslash
		}
	}
	return nil
}

// inNumber takes a byte after the first of a number. more is false if the number ended
// before c.
func (s *Scanner) inNumber(c byte) (more bool, err error) {
	digit := '0' <= c && c <= '9'
	switch {
	case s.state == inMinus && c == '0':
		s.state = inZero
	case s.state == inMinus && digit:
		s.state = inInteger
	case s.state == inInteger && digit, s.state == inFraction && digit, s.state == inPower && digit:
	case (s.state == inZero || s.state == inInteger) && c == '.':
		s.state = inPoint
	case s.state == inPoint && digit:
		s.state = inFraction
	case (s.state == inZero || s.state == inInteger || s.state == inFraction) && (c == 'e' || c == 'E'):
		s.state = inExponent
	case s.state == inExponent && (c == '+' || c == '-'):
		s.state = inSign
	case (s.state == inExponent || s.state == inSign) && digit:
		s.state = inPower
	case s.state == inMinus, s.state == inPoint, s.state == inExponent, s.state == inSign:
		return false, errSyntax
	default:
		return false, nil
	}
	return true, nil
}

func malformed(format string, args ...any) error {
	return &turns.FieldError{Reason: fmt.Sprintf(format, args...), Kind: turns.ErrMalformed}
}

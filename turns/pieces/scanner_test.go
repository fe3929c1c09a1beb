package pieces

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
)

// scan feeds content to a scanner in pieces of n bytes.
func scan(t turns.PartType, content []byte, n int) error {
	s := NewScanner(t)
	for rest := content; len(rest) > 0; rest = rest[min(n, len(rest)):] {
		if _, err := s.Write(rest[:min(n, len(rest))]); err != nil {
			return err
		}
	}
	return s.Close()
}

// slowScan is the twin of a scan of JSON: the library, which holds whole tokens.
func slowScan(content []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(content), jsontext.AllowDuplicateNames(true))
	for values := 0; ; {
		_, err := d.ReadToken()
		if err == io.EOF && values == 1 {
			return nil
		}
		if err != nil || values == 1 {
			return malformed("%v", err)
		}
		if d.StackDepth() > turns.MaxNesting {
			return turns.ErrTooLarge
		}
		if d.StackDepth() == 0 {
			values++
		}
	}
}

var scanned = []string{
	``, ` `, `"`, `""`, `"a\n\u00e9é"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83dx"`, `"\ude00"`, `"\ud83d\u0041"`, `"\x"`, "\"\x01\"", `"\u12`, `"\u12G4"`, `"\u00C9"`, `"\u!bcd"`,
	`0`, `-0`, `01`, `-`, `1.`, `1.5`, `.5`, `1e`, `1e+`, `1E-07`, `12 `, `1 2`, `0x`, `-x`, `{}`, `[]`, `[1,]`, `[,]`, `[1 2]`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1 "b":2}`,
	`{"a":[1,{"b":null}],"a":true}`, `[}`, `{]`, `]`, `}`, `[1}`, `{"a":1]`, `true`, `tru`, `truE`, `falsex`, `null,`, `"a" "b"`, `[[`, "\xff", "\"\xc3\x28\"", "\"\xe2\x82\"", "\"\xe2\x82\xac\"", "\"\xf0\x9f\x98\x80\"", "\xef\xbb\xbf1",
	strings.Repeat("[", 100) + strings.Repeat("]", 100), strings.Repeat("[", 101) + strings.Repeat("]", 101),
}

// FuzzScanner: whatever the pieces, the scanner takes what the library takes.
func FuzzScanner(f *testing.F) {
	for _, s := range scanned {
		f.Add([]byte(s), 1)
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, content []byte, n int) {
		n = max(1, min(n, len(content)))
		want, got := slowScan(content), scan(turns.ToolCallResponse, content, n)
		if (want == nil) != (got == nil) || errors.Is(want, turns.ErrTooLarge) != errors.Is(got, turns.ErrTooLarge) && !errors.Is(got, turns.ErrMalformed) {
			t.Errorf("%q in pieces of %d: %v, the library says %v", content, n, got, want)
		}
		if got := scan(turns.Text, content, n); (got == nil) != utf8.Valid(content) {
			t.Errorf("%q as text in pieces of %d: %v", content, n, got)
		}
		if got := scan(turns.Blob, content, n); got != nil {
			t.Errorf("%q as a blob: %v", content, got)
		}
	})
}

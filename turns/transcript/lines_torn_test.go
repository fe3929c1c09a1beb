package transcript

import (
	"io"
	"slices"
	"strings"
	"testing"
)

// A whole record behind a torn one on its line is read if it begins as the format says that
// records do; else both are lost, and the loss says so.
func TestRecordBehindATornOne(t *testing.T) {
	const line = `{"kind":"a","type":"x","text":"to{"kind":"b","type":"y"}` + "\n"
	for name, x := range map[string]struct {
		begins []string
		read   []string
		torn   string
		loss   string
	}{
		"known":   {[]string{`{"other":`, `{"kind":`}, []string{`{"kind":"b","type":"y"}`}, `{"kind":"a","type":"x","text":"to`, "33 bytes are torn, before another object on the line"},
		"unknown": {[]string{`{"other":`}, nil, strings.TrimSpace(line), "56 bytes are no JSON object (torn or broken)"},
		"none":    {nil, nil, strings.TrimSpace(line), "56 bytes are no JSON object (torn or broken)"},
	} {
		t.Run(name, func(t *testing.T) {
			var s Source
			var read []string
			var torn string
			s.Torn = func(_ int, b []byte) { torn = string(b) }
			s.ReadLines(strings.NewReader(line), Options{}, LineFormat{Name: "test", Begins: x.begins, End: func(int) {},
				Object: func(_ int, b []byte) error { read = append(read, string(b)); return nil }})
			if _, err := s.Reader().Next(); err != io.EOF {
				t.Fatal(err)
			}
			if losses := s.Reader().Losses(); !slices.Equal(read, x.read) || torn != x.torn || len(losses) != 1 || losses[0].Reason != x.loss {
				t.Errorf("read %q, torn %q, losses %+v", read, torn, losses)
			}
		})
	}
}

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

// A line of nothing but torn records and whole ones is read in a bounded number of looks.
func TestRecordsBehindManyTornOnes(t *testing.T) {
	var s Source
	read := 0
	s.ReadLines(strings.NewReader(strings.Repeat(`{"kind":"a","te{"kind":"b","type":"y"}`, 1000)+"\n"), Options{}, LineFormat{Name: "test", Begins: []string{`{"kind":`}, End: func(int) {},
		Object: func(int, []byte) error { read++; return nil }})
	if _, err := s.Reader().Next(); err != io.EOF {
		t.Fatal(err)
	}
	if losses := s.Reader().Losses(); read != maxTorn || len(losses) != maxTorn+2 || !strings.HasSuffix(losses[maxTorn].Reason, "bytes are no JSON object (torn or broken)") {
		t.Errorf("%d objects, losses %+v", read, losses)
	}
}

// What stands inside of a torn record is no record of its own, though it begins as one does.
func TestPieceOfATornRecordIsNoRecord(t *testing.T) {
	f := LineFormat{Begins: []string{`{"time":`, `{"type":`}, Untyped: []string{`{"$set":`}}
	for line, want := range map[string][]string{
		`{"time":1,"type":"x","parts":[{"type":"text","text":"a"},{"type":"te` + `{"time":2,"type":"x"}`:          {`{"time":2,"type":"x"}`},
		`{"time":1,"type":"x","parts":[{"type":"text","text":"a"}` + `{"time":2,"type":"x"}{"time":3,"type":"x"}`: {`{"time":2,"type":"x"}`, `{"time":3,"type":"x"}`},
		`{"time":1,"type":"x","parts":[{"time":0,"type":"inner"},{"type":"te` + `{"$set":{"a":1}}{"type":"y"}`:    {`{"$set":{"a":1}}`, `{"type":"y"}`},
		`{"time":1,"type":"x","parts":[{"time":0},{"time":0,"x":"` + `{"time":2}`:                                 nil,
		`{"time":1,"type":"x","text":"` + `{"time":2,"type":"x"}{"time":3,"ty` + `{"time":4,"type":"x"}`:          {`{"time":2,"type":"x"}`, `{"time":4,"type":"x"}`},
		`{"time":1,"type":"x","parts":[{"type":"text","text":"a"},{"type":"text","text":"b"}`:                     {`{"type":"text","text":"b"}`}, // it may be either
	} {
		var loss LossReport
		objects, torn := f.lineObjects(sourceLine{n: 1, b: []byte(line), whole: true}, false, &loss)
		var got []string
		for _, b := range objects {
			got = append(got, string(b))
		}
		if !slices.Equal(got, want) || torn == nil {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

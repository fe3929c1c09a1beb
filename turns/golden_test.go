package turns

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write golden files that are missing; one that is there is never written over")

// A golden file is a hash, a payload in hex, and, for people, the payload and
// its body in CBOR's diagnostic notation.
func goldenText(payload []byte) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "hash %s\npayload\n", HashEvent(payload))
	for rest := payload; len(rest) > 0; rest = rest[min(32, len(rest)):] {
		fmt.Fprintf(&b, "%x\n", rest[:min(32, len(rest))])
	}
	d, err := cbor.Diagnose(payload)
	fmt.Fprintf(&b, "event\n%s\n", d)
	if err != nil {
		return "", err
	}
	e, err := Decode(payload)
	if err != nil {
		return "", err
	}
	if len(e.Body) > 0 && e.Encoding == 0 {
		d, err := cbor.Diagnose(e.Body)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "body\n%s\n", d)
	}
	return b.String(), nil
}

func goldenPayload(t testing.TB, path string) (payload []byte, hash, text string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(b), "\npayload\n")
	digits, _, _ := strings.Cut(rest, "event\n")
	payload, err = hex.DecodeString(strings.ReplaceAll(digits, "\n", ""))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return payload, strings.TrimPrefix(head, "hash "), string(b)
}

func goldenFiles(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/golden/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	return files
}

// TestGoldenPayloadsAreTheSamples: each golden payload decodes to its sample, and the sample
// encodes to it. The files are frozen; so are the samples.
func TestGoldenPayloadsAreTheSamples(t *testing.T) {
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			want, err := s.made()
			if err != nil {
				t.Fatal(err)
			}
			encoded, err := want.Encode()
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata/golden", s.name+".txt")
			if _, err := os.Stat(path); err != nil && *update {
				text, err := goldenText(encoded)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			payload, hash, _ := goldenPayload(t, path)
			if !bytes.Equal(encoded, payload) {
				t.Errorf("the sample encodes to\n%x, the file has\n%x", encoded, payload)
			}
			if got := HashEvent(payload).String(); got != hash {
				t.Errorf("hash %s, the file has %s", got, hash)
			}
			got, err := Decode(payload)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("event (-sample +file):\n%s", d)
			}
			if s.body == nil {
				return
			}
			body := reflect.New(reflect.TypeOf(s.body).Elem()).Interface()
			if err := DecodeBody(got.Body, body); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(s.body, body); d != "" {
				t.Errorf("body (-sample +file):\n%s", d)
			}
		})
	}
}

// TestEveryGoldenFileDecodes: every file, whoever made it, decodes, re-encodes to its own
// bytes and reads as its text says.
func TestEveryGoldenFileDecodes(t *testing.T) {
	kinds := map[Kind]bool{}
	for _, path := range goldenFiles(t) {
		payload, hash, text := goldenPayload(t, path)
		e, err := Decode(payload)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		kinds[e.Kind] = true
		again, err := e.Encode()
		if err != nil || !bytes.Equal(again, payload) {
			t.Errorf("%s does not encode to itself: %v", path, err)
		}
		if got := HashEvent(payload).String(); got != hash {
			t.Errorf("%s: hash %s", path, got)
		}
		if want, err := goldenText(payload); err != nil || want != text {
			t.Errorf("%s: the text differs from\n%s%v", path, want, err)
		}
	}
	for k := range kindNames {
		if k.defined() && !kinds[k] {
			t.Errorf("no golden file of kind %s", k)
		}
	}
}

// TestEveryFieldIsInASample: a field that no sample sets could change unseen.
func TestEveryFieldIsInASample(t *testing.T) {
	set := map[string]bool{}
	fields := map[string]bool{}
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if v.IsNil() {
				v = reflect.New(v.Type().Elem())
			}
			walk(v.Elem())
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				f := v.Type().Field(i)
				if f.Name == "_" {
					continue
				}
				name := v.Type().Name() + "." + f.Name
				fields[name] = true
				if !v.Field(i).IsZero() {
					set[name] = true
				}
				walk(v.Field(i))
			}
		}
	}
	for _, s := range samples() {
		e, err := s.made()
		if err != nil {
			t.Fatal(err)
		}
		walk(reflect.ValueOf(e))
		if s.body != nil {
			walk(reflect.ValueOf(s.body))
		}
	}
	for name := range fields {
		if !set[name] && name != "Event.Encoding" && name != "Event.Keys" { // those are in the sealed file
			t.Errorf("no sample sets %s", name)
		}
	}
}

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"nexus/cmd/internal/transcripts"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/terminal"
)

// Files that name one id, wherever it stands, are one group in their order.
func TestFilesThatNameOneIDAreOneGroup(t *testing.T) {
	const a, b, c = "01234567-89ab-cdef-0123-456789abcdef", "11234567-89ab-cdef-0123-456789abcdef", "21234567-89AB-CDEF-0123-456789ABCDEF"
	pad := strings.Repeat("x", 256<<10)
	chat := func(text string) string {
		return `[{"role":"user","content":"` + text + `"},{"role":"assistant","content":"answer"}]` + "\n"
	}
	for name, tc := range map[string]struct {
		files []string
		want  [][]int
	}{
		"two sessions":                 {[]string{`{"sessionId":"` + a + `"}`, `{"sessionId":"` + b + `"}`}, [][]int{{0}, {1}}},
		"a copy behind another":        {[]string{a, b, a}, [][]int{{0, 2}, {1}}},
		"by one that names both":       {[]string{a, b, c, a + b}, [][]int{{0, 1, 3}, {2}}},
		"in a text":                    {[]string{a, "in the file /x/" + a + ".jsonl"}, [][]int{{0, 1}}},
		"across two blocks":            {[]string{a, pad[:len(pad)-20] + a + pad}, [][]int{{0, 1}}},
		"at the end of a later block":  {[]string{a, pad + pad + pad[:100] + a}, [][]int{{0, 1}}},
		"a session of another form":    {[]string{a + `{"parent_session" : "x7"}`, b, `{"sessionId":"x7"}`}, [][]int{{0, 2}, {1}}},
		"without ids":                  {[]string{"one", a, "two", b}, [][]int{{0, 2}, {1}, {3}}},
		"words that end as session":    {[]string{`{"expression":"x7"}` + a, `{"expression":"x7"}` + b}, [][]int{{0}, {1}}},
		"conversations without ids":    {[]string{chat("1"), chat("2"), "none", chat("3") + chat("1"), "[]"}, [][]int{{0, 3}, {1}, {2, 4}}},
		"conversations with short ids": {[]string{`{"id":"c1","messages":` + chat("1") + `}`, `{"id":"c2","messages":` + chat("1") + `}`, `{"id":"c1","messages":` + chat("1") + `}`}, [][]int{{0, 2}, {1}}},
		"other dashes":                 {[]string{"a-b-c-d " + a, "1234567-89ab-cdef-0123-456789abcdef " + b}, [][]int{{0}, {1}}},
		"an export of a ledger":        {[]string{a, transcriptfile.ExportPrefix + `{}}`, b}, [][]int{{0, 1, 2}}},
		"an archive":                   {[]string{a, transcriptfile.ArchivePrefix + `{}}`, b}, [][]int{{0, 1, 2}}},
		"a compressed archive":         {[]string{a, "\x1f\x8b\x08", b}, [][]int{{0, 1, 2}}},
		"an empty file, and a missing": {[]string{"", a, "missing"}, [][]int{{0, 2}, {1}}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var files []transcriptfile.File
			for i, text := range tc.files {
				files = append(files, transcriptfile.File{Name: filepath.Join(dir, fmt.Sprint(i))})
				if text == "missing" {
					continue
				}
				if err := os.WriteFile(files[i].Name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(tc.want, transcriptfile.Groups(files, "auto")); d != "" {
				t.Errorf("groups (-want +got):\n%s", d)
			}
		})
	}
}

// An import of many files at the same time reports of each what an import of one after the
// other does, in the same order.
func TestManyFilesAreImportedAsOneAfterTheOther(t *testing.T) {
	dir := t.TempDir()
	var files []transcriptfile.File
	add := func(name, text string) {
		files = append(files, transcriptfile.File{Name: filepath.Join(dir, name)})
		if err := os.WriteFile(files[len(files)-1].Name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 12 {
		id := fmt.Sprintf("%08d-89ab-7def-8123-456789abcdef", i)
		add(fmt.Sprintf("%d.jsonl", i), piTranscript(id))
		add(fmt.Sprintf("%d-copy.jsonl", i), piTranscript(id))
	}
	add("none.jsonl", "no transcript\n")
	files = append(files, transcriptfile.File{Name: filepath.Join(dir, "missing.jsonl")}, transcriptfile.File{Name: dir, Special: true})
	ctx := t.Context()
	e := newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard})
	var got [2][]string
	for i := range got {
		c, stop, err := local.Start(ctx, e.Terminal, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		im := transcripts.Importer{Client: c, Format: "auto", Final: true}
		note := func(r *tally.Report, err error) {
			got[i] = append(got[i], fmt.Sprintf("%+v, %v", r, err))
		}
		if i == 0 {
			for _, f := range files {
				if f.Special {
					note(nil, nil)
					continue
				}
				note(im.File(ctx, f.Name))
			}
			continue
		}
		for at, o := range im.Files(ctx, files) {
			if at != len(got[i]) {
				t.Fatalf("file %d is reported after %d files", at, len(got[i]))
			}
			note(o.Report, o.Err)
		}
	}
	if d := cmp.Diff(got[0], got[1], cmpopts.EquateEmpty()); d != "" {
		t.Errorf("one after the other, and at the same time (-first +second):\n%s", d)
	}
	if !strings.Contains(got[1][0], "Stored:") || strings.Contains(got[1][0], "Stored:0") || !strings.Contains(got[1][1], "Stored:0") {
		t.Errorf("the first file and its copy: %s", got[1][:2])
	}
}

// A caller that stops leaves nothing running, whatever has begun.
func TestStoppedImportOfManyFilesEnds(t *testing.T) {
	dir := t.TempDir()
	var files []transcriptfile.File
	for i := range 40 {
		name := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(name, fmt.Appendf(nil, "%08d-89ab-7def-8123-456789abcdef", i), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, transcriptfile.File{Name: name})
	}
	im := transcripts.Importer{Format: "auto"}
	for i, o := range im.Files(t.Context(), files) {
		if o.Err == nil {
			t.Errorf("file %d has no format", i)
		}
		if i == 3 {
			break
		}
	}
}

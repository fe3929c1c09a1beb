package turns

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func formatPage(t *testing.T) string {
	b, err := os.ReadFile("../docs/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestFormatTablesNameEveryField: the tables of docs/FORMAT.md have the fields of the code,
// with their numbers, and say which of them are absent if zero.
func TestFormatTablesNameEveryField(t *testing.T) {
	got := map[string][]string{}
	name := ""
	title := regexp.MustCompile(`^(?:## \d+\. )?([A-Z]\w+)(?: \(key \d+ is not used\))?(?:[:.]|\n)`)
	for line := range strings.Lines(formatPage(t)) {
		if m := title.FindStringSubmatch(line); m != nil {
			name = m[1]
		}
		cells := strings.Split(line, "|")
		if len(cells) != 7 || name == "Kinds" {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if _, err := strconv.Atoi(cells[1]); err == nil {
			got[name] = append(got[name], fmt.Sprintf("%s %s %s", cells[1], cells[2], cells[4]))
		}
	}
	want := map[string][]string{}
	for _, v := range []any{Event{}, Span{}, Usage{}, Flush{}, OpenedBody{}, ChangedBody{}, Settings{}, PolicyRef{}, Preamble{}, Section{}, Limits{}, TurnBody{},
		ContextRef{}, Message{}, Part{}, BlobRef{}, CompactionBody{}, Trigger{}, ElidedPart{}, MovedBody{}, StateBody{}, FlushBody{}, HiddenBody{}, DescribedBody{}, NotedBody{}, RedactedBody{}, PolicyBody{}, StoredPolicy{}, ClaimedBody{},
		Memory{}, StoredDocument{}, MemoryBody{}, MemoryChangedBody{}, DocumentBody{}, ReceivedBody{}} {
		typ := reflect.TypeOf(v)
		rows := map[int]string{}
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.Tag.Get("cbor") == "-" { // the body stands beside the header
				continue
			}
			var key int
			fmt.Sscanf(f.Tag.Get("cbor"), "%d", &key)
			absent := ""
			if strings.Contains(f.Tag.Get("cbor"), "omit") {
				absent = "yes"
			}
			rows[key] = fmt.Sprintf("%d %s %s", key, f.Name, absent)
		}
		for key := range 100 {
			if r, ok := rows[key]; ok {
				want[typ.Name()] = append(want[typ.Name()], r)
			}
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("docs/FORMAT.md (-code +page)\n%s", d)
	}
}

// TestFormatExampleIsTheGoldenFile: the annotated bytes on the page are those of the golden
// file, and have the hash that the page says.
func TestFormatExampleIsTheGoldenFile(t *testing.T) {
	_, rest, ok := strings.Cut(formatPage(t), "## 12. A worked example")
	blocks := strings.Split(rest, "```")
	if !ok || len(blocks) < 3 {
		t.Fatal("docs/FORMAT.md has no example")
	}
	var got []byte
	for line := range strings.Lines(strings.TrimPrefix(blocks[1], "text\n")) {
		bytesOf, _, _ := strings.Cut(strings.TrimRight(line, "\n"), "  # ")
		b, err := hex.DecodeString(strings.ReplaceAll(bytesOf, " ", ""))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		got = append(got, b...)
	}
	want, hash, _ := goldenPayload(t, "testdata/golden/turn-minimal.txt")
	if !bytes.Equal(got, want) {
		t.Errorf("the page has\n%x, the file\n%x", got, want)
	}
	e, err := Decode(got)
	if err != nil {
		t.Fatal(err)
	}
	header, _, _ := headerAndBody(got)
	for _, s := range []string{"`" + hash + "`", fmt.Sprintf("the %d bytes of the header", len(header)), fmt.Sprintf("the %d bytes of the body", len(e.Body)), fmt.Sprintf("`%x`", eventDomain), e.ID.String(), e.Chain.ID} {
		if !strings.Contains(rest, s) {
			t.Errorf("the example does not say %s", s)
		}
	}
}

// TestPagesSayTheLimitsOfTheCode: the pages state the limits of content as the code has them.
func TestPagesSayTheLimitsOfTheCode(t *testing.T) {
	mib := func(n int) string {
		if n%(1<<20) != 0 {
			t.Errorf("%d bytes are no whole MiB", n)
		}
		return fmt.Sprintf("%d MiB", n>>20)
	}
	part, whole, piece, turn := mib(MaxPart), mib(MaxWhole), mib(MaxPiece), mib(MaxInPieces)
	for page, sentences := range map[string][]string{
		"FORMAT.md": {
			"| a payload | " + mib(MaxPayload) + " |", "| a body in the clear, a blob in the clear | " + mib(MaxBody) + " |", "| content of a part in one blob | " + whole + " |",
			"| content of a part | " + part + ", in pieces of " + piece + " |", "| content in pieces of one turn | " + turn + " |",
		},
		"API.md": {
			"joins pieces, up to " + whole, fmt.Sprintf("has %s (%d,%03d,%03d bytes", piece, MaxPiece/1_000_000, MaxPiece/1000%1000, MaxPiece%1000), "together they have up to " + part,
			"Such content of one request has up to " + whole, "A part may have up to " + part + ", and those of one turn " + turn, "Content of a part may have up to " + part,
		},
		"CLI.md": {"A part of a turn may have up to " + part, "over " + whole + " a context shows"},
	} {
		b, err := os.ReadFile("../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sentences {
			if !strings.Contains(string(b), s) {
				t.Errorf("docs/%s does not say %q", page, s)
			}
		}
	}
}

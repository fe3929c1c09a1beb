package archive

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nexus/cmd/internal/transcripts/rawexport"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/ledger/api"
)

// zeros reads as n zeros.
type zeros struct{ n int64 }

func (z *zeros) Read(b []byte) (int, error) {
	if z.n <= 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), z.n))
	clear(b[:n])
	z.n -= int64(n)
	return n, nil
}

// written counts what a reader gave.
type written struct {
	io.Reader
	n int64
}

func (w *written) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	w.n += int64(n)
	return n, err
}

// A small file may be a terabyte of zeros in gzip's form: a line has a bound.
func TestALineWithoutEndIsRefused(t *testing.T) {
	in := &written{Reader: &zeros{n: 1 << 40}}
	if line, err := rawexport.ReadLine(bufio.NewReaderSize(in, 1<<20)); err == nil || err == io.EOF || line != nil || in.n > rawexport.MaxLine+2<<20 {
		t.Errorf("%d bytes of a line after %d bytes: %v", len(line), in.n, err)
	}
	if err := rawexport.Import(t.Context(), nil, bufio.NewReaderSize(&zeros{n: 1 << 40}, 1<<20), new(tally.Report)); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("%v", err)
	}
}

func TestArchivesThatAreNoneAreNotSound(t *testing.T) {
	head := `{"nexus_archive":{"version":1,"ledger":"l","session":"` + api.NewID().String() + `","compaction":"` + api.NewID().String() + `"}}` + "\n"
	piece := bytes.Repeat([]byte("a"), 1<<20)
	digest := api.PieceDigest(piece)
	record := `{"piece":{"sealed":"` + base64.StdEncoding.EncodeToString(piece) + `"}}` + "\n"
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprintf("%q", digest)
	}
	var pieces strings.Builder
	for i := range 70 {
		b := bytes.Repeat([]byte{byte(i)}, 1<<20)
		pieces.WriteString(`{"piece":{"sealed":"` + base64.StdEncoding.EncodeToString(b) + `"}}` + "\n")
	}
	zip := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := io.WriteString(z, text); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for _, c := range []struct{ name, text, want string }{
		{"a header alone", head, "before its first event"},
		{"one piece named often", head + record + `{"event":{"pieces":[` + strings.Join(many, ",") + `],"hash":"` + digest.String() + `"}}` + "\n", "over 8388608 bytes"},
		{"pieces that nothing takes", head + pieces.String(), "over 68157440 bytes"},
		{"cut gzip", zip(head + record)[:80], "line 1: unexpected EOF"},
		{"a header twice, as members", zip(head) + zip(head), "before its first event"},
		{"gzip's mark damaged", "\x1e" + zip(head)[1:], "line 1: "},
		{"an event of an export damaged", `{"id":"?","channel":"c","hash":"h","prev_hash":"p"}` + "\n", "line 1: "},
		{"a word of the header damaged", strings.Replace(head, "nexus_archive", "nexus_brchive", 1), "line 1: "},
		{"another word of it", strings.Replace(strings.Replace(head, "ledger", "kedger", 1), `":1`, `":x`, 1), "line 1: "},
		{"no gzip behind gzip", zip(head) + "rest", "line 2: unexpected EOF"},
	} {
		name := filepath.Join(t.TempDir(), "a.jsonl.gz")
		if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if a, err := Check(name); err == nil || !strings.Contains(a.Error, c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

package transcriptfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nexus/turns/transcript"
)

// A transcript that an editor wrote again, with a byte order mark and CRLF, reads as the one it was.
func TestAByteOrderMarkIsNoPartOfATranscript(t *testing.T) {
	const lines = `{"parentUuid":null,"type":"user","message":{"role":"user","content":"hello"},"uuid":"00000000-0000-4000-8000-000000000001","sessionId":"aaaaaaaa-0000-4000-8000-000000000001","timestamp":"2026-11-20T10:00:00.000Z","cwd":"/x","version":"2.1.39","isSidechain":false,"userType":"external"}
{"parentUuid":"00000000-0000-4000-8000-000000000001","type":"assistant","message":{"model":"m","id":"m1","type":"message","role":"assistant","content":[{"type":"text","text":"done"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1}},"requestId":"r","uuid":"00000000-0000-4000-8000-000000000002","sessionId":"aaaaaaaa-0000-4000-8000-000000000001","timestamp":"2026-11-20T10:00:01.000Z","cwd":"/x","version":"2.1.39","isSidechain":false,"userType":"external"}
`
	read := func(text string) (ids []string) {
		t.Helper()
		name := filepath.Join(t.TempDir(), "a.jsonl")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(name, nil, "auto", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r := f.Format.Open(f.Reader, transcript.Options{Final: true})
		for {
			s, err := r.Next()
			if errors.Is(err, io.EOF) {
				return ids
			}
			if err != nil {
				t.Fatal(err)
			}
			if s.Append != nil {
				ids = append(ids, s.Append.ID.String())
			}
		}
	}
	want := read(lines)
	for _, text := range []string{byteOrderMark + lines, byteOrderMark + strings.ReplaceAll(lines, "\n", "\r\n")} {
		if got := read(text); len(want) != 1 || strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("turns %v, want %v", got, want)
		}
	}
}

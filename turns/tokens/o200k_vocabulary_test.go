package tokens

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/klauspost/compress/zstd"
)

var packFrom = flag.String("pack-o200k", "", "make o200k.zst anew of this o200k_base.tiktoken")

// The SHA-256 of o200k_base.tiktoken as OpenAI publishes it: a line for each
// token, its bytes in base64 and its rank.
const officialO200k = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"

// The embedded vocabulary is the published one, byte for byte.
func TestVocabularyIsThePublishedOne(t *testing.T) {
	if *packFrom != "" {
		pack(t, *packFrom)
	}
	v, err := readVocabulary(packedO200k)
	if err != nil {
		t.Fatal(err)
	}
	byRank, longest := make([]string, len(v.ranks)), 0
	for token, rank := range v.ranks {
		byRank[rank] = token
		longest = max(longest, len(token))
	}
	h := sha256.New()
	for rank, token := range byRank {
		fmt.Fprintf(h, "%s %d\n", base64.StdEncoding.EncodeToString([]byte(token)), rank)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != officialO200k {
		t.Errorf("SHA-256 %s, want %s", got, officialO200k)
	}
	if longest != longestToken {
		t.Errorf("the longest token has %d bytes, want %d", longest, longestToken)
	}
}

func TestVocabularyIsChecked(t *testing.T) {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	lengths := bytes.Repeat([]byte{1}, tokensO200k)
	for _, test := range []struct {
		name   string
		packed []byte
	}{
		{"nothing", nil},
		{"not zstd", []byte("no")},
		{"cut", packedO200k[:len(packedO200k)/2]},
		{"no lengths", w.EncodeAll([]byte("a"), nil)},
		{"too few bytes", w.EncodeAll(lengths, nil)},
		{"one token twice", w.EncodeAll(append(bytes.Clone(lengths), lengths...), nil)},
		{"something after it", w.EncodeAll(append(bytes.Clone(lengths), make([]byte, tokensO200k+1)...), nil)},
	} {
		if _, err := readVocabulary(test.packed); err == nil {
			t.Errorf("%s: read", test.name)
		}
	}
}

// pack writes o200k.zst; the next build embeds it.
func pack(t *testing.T, from string) {
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	var lengths, text []byte
	for line := range bytes.Lines(b) {
		encoded, rank, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		token, err := base64.StdEncoding.DecodeString(string(encoded))
		if err != nil || string(rank) != fmt.Sprint(len(lengths)) || len(token) > longestToken {
			t.Fatalf("%q: not the next token: %v", line, err)
		}
		lengths, text = append(lengths, byte(len(token))), append(text, token...)
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("o200k.zst", w.EncodeAll(append(lengths, text...), nil), 0o644); err != nil {
		t.Fatal(err)
	}
}

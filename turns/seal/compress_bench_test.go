package seal_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// BenchmarkCompression measures levels of zstd on the lines of real transcripts, by size. A line is
// about a turn's body, and somewhat easier: it names its members. Bytes are of 100 of the text's.
// ../shared/data has the transcripts; without it nothing is measured.
func BenchmarkCompression(b *testing.B) {
	data := filepath.Join("..", "..", "..", "shared", "data")
	lines := make(map[int][][]byte)
	sizes := []int{512, 2 << 10, 8 << 10, 30 << 10}
	_ = filepath.WalkDir(data, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".jsonl") {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return nil
		}
		defer f.Close()
		s := bufio.NewScanner(f)
		s.Buffer(nil, 64<<20)
		for s.Scan() {
			for _, size := range sizes {
				if n := len(s.Bytes()); n >= size*3/4 && n < size*5/4 && len(lines[size]) < 500 {
					lines[size] = append(lines[size], bytes.Clone(s.Bytes()))
				}
			}
		}
		return nil
	})
	if len(lines) == 0 {
		b.Skip("no transcripts in ../shared/data")
	}
	for _, size := range sizes {
		for name, level := range map[string]zstd.EncoderLevel{"fastest": zstd.SpeedFastest, "default": zstd.SpeedDefault, "better": zstd.SpeedBetterCompression} {
			b.Run(fmt.Sprintf("%d bytes, %s", size, name), func(b *testing.B) {
				e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderCRC(false), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
				if err != nil {
					b.Fatal(err)
				}
				var in, out, n int
				dst := make([]byte, 0, 64<<10)
				for b.Loop() {
					line := lines[size][n%len(lines[size])]
					n++
					in, out = in+len(line), out+len(e.EncodeAll(line, dst))
				}
				b.ReportMetric(100*float64(out)/float64(in), "%")
				b.ReportMetric(float64(len(lines[size])), "lines")
			})
		}
	}
}

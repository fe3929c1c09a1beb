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
// about a turn's body, and somewhat easier: it names its members. Bytes are of 100 of the text's. Cold is
// with the processor's cache filled by something else before each line, as it is in a daemon.
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
			for warmth, before := range map[string]func(){"warm": func() {}, "cold": fillCache} {
				b.Run(fmt.Sprintf("%d bytes, %s, %s", size, name, warmth), func(b *testing.B) {
					e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderCRC(false), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
					if err != nil {
						b.Fatal(err)
					}
					dst := make([]byte, 0, 64<<10)
					e.EncodeAll(lines[size][0], dst) // makes its tables
					b.ResetTimer()
					var in, out int
					for n := range b.N {
						line := lines[size][n%len(lines[size])]
						b.StopTimer()
						before()
						b.StartTimer()
						in, out = in+len(line), out+len(e.EncodeAll(line, dst))
					}
					b.ReportMetric(100*float64(out)/float64(in), "%")
				})
			}
		}
	}
}

var otherMemory = make([]byte, 8<<20)

func fillCache() {
	for i := 0; i < len(otherMemory); i += 64 {
		otherMemory[i]++
	}
}

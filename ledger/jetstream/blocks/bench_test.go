package blocks

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkCheck reads 64 MiB of blocks from the page cache.
func BenchmarkCheck(b *testing.B) {
	for name, size := range map[string]int{"2KiB": 2 << 10, "64KiB": 64 << 10, "1MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			s := start(b, b.TempDir())
			dir := killed(b, s)
			s.stop(b)
			seq, total := uint64(1), int64(0)
			for n := uint32(1); n <= 8; n++ {
				var block []byte
				for {
					r := Record{Seq: seq, Subject: "nexus.log.00.default.s.01J00000000000000000000000", Header: []byte("NATS/1.0\r\nNexus-Hash: 0\r\n\r\n"), Payload: bytes.Repeat([]byte{byte(seq)}, size), Stored: time.Unix(1, 1), Block: n}
					raw := encode(r)
					if len(block)+len(raw) > maxBlock {
						break
					}
					block = append(block, raw...)
					seq++
				}
				total += int64(len(block))
				if err := os.WriteFile(filepath.Join(dir, blockPath(n)), block, 0o600); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(total)
			b.ReportAllocs()
			for b.Loop() {
				if r := check(b, dir, Options{Acked: seq - 1}); r.Err() != nil {
					b.Fatal(r.Err())
				}
			}
		})
	}
}

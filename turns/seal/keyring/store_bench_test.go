package keyring

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// benchKeys is how many keys are in the store that is opened, or that loses one.
const benchKeys = 100_000

// BenchmarkStoreCreate makes keys, durably: one at a time, and 64 callers at once.
func BenchmarkStoreCreate(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s, err := Open(filepath.Join(b.TempDir(), "keys"))
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			var n atomic.Int64
			b.SetParallelism((callers + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
			if callers == 1 {
				for b.Loop() {
					if _, err := s.Create(idOf(int(n.Add(1))), rand.Reader); err != nil {
						b.Fatal(err)
					}
				}
				return
			}
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := s.Create(idOf(int(n.Add(1))), rand.Reader); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "keys/s")
		})
	}
}

// full returns a folder with benchKeys keys.
func full(b *testing.B) string {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "keys")
	s, err := Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			for n := range benchKeys / 1000 {
				if _, err := s.Create(idOf(i*benchKeys/1000+n), rand.Reader); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	return dir
}

// BenchmarkStoreOpen opens a store, and reports the memory that a key takes after it.
func BenchmarkStoreOpen(b *testing.B) {
	dir := full(b)
	memory := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	var s *Store
	before := memory()
	for b.Loop() {
		var err error
		if s, err = Open(dir); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((memory()-before)/benchKeys, "B/key")
	runtime.KeepAlive(s)
}

// BenchmarkStoreDestroy destroys one key, which writes all others anew.
func BenchmarkStoreDestroy(b *testing.B) {
	s, err := Open(full(b))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	n := 0
	for b.Loop() {
		if err := s.Destroy(idOf(n)); err != nil {
			b.Fatal(err)
		}
		n++
	}
}

func BenchmarkStoreKey(b *testing.B) {
	s, err := Open(filepath.Join(b.TempDir(), "keys"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Create(idOf(1), rand.Reader); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Key(idOf(1)); err != nil {
			b.Fatal(err)
		}
	}
}

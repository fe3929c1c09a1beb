package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestBytesOfIsTheGrowthOfTheLog(t *testing.T) {
	log := t.TempDir()
	if n, err := bytesOf(log, func(int) error { return nil }); err == nil {
		t.Errorf("a log without blocks: %d bytes", n)
	}
	if err := os.MkdirAll(filepath.Join(log, "msgs"), 0o700); err != nil {
		t.Fatal(err)
	}
	block := filepath.Join(log, "msgs", "1.blk")
	held := []byte("what was there")
	n, err := bytesOf(log, func(int) error { return nil })
	if err == nil {
		t.Errorf("an empty folder: %d bytes", n)
	}
	if err := os.WriteFile(block, held, 0o600); err != nil {
		t.Fatal(err)
	}
	n, err = bytesOf(log, func(int) error {
		held = append(held, bytes.Repeat([]byte{1}, 657)...)
		return os.WriteFile(block, held, 0o600)
	})
	if n != 657 || err != nil {
		t.Errorf("%d bytes, %v; want 657", n, err)
	}
}

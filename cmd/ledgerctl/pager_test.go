package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Without a terminal ledgerctl alone prints the help.
func TestWithoutATerminalThereIsNoPicker(t *testing.T) {
	in, err := os.Create(filepath.Join(t.TempDir(), "in"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var out, errw bytes.Buffer
	if code := run(context.Background(), nil, in, &out, &errw); code != 0 || !strings.Contains(out.String(), "Start\n") || errw.Len() > 0 {
		t.Errorf("%d: %s%s", code, out.String(), errw.String())
	}
}

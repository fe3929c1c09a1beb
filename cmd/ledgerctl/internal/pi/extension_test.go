package pi

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// The extension has the words of the command as they are, and nothing else of it changes.
func TestExtensionHasItsCommand(t *testing.T) {
	got, err := Extension([]string{`/opt/my "tools"/ledgerctl`, "--server", "nats://127.0.0.1:4222", "hook", "--from", "pi"})
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "nexus.ts")
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("it is not %s, %v:\n%s", golden, err, got)
	}
	if !IsExtension(got) || IsExtension([]byte("// mine\n")) || bytes.Count(source, []byte("COMMAND")) != 1 {
		t.Error("the extension is not known by its first line")
	}
}

// An extension of another program is neither replaced nor removed.
func TestExtensionOfAnotherStays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "extensions", "nexus.ts")
	text, err := Extension([]string{"x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range [][]byte{nil, text, text, nil} {
		if err := Write(file, step); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); !bytes.Equal(got, step) || (err == nil) != (step != nil) {
			t.Errorf("%q, %v", got, err)
		}
	}
	if err := os.WriteFile(file, []byte("// mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range [][]byte{nil, text} {
		if err := Write(file, step); !errors.Is(err, ErrForeign) {
			t.Error(err)
		}
	}
}

package pi

import (
	"bytes"
	_ "embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"nexus/cmd/internal/wholefile"
	"nexus/turns"
)

//go:embed extension.ts
var source []byte

// Events are the events that the extension calls ledgerctl at.
var Events = []string{"PreCompact", "PostCompact", "SessionEnd"}

// mark begins each extension that this package wrote: another file stays as it is.
var mark = []byte("// Written by ledgerctl hook install")

// ErrForeign: there is a file in the extension's place that this package did not write.
var ErrForeign = errors.New("another program wrote this extension")

// Extension returns the text of the extension, for a command and its arguments, to which
// the event's name is added.
func Extension(command []string) ([]byte, error) {
	words, err := turns.EncodeJSON(command)
	if err != nil {
		return nil, err
	}
	return bytes.Replace(source, []byte("COMMAND"), words, 1), nil
}

// IsExtension reports whether this package wrote a file.
func IsExtension(text []byte) bool { return bytes.HasPrefix(text, mark) }

// Program returns the program that an extension runs; "" if it can't be read.
func Program(text []byte) string {
	for line := range bytes.Lines(text) {
		words, ok := bytes.CutPrefix(bytes.TrimRight(line, ";\n"), []byte("const command: string[] = "))
		var command []string
		if ok && turns.DecodeJSON(words, &command) == nil && len(command) > 0 {
			return command[0]
		}
	}
	return ""
}

// Write replaces the extension in a file as a whole; nil removes it. Its error is
// [ErrForeign] for a file of another program.
func Write(file string, text []byte) error {
	had, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && text == nil:
		return nil
	case err == nil && !IsExtension(had):
		return ErrForeign
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case text == nil:
		return os.Remove(file)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return wholefile.Write(file, 0o600, wholefile.Bytes(text))
}

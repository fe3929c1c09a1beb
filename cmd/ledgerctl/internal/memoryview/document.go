package memoryview

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
)

// Document prints the document of an agent. It takes no version, which says what is replaced.
func Document(ctx context.Context, e *cli.Env, version string) error {
	c, err := e.Client("main")
	if err != nil {
		return err
	}
	if version != "" {
		return fault.Usage(errors.New("--if goes with --replace FILE"))
	}
	d, err := c.Document(ctx, api.MemoryDocument{})
	if err != nil {
		return err
	}
	if e.JSON {
		return e.Print(d)
	}
	if d.Version == 0 {
		e.Say("agent %s has no document; memory document --replace FILE --if 0 stores the first", d.Agent)
		return nil
	}
	e.Say("version %d of the document of agent %s", d.Version, d.Agent)
	_, err = io.WriteString(e.Out, strings.TrimSuffix(prose.Printable(d.Text), "\n")+"\n")
	return err
}

// ReplaceDocument replaces the version of an agent's document that a person read by a file.
func ReplaceDocument(ctx context.Context, e *cli.Env, file, version string) error {
	c, err := e.Client("main")
	if err != nil {
		return err
	}
	if version == "" {
		return fault.Usage(errors.New("--replace needs --if VERSION, the version that you read; 0 if there is none"))
	}
	b, err := e.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := Edited(file, b)
	if err != nil {
		return err
	}
	d, err := c.ReplaceDocument(ctx, api.MemoryDocument{Text: &text, If: version})
	if api.HasCode(err, api.Conflict) {
		return fault.WithHint(err, "ledgerctl memory document prints it and its version: take your change over to it, and replace that version")
	}
	if err != nil {
		return err
	}
	return e.Result(d, "version %d of the document of agent %s", d.Version, d.Agent)
}

// Edited returns a file as a text of the ledger: what editors write on some systems, a
// mark of the byte order and line ends of two characters, is not part of it.
func Edited(name string, b []byte) (string, error) {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return "", fault.Usage(fmt.Errorf("%s: byte %d is not UTF-8; save the file as UTF-8", name, i))
		}
		i += n
	}
	return strings.ReplaceAll(strings.TrimPrefix(string(b), "\uFEFF"), "\r\n", "\n"), nil
}

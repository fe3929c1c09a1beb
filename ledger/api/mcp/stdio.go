package mcp

import (
	"context"
	"errors"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxLine bounds a message on stdio, in bytes. A longer one ends the connection: what
// follows it can't be told from it.
const maxLine = 16 << 20

// ServeStdio serves one caller on in and out until in ends, or ctx does. It writes
// nothing but messages of the protocol to out.
func (t *Tools) ServeStdio(ctx context.Context, c Caller, in io.Reader, out io.Writer) error {
	ctx, server := t.from(ctx, c)
	err := server.Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(in), Writer: discardClose{out}, MaxLineLength: maxLine})
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// discardClose is a writer that stays open: it is the process's own output.
type discardClose struct{ io.Writer }

func (discardClose) Close() error { return nil }

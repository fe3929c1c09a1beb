package mcp

import (
	"context"
	"errors"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nexus/turns"
)

// maxLine bounds a message on stdio, in bytes. A longer one ends the connection: what
// follows it can't be told from it.
const maxLine = 16 << 20

// defaultVersion is the revision of the protocol by which a request is served that names none
// and that no handshake came before. It is the first that needs no handshake.
const defaultVersion = "2026-07-28"

// ServeStdio serves one caller on in and out until in ends, or ctx does. It writes
// nothing but messages of the protocol to out.
func (t *Tools) ServeStdio(ctx context.Context, c Caller, in io.Reader, out io.Writer) error {
	ctx, server := t.from(ctx, c)
	err := server.Run(ctx, versioned{&sdk.IOTransport{Reader: io.NopCloser(in), Writer: discardClose{out}, MaxLineLength: maxLine}})
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// discardClose is a writer that stays open: it is the process's own output.
type discardClose struct{ io.Writer }

func (discardClose) Close() error { return nil }

// versioned is a transport whose requests without a version, on a connection without a
// handshake, are of the default version.
type versioned struct{ sdk.Transport }

func (t versioned) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &versionedConnection{Connection: c}, nil
}

type versionedConnection struct {
	sdk.Connection
	shaken bool // initialize came: its version is that of what follows
}

// Read implements [sdk.Connection]. One goroutine calls it.
func (c *versionedConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	r, ok := m.(*jsonrpc.Request)
	if err != nil || !ok || !r.IsCall() {
		return m, err
	}
	switch r.Method {
	case "initialize":
		c.shaken = true
	case "ping": // which the default version has not
	default:
		if !c.shaken {
			r.Params = withVersion(r.Params)
		}
	}
	return r, nil
}

// withVersion returns the parameters of a request with the default version, if they have
// none.
func withVersion(params []byte) []byte {
	var members, meta map[string]turns.Raw
	if len(params) > 0 && json.Unmarshal(params, &members) != nil {
		return params
	}
	if raw := members["_meta"]; raw != nil && json.Unmarshal(raw, &meta) != nil || meta[sdk.MetaKeyProtocolVersion] != nil {
		return params
	}
	if meta == nil {
		meta = make(map[string]turns.Raw)
	}
	if members == nil {
		members = make(map[string]turns.Raw)
	}
	meta[sdk.MetaKeyProtocolVersion] = turns.RawText(defaultVersion)
	if meta[sdk.MetaKeyClientCapabilities] == nil {
		meta[sdk.MetaKeyClientCapabilities] = turns.Raw(`{}`)
	}
	raw, err := turns.EncodeJSON(meta)
	if err != nil {
		return params
	}
	members["_meta"] = raw
	if raw, err = turns.EncodeJSON(members); err != nil {
		return params
	}
	return raw
}

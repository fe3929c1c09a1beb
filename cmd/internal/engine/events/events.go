package events

import (
	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
)

// Events appends to channels and reads them. Safe for concurrent use.
type Events struct {
	content *content.Store
	page    *page.Limits
	reader  *reader.Reader
	writer  *writer.Writer
}

// New returns the channels that w writes.
func New(cs *content.Store, limits *page.Limits, r *reader.Reader, w *writer.Writer) *Events {
	return &Events{content: cs, page: limits, reader: r, writer: w}
}

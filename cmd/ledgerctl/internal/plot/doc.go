// Package plot draws trees of sessions and contexts as SVG, and has what other pictures
// are drawn with: an SVG document, colours, the marks of an axis.
//
// The commands tree --svg and context --svg call it, and the room comparison for its own
// picture. It asks the ledger what a compaction covers, and writes to a writer. A picture
// fetches nothing and holds no character that steers a terminal.
//
// Begin at [Tree] and [Context]; svg.go is the document.
package plot

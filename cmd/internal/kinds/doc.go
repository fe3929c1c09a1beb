// Package kinds says which kinds of content a model reads, and how each looks: one name, one
// colour and one shape, in every picture and on every page.
//
// The pictures of ledgerctl and the pages of the explorer call it. It imports the wire
// contract only, asks nobody and writes nothing.
//
// Begin at [All]; [Spans] reads a context.
package kinds

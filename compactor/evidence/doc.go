// Package evidence compares what stands for covered turns with the turns themselves:
// which facts of them a context lost, which turns a line of a summary rests on, and which
// passages of them answer a query.
//
// It is pure, asks no model and trusts no summarizer: what a line cites is looked up like
// everything else. A fact is what package compactor/summary counts in the survival report,
// so that the two agree.
//
// Room engine/covered calls it. It may import turns and compactor/summary. Begin at
// lost.go.
package evidence

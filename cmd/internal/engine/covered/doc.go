// Package covered shows what is behind the compactions of a path: the turns that one
// stands for, the turn that a summary cites, what a line of a summary rests on, which
// facts a context lost, and which passages answer a query.
//
// natsapi calls it, and contexts for a query. It writes nothing. It reads the ledger;
// the index of words only proposes where a query looks. Begin at expand.go; lost.go and
// lines.go compare summaries with turns, recall.go serves queries.
package covered

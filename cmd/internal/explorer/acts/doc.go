// Package acts has the forms by which a person changes the ledger, and the files that leave it:
// forks, rewinds, compactions, labels, titles, tags and notes; what is taken out for ever, of one
// session or of all; exports and proofs.
//
// The explorer serves them. Who may do what is decided by the visit ([visit.Visit.Writer],
// mayErase); the ledger does it, as the agent of the session or as the operator. A form has an id, so
// that one that is sent twice is one act. What can't be undone has a preview, which changes nothing,
// and works without script.
//
// Begin at [Pages]; takeout.go has previews, span.go finds a text in a part.
package acts

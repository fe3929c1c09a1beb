// Package wire is what clients of the Open Responses API send and read: requests, items,
// errors, ids, and what the turns of a request and of its answer say of a response beside
// their messages. It is pure: it asks neither the ledger nor a model.
//
// [ParseCreate] reads a request, [ParseInput] its items; [AnswerItems] and [InputItems] write
// them. Begin at [CreateRequest].
package wire

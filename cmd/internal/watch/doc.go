// Package watch follows the transcripts of coding agents and brings what is new into a
// ledger, line by line, while the agents write.
//
// ledgerctl watch runs it, and nexusd where its configuration names folders. It stores through package transcripts, as ledgerctl import
// does, so what it stores has the ids that an import gives, and storing it again stores
// nothing. It may import turns, transcripts and the client of the ledger.
//
// What is kept beside the ledger is a cache (state.go): for each file, how far its lines
// are in the ledger, with a hash of them. A crash leaves:
//
//   - before a step: the ledger lacks it, and the state does not say that it is there;
//   - after a step, before the state is saved: the ledger has it; the next run does the step
//     again, under its id, and stores nothing;
//   - while the state is saved: the state of before, or that of now, whole.
//
// Invariant: the steps of the first Offset bytes of a file are in the ledger. A file whose
// first Offset bytes are others was rewritten, and is read again from its beginning. A
// file that is gone deletes nothing.
//
// A file whose sessions were all erased is not read any more, and the state names neither
// (erased.go, with the crash states of who asks for it).
//
// Begin at [Watcher.Run] in watch.go; what is done with one file is in file.go.
package watch

// Package codetree keeps the files of an agent's working folder beside the turns of its
// session, and puts them back.
//
// The files are objects of the user's own git repository, held by one ref a session,
// refs/nexus/SESSION: a chain of commits, one for each recorded turn. The ledger has an
// event for each, on the channel code.SESSION, since a turn is immutable and its id must not
// depend on whether files were recorded. ledgerctl watch --code and the hook of Stop record;
// fork --worktree and bisect restore. It may import turns and the client of the ledger.
//
// Bytes are stored and restored as they stand in the folder. No filter, hook, external diff
// or file monitor of the repository runs. Its index, HEAD, branches, stash and working files
// do not change. A crash of a recording leaves:
//
//   - before the ref moves: objects that nothing names, which git gc removes;
//   - after, before the event is stored: a commit whose message has the event; the next
//     recording of the session stores it, under the id that the commit gives it. If the session
//     was erased meanwhile, the recording removes the ref; what a kill leaves of it then
//     ledgerctl erase removes, which removes the refs of the sessions that it erases.
//
// Begin at [Recorder.Capture] in record.go; [Lookup] reads, [AddWorktree] restores.
package codetree

// Package localserver finds the process that serves the ledger in a folder of this machine, and starts one where
// there is none.
//
// A ledger has one process: it locks the folder, and says in serving.json how it is reached. That is nexusd, or a
// child that ledgerctl started: `ledgerctl serve`, which ends when no client has been connected for a while.
// nexusd takes the folder over from a child, and so does a child of another version.
//
// The states of a folder, and what a caller does:
//
//	no serving.json, or nobody has the lock   start a child
//	serving.json, and its address answers     use it
//	locked, and its address does not answer   wait: a process is starting, or ending
//	the folder itself is locked               wait: nexusd takes it over, and no child may begin
//
// serving.json may be left by a process that was killed: only the lock says that there is one, and only the lock
// decides between two that start at once. The loser says so, and its caller looks again.
//
// ledgerctl and nexusd import it. It imports the lock of the folder.
//
// Begin at [Find]; start.go has the child's parent, takeover.go the signal to a child.
package localserver

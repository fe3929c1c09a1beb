// Package seal compresses and seals the bodies of events and the content of
// blobs, and keeps the content keys in a log outside the ledger.
//
// A body is sealed before its event is hashed. So a chain can be verified without
// any key, and whoever destroys a key erases what was sealed under it.
// docs/FORMAT.md has the bytes.
//
// The engine's package content calls [Seal] and [Open], the daemon opens the
// [Store]. Nothing here knows a session, a log or a policy. It imports package
// turns only, and only disk.go touches a disk.
//
// Begin at [Seal] in seal.go. store.go says what each crash leaves of a key, keylog.go has the
// bytes of the log, merge.go reads its two copies, folder.go opens and writes the files.
package seal

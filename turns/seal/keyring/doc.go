// Package keyring keeps content keys: in two copies of a log on the disk ([Store], which the docs
// call the key store), or in memory ([Memory], for tests). Both are a [seal.Keyring].
//
// A key that was returned is there after any crash, and one whose destruction returned is
// nowhere; store.go has the crash states. docs/FORMAT.md has the bytes.
//
// The daemon opens a [Store], the engine's package content uses it. The room is above package seal
// and imports turns, turns/seal and turns/seal/internal/crypt. Only disk.go touches a disk.
//
// Begin at [Store] in store.go; write.go adds keys, erase.go destroys them, open.go recovers. Below these
// folder.go reads and writes the files, merge.go reads two copies as one, keys.go is what they
// hold, keylog.go has the bytes of a record.
package keyring

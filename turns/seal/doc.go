// Package seal compresses and seals the bodies of events and the content of blobs, and makes the
// keyed digests of headers and subjects.
//
// A body is sealed before its event is hashed. So a chain can be verified without
// any key, and whoever destroys a key erases what was sealed under it.
// docs/FORMAT.md has the bytes.
//
// The engine's package content calls [Seal] and [Open], with the keys of a [Keyring]: package
// keyring, the room above, keeps them on disk. Nothing here knows a session, a log or a policy, or
// touches a disk. It imports package turns and, below it, internal/crypt: derived keys, MACs, AES-GCM.
//
// Begin at [Seal] in seal.go. key.go derives the keys, content.go and remains.go have what is left
// of one, eventkey.go the key of an event, digest.go and blob.go the digests.
package seal

// Package tlog is the log of hashes: a Merkle tree over the records of the log, its signed
// checkpoints, and the proofs that a record is below one. So somebody who trusts neither the disk nor
// the process checks a turn with SHA-256 and one public key.
//
// # The tree
//
// The tree is that of RFC 6962, section 2.1. It has one leaf for each record of the log of events, in
// the log's order: leaf i is of the record at position i+1. The entry of a leaf is 32 bytes, and the
// hash of the leaf SHA-256 of a zero byte and the entry.
//
//   - The entry of an event is its hash (docs/FORMAT.md, section 6), of the bytes as they are stored.
//     So the destruction of a key changes no leaf.
//   - The entry of a record that is no event is the hash that [turns.HashEvent] gives to such bytes.
//     No event has it.
//   - A repair or a restore that gives a position up stores a replacement there ([LostPayload]). If
//     the projections still have the leaf, the replacement carries its hash: the leaf stays, and so
//     do the tree and every proof. The replacement proves nothing new: the
//     event stays lost, and a verification says so. If nobody knows the hash, the replacement
//     is a record that is no event, the tree is another one, and it does not extend what was signed:
//     the log begins under a new origin ([Origin]), which whoever repairs is told.
//   - Blobs are no leaves: a collection moves and removes them. Each event that refers to a blob has its
//     address in the header, and so below its leaf.
//   - A record that sets its chain aside has its leaf like any other, and so has a second opening of an id.
//
// The tree is rows of the projections: the leaves, and each full node at a level that is a multiple of
// [Band]. The applier makes them behind the acknowledgement, and a rebuild makes the same. Nodes between
// are made when asked, of at most 256 hashes a band. These are the tiles of c2sp.org/tlog-tiles, so
// that serving them is one range of rows each.
//
// # Checkpoints
//
// A checkpoint is a note of c2sp.org/tlog-checkpoint: origin, size, root, without extension lines, signed
// with Ed25519. A ledger signs a checkpoint only if its tree at the size of the checkpoint before
// has the root of that one. See [Signer].
//
// Witnesses would add their lines to the note: readers ignore signatures of keys that they do not know.
//
// It is pure, and the only package that imports golang.org/x/mod. The projections, the daemon, the
// client and ledgerctl call it. Begin at [Frontier] in tree.go; note.go has checkpoints, proof.go
// the files of a proof.
package tlog

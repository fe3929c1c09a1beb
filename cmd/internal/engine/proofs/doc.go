// Package proofs shows what is in the ledger to those who do not trust it: checkpoints of the log of hashes, that one
// continues another, and that a turn is below one, with what is to be shown of it. A [Source] signs. natsapi calls it.
// Begin at [Proofs.Proof].
package proofs

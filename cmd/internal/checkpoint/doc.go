// Package checkpoint signs checkpoints of the log of hashes, keeps the newest one, and publishes it. The daemon runs
// it; the room proofs of the engine asks it. [Signer] in signer.go is all of it. It imports ledger/tlog,
// which knows trees and notes, and nothing of the engine.
package checkpoint

package api

import "nexus/turns"

// GetBackup is backup.state.
type GetBackup struct{}

// BackupState is backup.state's reply: what a backup that begins now must hold. All of it
// was acknowledged.
type BackupState struct {
	Ledger     string    `json:"ledger"`  // UUID
	Created    Time      `json:"created"` // of the log; a ledger that was restored has another instant
	Sealed     bool      `json:"sealed"`  // content keys are needed
	Log        BackupEnd `json:"log"`
	BlobStream uint64    `json:"blob_stream"` // how often a collection replaced the stream of the blobs
	Blobs      BackupEnd `json:"blobs"`
	Key        turns.ID  `json:"key"` // the id under which the ledger's own key is stored
	Restored   *Restored `json:"restored,omitempty"`
}

// BackupEnd is the last position of a stream, and the hash of the record there.
type BackupEnd struct {
	Seq  uint64     `json:"seq,string"`
	Hash turns.Hash `json:"hash,omitzero"`
}

// Restored says that a ledger was restored from a backup. Positions up to Seq are those of
// the ledger that was backed up; later ones are its own.
type Restored struct {
	Digest turns.Hash `json:"digest"` // of the backup
	Seq    uint64     `json:"seq,string"`
	Time   Time       `json:"time"`
}

// ReadBackup is backup.read: the records of a stream from First to Last.
type ReadBackup struct {
	Stream string `json:"stream"`                    // log or blobs
	Number uint64 `json:"number,omitempty,omitzero"` // of the stream of blobs, as the state said
	First  uint64 `json:"first,string"`
	Last   uint64 `json:"last,string"`
	// Offset is how many bytes of the first record's frame earlier pages held.
	Offset int `json:"offset,omitempty,omitzero"`
}

// BackupRecords is backup.read's reply.
type BackupRecords struct {
	Frames []byte `json:"frames"`      // as they stand in a file
	Next   uint64 `json:"next,string"` // position that the next page begins with; over Last: it was the last page
	// NextOffset is over 0 if Frames ends within the frame of record Next, which is too large
	// for a message.
	NextOffset int `json:"next_offset,omitempty"`
}

// BackupKeys is backup.keys.
type BackupKeys struct {
	IDs []turns.ID `json:"ids"` // at most 1,000
}

// BackedUpKeys is backup.keys' reply. An id that is in neither list has no key here.
type BackedUpKeys struct {
	Keys   []ExportKey `json:"keys"`
	Erased []turns.ID  `json:"erased,omitempty"` // their keys were destroyed
}

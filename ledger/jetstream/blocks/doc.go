// Package blocks reads the files of a JetStream stream without a server, and
// without writing: [Check] reports what they hold and what is damaged, [Records]
// yields the records. A server that opens a damaged file truncates it, gives the
// sequences to other records, and reports nothing to a client. So look before.
//
// The format is that of nats-server 2.15.2 (server/filestore.go), for a stream on
// one server, without limits, encryption and compression:
//
//	streams/<name>/meta.inf      configuration, JSON
//	streams/<name>/meta.sum      its checksum in hex; key: SHA-256 of <name>
//	streams/<name>/msgs/<n>.blk  records one after another, n from 1, up to 8 MiB
//	streams/<name>/msgs/index.db written every two minutes and at a stop; see [Index]
//	streams/<name>/batches/      atomic batches that are staged: no part of the stream
//
//	record, little-endian:
//	 4 length of the record; the highest bit: it has a header
//	 8 sequence; bit 63: erased, bit 62: delete marker
//	 8 time, Unix nanoseconds
//	 2 length of the subject, then the subject
//	(4 length of the header, then the header)
//	   payload
//	 8 HighwayHash-64 of sequence, time, subject, header, payload; key: SHA-256 of "<name>-<n>"
//
// A kill leaves at most a torn tail at the end of the newest block, above what was
// acknowledged: a part of a record, sectors of it that are zero, or only zeros ([Report].Torn).
// A power cut may leave more of what no fsync covered: see [Options].Unsynced. Everything
// else is [Damage]: a sound record that can be found after the place, a complete record
// with a wrong length or checksum and no zero sector, a place in an older block,
// and a torn tail at or below [Options].Acked or the last sequence of a sound index.db.
//
// What Check cannot tell:
//   - Without a mark (Acked, index.db), a cut at the end of the newest block, or a zeroed
//     sector of its last record, is like a torn write; a cut between two records
//     is like no write. With one, that holds for what is above it.
//   - The checksum covers no lengths. The end of a subject is certain only in a message
//     with a header; in others a subject can lose or gain bytes to the payload
//     and stay a subject. Options.Valid can compare it. The ledger's messages all have headers.
//   - Whether the content is right: the ledger's own hashes tell that.
//
// A staged batch ([Report].Batches) is what a crash left of a commit. At its start
// the server appends the rest if the newest record is of that batch, and removes the folder.
//
// Reading costs 1 to 2 GB/s from the page cache on one core
// (BenchmarkCheck, two shared cores, 2026-11-22), and holds one block's window or one record, at
// most 32 MiB. It always reads all blocks from Options.From on: a Current index.db
// only means that the server truncates later.
//
// It is for the daemon, before it starts the embedded server, and for a repair;
// package groupsync walks over heads with [LastSeq]. It imports package ledger only, for
// its errors. Begin at [Check] in check.go; block.go reads one block.
package blocks

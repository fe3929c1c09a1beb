// Package groupsync makes what an embedded server stored durable: one fsync for all
// the records that wait for it (group commit).
//
// nats-server has a fsync for each message (sync_interval: always) or one in a while.
// The daemon runs it in the second mode, in which a stream with one replica writes
// each message into its newest block before it acknowledges it, and does the fsync
// itself, before it believes the acknowledgement: [Stream.Wait].
//
// What this relies on, of nats-server 2.15.2, and what notices when it is otherwise:
//   - Messages are in the file when they are acknowledged, in blocks msgs/1.blk, 2.blk
//     and so on, and a block is whole when the next one exists. Each fsync walks over the
//     heads of the records that the blocks gained: if they end below what was acknowledged,
//     Wait fails, and so does every Wait after it.
//   - Blocks are never written again. The streams deny deletes, so nothing compacts them.
//
// Crash states. A kill loses nothing: what is written is in the kernel. A power cut
// loses what no fsync covered, and of that nothing was acknowledged: records
// above [Stream.Synced] may be gone, torn, or whole. So nobody may act on a record
// above it: readers of the log wait for it as writers do.
//
// It knows files, and nothing of NATS or of events. Package jetstream calls it.
package groupsync

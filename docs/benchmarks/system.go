package main

import "context"

// peer is a system that the appends are measured on.
type peer struct {
	name string
	base string // whose rate is compared with this one's, of the same clients and round
	open func(ctx context.Context, r *run, l load, dir string) (system, error)
	is   string // what it is, and what an acknowledgement means; README.md has it too
	not  string // what the row can't see; README.md has it too
}

// peers are in the order of the table. A base comes before those compared with it.
var peers = []peer{
	{"nexus", "nexus", openNexus, "nexusd, embedded server: turns over NATS, compare-and-set, chained, sealed, projected. One fsync for a group",
		"its projections write without fsync, since the log replays them"},
	{"jetstream", "nexus", openJetStream, "nats-server, one copy, sync_interval: always: a publish for each turn, which expects the tail of its subject. Fsynced",
		"no hash chain, no encryption, no index of turns"},
	{"jetstream-batch", "nexus", openBatches, "the same server, AllowAtomicPublish: each of the agents' connections publishes what waits as one atomic batch, at most as many turns as Nexus's groups had on average. Fsynced",
		"as jetstream; one stale expectation refuses the whole batch"},
	{"sqlite", "nexus", openSQLite, "SQLite in process, WAL, synchronous=FULL, busy_timeout, one connection that writes: compare the head, hash, insert, set the head, a transaction each. Fsynced",
		"no network, no encryption; its CPU time holds the clients'"},
	{"sqlite-batch", "nexus", openSQLiteBatches, "the same, and one goroutine takes all appends that wait into one transaction. Fsynced",
		"as sqlite"},
	{"postgres", "nexus", openPostgres, "PostgreSQL over a Unix socket, at most 64 connections, fsync and synchronous_commit on: the same in one statement. Fsynced, in groups by itself",
		"no encryption; files of its log are made 16 MiB at a time, so bytes on disk of a short run mean little"},
	{"postgres-jsonb", "nexus", openJSONB, "the same server with a table as applications make it: a row of JSONB for each turn, its key the session and the turn's number. Fsynced, in groups by itself",
		"as postgres; no hash chain, no head but the highest number; JSONB keeps neither the bytes nor the order of members"},
	{"jsonl", "nexus", openFiles, "a JSONL file for each session, hashes chained, write and fsync for each turn",
		"no network, no index, no other writer, and nothing that notices a torn line; its CPU time holds the clients'"},
	{"langgraph", "nexus", openLangGraph, "LangGraph's SQLite checkpointer in node, a graph of one node, durability \"exit\": one checkpoint of the whole state for each turn. synchronous=FULL set by hand. Fsynced",
		"one process without a network; no check that the head is the expected one; its CPU time holds the clients' and the graph; it makes its own, similar text"},
	{"langgraph-default", "nexus", openLangGraphDefault, "the same as it comes: synchronous=NORMAL. **Not** fsynced: a power cut takes what was answered",
		"as langgraph; not comparable, for it promises less"},
	{"langgraph-postgres", "nexus", openLangGraphPostgres, "LangGraph's PostgreSQL checkpointer in node, the same graph, over a Unix socket to a server as in postgres. Fsynced",
		"as langgraph; its CPU time holds node and the server"},
	{"adk", "nexus", openADK, "the database session service of google/adk-go over SQLite in a process of Go of its own, WAL, synchronous=FULL, four connections, and an index over sessions and times made by hand: a turn is two events, each of one transaction. Fsynced",
		"the requests come through a pipe; no hash chain, no encryption; a session that changed meanwhile is refused by its time; its CPU time holds the JSON of the pipe"},
	{"adk-default", "nexus", openADKDefault, "the same as it comes: without that index, so that it reads the rows of all sessions to find the newest of one. Fsynced",
		"as adk"},
	{"pebble", "nexus", openPebble, "Pebble in process: a row for each turn, fsynced in groups",
		"no compare-and-set, no chain, no network, no index; its CPU time holds the clients'. It is the bound of what a log could do here"},
	{"nexus-r3", "nexus-r3", openNexusR3, "nexusd --replicas 3 on three nats-servers, sync_interval: always. Stored by two of three servers. Not sealed: there is no shared key store",
		"four processes and their clients share the processors and the disk"},
	{"jetstream-r3", "nexus-r3", openJetStreamR3, "the same three servers alone: a publish for each turn. Stored by two of three servers",
		"as jetstream and nexus-r3"},
	{"jetstream-batch-r3", "nexus-r3", openBatchesR3, "the same three servers, AllowAtomicPublish: each of the agents' connections publishes what waits as one atomic batch, which is one proposal. Stored by two of three servers",
		"as jetstream-batch and nexus-r3"},
}

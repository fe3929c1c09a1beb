// Package ledger is the append-only contract: what a log of events promises
// ([Log]), how a chain folds into its state ([Session], [Label], [Policies], [Memories]), and whether an
// event may follow what is stored ([Admit]).
//
// [Admit] is the one rule for what a log may hold. The engine asks it before each
// append, so that a defect of the engine refuses a request and stores nothing.
// The import, the projections and the verification ask it again for what others
// wrote. Begin to read there.
//
// Where an append, a fork or a context is decided is not here: the engine is
// nexus/cmd/internal/engine, for the reasons of decision 110.
//
// It touches no network, disk or clock, and imports package turns and package
// lineage only. Package jetstream and package memlog implement [Log]; package
// ledgertest holds the suite that both pass; package api is the wire contract and
// its Go client.
package ledger

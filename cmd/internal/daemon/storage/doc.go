// Package storage is the ledger of a data folder while a daemon has it open: the log and its blobs,
// the projections that follow it, the mark of what was acknowledged, and the keys.
//
// It opens them in an order in which nothing that was acknowledged is lost or overwritten, opens
// them again after an outage, and keeps them: it reads all that is stored over and over, removes
// blobs that no event names, and names what a log of others has lost. It knows no verb and no
// client, and imports nothing of the daemon but config, folder and outage.
//
// Begin at [Storage] in storage.go. A start reads inspect.go, storage.go (the log), projections.go
// and keys.go in this order; watch.go says how an outage is noticed and reopen.go how it ends;
// syncs.go has the fsyncs, scrub.go and collect.go what runs beside requests, backup.go what a
// backup reads; lost.go and peers.go are for a log on a server of others.
package storage

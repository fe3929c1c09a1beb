// Package connect is the way from a command to a ledger: which server, with which
// credentials, as which tenant and agent.
//
// Package main of ledgerctl fills a [Connection] from flags; names, doctor and the commands
// ask it for clients. It imports the ledger's client. It dials at the first client.
//
// Begin at [Connection].
package connect

// Package daemon wires the parts of nexusd together: the server, the storage, the engine, the
// service and HTTP.
//
// cmd/nexusd starts it, and so do the quickstart of ledgerctl and tests. It decides
// nothing about a session: the engine does. It may import every package, and none
// below imports it. Its rooms, lowest first: config has the settings, folder knows the files of a
// data folder, outage says what is refused while the disk takes no writes, storage has the ledger
// open. mend is what commands do with a folder on which no daemon runs.
//
// Begin at [Open] in daemon.go, which says in which order things start and stop; external.go
// connects to a server elsewhere, web.go serves HTTP behind the guard of package web.
package daemon

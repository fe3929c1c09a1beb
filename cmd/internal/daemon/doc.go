// Package daemon wires the parts of nexusd together: the embedded or external
// NATS server, the log, the projections, the keys, the engine, the service and
// HTTP.
//
// cmd/nexusd starts it, and so do the quickstart of ledgerctl and tests. It decides
// nothing about a session: the engine does. It may import every package, and none
// below imports it.
//
// Begin at [Open] in daemon.go, which says in which order things start and stop;
// outage.go says what it does while the disk takes no writes, reopen.go how that ends;
// config.go holds [Config], external.go connects to a server elsewhere, web.go serves
// HTTP behind the guard of package web.
package daemon

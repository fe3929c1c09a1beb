// Package natsapi serves the outside contract over NATS: it parses subjects and
// requests, calls the engine, and writes replies and errors. It decides nothing.
//
// The daemon calls [Start]. It reads requests strictly, and keeps the appends of
// one connection to one session in their order (intake.go). It touches no log, no
// projection and no key.
//
// A request comes to a handler (service.go), waits in the intake, is parsed and calls its verb
// (serve.go), and is answered (reply.go). Begin at the table of calls in verbs.go.
package natsapi

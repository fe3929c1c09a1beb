// Package client is the Go client of a ledger, over NATS: [Dial], then [New]. A call is tried
// again with its id until the ledger has answered or ctx ends, so that nothing is stored
// twice. It imports the contract (package api) and nats.go.
//
// Begin at [Client]. call.go sends one request, link.go follows the connection, content.go
// sends and reads large content, server_context.go finds a ledger on this machine.
package client

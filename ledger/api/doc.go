// Package api is the outside contract on the wire: subjects, requests, replies
// and errors. docs/API.md has every call with
// an example; a program in another language needs only that page and a NATS
// library.
//
// Package natsapi and the engine speak these types on the side of the server;
// ledgerctl and the daemon's tools on the side of the client. No rule of the ledger
// is here: a request that decodes may still be refused. It imports packages turns
// and ledger only.
//
// Package client, below, is the Go client. error.go holds the
// codes; each other file holds the requests and replies of one group of calls.
package api

// Package api is the outside contract on the wire: subjects, requests, replies
// and errors, and the Go client that speaks it. docs/API.md has every call with
// an example; a program in another language needs only that page and a NATS
// library.
package api

// Package archive reads what the files beside the ledger hold: which sessions ask for
// files, and the lines of their archives. It writes nothing; the daemon's package
// files does. Begin at archive.go.
package archive

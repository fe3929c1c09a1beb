// Package backup answers the reads of `ledgerctl backup`: where the streams end, their
// records byte for byte, and the content keys. A [Source] reads the records, which the
// daemon has; without one, on an external server, nothing is backed up here. natsapi calls
// it for the operator of every tenant. Begin at backup.go.
package backup

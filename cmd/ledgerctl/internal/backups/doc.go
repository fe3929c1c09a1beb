// Package backups is the work of ledgerctl backup and restore: it makes a backup of a ledger, checks
// one without daemon and keys, and makes a data folder from one.
//
// Package main calls it. The file is that of ledger/jetstream/backup.
//
// Begin at [Make].
package backups

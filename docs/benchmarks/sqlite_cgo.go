//go:build cgo

package main

import (
	_ "github.com/mattn/go-sqlite3" // SQLite itself, compiled from C: the fastest driver, where there is a C compiler
)

const sqliteDriver, sqliteName = "sqlite3", "github.com/mattn/go-sqlite3 (C)"

// sqliteDSN is how the driver is told what each connection sets.
func sqliteDSN(file string) string {
	return "file:" + file + "?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=60000&_txlock=immediate"
}

//go:build !cgo

package main

import (
	_ "modernc.org/sqlite" // SQLite translated to Go: where there is no C compiler
)

const sqliteDriver, sqliteName = "sqlite", "modernc.org/sqlite (translated to Go)"

// sqliteDSN is how the driver is told what each connection sets.
func sqliteDSN(file string) string {
	return "file:" + file + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(60000)&_txlock=immediate"
}

// Package doctor checks what may be wrong between a user and a ledger: files, connection,
// rights, the daemon's health; and says what to do about it.
//
// The command ledgerctl doctor calls it; watch doctor adds checks of its own. It asks the
// ledger and nexusd's HTTP address, each for a bounded time. No check stops the others.
//
// Begin at [Doctor].
package doctor

// Package hooks edits the settings of coding agents, so that they call ledgerctl at the
// beginning and end of a session and around compactions, and keeps when each hook fired.
//
// It changes the text of a settings file where a hook stands, and no other byte. It knows
// no ledger. ledgerctl hook and ledgerctl hook call it.
//
// Begin at [Install].
package hooks

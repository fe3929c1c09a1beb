// Package services is the work of ledgerctl service: the files with which a service manager runs
// nexusd and ledgerctl watch when this user logs in.
//
// Package main calls it. The units and what becomes of their files is cmd/internal/service, which
// nexusd and packages use too; here is which services a user asks for, and what is said of them.
//
// Begin at [Request]; units.go makes the units.
package services

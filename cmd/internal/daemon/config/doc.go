// Package config is the configuration of a daemon: its settings with their defaults and
// bounds, the users of NATS, the tokens of HTTP, and the agents that may have main sessions.
// [Config.Validate] lists every fault. It opens nothing but files of credentials.
//
// nexusd reads it from flags, a file and the environment; ledgerctl makes one for the daemons
// that it starts itself. It may import what its settings are about, and not the daemon.
//
// Begin at [Config].
package config

package embed

import "github.com/nats-io/nats-server/v2/server"

// ServerVersion is the version of the nats-server that is linked. What it writes is read
// by package blocks, which knows the files of one version.
const ServerVersion = server.VERSION

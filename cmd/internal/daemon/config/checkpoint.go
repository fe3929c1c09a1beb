package config

import (
	"cmp"
	"path/filepath"
	"time"
)

// CheckpointTable is the table [checkpoint] of a configuration file.
type CheckpointTable struct {
	// Every is how long after a checkpoint the next one is signed, if anything was stored since, such as "1m", at
	// least a second. Default 1m.
	Every string `toml:"every"`
	// Out are folders, on other disks, to which each checkpoint is appended, in a file for each day. They exist
	// already: one that is missing may be a disk that is not mounted.
	Out []string `toml:"out"`
	// Public shows /tlog/checkpoint without a token, beyond loopback too. It says how many events of all tenants
	// there are.
	Public bool `toml:"public"`
}

const checkpointEvery = "1m"

// CheckpointInterval is Checkpoint.Every as a duration, of a valid configuration.
func (c Config) CheckpointInterval() time.Duration {
	d, _ := time.ParseDuration(cmp.Or(c.Checkpoint.Every, checkpointEvery))
	return max(d, time.Second)
}

// checkCheckpoint lists the faults of c's checkpoints.
func (c Config) checkCheckpoint(bad func(format string, args ...any)) {
	if d, err := time.ParseDuration(cmp.Or(c.Checkpoint.Every, checkpointEvery)); err != nil || d < time.Second {
		bad("checkpoint: every: %.40q is no time of a second or more, as 1m", c.Checkpoint.Every)
	}
	for _, dir := range c.Checkpoint.Out {
		if !filepath.IsAbs(dir) {
			bad("checkpoint: out: %.200q is not the whole path of a folder", dir)
		}
	}
	if c.NATS != "" && len(c.Checkpoint.Out) > 0 {
		bad("checkpoint: out: on an external server (nats) no checkpoints are signed yet")
	}
}

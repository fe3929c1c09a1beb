package daemon

import (
	"strconv"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
)

// The values of the label sync: whether a server writes an event to the disk before it
// acknowledges it.
const (
	syncAlways  = "always"
	syncLater   = "later"
	syncUnknown = "unknown"
)

// countFacts makes the metrics of what does not change while the daemon runs, and of
// the room on its disk.
func (d *Daemon) countFacts(registry *prometheus.Registry) {
	server := "embedded"
	if d.server == nil {
		server = "external"
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "nexus_info", Help: "1; its labels say what runs.", ConstLabels: prometheus.Labels{
		"version": d.cfg.Version, "server": server, "seal": d.cfg.Seal, "replicas": strconv.Itoa(d.cfg.Replicas), "sync": d.sync,
	}})
	info.Set(1)
	registry.MustRegister(info, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "nexus_disk_free_bytes", Help: "Free bytes of the disk with the data folder.",
	}, func() float64 {
		var st syscall.Statfs_t
		if syscall.Statfs(d.cfg.Data, &st) != nil {
			return -1
		}
		return float64(st.Bavail) * float64(st.Bsize)
	}))
	if d.server != nil {
		fsync := prometheus.NewGauge(prometheus.GaugeOpts{Name: "nexus_fsync_seconds", Help: "Median time of a write and fsync of 4 KiB in the data folder, measured at the start."})
		fsync.Set(d.server.Fsync.Seconds())
		registry.MustRegister(fsync)
	}
}

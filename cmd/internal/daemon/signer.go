package daemon

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nexus/cmd/internal/checkpoint"
	"nexus/ledger/tlog"
)

// startSigner begins to sign checkpoints. It is stopped before the projections are, and signs once more then:
// all that was acknowledged.
func (d *Daemon) startSigner(ctx context.Context, registry *prometheus.Registry) (err error) {
	st, err := d.storage.Log.State(ctx)
	if err != nil {
		return err
	}
	last := func(ctx context.Context) (uint64, error) {
		st, err := d.storage.Log.State(ctx)
		return st.Last, err
	}
	d.signer, err = checkpoint.Open(ctx, checkpoint.Config{
		Data: d.cfg.Data, Origin: tlog.Origin(d.storage.Log.Ledger(), st.Created, d.storage.Began()), Out: d.cfg.Checkpoint.Out, Logger: d.logger, Rand: rand.Reader, Now: time.Now,
		Tree: d.storage.Projections.TreeHashes, Applied: func() uint64 { return d.storage.Projections.Applied().Seq }, Last: last,
	})
	if err != nil {
		return err
	}
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "nexus_log_inconsistent", Help: "1 if no checkpoint is signed any more, since the log does not continue what was signed."}, func() float64 {
			if d.signer.Inconsistent() != nil {
				return 1
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "nexus_checkpoint_position", Help: "Position of the newest record that a checkpoint covers."}, func() float64 {
			_, c := d.signer.Newest()
			return float64(c.Size)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "nexus_checkpoint_elsewhere_position", Help: "The same of the checkpoints in all folders of [checkpoint] out; 0 without a folder."}, func() float64 {
			n, _ := d.signer.Elsewhere()
			return float64(n)
		}))
	run, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { d.signer.Run(run, d.cfg.CheckpointInterval()); close(done) }()
	d.opened(func(ctx context.Context) error {
		cancel()
		<-done
		if d.signer.Inconsistent() != nil || d.storage.Outage.Active() != nil {
			return nil
		}
		n, err := last(ctx)
		if err == nil {
			err = d.storage.Projections.WaitFor(ctx, n)
		}
		if err == nil {
			_, err = d.signer.Sign(ctx)
		}
		if err != nil {
			d.logger.Warn("the last checkpoint was not signed; the next start signs it", "err", err)
		}
		return nil
	})
	return nil
}

// newestCheckpoint is the newest note, nil if there is none.
func (d *Daemon) newestCheckpoint() []byte {
	if d.signer == nil {
		return nil
	}
	note, _ := d.signer.Newest()
	return note
}

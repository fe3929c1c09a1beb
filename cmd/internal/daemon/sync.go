package daemon

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
)

// varzSubject is answered by each server of a cluster, to the system account and to
// accounts that import it from there.
const varzSubject = "$SYS.REQ.SERVER.PING.VARZ"

// varzPatience is how long a start waits for the next answer.
const varzPatience = time.Second

// serverSync is what an external server says of its fsync.
type serverSync struct {
	Name     string
	Always   bool
	Interval time.Duration
}

// warnAboutSync logs whether the external servers acknowledge a write before it is on
// the disk. No answer of JetStream's API tells it.
func (d *Daemon) warnAboutSync() {
	servers := askSync(d.cfg.NATS)
	var late []string
	for _, s := range servers {
		if !s.Always {
			late = append(late, fmt.Sprintf("%s (every %v)", s.Name, s.Interval))
		}
	}
	const check = "set sync_interval: always in the jetstream block of each server"
	switch {
	case len(servers) == 0:
		d.sync = syncUnknown
		d.logger.Warn("it can't be known here whether the NATS servers write an event to the disk before they acknowledge it: "+
			"they do not tell the ledger's user; with their default, a power cut can take up to two minutes of acknowledged events",
			"check", check, "docs", "TEAM.md, Two daemons")
	case len(late) > 0:
		d.sync = syncLater
		d.logger.Warn("NATS servers acknowledge an event before it is on the disk: a power cut can take acknowledged events",
			"servers", strings.Join(late, ", "), "do", check)
	default:
		d.logger.Info("the NATS servers write each event to the disk before they acknowledge it", "servers", len(servers))
	}
}

// askSync returns what each server of the cluster at url says; none if they do not
// tell this user. It has a connection of its own, because the daemon ends when the
// server refuses the ledger's connection something.
func askSync(url string) (out []serverSync) {
	nc, err := nats.Connect(url, nats.Name("nexusd sync check"), nats.NoReconnect(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // a refusal is an answer: nothing is known
	if err != nil {
		return nil
	}
	defer nc.Close()
	inbox := nc.NewInbox()
	answers, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil
	}
	if err := nc.PublishRequest(varzSubject, inbox, nil); err != nil {
		return nil
	}
	for {
		m, err := answers.NextMsg(varzPatience)
		if err != nil {
			return out
		}
		var v struct {
			Data struct {
				Name      string `json:"server_name"`
				JetStream struct {
					Config *struct {
						Always   bool  `json:"sync_always"`
						Interval int64 `json:"sync_interval"` // ns
					} `json:"config"`
				} `json:"jetstream"`
			} `json:"data"`
		}
		if json.Unmarshal(m.Data, &v) == nil && v.Data.JetStream.Config != nil { // a server without JetStream stores nothing
			c := v.Data.JetStream.Config
			out = append(out, serverSync{v.Data.Name, c.Always, time.Duration(c.Interval)})
		}
	}
}

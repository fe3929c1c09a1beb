package doctor

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"nexus/cmd/internal/build"
	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/connect"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

// The results of a check, from best to worst.
const (
	OK      = "ok"
	Skipped = "skipped"
	Warn    = "warn"
	Failed  = "fail"
)

// Check is one line of doctor.
type Check struct {
	Name   string `json:"name"`
	Result string `json:"result"`
	Text   string `json:"text"`
	Do     string `json:"do,omitempty,omitzero"`
	exit   int    // status of the command, of a fail
}

// Doctor collects checks. No check stops the others.
type Doctor struct {
	*terminal.Terminal
	*connect.Connection
	checks []Check
	HTTP   string
	creds  string // the file in use; "" if none
	ca     string // a PEM file of authorities; "": the system's
}

// New returns a doctor without checks.
func New(term *terminal.Terminal, conn *connect.Connection) *Doctor {
	return &Doctor{Terminal: term, Connection: conn}
}

// CheckAll checks the files, the connection, who the user is, and the daemon.
func (d *Doctor) CheckAll(ctx context.Context) {
	d.files()
	if d.connect() {
		d.whoAmI(ctx)
	}
	d.daemon(ctx)
}

// Add notes the result of a check that did not fail; do is what to do about it.
func (d *Doctor) Add(name, result, text, do string) {
	d.checks = append(d.checks, Check{Name: name, Result: result, Text: text, Do: do})
}

// Fail notes a check that failed. The command exits with the worst of the statuses 5, 6 and
// 8; another one is 1.
func (d *Doctor) Fail(name string, exit int, text, do string) {
	if !slices.Contains([]int{5, 6, 8}, exit) {
		exit = 1
	}
	d.checks = append(d.checks, Check{Name: name, Result: Failed, Text: text, Do: do, exit: exit})
}

// Report prints the checks. Its error has the exit status of the worst of them.
func (d *Doctor) Report() error {
	e, worst := d.Terminal, 0
	rank := []int{0, 1, 8, 5, 6} // exit statuses, each worse than those before it
	for _, c := range d.checks {
		if c.Result == Failed && slices.Index(rank, c.exit) > slices.Index(rank, worst) {
			worst = c.exit
		}
	}
	if e.JSON {
		if err := e.Print(map[string]any{"ok": worst == 0, "checks": d.checks}); err != nil {
			return err
		}
	} else {
		styles := map[string]string{OK: terminal.Good.Render("ok     "), Skipped: terminal.Faint.Render("skipped"), Warn: terminal.Folded.Render("warn   "), Failed: terminal.Bad.Render("fail   ")}
		for _, c := range d.checks {
			text := prose.Printable(c.Name + ": " + c.Text)
			if c.Do != "" {
				text += "; " + prose.Printable(c.Do)
			}
			e.Tell("%s  %s", styles[c.Result], text)
		}
	}
	if worst != 0 {
		return fault.Exit(worst)
	}
	return nil
}

// files checks the files of this user's side.
func (d *Doctor) files() {
	e := d.Connection
	d.ca = e.TLSCA
	c, err := client.FindServerContext(e.Server)
	switch {
	case err == nil:
		d.Add("context", OK, "nexusd of this user wrote one for "+connect.PlainURL(e.Server), "")
		d.HTTP, d.ca = cmp.Or(d.HTTP, strings.NewReplacer("//0.0.0.0:", "//127.0.0.1:", "//[::]:", "//127.0.0.1:").Replace(c.HTTP)), cmp.Or(d.ca, c.CA)
	case errors.Is(err, fs.ErrNotExist):
		d.Add("context", Skipped, "no nexusd of this user wrote one for "+connect.PlainURL(e.Server), "--creds, --tls-ca and --http name what it would hold")
	default:
		d.Fail("context", 1, fault.Plainly(nil, err), "start nexusd again, or remove the file")
	}
	if d.creds = e.Creds; d.creds == "" && e.NATSContext == "" && err == nil {
		d.creds = c.Operator
	}
	if d.creds == "" {
		d.Add("credentials", Skipped, "no file is named", "")
		return
	}
	info, err := os.Stat(d.creds)
	switch {
	case err != nil:
		d.Fail("credentials", 1, fault.Plainly(nil, err), "--creds FILE or NEXUS_CREDS names the file; nexusd prints it when it starts")
	case info.Mode().Perm()&0o077 != 0:
		d.Add("credentials", Warn, fmt.Sprintf("%s has mode %04o: others of this machine may read the key", d.creds, info.Mode().Perm()), "chmod 600 "+prose.ShellWord(d.creds))
	default:
		d.Add("credentials", OK, d.creds+", for its owner alone", "")
	}
}

// connect checks the connection to the NATS server; false: there is none.
func (d *Doctor) connect() bool {
	e := d.Connection
	began := time.Now()
	if _, err := e.Client("main"); err != nil {
		d.Fail("connection", max(1, api.Exit(err)), fault.Plainly(nil, err), fault.Next(nil, err))
		return false
	}
	took := time.Since(began)
	rtt, err := e.NC.RTT()
	if err != nil {
		d.Fail("connection", 5, "the server does not answer a ping: "+err.Error(), "try again")
		return false
	}
	secure := "without TLS"
	if state, err := e.NC.TLSConnectionState(); err == nil {
		secure = tls.VersionName(state.Version)
	}
	d.Add("connection", OK, fmt.Sprintf("%s, nats-server %s, %s, connected in %v, a ping takes %v", e.NC.ConnectedUrlRedacted(), e.NC.ConnectedServerVersion(), secure,
		took.Round(time.Millisecond), rtt.Round(10*time.Microsecond)), "")
	if size := e.NC.MaxPayload(); size < 1<<20 {
		d.Add("max_payload", Warn, fmt.Sprintf("%s bytes: large turns are refused", prose.Grouped(uint64(size))), "set max_payload: 8MB on the server")
	} else {
		d.Add("max_payload", OK, prose.Grouped(uint64(size))+" bytes", "")
	}
	return true
}

// whoAmI asks as the operator and as an agent.
func (d *Doctor) whoAmI(ctx context.Context) {
	e := d.Connection
	agents := []string{api.Operator, cmp.Or(e.Agent, "main")}
	if e.Agent == api.Operator {
		agents = agents[:1]
	}
	allowed := 0
	var down error
	for _, agent := range agents {
		err := ask(ctx, e.Link.As(agent).Within(askPatience))
		switch {
		case err == nil:
			allowed++
			d.Add("user", OK, fmt.Sprintf("may act as agent %s of tenant %s", agent, e.Tenant), "")
		case api.HasCode(err, api.Denied) && agent == api.Operator:
			d.Add("user", OK, fault.Plainly(nil, err)+": an agent's user", "")
		case api.HasCode(err, api.Denied):
			d.Add("user", Warn, fault.Plainly(nil, err), "--agent names an agent that this user may act as, --creds another user")
		default:
			down = err
		}
	}
	switch {
	case down != nil:
		d.Fail("service", max(1, api.Exit(down)), "nexusd does not answer on this server: "+fault.Plainly(nil, down), "is nexusd running there, and is this an account that imports the service?")
	case allowed == 0:
		d.Fail("user", 8, "it may act as none of the agents "+strings.Join(agents, ", "), "--agent NAME")
	default:
		d.Add("service", OK, "nexusd answers", "")
		d.key(ctx)
	}
}

// key shows the public key of the checkpoints, to whoever may ask for it.
func (d *Doctor) key(ctx context.Context) {
	k, err := d.Link.As(api.Operator).Within(askPatience).CheckpointKey(ctx)
	if err != nil {
		d.Add("key", Skipped, fault.Plainly(nil, err), "")
		return
	}
	d.Add("key", OK, k.Key, "keep it elsewhere: verify --checkpoint FILE --key KEY then shows whether the log was changed")
}

// askPatience is how long doctor waits for nexusd behind a server.
const askPatience = 10 * time.Second

// ask sends a read that every agent may send.
func ask(ctx context.Context, c *client.Client) error {
	for _, err := range c.Sessions(ctx) {
		return err
	}
	return nil
}

// httpPatience is how long doctor waits for HTTP.
const httpPatience = 5 * time.Second

// daemon checks what nexusd says of itself over HTTP.
func (d *Doctor) daemon(ctx context.Context) {
	if d.HTTP == "" {
		d.Add("http", Skipped, "its address is not known here: whether nexusd is ready, its version, disk, scrub and clock are not checked", "--http http://HOST:8422 names it")
		return
	}
	if !strings.Contains(d.HTTP, "://") {
		d.HTTP = "http://" + d.HTTP
	}
	client := &http.Client{Timeout: httpPatience}
	if d.ca != "" {
		b, err := os.ReadFile(d.ca)
		roots := x509.NewCertPool()
		if err != nil || !roots.AppendCertsFromPEM(b) {
			d.Fail("http", 1, d.ca+" holds no certificate in PEM", "--tls-ca FILE")
			return
		}
		client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	}
	get := func(path string) (status int, body string, date time.Time, err error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(d.HTTP, "/")+path, nil)
		if err != nil {
			return 0, "", date, err
		}
		if token := os.Getenv("NEXUS_TOKEN"); token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		a, err := client.Do(r)
		if err != nil {
			return 0, "", date, err
		}
		defer a.Body.Close()
		b, err := io.ReadAll(io.LimitReader(a.Body, 8<<20))
		date, _ = http.ParseTime(a.Header.Get("Date"))
		return a.StatusCode, string(b), date, err
	}
	began := time.Now()
	status, body, date, err := get("/readyz")
	ended := time.Now()
	switch {
	case err != nil:
		d.Fail("http", 5, d.HTTP+" does not answer: nexusd is down, or elsewhere ("+rootCause(err)+")", "start nexusd, or name the address with --http")
		return
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		d.Fail("http", 8, strings.TrimSpace(body), "NEXUS_TOKEN has a token of nexusd's configuration (nexusd token makes one)")
		return
	case status == http.StatusServiceUnavailable:
		d.Fail("ready", 5, "nexusd is up, and not ready: "+strings.TrimSpace(body), "its log says more")
	case status != http.StatusOK:
		d.Fail("http", 1, fmt.Sprintf("%s/readyz answers %d", d.HTTP, status), "is this nexusd's address?")
		return
	default:
		d.Add("ready", OK, "the log is sound, and reads have caught up", "")
		_, notes, _ := strings.Cut(strings.TrimSpace(body), "\n")
		for note := range strings.Lines(notes) {
			d.note(strings.TrimSpace(note))
		}
	}
	// The answer's time has whole seconds, and lies between the request and its answer.
	if skew := max(began.Add(-time.Second).Sub(date), date.Sub(ended)); date.IsZero() {
		d.Add("clock", Skipped, "nexusd sent no time", "")
	} else if skew > 5*time.Second {
		d.Add("clock", Warn, fmt.Sprintf("this machine's clock is %v from nexusd's: ids and times are out of order", skew.Round(time.Second)), "set both by NTP")
	} else {
		d.Add("clock", OK, "within 5 s of nexusd's", "")
	}
	if status, body, _, err = get("/metrics"); err != nil || status != http.StatusOK {
		d.Add("metrics", Warn, "they can't be read, so the rest is not checked", "look at "+d.HTTP+"/metrics")
		return
	}
	d.measure(parseMetrics(body))
}

// rootCause is the innermost error, without the URL that surrounds it.
func rootCause(err error) string {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return err.Error()
}

// metrics is what doctor reads of nexusd's metrics.
type metrics struct {
	values map[string]float64
	info   map[string]string
}

// parseMetrics reads the samples without labels, and the labels of nexus_info.
func parseMetrics(text string) metrics {
	m := metrics{make(map[string]float64), make(map[string]string)}
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		name, value, ok := strings.Cut(s.Text(), " ")
		if labels, found := strings.CutPrefix(s.Text(), "nexus_info{"); found {
			labels, _, _ = strings.Cut(labels, "}")
			for pair := range strings.SplitSeq(labels, ",") {
				k, v, _ := strings.Cut(pair, "=")
				if v, err := strconv.Unquote(v); err == nil {
					m.info[k] = v
				}
			}
		}
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil && !strings.Contains(name, "{") {
			m.values[name] = v
		}
	}
	return m
}

// note adds what a daemon that is ready wants an operator to know.
func (d *Doctor) note(text string) {
	switch {
	case strings.HasPrefix(text, "server "):
		d.Add("cluster", Warn, text, "look at that server: with one more away, nothing can be appended")
	case strings.HasPrefix(text, "checkpoints "):
		d.Add("checkpoints", Warn, text, "look at the folders of out in [checkpoint]")
	case strings.Contains(text, "can't be read: "):
		d.Add("keys", Warn, text, "the log of nexusd and ledgerctl verify name them; stop nexusd, and put the keys back with nexusd keys")
	default: // of a later nexusd
		d.Add("note", Warn, text, "the log of nexusd says more")
	}
}

// measure judges what nexusd counts.
func (d *Doctor) measure(m metrics) {
	info := m.info
	if len(info) == 0 {
		d.Add("version", Warn, "nexusd does not say its version", "is it older than this ledgerctl "+build.Version()+"?")
		return
	}
	if info["version"] != build.Version() && info["version"] != "0.0.0-dev" {
		d.Add("version", Warn, fmt.Sprintf("nexusd is %s, ledgerctl is %s", info["version"], build.Version()), "use both of one release")
	} else {
		d.Add("version", OK, "nexusd and ledgerctl are "+build.Version(), "")
	}
	kept := fmt.Sprintf("%s server, replicas %s, seal %s", info["server"], info["replicas"], info["seal"])
	switch {
	case info["sync"] == "always" && info["server"] == "external" && info["replicas"] == "1":
		d.Add("durability", Warn, kept+": one copy, on one server", "a cluster of three keeps three")
	case info["sync"] == "always":
		d.Add("durability", OK, kept+"; an event is on the disk before it is acknowledged", "")
	case info["sync"] == "later":
		d.Add("durability", Warn, kept+"; the servers acknowledge events before they are on the disk", "set sync_interval: always in the jetstream block of each server")
	default:
		d.Add("durability", Warn, kept+"; it can't be known from here whether the servers write to the disk before they acknowledge",
			"check that each has sync_interval: always (docs/TEAM.md shows how to let nexusd ask)")
	}
	if fsync, ok := m.values["nexus_fsync_seconds"]; !ok {
		d.Add("fsync", Skipped, "the disks are the external server's", "")
	} else if took := time.Duration(fsync * float64(time.Second)); took > 10*time.Millisecond {
		d.Add("fsync", Warn, fmt.Sprintf("%v at the start: every append waits for it", took.Round(time.Microsecond)), "use a faster local disk")
	} else if took < 50*time.Microsecond {
		d.Add("fsync", Warn, fmt.Sprintf("%v at the start: it probably does not reach a disk", took.Round(time.Microsecond)), "put --data on a disk without a volatile write cache")
	} else {
		d.Add("fsync", OK, fmt.Sprintf("%v at the start", took.Round(time.Microsecond)), "")
	}
	switch free, ok := m.values["nexus_disk_free_bytes"]; {
	case !ok || free < 0:
		d.Add("disk", Skipped, "its free room is not known", "")
	case free < 1<<30:
		d.Add("disk", Warn, prose.Grouped(uint64(free))+" bytes are free", "make room: on a full disk appends stop")
	default:
		d.Add("disk", OK, prose.Grouped(uint64(free))+" bytes are free", "")
	}
	switch done, ok := m.values["nexus_scrub_completed_timestamp_seconds"]; {
	case m.values["nexus_damaged"] > 0:
		d.Fail("scrub", 6, "a stored record is damaged: appends are refused", "stop nexusd, and run nexusd repair with the same --data")
	case !ok:
		d.Add("scrub", Skipped, "the files are the external server's", "")
	case done == 0:
		d.Add("scrub", OK, "no damage found; not all was read since the start yet", "")
	default:
		d.Add("scrub", OK, "all that was stored then was read without a fault at "+time.Unix(int64(done), 0).Format(time.RFC3339), "")
	}
	if n := m.values["nexus_chains_set_aside"]; n > 0 {
		d.Add("sessions", Warn, fmt.Sprintf("%.0f are read-only, because a stored event breaks a rule", n), "ledgerctl verify names them")
	}
}

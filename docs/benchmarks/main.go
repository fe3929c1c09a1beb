package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// config is what the command line says.
type config struct {
	rounds        int
	each          time.Duration
	clients       []int
	agents        int
	turnBytes     int
	lineageTurns  int
	lineageForks  int
	importMB      int
	forkTurns     int
	only          []string
	agentLoads    []string // empty: all
	dir, data     string
	write         bool
	throttle      bool
	note, command string
}

// run is one run of the program.
type run struct {
	config
	log     io.Writer
	install bool // fetch and install what peers need; it takes minutes
	bin     binaries
	dir     string          // of everything that the run stores
	groups  map[int]float64 // mean appends that shared a fsync of nexusd, by clients
	skips   []string
	failed  []string
}

// skipped says why something can't be measured here. It is no failure.
type skipped string

func (s skipped) Error() string { return string(s) }

// works are what is measured, by the names that --only takes beside those of the peers.
var works = []string{"appends", "transcripts", "import", "lineage", "fork", "context", "agents"}

func main() {
	if len(os.Args) == 4 && os.Args[1] == plainCommand {
		if err := servePlain(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

func parse(args []string, errs io.Writer) (c config, err error) {
	f := flag.NewFlagSet("benchmarks", flag.ContinueOnError)
	f.SetOutput(errs)
	f.IntVar(&c.rounds, "rounds", 3, "rounds; each measures everything once, in another order")
	seconds := f.Float64("seconds", 5, "how long each is measured in a round")
	clients := f.String("clients", "1,64,512", "clients that append at once, several counts")
	f.IntVar(&c.agents, "agents", 4, "agents that the clients belong to, each with a connection of its own")
	f.IntVar(&c.turnBytes, "turn-bytes", 2048, "bytes of text in a turn")
	f.IntVar(&c.lineageTurns, "lineage-turns", 100_000, "turns of the forests")
	f.IntVar(&c.lineageForks, "lineage-forks", 1000, "forks of the forests")
	f.IntVar(&c.forkTurns, "fork-turns", 1000, "turns of the session that is forked")
	only := f.String("only", "", "measure these only: works ("+strings.Join(works, ", ")+") or peers, with commas between")
	loads := f.String("agent-loads", "", "what the work agents measures: depths and orders of sessions (100, 1000, zipf), with commas between (default all)")
	f.StringVar(&c.dir, "dir", "", "a folder on the disk to measure (default: the system's for temporary files)")
	f.IntVar(&c.importMB, "import-mb", 100, "megabytes of copies of real transcripts that are imported")
	f.StringVar(&c.data, "data", "../../../shared/data", "a folder of real transcripts")
	f.BoolVar(&c.write, "write", false, "write results.md and the plots into this folder")
	f.BoolVar(&c.throttle, "throttle", false, "measure on a disk whose fsync takes 2 ms or more, made of nested file systems (root)")
	f.StringVar(&c.note, "note", "", "a sentence that stands above the results")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	c.command = "go run ."
	f.Visit(func(set *flag.Flag) { // what decides on the figures
		if set.Name != "note" && set.Name != "dir" && set.Name != "data" && set.Name != "write" {
			c.command += fmt.Sprintf(" --%s=%s", set.Name, set.Value)
		}
	})
	c.each = time.Duration(*seconds * float64(time.Second))
	var faults []error
	for text := range strings.SplitSeq(*clients, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			faults = append(faults, fmt.Errorf("--clients: %q is no number of clients", text))
		}
		c.clients = append(c.clients, n)
	}
	if c.rounds < 1 || c.each <= 0 || c.agents < 1 || c.turnBytes < 2 || c.forkTurns < 1 || c.importMB < 1 || c.lineageForks < 1 || c.lineageTurns < 4*c.lineageForks {
		faults = append(faults, errors.New("--rounds, --seconds, --agents, --turn-bytes, --fork-turns, --import-mb and --lineage-forks are positive, --lineage-turns is at least 4 for each fork"))
	}
	if *only != "" {
		c.only = strings.Split(*only, ",")
	}
	for _, name := range c.only {
		if !slices.Contains(works, name) && !slices.ContainsFunc(peers, func(p peer) bool { return p.name == name }) {
			faults = append(faults, fmt.Errorf("--only: nothing is called %q", name))
		}
	}
	if *loads != "" {
		c.agentLoads = strings.Split(*loads, ",")
	}
	for _, name := range c.agentLoads {
		if !slices.ContainsFunc(agentLoads, func(a agentLoad) bool { return a.name == name }) {
			faults = append(faults, fmt.Errorf("--agent-loads: nothing is called %q", name))
		}
	}
	if f.NArg() > 0 {
		faults = append(faults, fmt.Errorf("%q is no flag", f.Arg(0)))
	}
	return c, errors.Join(faults...)
}

// wants says whether a work or a peer is to be measured. Peers alone are measured in appends.
func (c *config) wants(name string) bool {
	if len(c.only) == 0 || slices.Contains(c.only, name) {
		return true
	}
	isPeer := func(name string) bool { return slices.ContainsFunc(peers, func(p peer) bool { return p.name == name }) }
	ofPeers := slices.Contains(c.only, "appends") || slices.Contains(c.only, "agents")
	named := slices.ContainsFunc(c.only, isPeer)
	return name == "appends" && named && !ofPeers || isPeer(name) && ofPeers && !named
}

func command(ctx context.Context, args []string, out, log io.Writer) (err error) {
	c, err := parse(args, log)
	if err != nil {
		return err
	}
	r := &run{config: c, log: log, install: true, groups: make(map[int]float64)}
	dir, err := os.MkdirTemp(c.dir, "nexus-benchmarks-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r.dir = dir
	if err := os.Chmod(r.dir, 0o711); err != nil { // PostgreSQL runs as another user
		return err
	}
	r.bin.dir = filepath.Join(r.dir, "bin")
	if err := os.Mkdir(r.bin.dir, 0o700); err != nil {
		return err
	}
	var res results
	if c.throttle {
		disk, err := slowDisk(ctx, r)
		var why skipped
		switch {
		case errors.As(err, &why):
			r.skip("--throttle", err)
			return fmt.Errorf("nothing was measured: %w", err)
		case err != nil:
			return err
		}
		defer func() { err = errors.Join(err, disk.close()) }()
		r.dir = disk.dir
		res.Throttled = disk.layers
	}
	if res.Machine, err = machine(r.dir); err != nil {
		return err
	}
	if err := r.measure(ctx, &res); err != nil {
		return err
	}
	res.Command, res.Note, res.Date, res.Skipped, res.Failed, res.load = c.command, c.note, time.Now().UTC().Format("2006-01-02"), r.skips, r.failed, r.load(0)
	if err := res.markdown(out, ""); err != nil {
		return err
	}
	if c.write {
		if err := res.write("."); err != nil {
			return err
		}
	}
	if len(r.failed) > 0 {
		return fmt.Errorf("not everything was measured:\n%s", strings.Join(r.failed, "\n"))
	}
	return nil
}

func (r *run) load(clients int) load { return load{clients, r.agents, r.turnBytes, r.each} }

// measure does all works.
func (r *run) measure(ctx context.Context, res *results) error {
	for _, w := range []struct {
		name string
		do   func(context.Context, *results) error
	}{
		{"appends", r.appends}, {"fork", r.forks}, {"context", r.contexts}, {"lineage", r.lineage}, {"transcripts", r.transcripts}, {"import", r.imports}, {"agents", r.agentTurns},
	} {
		if !r.wants(w.name) {
			continue
		}
		if err := w.do(ctx, res); err != nil {
			if ctx.Err() != nil {
				return err
			}
			r.gone(w.name, err)
		}
	}
	return nil
}

// appends measures each peer with each number of clients in each round, one after the
// other, so that a noisy machine is as noisy for all.
func (r *run) appends(ctx context.Context, res *results) error {
	type key struct {
		peer    string
		clients int
	}
	rounds := make(map[key][]measured)
	var asked []peer
	for _, p := range peers {
		if r.wants(p.name) {
			asked = append(asked, p)
		}
	}
	for n := range r.rounds {
		for _, clients := range r.clients {
			for i := range asked {
				p := asked[(i+n)%len(asked)] // each is first as often as the others; the first round begins with nexus
				if p.open == nil {
					continue
				}
				r.say("round %d of %d, %d clients: %s", n+1, r.rounds, clients, p.name)
				m, err := r.once(ctx, p, r.load(clients))
				if ctx.Err() != nil {
					return errors.Join(err, ctx.Err())
				}
				if err != nil {
					r.gone(p.name, err)
					asked[(i+n)%len(asked)].open = nil
					continue
				}
				m.System = p.name
				rounds[key{p.name, clients}] = append(rounds[key{p.name, clients}], m)
			}
		}
	}
	for _, clients := range r.clients {
		for _, p := range asked {
			if ms := rounds[key{p.name, clients}]; len(ms) > 0 {
				res.Appends = append(res.Appends, medians(ms, rounds[key{p.base, clients}]))
			}
		}
	}
	res.Groups = r.groups
	return nil
}

// once measures a peer on a fresh folder.
func (r *run) once(ctx context.Context, p peer, l load) (m measured, err error) {
	dir, err := os.MkdirTemp(r.dir, p.name+"-")
	if err != nil {
		return m, err
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := p.open(ctx, r, l, filepath.Join(dir, "data"))
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return measure(ctx, l, s)
}

// groupOf is how many turns shared a fsync of nexusd with so many clients, at least 1.
func (r *run) groupOf(clients int) int {
	if g, ok := r.groups[clients]; ok {
		return max(1, int(g+0.5))
	}
	return min(clients, 8) // nexus was not measured
}

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.log, format+"\n", args...) }

// gone records what can't be measured: skipped here, or failed.
func (r *run) gone(what string, err error) {
	var why skipped
	if errors.As(err, &why) {
		r.skip(what, why)
		return
	}
	r.say("FAILED: %s: %v", what, err)
	r.failed = append(r.failed, fmt.Sprintf("%s: %v", what, err))
}

func (r *run) skip(what string, why error) {
	r.say("SKIPPED: %s: %v", what, why)
	r.skips = append(r.skips, fmt.Sprintf("%s: %v", what, why))
}

package blocks

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// killEnv makes the test binary a process that appends until it is killed.
const killEnv = "NEXUS_BLOCKS_APPEND"

// A process that is killed while it appends leaves what it acknowledged, and at
// most a torn record. The process continues in the same folder each time.
func TestAKilledServerLeavesNoDamage(t *testing.T) {
	if data := os.Getenv(killEnv); data != "" {
		appendForever(t, data)
	}
	data := t.TempDir()
	var acked uint64
	for kills := range 4 {
		c := exec.Command(os.Args[0], "-test.run=^TestAKilledServerLeavesNoDamage$", "-test.v")
		c.Env = append(os.Environ(), killEnv+"="+data)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		before, lines := acked, bufio.NewScanner(out)
		for lines.Scan() {
			if seq, err := strconv.ParseUint(lines.Text(), 10, 64); err == nil {
				if acked = seq; acked == before+200 {
					if err := c.Process.Kill(); err != nil { // it goes on appending until then
						t.Fatal(err)
					}
				}
			}
		}
		_ = c.Wait() // killed
		if acked < before+200 {
			t.Fatalf("the process ended by itself after record %d", acked)
		}
		s := server{data: data}
		r := check(t, s.folder(), Options{Acked: acked})
		if r.Err() != nil || r.Last < acked || r.Records != r.Last {
			t.Errorf("kill %d, after record %d: records %d to %d, %v", kills, acked, r.First, r.Last, r.Err())
		}
		t.Logf("kill %d: acknowledged %d, on disk %d, index %+v, torn %+v", kills, acked, r.Last, r.Index, r.Torn)
		acked = r.Last
	}
}

func appendForever(t *testing.T, data string) {
	s := start(t, data)
	m := messages(false, 3000)
	for {
		s.publish(t, m...)
		info, err := s.stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(info.State.LastSeq)
	}
}

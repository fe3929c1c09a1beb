package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os/exec"
	"testing"
	"time"

	"nexus/cmd/internal/localserver"
	"nexus/cmd/nexusd/internal/faulttest"
	"nexus/ledger/jetstream/embed"
)

// TestTheFolderIsInUseForAWhile: a process that has the folder and does not say how it is served is one that starts or ends,
// such as a child between two commands. nexusd waits for its end, and meanwhile no child begins to serve the folder.
func TestTheFolderIsInUseForAWhile(t *testing.T) {
	ledgerctl, nexusd := faulttest.Build(t, "../ledgerctl"), faulttest.Build(t, ".")
	data := t.TempDir()
	lock, err := embed.Lock(data)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	daemon := exec.Command(nexusd, "--data", data, "--listen", "127.0.0.1:0", "--http", "off")
	errs := new(bytes.Buffer)
	daemon.Stderr = errs
	said, err := daemon.StdoutPipe()
	if err == nil {
		err = daemon.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = daemon.Process.Kill(); _ = daemon.Wait() }()
	for deadline := time.Now().Add(60 * time.Second); !localserver.Claimed(data); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nexusd does not wait for the folder: %s", errs)
		}
	}
	_ = lock.Close() // nexusd looks every 50 ms: a child that is there already could be faster
	out, _ := exec.Command(ledgerctl, "serve", "--data", data, "--idle=0").Output()
	var r localserver.Ready
	if err := json.Unmarshal(out, &r); err != nil || r.Ready || !r.InUse {
		t.Errorf("a child beside a nexusd that waits: %q", out)
	}
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatalf("nexusd: %q, %v: %s", line, err, errs)
	}
	if s, err := localserver.Find(data); err != nil || s.Child || s.PID != daemon.Process.Pid {
		t.Errorf("the folder is served by %+v, %v", s, err)
	}
}

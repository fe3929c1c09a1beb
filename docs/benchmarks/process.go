package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// peerProcess is a peer in a process of its own. It reads requests as JSON lines, and answers each
// with a line that repeats the request's id, in any order. The end of its input ends it.
// Safe for concurrent use.
type peerProcess struct {
	*child
	done chan struct{} // closed when it answers no more

	writing sync.Mutex // not mu: who waits for a full pipe must not stop the reading of answers
	in      io.WriteCloser

	mu      sync.Mutex
	last    int
	waiting map[int]chan []byte // nil: it answers no more
}

// startPeer starts the process, and decodes its first line into ready.
func startPeer(cmd *exec.Cmd, ready any) (*peerProcess, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	out := bufio.NewReaderSize(pipe, 1<<20)
	c, err := start(cmd)
	if err != nil {
		return nil, err
	}
	if err := readyLine(c, out, ready); err != nil {
		return nil, err
	}
	p := &peerProcess{child: c, in: in, done: make(chan struct{}), waiting: make(map[int]chan []byte)}
	go p.read(out)
	return p, nil
}

// read hands each answer to who waits for it, until there are no more.
func (p *peerProcess) read(out *bufio.Reader) {
	defer close(p.done)
	for {
		line, err := out.ReadBytes('\n')
		var head struct {
			ID int `json:"id"`
		}
		if err == nil {
			err = json.Unmarshal(line, &head)
		}
		p.mu.Lock()
		if err != nil {
			for _, w := range p.waiting {
				close(w)
			}
			p.waiting = nil
			p.mu.Unlock()
			return
		}
		if w := p.waiting[head.ID]; w != nil {
			delete(p.waiting, head.ID)
			w <- line // of length 1, and nobody else sends
		}
		p.mu.Unlock()
	}
}

// ask sends a request, and decodes the answer into reply. The process dies with ctx, which ends the wait.
func (p *peerProcess) ask(ctx context.Context, request map[string]any, reply any) error {
	stop := context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })
	defer stop()
	answer, err := p.send(request)
	if err != nil {
		return err
	}
	line, ok := <-answer
	if !ok {
		return p.gone(ctx.Err())
	}
	var failed struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(line, &failed); err != nil {
		return err
	}
	if failed.Error != "" {
		return errors.New(failed.Error)
	}
	if reply == nil {
		return nil
	}
	return json.Unmarshal(line, reply)
}

func (p *peerProcess) send(request map[string]any) (<-chan []byte, error) {
	id, answer := p.expect()
	if answer == nil {
		return nil, p.gone(nil)
	}
	request["id"] = id
	b, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	if _, err := p.in.Write(append(b, '\n')); err != nil {
		return nil, p.gone(err)
	}
	return answer, nil
}

// expect returns the id of a request, and where its answer comes; nil: the process answers no more.
func (p *peerProcess) expect() (int, chan []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		return 0, nil
	}
	p.last++
	answer := make(chan []byte, 1)
	p.waiting[p.last] = answer
	return p.last, answer
}

func (p *peerProcess) gone(err error) error {
	return fmt.Errorf("%s answers no more: %w", filepath.Base(p.cmd.Path), errors.Join(err, errors.New(p.log.String())))
}

// close ends its input, and waits for its end. One that does not end within a minute is killed.
func (p *peerProcess) close() error {
	if err := p.in.Close(); err != nil {
		return err
	}
	late := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
	<-p.done
	late.Stop()
	return p.end(noSignal)
}

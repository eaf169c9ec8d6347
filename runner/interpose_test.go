package runner_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/test/wait"
)

// interposer is a proxy between a runner and its QEMU's monitor. It can also send messages in QEMU's name, or
// disconnect.
type interposer struct {
	t         *testing.T
	v         *vm
	connected chan struct{} // receives a token for each connection of the runner

	mu     sync.Mutex
	runner net.Conn
}

// interposed replaces QEMU with a program that leaves the socket of its monitor to the test. line is for the vm
// section.
func (v *vm) interposed() (p *interposer, line string) {
	v.t.Helper()
	path, err := exec.LookPath(qemuProgram)
	require.NoError(v.t, err, "install the Debian package qemu-system-x86")
	v.program(`#!/bin/sh
for word; do
	shift
	case $word in
	socket,id=vmop-monitor,fd=*)
		fd=${word#*,fd=}
		echo $$ ${fd%%,*} >` + v.path("bin", "monitor.new") + `
		word=socket,id=vmop-monitor,path=` + v.path("bin", "qemu.sock") + `,server=on,wait=off
		;;
	esac
	set -- "$@" "$word"
done
mv ` + v.path("bin", "monitor.new") + " " + v.path("bin", "monitor") + `
exec ` + path + ` "$@"
`)
	p = &interposer{t: v.t, v: v, connected: make(chan struct{}, 100)}
	go p.run()
	return p, "options: {qemu: " + v.path("bin", "qemu") + "}"
}

// run serves the runner as long as the socket exists.
func (p *interposer) run() {
	listener := p.take()
	if listener == nil {
		return // the test has ended
	}
	for {
		runner, err := listener.Accept()
		if err != nil {
			return
		}
		qemu, err := net.Dial("unix", p.v.path("bin", "qemu.sock"))
		for err != nil && p.t.Context().Err() == nil {
			time.Sleep(5 * time.Millisecond)
			qemu, err = net.Dial("unix", p.v.path("bin", "qemu.sock"))
		}
		if err != nil {
			return
		}
		p.mu.Lock()
		p.runner = runner
		p.mu.Unlock()
		p.connected <- struct{}{}
		p.serve(runner, qemu)
	}
}

// take obtains the listening socket from the process that has inherited it.
func (p *interposer) take() net.Listener {
	var pid, fd int
	for {
		text, err := os.ReadFile(p.v.path("bin", "monitor"))
		if err == nil {
			_, err = fmt.Sscan(string(text), &pid, &fd)
		}
		if err == nil {
			break
		}
		select {
		case <-p.t.Context().Done():
			return nil
		case <-time.After(5 * time.Millisecond):
		}
	}
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil // it has ended
	}
	taken, err := unix.PidfdGetfd(process, fd, 0)
	if err != nil {
		_ = unix.Close(process)
		p.t.Errorf("take the monitor's socket from QEMU: %v", err)
		return nil
	}
	file := os.NewFile(uintptr(taken), "monitor")
	defer file.Close()
	listener, err := net.FileListener(file)
	if err != nil {
		_ = unix.Close(process)
		p.t.Errorf("use the monitor's socket: %v", err)
		return nil
	}
	go func() { // the socket belongs to QEMU, and ends with it
		defer unix.Close(process)
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, -1)
			if n > 0 || !errors.Is(err, unix.EINTR) {
				break
			}
		}
		listener.Close()
	}()
	return listener
}

// serve forwards messages until one side disconnects, and then disconnects the other.
func (p *interposer) serve(runner, qemu net.Conn) {
	defer qemu.Close()
	var both sync.WaitGroup
	both.Go(func() {
		defer qemu.Close()
		buffer := make([]byte, 4096)
		for {
			n, err := runner.Read(buffer)
			if _, fault := qemu.Write(buffer[:n]); err != nil || fault != nil {
				return
			}
		}
	})
	both.Go(func() {
		defer runner.Close()
		for lines := bufio.NewReader(qemu); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			p.mu.Lock()
			_, err = runner.Write(line)
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	both.Wait()
}

// say sends text to the runner in QEMU's name. The runner may disconnect before the end.
func (p *interposer) say(text []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.runner.Write(text)
}

// reconnected waits for the runner's next connection.
func (p *interposer) reconnected() {
	p.t.Helper()
	wait.Receive(p.t, p.connected, "the runner does not connect to QEMU")
}

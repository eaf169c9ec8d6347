// Command bare is a Go version of the benchmark's driver/bare.c and driver/mark.c, for machines without a C compiler:
//
//	bare [-t SOCKET DIR PROGRAM ARG... --] QEMU ARG...
//
// It starts QEMU, and swtpm with its listening socket, in the shortest possible way. It prints "cont" when the guest
// runs, and ends both when its standard input ends. Under any other name it acts as mark: it writes "mark" and the time
// of its start (CLOCK_MONOTONIC, in nanoseconds) as a line to its standard error.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	do := printMark
	if filepath.Base(os.Args[0]) == "bare" {
		do = startBare
	}
	if err := do(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
}

func printMark([]string) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	_, err := fmt.Fprintln(os.Stderr, "mark", now.Nano())
	return err
}

func startBare(args []string) error {
	var socket *os.File
	var dir string
	var helper []string
	if len(args) > 4 && args[0] == "-t" {
		end := slices.Index(args, "--")
		if end < 4 {
			return errors.New("the arguments after -t have no end")
		}
		var err error
		if socket, err = listenAt(args[1]); err != nil {
			return fmt.Errorf("listen on %s: %w", args[1], err)
		}
		dir, helper, args = args[2], args[3:end], args[end+1:]
	}
	if len(args) == 0 {
		return errors.New("which QEMU?")
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a pair of sockets: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "monitor"), os.NewFile(uintptr(pair[1]), "monitor")
	if _, err := io.WriteString(ours, "{\"execute\":\"qmp_capabilities\"}\n{\"execute\":\"cont\"}\n"); err != nil {
		return err
	}
	args = append(args, "-S", "-chardev", "socket,id=monitor-socket,fd=3", "-mon",
		"chardev=monitor-socket,mode=control")
	qemu, err := startProcess(args, "", theirs)
	if err != nil {
		return fmt.Errorf("start %s: %w", args[0], err)
	}
	defer killProcess(qemu)
	if helper != nil {
		tpm, err := startProcess(helper, dir, socket)
		if err != nil {
			return fmt.Errorf("start %s: %w", helper[0], err)
		}
		defer killProcess(tpm)
		if err := socket.Close(); err != nil {
			return err
		}
	}
	if err := errors.Join(theirs.Close(), awaitAnswers(ours)); err != nil {
		return err
	}
	fmt.Println("cont")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// listenAt returns a listening socket as a file.
func listenAt(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	file, err := listener.File()
	return file, errors.Join(err, listener.Close())
}

func startProcess(argv []string, dir string, three *os.File) (*os.Process, error) {
	return os.StartProcess(argv[0], argv, &os.ProcAttr{Dir: dir, Files: []*os.File{nil, os.Stdout, os.Stderr, three}})
}

// killProcess kills a process. It ignores errors, which mean that the process has ended.
func killProcess(p *os.Process) {
	_ = p.Kill()
	_, _ = p.Wait()
}

// awaitAnswers reads until QEMU has answered both commands. It skips events and the greeting.
func awaitAnswers(monitor *os.File) error {
	lines := bufio.NewScanner(monitor)
	for answers := 0; answers < 2; {
		if !lines.Scan() {
			return fmt.Errorf("QEMU closed its monitor: %w", errors.Join(lines.Err(), io.EOF))
		}
		if strings.Contains(lines.Text(), `"error"`) {
			return errors.New(lines.Text())
		}
		if strings.Contains(lines.Text(), `"return"`) {
			answers++
		}
	}
	return nil
}

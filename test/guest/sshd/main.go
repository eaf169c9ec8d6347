// Command sshd is an SSH server for test guests. It accepts every login as its own user, and runs commands and shells
// without a terminal. It supports scp and sftp.
package main

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

func main() {
	if err := serveSSH(":22"); err != nil {
		fmt.Fprintln(os.Stderr, "sshd:", err)
		os.Exit(1)
	}
}

// serveSSH serves clients at an address until an error occurs.
func serveSSH(address string) error {
	// Use the same key after each start: the guests have no disk to store it on.
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	key, err := ssh.NewSignerFromSigner(private)
	if err != nil {
		return fmt.Errorf("use the host key: %w", err)
	}
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(key)
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen for clients: %w", err)
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return fmt.Errorf("wait for clients: %w", err)
		}
		go attendClient(conn, config)
	}
}

// attendClient serves one client.
func attendClient(conn net.Conn, config *ssh.ServerConfig) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for offer := range channels {
		if offer.ChannelType() != "session" {
			_ = offer.Reject(ssh.UnknownChannelType, "only sessions")
			continue
		}
		if channel, requests, err := offer.Accept(); err == nil {
			go runSession(channel, requests)
		}
	}
}

// runSession handles a client's requests.
func runSession(channel ssh.Channel, requests <-chan *ssh.Request) {
	for r := range requests {
		args := []string{}
		switch r.Type {
		case "shell":
		case "exec":
			var command struct{ Text string }
			if ssh.Unmarshal(r.Payload, &command) != nil {
				return
			}
			args = []string{"-c", command.Text}
		case "subsystem":
			var subsystem struct{ Name string }
			known := ssh.Unmarshal(r.Payload, &subsystem) == nil && subsystem.Name == "sftp"
			_ = r.Reply(known, nil)
			if known {
				go serveFiles(channel)
			}
			continue
		default:
			_ = r.Reply(r.Type == "env", nil)
			continue
		}
		_ = r.Reply(true, nil)
		go runShell(channel, args)
	}
}

// serveFiles serves the files of the guest.
func serveFiles(channel ssh.Channel) {
	defer channel.Close()
	server, err := sftp.NewServer(channel)
	if err == nil {
		err = server.Serve()
	}
	code := uint32(0)
	if err != nil && !errors.Is(err, io.EOF) {
		code = 1
	}
	sendExitCode(channel, code)
}

// runShell runs a shell with the streams of a channel.
func runShell(channel ssh.Channel, args []string) {
	defer channel.Close()
	cmd := exec.Command("/bin/sh", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = channel, channel, channel.Stderr()
	err := cmd.Run()
	code := uint32(0)
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		code = uint32(failed.ExitCode())
	} else if err != nil {
		code = 255
	}
	sendExitCode(channel, code)
}

// sendExitCode reports the exit code of a command to the client.
func sendExitCode(channel ssh.Channel, code uint32) {
	_, _ = channel.SendRequest("exit-status", false, binary.BigEndian.AppendUint32(nil, code))
}

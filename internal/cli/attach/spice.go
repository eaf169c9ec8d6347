package attach

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"vmop/runner/control"
)

// A SPICEViewer describes the viewer that shows a screen via SPICE.
type SPICEViewer struct {
	// Title of its window.
	Title string
	// Address of this computer to listen on, with a port.
	Address string
	// File is the path of a connection file to write for remote-viewer(1); "" opens a viewer.
	File string
	// TakeOver disconnects another client.
	TakeOver bool
}

// SPICE shows a VM's screen in a native viewer until the viewer ends. With a File, it instead serves viewers that
// use the file, until the context of cmd is done. Viewers need no password.
func SPICE(cmd *cobra.Command, client Runner, v SPICEViewer) error {
	id, mode := rand.Text(), control.Type
	if v.TakeOver {
		mode = control.Take
	}
	open := func(ctx context.Context) (net.Conn, error) {
		conn, err := client.SPICE(ctx, id, mode)
		return conn, HintTakeOver(err)
	}
	probe, err := open(cmd.Context()) // report errors before a viewer connects
	if err != nil {
		return err
	}
	_ = probe.Close()
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", v.Address)
	if err != nil {
		return fmt.Errorf("listen for SPICE viewers: %w", err)
	}
	served := make(chan error, 1)
	go func() {
		served <- acceptAll(ctx, l, "SPICE viewers", func(viewer net.Conn) {
			if err := showScreen(ctx, viewer, open); err != nil {
				cmd.PrintErrln("spice:", err)
			}
		})
	}()
	if v.File != "" {
		if err := v.writeFile(v.File, l.Addr()); err != nil {
			return err
		}
		cmd.PrintErrf("SPICE on %s, for remote-viewer %s; Ctrl-C stops it\n", l.Addr(), v.File)
		return <-served
	}
	const viewer = "remote-viewer"
	if _, err := exec.LookPath(viewer); err != nil {
		return fmt.Errorf("%s is not installed (Debian package virt-viewer); -o FILE writes a file for one elsewhere", viewer)
	}
	dir, err := os.MkdirTemp("", "vmop-view")
	if err != nil {
		return fmt.Errorf("write the connection file: %w", err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "vm.vv")
	if err := v.writeFile(file, l.Addr()); err != nil {
		return err
	}
	return Run(viewer, []string{file})
}

// writeFile writes a connection file (remote-viewer(1)).
func (v SPICEViewer) writeFile(file string, at net.Addr) error {
	host, port, _ := net.SplitHostPort(at.String()) // always valid for a listener
	text := fmt.Appendf(nil, "[virt-viewer]\ntype=spice\nhost=%s\nport=%s\ntitle=%s\n", host, port, v.Title)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("write the connection file: %w", err)
	}
	return nil
}

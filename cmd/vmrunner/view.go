package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"vmop/cli"
	"vmop/runner/control"
)

func newView(f *flags) *cobra.Command {
	var watch, takeOver bool
	cmd := &cobra.Command{
		Use:   "view [NAME]",
		Short: "Open the screen in a viewer",
		Long: "view opens the VM's screen in a viewer for VNC, and ends with it. The VM needs vm.display.\n" +
			"TigerVNC's viewer connects to a unix socket; remote-viewer and others to a port of\n" +
			"127.0.0.1, which is open for one connection. One client can type at a time.",
	}
	vm := aboutVM(f, cmd)
	cmd.Flags().BoolVar(&watch, "watch", false, "only watch")
	cmd.Flags().BoolVar(&takeOver, "take-over", false, "disconnect the client that is typing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		mode := control.Type
		switch {
		case watch && takeOver:
			return cli.UsageError{Err: errors.New("--watch and --take-over are mutually exclusive")}
		case watch:
			mode = control.Watch
		case takeOver:
			mode = control.Take
		}
		client, err := vm.dial(cmd, args)
		if err != nil {
			return err
		}
		screen, err := client.Screen(cmd.Context(), mode) // before a viewer opens a window
		if err != nil {
			return hintTakeOver(err)
		}
		defer screen.Close()
		return view(cmd.Context(), screen)
	}
	return cmd
}

// A viewer is a program that shows a screen by VNC.
type viewer struct{ name, network, where string }

// viewers are those that are looked for, in this order.
func viewers() []viewer {
	return []viewer{
		{"xtigervncviewer", "unix", "%s"},
		{"remote-viewer", "tcp", "vnc://127.0.0.1:%s"},
		{"vncviewer", "tcp", "127.0.0.1::%s"},
	}
}

// view runs the first viewer that is installed, with the screen.
func view(ctx context.Context, screen net.Conn) error {
	for _, v := range viewers() {
		if program, err := exec.LookPath(v.name); err == nil {
			return v.show(ctx, program, screen)
		}
	}
	return errors.New("no viewer is installed, such as the Debian packages tigervnc-viewer or virt-viewer; " +
		"for any other VNC viewer: vmrunner vnc NAME")
}

func (v viewer) show(ctx context.Context, program string, screen net.Conn) error {
	address := "127.0.0.1:0"
	if v.network == "unix" {
		dir, err := os.MkdirTemp("", "vmrunner-view")
		if err != nil {
			return fmt.Errorf("make a socket for the viewer: %w", err)
		}
		defer os.RemoveAll(dir)
		address = filepath.Join(dir, "vnc")
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, v.network, address)
	if err != nil {
		return fmt.Errorf("listen for the viewer: %w", err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		_ = l.Close()
		if err == nil {
			defer conn.Close()
			copyBoth(screen, conn, conn, func() {})
		}
	}()
	at := l.Addr().String()
	if tcp, ok := l.Addr().(*net.TCPAddr); ok {
		at = fmt.Sprint(tcp.Port)
	}
	return runWith(program, []string{fmt.Sprintf(v.where, at)})
}

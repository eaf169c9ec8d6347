package attach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// A viewer is a program that shows a screen via VNC.
type viewer struct{ name, network, where string }

// knownViewers returns the supported viewers, in order of preference.
func knownViewers() []viewer {
	return []viewer{
		{"xtigervncviewer", "unix", "%s"},
		{"remote-viewer", "tcp", "vnc://127.0.0.1:%s"},
		{"vncviewer", "tcp", "127.0.0.1::%s"},
	}
}

// View runs the first installed viewer with a screen, which speaks RFB and requires no password. other describes for
// the error how the user can reach the screen without a viewer.
func View(ctx context.Context, screen net.Conn, other string) error {
	for _, v := range knownViewers() {
		if program, err := exec.LookPath(v.name); err == nil {
			return v.showScreen(ctx, program, screen)
		}
	}
	return errors.New("no viewer is installed, such as the Debian packages tigervnc-viewer or virt-viewer; " +
		"for any other VNC viewer: " + other)
}

func (v viewer) showScreen(ctx context.Context, program string, screen net.Conn) error {
	address := "127.0.0.1:0"
	if v.network == "unix" {
		dir, err := os.MkdirTemp("", "vmop-view")
		if err != nil {
			return fmt.Errorf("create a socket for the viewer: %w", err)
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
	return Run(program, []string{fmt.Sprintf(v.where, at)})
}
